import type { CallOptions } from '../channel/rpc.js';
import { EtcdError } from '../errors/etcd-error.js';
import { type CoreKeyspace, type KeyspaceClient, keyspaceClientOf } from '../keyspace.js';
import { type Applied, type GuardedWrite, Guards } from '../kv/guards.js';
import type { Conditions, Op, Txn, TxnResult } from '../kv/txn.js';
import { Moment } from '../lease/moment.js';
import { untilAnswered, untilDone, withinLimit } from './waiting.js';

/** TTL in seconds of the lease of a client's guards. */
const TTL_S = 600;
/**
 * How long the client begins writes with the guards of one lease, in milliseconds. The rest of the TTL is left for
 * attempts of these writes, so that the client needs not renew the lease.
 */
const USABLE_MS = (TTL_S / 2) * 1_000;

/** The guards of a client's writes that belong to no session. The lease is granted when the first of them is made. */
class ClientGuards {
  readonly #client: KeyspaceClient;
  /** Aborts when the client is closed. Then the lease is revoked, so no write of the client is applied any more. */
  readonly closed = new AbortController();
  #current: { readonly guards: Promise<Guards>; readonly since: Moment } | undefined;

  constructor(client: KeyspaceClient) {
    this.#client = client;
  }

  /** Returns the guards of the present lease. Their lease lasts at least for another half of its TTL. */
  async usable(): Promise<Guards> {
    const now = new Moment();
    if (this.#current === undefined || now.since(this.#current.since) >= USABLE_MS) {
      const current = { guards: this.#granted(), since: now };
      current.guards.catch(() => this.forget(current.guards));
      this.#current = current;
    }
    return this.#current.guards;
  }

  /** The lease of the guards has ended, so the next write needs another one. */
  forget(guards: Promise<Guards> | undefined = this.#current?.guards): void {
    if (this.#current?.guards === guards) this.#current = undefined;
  }

  async #granted(): Promise<Guards> {
    const { id } = await this.#client.lease.grant({ ttl: TTL_S });
    const offClose = this.#client.beforeClose(async () => {
      offClose();
      this.closed.abort();
      await this.#client.lease.revoke(id).catch(() => {});
    });
    return new Guards(this.#client, id);
  }
}

const guardsOfClients = new WeakMap<KeyspaceClient, ClientGuards>();

function guardsOf(client: KeyspaceClient): ClientGuards {
  let guards = guardsOfClients.get(client);
  if (guards === undefined) {
    guards = new ClientGuards(client);
    guardsOfClients.set(client, guards);
  }
  return guards;
}

/**
 * Runs a transaction that the server applies at most once, however often it receives the request. Repeats the call until
 * a server has answered it.
 *
 * @throws EtcdError as `txn` does. If its outcome is `unknown`, the transaction may have been applied. The client then
 * makes sure in the background that it is not applied later.
 */
export async function guardedTxn<
  const If extends Conditions = undefined,
  const Then extends readonly Op[] = [],
  const Else extends readonly Op[] = [],
>(
  what: string,
  client: CoreKeyspace,
  txn: Txn<If, Then, Else>,
  options: CallOptions = {},
): Promise<Applied<TxnResult<If, Then, Else>>> {
  const keyspace = keyspaceClientOf(client);
  const guards = guardsOf(keyspace);
  const { signal, timeoutMs, endpoint } = keyspace.leaseClient.withDefaultTimeout(options);
  const run = async (limit: { readonly signal: AbortSignal; settle(outcome: 'unknown'): void }) => {
    for (let isFirst = true; ; isFirst = false) {
      const write = (await untilAnswered(limit.signal, () => guards.usable())).begin(txn);
      let isUnknown = false;
      const noteUnknown = (): void => {
        isUnknown = true;
      };
      try {
        return await untilAnswered(limit.signal, (call) => write.send({ ...call, endpoint }), noteUnknown);
      } catch (error) {
        if (isUnknown) limit.settle('unknown');
        void settle(write, guards);
        // The lease of the guards may have ended, unless it is one that the transaction itself attaches to a key.
        const mayBeGuards = error instanceof EtcdError && error.reason === 'LeaseNotFound';
        if (!mayBeGuards || isUnknown || !isFirst) throw error;
        guards.forget();
      }
    }
  };
  return withinLimit(what, { signal, maxWaitMs: timeoutMs }, undefined, run, 'timeoutMs');
}

/** Makes sure that the write is not applied later. Ends when the client is closed, because that revokes the lease. */
async function settle(write: GuardedWrite<unknown>, { closed }: ClientGuards): Promise<void> {
  await untilDone(closed.signal, (options) => write.settle(options)).catch(() => {});
}
