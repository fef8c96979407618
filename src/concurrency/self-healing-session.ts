import { CALL_OPTIONS, type CallOptions } from '../channel/rpc.js';
import { EtcdError } from '../errors/etcd-error.js';
import type { Keyspace } from '../keyspace.js';
import { checkKey } from '../kv/key-range.js';
import { checkOptions } from '../runtime/arguments.js';
import { type BytesLike, idOf, toBytes } from '../runtime/bytes.js';
import { AsyncQueue } from '../runtime/queues.js';
import { onAbort, orAborted } from '../runtime/signals.js';
import { LocalQueue } from './local-queue.js';
import { deleteLatePut } from './queue-entry.js';
import { RegisteredKey } from './registered-key.js';
import { Session } from './session.js';
import { untilSpace, type WaitOptions, waitLimit } from './wait-limit.js';

/** A time in which the registered keys were not certain to be there. */
export type Gap =
  /** The lease is lost, and the keys with it or soon. */
  | { readonly type: 'lost'; readonly cause: EtcdError }
  /** They are there again, but for those that others have put meanwhile. */
  | {
      readonly type: 'healed';
      readonly leaseId: bigint;
      readonly restored: readonly Uint8Array[];
      readonly taken: readonly Uint8Array[];
    };

const OPEN_OPTIONS = { ttl: true, ...CALL_OPTIONS } as const;

/**
 * Keys that are to be there as long as this process lives, as for service discovery: when the lease is lost another is
 * granted and the keys are put again, and a gap event tells of it. Not for locks: what was held is not held any more
 * after a gap, so no `Mutex` takes this for a session.
 */
export class SelfHealingSession implements AsyncDisposable {
  readonly client: Keyspace;
  readonly #ttl: number | undefined;
  readonly #registered = new Map<string, RegisteredKey>();
  /** Every lease there was: what bears one of them is ours. */
  readonly #leases = new Set<bigint>();
  /** One registration at a time. */
  readonly #turns = new LocalQueue();
  readonly #gaps = new AsyncQueue<Gap>();
  readonly #over = new AbortController();
  /** Counts losses: what was put before one is not there after it. */
  #losses = 0;
  #session: Session;
  /** The session, once all keys are there. Rejects when it is over. */
  #whole: Promise<Session>;

  private constructor(client: Keyspace, ttl: number | undefined, session: Session) {
    this.client = client;
    this.#ttl = ttl;
    this.#session = session;
    this.#whole = Promise.resolve(session);
    this.#leases.add(session.leaseId);
    this.#follow(session);
  }

  /** Grants the first lease; `ttl` in seconds, default 10. @throws EtcdError */
  static async open(
    client: Keyspace,
    options: { readonly ttl?: number | undefined } & CallOptions = {},
  ): Promise<SelfHealingSession> {
    checkOptions(options, OPEN_OPTIONS, 'SelfHealingSession.open');
    return new SelfHealingSession(client, options.ttl, await Session.open(client, options));
  }

  /** The lease of the moment. */
  get leaseId(): bigint {
    return this.#session.leaseId;
  }

  /** Aborts when it is over: closed, or the client closed, or the server refuses another lease. */
  get signal(): AbortSignal {
    return this.#over.signal;
  }

  /**
   * Puts a key, in place of whatever is there, and sees to it that it stays. During a gap this waits for its end. A
   * registration that is given up may have put the key under the lease of the moment. @throws EtcdError, see
   * `WaitOptions`.
   */
  async register(key: BytesLike, value: BytesLike, options: WaitOptions = {}): Promise<void> {
    const registered = new RegisteredKey(checkKey(key, 'key'), toBytes(value, 'value'));
    await this.#inTurn('register', options, async (signal) => {
      // What was put before may come late all the same.
      registered.doubtful = this.#registered.get(idOf(registered.key))?.doubtful ?? false;
      for (;;) {
        const session = await orAborted(this.#whole, signal);
        const losses = this.#losses;
        session.latePuts.inUse(registered.key);
        await orAborted(session.strays(registered.key).delete(registered.key), signal);
        try {
          await registered.put(this.client, session.leaseId, () => true, signal);
        } catch (error) {
          if (!session.losesWith(error)) throw error;
        }
        if (losses !== this.#losses || !session.valid()) continue;
        this.#registered.set(idOf(registered.key), registered);
        return;
      }
    });
  }

