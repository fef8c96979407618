import type { CallOptions } from '../channel/rpc.js';
import { EtcdError, invalidInput } from '../errors/etcd-error.js';
import { type Keyspace, type KeyspaceClient, keyspaceClientOf } from '../keyspace.js';
import { type KeepAlive, lostWithClient } from '../lease/keep-alive.js';
import { type LeaseLike, leaseIdOf } from '../lease/lease-id.js';
import { checkCan, checkOptions } from '../runtime/arguments.js';
import { once } from '../runtime/async.js';
import { checkedSignalOf, onAbort } from '../runtime/signals.js';
import { LATE_PUT_TIMES, LatePuts } from './late-puts.js';
import { LocalQueue } from './local-queue.js';
import { untilAnswered, type WaitLimit, withinLimit } from './waiting.js';

/** Short, so that the locks of a process that died are soon free. */
const DEFAULT_TTL_S = 10;
const CLOSE_TIMEOUT_MS = 10_000;

/** Options of `Session.open`. */
export interface SessionOptions extends Pick<CallOptions, 'signal' | 'timeoutMs'> {
  /** Seconds after which the locks of a process that died are free: a whole number, at least 1. Default 10. */
  readonly ttl?: number | undefined;
  /**
   * An existing lease to use instead of a new one; `ttl` is then omitted. Use a lease in one session at a time: two
   * sessions with one lease are one contender, and both would hold the same lock.
   */
  readonly lease?: LeaseLike | undefined;
}

const SESSION_OPTIONS = { ttl: true, lease: true, signal: true, timeoutMs: true } as const;

/**
 * A lease that is kept alive, and the lifetime of everything held under it. When the lease is lost, `signal` aborts with
 * an `EtcdError` that gives the reason, before the server can end the lease.
 *
 * @example
 * await using session = await Session.open(etcd, { ttl: 10 });
 * const held = await new Mutex(session, 'jobs').lock();
 */
export class Session implements AsyncDisposable {
  readonly client: Keyspace;
  readonly #keepAlive: KeepAlive;
  readonly #localQueues = new Map<string, LocalQueue>();
  /** @internal */
  readonly latePuts: LatePuts;
  readonly #end: (loseLease: () => void) => Promise<void>;

