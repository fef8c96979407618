import { type CallOptions, checkCallOptions } from '../channel/rpc.js';
import { deleteLatePut } from '../concurrency/queue-entry.js';
import { RegisteredKey } from '../concurrency/registered-key.js';
import { SelfHealingSession } from '../concurrency/self-healing-session.js';
import type { Session } from '../concurrency/session.js';
import { waitLimit } from '../concurrency/wait-limit.js';
import { invalidInput } from '../errors/etcd-error.js';
import type { Keyspace } from '../keyspace.js';
import { prefix } from '../kv/key-range.js';
import { checkOptions, show } from '../runtime/arguments.js';
import { type BytesLike, toBytes } from '../runtime/bytes.js';
import { decodeEndpoint, type Endpoint, encodeEndpoint } from './endpoint.js';

const WATCH_OPTIONS = { signal: true } as const;

/** What became of one endpoint. */
export type Update =
  | { readonly op: 'add'; readonly key: string; readonly endpoint: Endpoint }
  | { readonly op: 'delete'; readonly key: string };

/** An endpoint on record, until it is closed or its session ends. */
export interface Registration extends AsyncDisposable {
  readonly key: string;
  /** Takes the endpoint off the record, unless somebody else has put it anew. */
  close(): Promise<void>;
}

/**
 * The endpoints of a service under the name `target`, on the layout of Go's `naming/endpoints`: a key `target/ID` with a
 * JSON value each, so that Go services find these and are found.
 */
export class Service {
  readonly target: string;
  readonly #client: Keyspace;

  /** @throws EtcdError, reason `InvalidInput`. */
  constructor(client: Keyspace, target: string) {
    if (typeof target !== 'string' || target === '' || target.endsWith('/'))
      throw invalidInput('target', show(target), 'a name that is not empty and does not end in "/"');
    toBytes(target, 'target');
    this.target = target;
    this.#client = client;
  }

  /**
   * Puts an endpoint on record as long as the session lives. With a `SelfHealingSession` it comes back after a gap.
   * `id` tells this one from the others of the service; the address will do. @throws EtcdError
   */
  async register(
    session: Session | SelfHealingSession,
    id: string,
    endpoint: Endpoint,
    options: CallOptions = {},
  ): Promise<Registration> {
    checkCallOptions(options, 'Service.register');
    if (typeof id !== 'string' || id === '') throw invalidInput('id', 'an empty id', 'a string, not empty');
    if (session.client !== this.#client && session instanceof SelfHealingSession)
      throw invalidInput('session', 'one of another client or namespace', 'one of the same as the service');
    const key = `${this.target}/${id}`;
    const value = encodeEndpoint(endpoint);
    const close =
      session instanceof SelfHealingSession
        ? await registerHealing(session, key, value, options)
        : await this.#registerPlain(session, key, value, options);
    let closing: Promise<void> | undefined;
    const once = (): Promise<void> => {
      // One that failed may be tried again.
      closing ??= close().catch((error: unknown) => {
        closing = undefined;
        throw error;
      });
      return closing;
    };
    return { key, close: once, [Symbol.asyncDispose]: once };
  }

  /** All endpoints by their keys. What another program has put there that is no endpoint is left out. */
  async list(options?: CallOptions): Promise<ReadonlyMap<string, Endpoint>> {
    checkCallOptions(options, 'Service.list');
    const { kvs } = await this.#client.range(prefix(`${this.target}/`), options);
    const endpoints = new Map<string, Endpoint>();
    for (const kv of kvs) {
      const endpoint = decodeEndpoint(kv.value);
      if (endpoint !== undefined) endpoints.set(kv.keyText(), endpoint);
    }
    return endpoints;
  }

  /**
   * All endpoints at first, and then every change, the changes of one revision together. Where history was compacted
   * the changes since are found by comparison.
   */
  async *watch(options: { readonly signal?: AbortSignal | undefined } = {}): AsyncGenerator<readonly Update[], void> {
    checkOptions(options, WATCH_OPTIONS, 'Service.watch');
    const told = new Map<string, string>();
    let reading = new Map<string, Uint8Array>();
    for await (const message of this.#client.mirror(prefix(`${this.target}/`), options)) {
      const updates: Update[] = [];
      const put = (key: string, value: Uint8Array): void => {
        const endpoint = decodeEndpoint(value);
        const shown = endpoint && JSON.stringify(endpoint);
        if (endpoint === undefined) return drop(key);
        if (told.get(key) === shown) return;
        told.set(key, shown as string);
        updates.push({ op: 'add', key, endpoint });
      };
      const drop = (key: string): void => {
        if (told.delete(key)) updates.push({ op: 'delete', key });
      };
      switch (message.type) {
        case 'keys':
          for (const kv of message.kvs) reading.set(kv.keyText(), kv.value);
          break;
        case 'synced':
          for (const key of [...told.keys()]) if (!reading.has(key)) drop(key);
          for (const [key, value] of reading) put(key, value);
          reading = new Map();
          break;
        case 'resync':
          reading = new Map();
          break;
        case 'events':
          for (const { type, kv } of message.events) {
            if (type === 'put') put(kv.keyText(), kv.value);
            else drop(kv.keyText());
          }
          break;
      }
      if (updates.length > 0) yield updates;
    }
  }

  async #registerPlain(
    session: Session,
    key: string,
    value: BytesLike,
    options: CallOptions,
  ): Promise<() => Promise<void>> {
    const registered = new RegisteredKey(toBytes(key, 'id'), toBytes(value, 'endpoint'));
    const within = async (what: string, limits: CallOptions, action: (signal: AbortSignal) => Promise<unknown>) => {
      const { signal, timeoutMs } = this.#client.lease.bounded(limits);
      const limit = waitLimit(what, { signal, timeoutMs }, session.signal);
      try {
        await action(limit.signal);
      } catch (error) {
        session.losesWith(error);
        throw limit.endedBy(error);
      } finally {
        limit.dispose();
      }
    };
    session.latePuts.inUse(key);
    await within('register', options, (signal) => registered.put(this.#client, session.leaseId, () => true, signal));
    return async () => {
      // With the lease the key goes by itself.
      if (session.signal.aborted) return;
      await within('close', {}, (signal) => registered.delete(this.#client, signal));
      if (session.client === this.#client)
        session.latePuts.released(key, () => deleteLatePut(this.#client, key, session.leaseId, session.signal));
    };
  }
}

async function registerHealing(
  session: SelfHealingSession,
  key: string,
  value: BytesLike,
  { signal, timeoutMs }: CallOptions,
): Promise<() => Promise<void>> {
  await session.register(key, value, { signal, timeoutMs });
  return () => session.unregister(key);
}
