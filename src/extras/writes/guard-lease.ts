import { backoffMs, clientClosed, idOf, pause } from '../../base/index.js';
import { type GuardedKeyspace, LeaseHolders, Moment, REPEATABLE_GRANT } from '../../client/index.js';
import * as leaseMethods from '../../gen/methods/lease.js';
import { type GuardedWrite, Guards } from '../../locks/index.js';
import { Rpc, type RpcSettings } from '../../rpc/index.js';

/** TTL in seconds of the lease of a client's guards. */
export const TTL_S = 600;
/**
 * Milliseconds for which the client begins writes with the guards of one lease. The rest of the TTL is for attempts of
 * these writes, so the client does not renew the lease.
 */
const USABLE_MS = (TTL_S / 2) * 1_000;

/** The server never chooses the ID of an ended lease again, so a repeated revocation does nothing. */
const REVOKE = { ...leaseMethods.leaseRevoke, repeatable: true } as const;

interface Unsettled {
  readonly write: GuardedWrite<unknown>;
  readonly since: Moment;
}

/** The lease of the guards of a client and its namespaces, and the guards of each keyspace. */
export class GuardLease {
  readonly #rpc: Rpc;
  #current: { readonly id: Promise<bigint>; readonly since: Moment; readonly guards: Map<string, Guards> } | undefined;
  /** The lease before the current one. The outcome of writes with the guards of this lease may still be unknown. */
  #former: Promise<bigint> | undefined;
  /** The writes that the client settles in the background: see `settleLater`. */
  readonly #unsettled: Unsettled[] = [];
  /** The settings of the client, whose calls go on while the client closes. */
  readonly #settings: RpcSettings;
  /** The writes that have not ended. */
  readonly #writes = new LeaseHolders();
  #closing = false;

  constructor({ transport, settings, closers }: GuardedKeyspace) {
    this.#settings = { ...settings, closers: undefined };
    this.#rpc = new Rpc(transport, this.#settings);
    // After the leases are revoked, no write with guards of these leases can be applied. So wait for the writes first.
    closers.addLast(async () => {
      await this.#writes.empty();
      this.#closing = true;
      await Promise.all([this.#revoke(this.#current?.id), this.#revoke(this.#former)]);
    });
  }

  /** Runs a write. While it runs, a closing client does not revoke the leases of its guards. */
  async run<T>(write: () => Promise<T>): Promise<T> {
    const holder = {};
    this.#writes.add(holder);
    try {
      return await write();
    } finally {
      this.#writes.delete(holder);
    }
  }

  /** Returns the guards of the keyspace, with the ID of their lease. At least half of the TTL of the lease is left. */
  async guardsOf({ transport, prefix, guardPrefix }: GuardedKeyspace): Promise<[Guards, Promise<bigint>]> {
    if (this.#closing) throw clientClosed('not-sent');
    const now = new Moment();
    if (this.#current === undefined || now.since(this.#current.since) >= USABLE_MS) {
      const current = { id: this.#granted(), since: now, guards: new Map<string, Guards>() };
      current.id.catch(() => this.forget(current.id));
      this.#former = this.#current?.id ?? this.#former;
      this.#current = current;
    }
    const { id, guards } = this.#current;
    const lease = await id;
    const key = idOf(prefix);
    const own = guards.get(key) ?? new Guards(new Rpc(transport, this.#settings), lease, guardPrefix, prefix, true);
    guards.set(key, own);
    return [own, id];
  }

  /** Makes the next write use another lease, because this one has ended or was not granted. */
  forget(id: Promise<bigint>): void {
    if (this.#current?.id === id) this.#current = undefined;
  }

  /** Revokes the lease of guards that were deleted, so that the server applies no late copy of an earlier write. */
  async replace(id: Promise<bigint>): Promise<void> {
    this.forget(id);
    await this.#revoke(id);
  }

  async #revoke(lease: Promise<bigint> | undefined): Promise<void> {
    const id = await lease?.catch(() => undefined);
    if (id !== undefined) await this.#rpc.call(REVOKE, { id }).catch(() => {});
  }

  async #granted(): Promise<bigint> {
    const limits = { signal: this.#settings.closed, timeoutMs: Number.POSITIVE_INFINITY };
    return (await this.#rpc.call(REPEATABLE_GRANT, { ttl: BigInt(TTL_S) }, limits)).id;
  }

  /**
   * Makes sure in the background that the server does not apply the write later, or waits until the guard's lease ends.
   * Handles one write after another, so that the client has room for other calls while no server answers.
   */
  settleLater(write: GuardedWrite<unknown>): void {
    write.giveUp();
    this.#unsettled.push({ write, since: new Moment() });
    if (this.#unsettled.length === 1) void this.#settleAll();
  }

  async #settleAll(): Promise<void> {
    const { closed } = this.#settings;
    for (let attempt = 0; this.#unsettled.length > 0 && !closed.aborted; ) {
      const [{ write, since }] = this.#unsettled as [Unsettled];
      try {
        if (new Moment().since(since) < TTL_S * 1_000) await write.settle({ signal: closed });
        this.#unsettled.shift();
        attempt = 0;
      } catch {
        await pause(backoffMs(attempt++), closed);
      }
    }
  }
}

/** The lease of each client, by the set of its closers, which the client shares with its namespaces. */
const leases = new WeakMap<object, GuardLease>();

export function leaseOf(keyspace: GuardedKeyspace): GuardLease {
  const lease = leases.get(keyspace.closers) ?? new GuardLease(keyspace);
  leases.set(keyspace.closers, lease);
  return lease;
}
