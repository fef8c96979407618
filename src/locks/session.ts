import {
  CheckedSignal,
  checkBoolean,
  checkCan,
  checkedSignalOf,
  checkOptions,
  compareBytes,
  EtcdError,
  invalidInput,
  onAbort,
  once,
  Printable,
} from '../base/index.js';
import {
  type CoreKeyspace,
  checkTtl,
  holdersOf,
  type KeyspaceClient,
  keyspaceClientOf,
  type LeaseHolders,
  type LeaseKeepAlive,
  type LeaseLike,
  leaseIdOf,
  lostWithClient,
} from '../client/index.js';
import { type CallOptions, TIME_LIMITS } from '../rpc/index.js';
import { Guards } from './guards.js';
import { LocalQueue } from './local-queue.js';
import { untilAnswered, type WaitLimit, withinLimit } from './waiting.js';

/** Default TTL of a session's lease, in seconds. It is short, so that the locks of a dead process soon become free. */
export const DEFAULT_TTL_S = 10;
const CLOSE_TIMEOUT_MS = 10_000;

/** Options of `Session.open`. */
export interface SessionOptions extends Pick<CallOptions, 'signal' | 'timeoutMs'> {
  /**
   * TTL of the lease in seconds: a whole number, at least 1. If the process dies, its locks are free after this time.
   * Default 10.
   */
  readonly ttl?: number | undefined;
  /**
   * Allows a `ttl` above an hour. Without this option, the client refuses such a TTL, because callers usually mean
   * milliseconds. Default false.
   */
  readonly allowLongTtl?: boolean | undefined;
  /**
   * An existing lease to use instead of a new one. Do not set `ttl` as well. In one keyspace, use a lease in only one
   * session at a time, because two sessions with the same lease share their queue keys, so both would hold the same
   * lock.
   */
  readonly lease?: LeaseLike | undefined;
}

/** The options of each function that grants a lease for a session, and their checks. */
export const LEASE_OPTIONS = { ttl: checkTtl, allowLongTtl: checkBoolean } as const;
const SESSION_OPTIONS = { ...LEASE_OPTIONS, lease: leaseIdOf, ...TIME_LIMITS } as const;

/**
 * A lease that the client keeps alive. When the lease ends, etcd deletes the keys that are attached to it, such as the
 * keys of locks. When the lease is lost, `signal` aborts with an `EtcdError` that gives the reason. If the client
 * cannot renew the lease, `signal` aborts before the lease expires on the server.
 *
 * A session belongs to the client or namespace that opened it. Queues and services of another client or namespace
 * refuse the session. To use one lease in two namespaces, open a session in each of them, the second session with the
 * option `lease`. To end them, call `orphan` on the second session and then `close` on the first session, because
 * `close` revokes the lease.
 *
 * @example
 * await using session = await Session.open(etcd, { ttl: 10 });
 * const held = await new Mutex(session, 'jobs').lock();
 */