  /**
   * Deletes a registered key, unless somebody else has put it anew. Given up it may be called again; meanwhile the key
   * is not put again. When the session is over there is nothing to do. @throws EtcdError, see `WaitOptions`.
   */
  async unregister(key: BytesLike, options: WaitOptions = {}): Promise<void> {
    const id = idOf(checkKey(key, 'key'));
    if (this.#over.signal.aborted) return;
    await this.#inTurn('unregister', options, async (signal) => {
      const registered = this.#registered.get(id);
      if (registered === undefined) return;
      registered.leaving = true;
      // Were the keys being put again, this one could come after its deletion.
      const session = await orAborted(this.#whole, signal);
      await registered.delete(this.client, signal);
      this.#registered.delete(id);
      session.latePuts.released(registered.key, () =>
        deleteLatePut(this.client, registered.key, session.leaseId, session.signal),
      );
      if (registered.doubtful) session.strays(registered.key).add(registered.key);
    });
  }

  /** What happens to the keys, each gap from the first on; ends with the session. For one reader. */
  gaps(): AsyncIterableIterator<Gap> {
    const gaps: AsyncIterableIterator<Gap> = {
      next: () => this.#gaps.next(),
      return: async () => ({ done: true, value: undefined }),
      [Symbol.asyncIterator]: () => gaps,
    };
    return gaps;
  }

  /** Revokes the lease: the keys are gone at once. */
  async close(): Promise<void> {
    this.#end(
      new EtcdError('the session was closed', { code: 'Aborted', reason: 'KeepAliveClosed', outcome: 'rejected' }),
    );
    await this.#session.close();
  }

  /** As `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #end(reason: EtcdError): void {
    this.#over.abort(reason);
    this.#gaps.end();
  }

  #follow(session: Session): void {
    const lost = (): void => {
      if (this.#over.signal.aborted) return;
      const { reason } = session.signal;
      if (reason.reason === 'ClientClosed') return this.#end(reason);
      this.#losses += 1;
      this.#gaps.push({ type: 'lost', cause: reason });
      this.#whole = this.#heal();
      this.#whole.catch((error: EtcdError) => this.#end(error));
    };
    if (session.signal.aborted) lost();
    else onAbort(session.signal, lost);
  }

  async #heal(): Promise<Session> {
    for (;;) {
      const session = await untilSpace(this.#over.signal, (call) =>
        Session.open(this.client, { ...call, ttl: this.#ttl }),
      );
      this.#session = session;
      this.#leases.add(session.leaseId);
      try {
        this.#over.signal.throwIfAborted();
        this.#gaps.push({ type: 'healed', leaseId: session.leaseId, ...(await this.#restore(session)) });
        this.#follow(session);
        return session;
      } catch (error) {
        session.losesWith(error);
        const over = this.#over.signal.aborted;
        if (!over && !session.valid()) continue;
        await session.close().catch(() => {});
        throw over ? this.#over.signal.reason : error;
      }
    }
  }

  /** Puts all keys again, but for those that somebody else has put meanwhile: they are theirs. */
  async #restore(session: Session): Promise<Pick<Extract<Gap, { type: 'healed' }>, 'restored' | 'taken'>> {
    const [restored, taken]: [Uint8Array[], Uint8Array[]] = [[], []];
    const keys = [...this.#registered].filter(([, { leaving }]) => !leaving);
    await Promise.all(
      keys.map(async ([id, registered]) => {
        const isOurs = (lease: bigint): boolean => this.#leases.has(lease);
        const put = await untilSpace(session.signal, () =>
          registered.put(this.client, session.leaseId, isOurs, session.signal),
        );
        (put ? restored : taken).push(registered.key);
        if (!put && this.#registered.get(id) === registered) this.#registered.delete(id);
      }),
    );
    return { restored, taken };
  }

  async #inTurn(what: string, options: WaitOptions, action: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const limit = waitLimit(what, options, this.#over.signal);
    let leave = (): void => {};
    try {
      leave = await this.#turns.enter(limit.signal);
      await action(limit.signal);
    } catch (error) {
      throw limit.endedBy(error);
    } finally {
      leave();
      limit.dispose();
    }
  }
}