  private constructor(client: KeyspaceClient, keepAlive: KeepAlive) {
    this.client = client;
    this.#keepAlive = keepAlive;
    this.latePuts = new LatePuts(client, keepAlive.id, keepAlive.signal, LATE_PUT_TIMES);
    let ending = false;
    const offClose = client.beforeClose(() => this.#end(() => keepAlive.lose(lostWithClient(keepAlive.id))));
    this.#end = once((loseLease) => {
      ending = true;
      return this.#revoke(loseLease).finally(offClose);
    });
    // A client that closes waits until the lease is revoked, even if the session itself began to close.
    onAbort(this.signal, () => {
      if (!ending) offClose();
    });
  }

  /**
   * Grants a lease, or uses the given one, and keeps it alive.
   *
   * @throws EtcdError, reason `InvalidInput` for wrong options, `LeaseExpired` if the given lease does not exist, and
   * the reason of the failed call otherwise.
   */
  static async open(keyspace: Keyspace, options: SessionOptions = {}): Promise<Session> {
    const client = keyspaceClientOf(keyspace);
    checkOptions(options, SESSION_OPTIONS, 'Session.open');
    const { ttl, lease, ...callOptions } = options;
    if (lease !== undefined) {
      if (ttl !== undefined) throw invalidInput('ttl', 'a TTL together with a lease', 'one of the two');
      return new Session(client, await keptAlive(client, leaseIdOf(lease, 'lease'), callOptions));
    }
    const granted = await client.lease.grant({ ...callOptions, ttl: ttl ?? DEFAULT_TTL_S });
    const keepAlive = client.leaseClient.keepAlive(granted);
    if (!keepAlive.signal.aborted) return new Session(client, keepAlive);
    // The client was closed during the grant.
    await client.lease.revoke(granted.id, callOptions).catch(() => {});
    throw keepAlive.signal.reason;
  }

  /** ID of the lease. */
  get leaseId(): bigint {
    return this.#keepAlive.id;
  }

  /** Aborts when the session ends. Reading `aborted` compares the lease's deadline with the clock. */
  get signal(): AbortSignal {
    return this.#keepAlive.signal;
  }

  /**
   * Returns a signal that aborts when the session ends or one of `others` aborts. Like `signal.aborted`, its `aborted`
   * compares clocks. A signal made by `AbortSignal.any` does not, and is late after a blocked event loop.
   *
   * @example
   * await work({ signal: session.signalWith(stop.signal, AbortSignal.timeout(5_000)) });
   */
  signalWith(...others: readonly AbortSignal[]): AbortSignal {
    return checkedSignalOf(this.signal, others);
  }

  /** Returns whether the lease is certainly alive now. Compares clocks. */
  valid(): boolean {
    return this.#keepAlive.valid();
  }

  /** @internal Milliseconds for which the lease is certainly alive. Compares clocks. */
  remainingMs(): number {
    return this.#keepAlive.remainingMs();
  }

  /** @internal The local queue for a key. Enter it before the next `await`, because an empty local queue is discarded. */
  localQueue(key: string): LocalQueue {
    const found = this.#localQueues.get(key);
    if (found !== undefined) return found;
    const queue = new LocalQueue(() => this.#localQueues.delete(key));
    this.#localQueues.set(key, queue);
    return queue;
  }

  /** @internal Ends the session if a call failed because the lease does not exist, and returns whether it did. */
  losesWith(error: unknown): boolean {
    if (!(error instanceof EtcdError) || error.reason !== 'LeaseNotFound') return false;
    this.#keepAlive.lose(error);
    return true;
  }

  /**
   * Ends the session without revoking the lease. The lease expires unless somebody else keeps it alive, for example
   * another session opened with it. Keys under it, and so its locks, exist until then.
   */
  async orphan(): Promise<void> {
    await this.#keepAlive.close();
  }

  /**
   * Revokes the lease, so that everything held under it is free at once.
   *
   * @throws EtcdError, reason `DeadlineExceeded`, if no server answers within 10 s. The lease then expires by itself.
   */
  close(): Promise<void> {
    return this.#end(() => void this.#keepAlive.close());
  }

  /** Same as `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #revoke(loseLease: () => void): Promise<void> {
    const { client, leaseId } = this;
    const lifetimeMs = this.#keepAlive.remainingMs();
    loseLease();
    if (lifetimeMs <= 0) return;
    const limits = { maxWaitMs: Math.min(lifetimeMs, CLOSE_TIMEOUT_MS) };
    const revoke = async ({ signal }: WaitLimit): Promise<void> => {
      try {
        // Safe to repeat: lease IDs are random, so no other lease has this one.
        await untilAnswered(signal, (options) => client.lease.revoke(leaseId, options));
      } catch (error) {
        if (!isLeaseOver(error, lifetimeMs)) throw error;
      }
    };
    await withinLimit('session close', limits, undefined, revoke, 'timeoutMs');
  }
}

async function keptAlive(client: KeyspaceClient, lease: bigint, options: CallOptions): Promise<KeepAlive> {
  const { signal, timeoutMs } = client.leaseClient.withDefaultTimeout(options);
  const begin = async (limit: WaitLimit): Promise<KeepAlive> => {
    const keepAlive = client.leaseClient.keepAlive(lease);
    const offAbort = onAbort(limit.signal, () => keepAlive.lose(limit.signal.reason));
    await keepAlive.renewed().finally(offAbort);
    return keepAlive;
  };
  return withinLimit('session open', { signal, maxWaitMs: timeoutMs }, undefined, begin, 'timeoutMs');
}

/** Whether the lease is gone, or expires before a caller could do anything about the failed revocation. */
function isLeaseOver(error: unknown, lifetimeMs: number): boolean {
  if (!(error instanceof EtcdError)) return false;
  if (error.reason === 'DeadlineExceeded') return lifetimeMs <= CLOSE_TIMEOUT_MS;
  return error.reason === 'LeaseNotFound' || error.reason === 'ClientClosed';
}

/** @throws EtcdError, reason `InvalidInput`. */
export function checkSession(session: Session): Session {
  return checkCan(session, 'localQueue', 'session', 'a Session, as Session.open returns it');
}
