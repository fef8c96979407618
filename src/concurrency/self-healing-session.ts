import { AsyncQueue } from '../async-queue.js';
import { type BytesLike, toBytes } from '../bytes.js';
import type { CallOptions } from '../channel/rpc.js';
import { EtcdError } from '../errors.js';
import type { Keyspace } from '../keyspace.js';
import { checkKey } from '../kv/key-range.js';
import { onAbort } from '../on-abort.js';
import { compare } from '../txn/compare.js';
import { op } from '../txn/op.js';
import { Session } from './session.js';
import { orAborted, untilAnswered, type WaitOptions, waitLimit } from './wait-limit.js';

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

interface Registered {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
  /** The lease it was put with last. */
  lease: bigint;
}

/**
 * Keys that are to be there as long as this process lives, as for service discovery: when the lease is lost another is
 * granted and the keys are put again, and a gap event tells of it. Not for locks: what was held is not held any more
 * after a gap, so no `Mutex` takes this for a session.
 */
export class SelfHealingSession implements AsyncDisposable {
  readonly client: Keyspace;
  readonly #ttl: number | undefined;
  readonly #registered = new Map<string, Registered>();
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
    this.#follow(session);
  }

  /** Grants the first lease; `ttl` in seconds, default 10. @throws EtcdError */
  static async open(
    client: Keyspace,
    options: { readonly ttl?: number | undefined } & CallOptions = {},
  ): Promise<SelfHealingSession> {
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
   * Puts a key, and sees to it that it stays. During a gap this waits for its end. A registration that is given up may
   * have put the key under the lease of the moment. @throws EtcdError, see `WaitOptions`.
   */
  async register(key: BytesLike, value: BytesLike, options: WaitOptions = {}): Promise<void> {
    const own = { key: checkKey(key, 'key').slice(), value: toBytes(value, 'value').slice() };
    const limit = waitLimit('register', options, this.#over.signal);
    try {
      for (;;) {
        const session = await orAborted(this.#whole, limit.signal);
        const losses = this.#losses;
        const lease = session.leaseId;
        try {
          // Repeating it is safe: key and value are this session's alone.
          await untilAnswered(limit.signal, (call) => this.client.put(own.key, own.value, { ...call, lease }));
          if (losses !== this.#losses) continue;
          this.#registered.set(String(own.key), { ...own, lease });
          return;
        } catch (error) {
          if (!(error instanceof EtcdError) || error.reason !== 'LeaseNotFound') throw error;
          session.lose(error);
        }
      }
    } finally {
      limit.dispose();
    }
  }

  /** Deletes a registered key, unless somebody else has put it anew. @throws EtcdError, see `WaitOptions`. */
  async unregister(key: BytesLike, options: WaitOptions = {}): Promise<void> {
    const id = String(checkKey(key, 'key'));
    const limit = waitLimit('unregister', options, this.#over.signal);
    try {
      const registered = this.#registered.get(id);
      if (registered === undefined) return;
      this.#registered.delete(id);
      // Were the keys being put again, this one could come after its deletion.
      await orAborted(this.#whole, limit.signal);
      const own = [compare.lease(registered.key, '==', registered.lease)];
      await untilAnswered(limit.signal, (call) =>
        this.client.txn({ if: own, then: [op.delete(registered.key)] }, call),
      );
    } finally {
      limit.dispose();
    }
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
      this.#losses += 1;
      this.#gaps.push({ type: 'lost', cause: session.signal.reason });
      this.#whole = this.#heal();
      this.#whole.catch((error: EtcdError) => this.#end(error));
    };
    if (session.signal.aborted) lost();
    else onAbort(session.signal, lost);
  }

  async #heal(): Promise<Session> {
    for (;;) {
      const session = await untilAnswered(this.#over.signal, (call) =>
        Session.open(this.client, { ...call, ttl: this.#ttl }),
      );
      this.#session = session;
      try {
        this.#over.signal.throwIfAborted();
        const keys = [...this.#registered.values()];
        const put = await Promise.all(keys.map((registered) => this.#restore(registered, session)));
        const of = (restored: boolean): Uint8Array[] =>
          keys.filter((_, index) => put[index] === restored).map(({ key }) => key);
        this.#gaps.push({ type: 'healed', leaseId: session.leaseId, restored: of(true), taken: of(false) });
        this.#follow(session);
        return session;
      } catch (error) {
        if (this.#over.signal.aborted) {
          await session.close().catch(() => {});
          throw this.#over.signal.reason;
        }
        if (session.valid()) throw error;
      }
    }
  }

  /** Puts a key again unless somebody else has put it meanwhile; tells which. */
  async #restore(registered: Registered, session: Session): Promise<boolean> {
    const { key, value, lease: before } = registered;
    const lease = session.leaseId;
    const put = op.put(key, value, { lease });
    const { succeeded, responses } = await untilAnswered(session.signal, (call) =>
      this.client.txn(
        {
          if: [compare.createRevision(key, '==', 0n)],
          then: [put],
          else: [op.txn({ if: [compare.lease(key, '==', before)], then: [put] }), op.get(key)],
        },
        call,
      ),
    );
    const isOwn = succeeded || responses[1]?.lease === lease;
    if (isOwn) registered.lease = lease;
    else this.#registered.delete(String(key));
    return isOwn;
  }
}