export class Session extends Printable implements AsyncDisposable {
  /** @internal */
  static override readonly name = 'Session';
  readonly client: CoreKeyspace;
  readonly #keepAlive: LeaseKeepAlive;
  readonly #localQueues = new Map<string, LocalQueue>();
  /** @internal The guards (see `Guards`) of the writes that put keys with the session's lease. */
  readonly guards: Guards;
  /** @internal What is held under the session's lease. A closing client keeps the lease until nothing is held. */
  readonly holders: LeaseHolders;
  /** Created when something first reads `signal`. */
  #signal: CheckedSignal | undefined;
  /** Why the session counts as ended although the client still renews its lease, because the client closes. */
  #closing: EtcdError | undefined;
  #isEnding = false;
  readonly #offClose: () => void;
  readonly #drain = once(() => this.#endWhenEmpty());
  readonly #end = once((loseLease: () => void) => {
    this.#isEnding = true;
    this.holders.delete(this);
    return this.#revoke(loseLease).finally(this.#offClose);
  });

  private constructor(client: KeyspaceClient, keepAlive: LeaseKeepAlive) {
    super();
    this.client = client;
    this.#keepAlive = keepAlive;
    this.guards = new Guards(client.rpc, keepAlive.id, client.core.guardPrefix, client.core.prefix);
    const [holders, leave] = holdersOf(client.core.leaseHolders, keepAlive.id);
    this.holders = holders;
    keepAlive.onLost(() => {
      leave();
      // If the session is ending, keep the function that runs when the client closes, so that the client waits until the
      // lease is revoked.
      if (!this.#isEnding) this.#offClose();
      this.#signal?.abort(this.#closing ?? keepAlive.lostBy);
    });
    this.#offClose = client.beforeClose(() => this.#drain());
  }

  /**
   * Opens a session: grants a lease, or uses the lease in `options`, and keeps the lease alive.
   *
   * @throws EtcdError with reason `InvalidInput` for wrong options, with `LeaseExpired` if the given lease does not
   * exist, and otherwise with the reason of the failed call.
   */
  static async open(keyspace: CoreKeyspace, options: SessionOptions = {}): Promise<Session> {
    const client = keyspaceClientOf(keyspace);
    checkOptions(options, SESSION_OPTIONS, 'Session.open');
    client.rpc.checkOpen();
    const { ttl, allowLongTtl, lease, ...callOptions } = options;
    if (lease !== undefined) {
      if (ttl !== undefined) throw invalidInput('ttl', 'a TTL together with a lease', 'only one of the two');
      return new Session(client, await keptAlive(client, leaseIdOf(lease, 'lease'), callOptions));
    }
    const granted = await client.lease.grant({ ...callOptions, ttl: ttl ?? DEFAULT_TTL_S, allowLongTtl });
    const keepAlive = client.leaseClient.keepAlive(granted);
    if (keepAlive.lostBy === undefined) return new Session(client, keepAlive);
    // The client was closed during the grant, or the grant took longer than the lease lives.
    await client.lease.revoke(granted.id, callOptions).catch(() => {});
    throw keepAlive.lostBy;
  }

  /** @internal */
  override shown(): object {
    return { leaseId: this.leaseId, valid: this.valid() };
  }

  /** ID of the lease. */
  get leaseId(): bigint {
    return this.#keepAlive.id;
  }

  /**
   * Aborts when the session ends. Reading `aborted` compares the lease's deadline with the clocks of the machine, so
   * the result is right even after the event loop was blocked.
   */
  get signal(): AbortSignal {
    if (this.#signal === undefined) {
      this.#signal = new CheckedSignal(() => this.#closing ?? this.#keepAlive.lostBy);
      // Aborts the signal if the session has ended.
      void this.#signal.aborted;
    }
    return this.#signal.signal;
  }

  /**
   * Returns a signal that aborts when the session ends or one of `others` aborts. Reading its `aborted` checks the
   * lease's deadline, as for `signal`. A signal made by `AbortSignal.any` does not check the deadline, and may abort
   * too late after the event loop was blocked.
   *
   * @example
   * await work({ signal: session.signalWith(stop.signal, AbortSignal.timeout(5_000)) });
   */
  signalWith(...others: readonly AbortSignal[]): AbortSignal {
    return checkedSignalOf(this.signal, others);
  }

  /**
   * Returns whether the lease is certainly alive now, unless another client has revoked it. Checks the lease's
   * deadline, as for `signal`.
   */
  valid(): boolean {
    return this.#closing === undefined && this.#keepAlive.valid();
  }

  /** @internal The TTL of the lease in milliseconds. */
  get ttlMs(): number {
    return (this.#keepAlive.ttl ?? 0) * 1_000;
  }

  /** @internal Returns the milliseconds for which the lease certainly stays alive, unless another client revokes it. */
  remainingMs(): number {
    return this.#closing === undefined ? this.#keepAlive.remainingMs() : 0;
  }

  /**
   * @internal Returns the local queue of the callers in this process that share a queue key; see `LocalQueue`. The
   * caller must enter the queue before its next `await`, because the session discards an empty local queue.
   */
  localQueue(key: string): LocalQueue {
    const found = this.#localQueues.get(key);
    if (found !== undefined) return found;
    const queue = new LocalQueue(() => this.#localQueues.delete(key));
    this.#localQueues.set(key, queue);
    return queue;
  }

  /**
   * @internal The session ignores that the client closes. A function that runs an action with this session ends the
   * action then, and closes the session itself.
   */
  leaveToOwner(): void {
    this.#offClose();
    this.holders.add(this);
  }

  /** @internal Aborts when the lease is lost, but unlike `signal` not while a closing client waits for its locks. */
  get leaseSignal(): AbortSignal {
    return this.#keepAlive.signal;
  }

  /** @internal Ends the session and returns true if `error` says that the lease does not exist. */
  losesWith(error: unknown): boolean {
    if (!(error instanceof EtcdError) || error.reason !== 'LeaseNotFound') return false;
    this.#keepAlive.lose(error);
    return true;
  }

  /**
   * Ends the session without revoking the lease. The lease expires after its TTL, unless the lease is kept alive
   * elsewhere, for example by another session with the same lease. Until the lease expires, its keys exist and its
   * locks are held.
   */
  async orphan(): Promise<void> {
    await this.#keepAlive.close();
  }

  /**
   * Ends the session and revokes the lease, so that everything held under the lease is free at once.
   *
   * @throws EtcdError with reason `DeadlineExceeded` if no server answers within 10 s, unless the lease has expired by
   * then. If `close` rejects, the lease expires after its TTL.
   */
  close(): Promise<void> {
    return this.#end(() => void this.#keepAlive.close());
  }

  /** Same as `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /**
   * Aborts `signal`, renews the lease until nothing is held under it, and then revokes it. If the client closes its
   * connections before, the lease expires.
   */
  async #endWhenEmpty(): Promise<void> {
    const closing = lostWithClient(this.leaseId);
    this.#closing = closing;
    this.#signal?.abort(closing);
    const lost = new Promise<void>((resolve) => this.#keepAlive.onLost(resolve));
    if (this.#keepAlive.lostBy === undefined) await Promise.race([this.holders.empty(), lost]);
    await this.#end(() => this.#keepAlive.lose(closing));
  }

  async #revoke(loseLease: () => void): Promise<void> {
    const { client, leaseId } = this;
    const lifetimeMs = this.#keepAlive.remainingMs();
    loseLease();
    if (lifetimeMs <= 0) return;
    const limits = { maxWaitMs: Math.min(lifetimeMs, CLOSE_TIMEOUT_MS) };
    const revoke = async ({ waiting }: WaitLimit): Promise<void> => {
      try {
        // Safe to repeat, because lease IDs are random, so no other lease has this ID.
        await untilAnswered(waiting, (options) => client.lease.revoke(leaseId, options));
      } catch (error) {
        if (!isLeaseOver(error, lifetimeMs)) throw error;
      }
    };
    await withinLimit('session close', limits, undefined, revoke, 'timeoutMs');
  }
}

async function keptAlive(client: KeyspaceClient, lease: bigint, options: CallOptions): Promise<LeaseKeepAlive> {
  const { timeoutMs, ...rest } = client.leaseClient.withDefaultTimeout(options);
  const startKeepAlive = async (limit: WaitLimit): Promise<LeaseKeepAlive> => {
    const keepAlive = client.leaseClient.keepAlive(lease);
    const offAbort = onAbort(limit.signal, () => keepAlive.lose(limit.signal.reason));
    await keepAlive.renewed().finally(offAbort);
    return keepAlive;
  };
  return withinLimit('session open', { ...rest, maxWaitMs: timeoutMs }, undefined, startKeepAlive, 'timeoutMs');
}

/**
 * Returns whether `close` can ignore this error of the revocation: the lease does not exist, the lease expired before
 * the revocation timed out, or the client is closed. When the revocation began, the lease could live for another
 * `lifetimeMs`.
 */
function isLeaseOver(error: unknown, lifetimeMs: number): boolean {
  if (!(error instanceof EtcdError)) return false;
  if (error.reason === 'DeadlineExceeded') return lifetimeMs <= CLOSE_TIMEOUT_MS;
  return error.reason === 'LeaseNotFound' || error.reason === 'ClientClosed';
}

/** Returns the session. @throws EtcdError with reason `InvalidInput` if it is not a `Session`. */
export function checkSession(session: Session): Session {
  return checkCan(session, 'localQueue', 'session', 'a Session, as Session.open returns it');
}

/** Returns whether `a` and `b` are the same client, or namespaces of one client with the same prefix. */
export function isSameKeyspace(a: CoreKeyspace, b: CoreKeyspace): boolean {
  const [one, other] = [keyspaceClientOf(a).core, keyspaceClientOf(b).core];
  return one.closers === other.closers && compareBytes(one.prefix, other.prefix) === 0;
}

/**
 * Returns the session. All keys of a session must be in one keyspace, because the same name means a different key in
 * another keyspace. There, the session could delete a key that another client has put.
 *
 * @throws EtcdError with reason `InvalidInput` unless the session belongs to the keyspace of `client`, with which the
 * object `what` was created.
 */
export function checkSessionOf<T extends { readonly client: CoreKeyspace }>(
  client: CoreKeyspace,
  session: T,
  what: string,
): T {
  if (isSameKeyspace(client, session.client)) return session;
  throw invalidInput(
    'session',
    'a session of another client or namespace',
    `a session of the client or namespace that the ${what} was created with`,
  );
}

/** Options of the lease of a session that a function opens itself. */
export type LeaseOptions = Pick<SessionOptions, 'ttl' | 'allowLongTtl'>;
