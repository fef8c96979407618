import {
  CheckedSignal,
  type Deadlines,
  EtcdError,
  type Expiring,
  environment,
  monotonicMs,
  Printable,
} from '../../base/index.js';
import { bootMs } from '../../host/node.js';

/**
 * The margin, as a fraction of the TTL, by which the client's deadline is earlier than the end of the TTL. The margin
 * is at most `MARGIN_MAX_MS`.
 */
const MARGIN_PART = 0.1;
const MARGIN_MAX_MS = 1_000;

/** The keepalives of one keyspace: of a client, or of a namespace. All keyspaces of a client share one stream. */
export interface KeepAliveScope {
  readonly isClosed: boolean;
}

/**
 * Implements `KeepAlive` of leases.ts: the deadline of a lease that the client renews.
 *
 * ```text
 *   granted ──────┐
 *                 ▼          no answer yet          deadline passed
 *   requested ─▶ kept alive ─────────────▶ doubtful ───────────────▶ lost
 *                 ▲                           │
 *                 └──────── acknowledged ─────┘
 *   every state ─▶ lost, revoked or closed
 * ```
 *
 * - granted: The server has created the lease. The deadline counts from when the client sent the grant request.
 * - requested: The client knows only the lease ID, so the lease is not valid until the first renewal is acknowledged.
 * - kept alive: The server has acknowledged the latest renewal. The client sends the next one about a third of the TTL
 *   after the latest one.
 * - doubtful: A renewal is unanswered, or the stream broke. The lease stays valid until its deadline.
 * - lost: The deadline has passed, the lease does not exist on the server, the server refuses to renew the lease, or
 *   the cluster has changed (reason `ClusterChanged`).
 * - revoked: This client revokes the lease. The lease counts as lost when the client sends the revoke request.
 * - closed: The keepalive, the keyspace or the client was closed. The lease expires unless another keepalive renews it.
 *
 * The deadline counts from the time when the client *sent* the latest acknowledged request, however late the client
 * reads the answer. The server counts from the later time when it received the request, so the lease does not expire
 * before the client's deadline. Time for which the machine was suspended counts, too (see `Moment`).
 */
export class KeepAlive extends Printable implements AsyncDisposable {
  /** @internal */
  static override readonly name = 'KeepAlive';
  /** The ID of the lease. */
  readonly id: bigint;
  /** Created when the program first reads `signal`, because an AbortSignal takes about 1 kB of memory. */
  #signal: CheckedSignal | undefined;
  #lostBy: EtcdError | undefined;
  readonly #onLost: (() => void)[] = [];
  readonly #deadlines: Deadlines<Expiring>;
  /** The timer of the deadline. Reading `lostBy` compares the clocks with the deadline. */
  readonly #expiry = { slot: -1, deadline: Number.POSITIVE_INFINITY, expire: () => void this.lostBy };
  /**
   * When the client sent the latest acknowledged request, and for how long (`#lifetimeMs`) the lease counts as alive
   * from then on.
   */
  #sent: Moment | undefined;
  #lifetimeMs = Number.POSITIVE_INFINITY;
  #ttl: number | undefined;
  #onFirstRenewal: (() => void)[] = [];

  /** @internal The keepalives of the keyspace that has opened this one. */
  readonly scope: KeepAliveScope | undefined;

  /** @internal `deadlines` runs the timer of the deadline. */
  constructor(id: bigint, deadlines: Deadlines<Expiring>, scope?: KeepAliveScope) {
    super();
    this.id = id;
    this.#deadlines = deadlines;
    this.scope = scope;
  }

  /** @internal */
  override shown(): object {
    return { id: this.id, ttl: this.ttl, valid: this.valid() };
  }

  get signal(): AbortSignal {
    if (this.#signal === undefined) {
      this.#signal = new CheckedSignal(() => this.lostBy);
      if (this.#lostBy !== undefined) this.#signal.abort(this.#lostBy);
    }
    return this.#signal.signal;
  }

  /**
   * @internal The reason of `signal`. Undefined while the lease is kept alive. Compares the deadline with the clocks of
   * the machine, and marks the lease as lost if the deadline has passed.
   */
  get lostBy(): EtcdError | undefined {
    if (this.#lostBy !== undefined || this.#sent === undefined) return this.#lostBy;
    const now = new Moment();
    if (this.#leftMs(now) > 0) return undefined;
    const why = `may have expired, because ${this.#whyExpired(now, this.#sent)}`;
    this.lose(leaseLost(this.id, 'LeaseUnreachable', why));
    return this.#lostBy;
  }

  /** @internal Calls `callback` when the lease is lost. The caller must check whether the lease is lost already. */
  onLost(callback: () => void): void {
    this.#onLost.push(callback);
  }

  get ttl(): number | undefined {
    return this.#ttl;
  }

  /**
   * Whether the lease is certain to be alive now, unless another client has revoked it. Compares the deadline with the
   * clocks of the machine, as `signal.aborted` does.
   */
  valid(): boolean {
    return this.#ttl !== undefined && this.lostBy === undefined;
  }

  /**
   * Resolves when the client knows that the lease is alive: at once, or when the first renewal is acknowledged.
   *
   * @throws EtcdError, the abort reason of `signal`, if the lease is lost first.
   */
  renewed(): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.lostBy !== undefined) return reject(this.lostBy);
      if (this.#ttl !== undefined) return resolve();
      this.onLost(() => reject(this.lostBy));
      this.#onFirstRenewal.push(resolve);
    });
  }

  /** Returns the milliseconds for which the lease is certain to stay alive, unless another client revokes it. */
  remainingMs(): number {
    return this.valid() ? this.#leftMs(new Moment()) : 0;
  }

  /**
   * @internal Records that the server acknowledged the request that the client sent at `sent`, and answered with
   * `ttl`, in seconds. A lost lease stays lost. Ignores the answer to a request that is older than the latest
   * acknowledged request, even if that answer promises more time, because it may be about an earlier lease with the
   * same ID.
   */
  acknowledged(sent: Moment, ttl: number): void {
    if (this.lostBy !== undefined || (this.#sent && sent.monotonic < this.#sent.monotonic)) return;
    const ttlMs = ttl * 1000;
    this.#ttl = ttl;
    this.#sent = sent;
    this.#lifetimeMs = ttlMs - Math.min(ttlMs * MARGIN_PART, MARGIN_MAX_MS);
    this.#deadlines.delete(this.#expiry);
    this.#expiry.deadline = sent.monotonic + this.#lifetimeMs;
    this.#deadlines.add(this.#expiry);
    if (this.#leftMs(new Moment()) > 0) for (const resolve of this.#onFirstRenewal.splice(0)) resolve();
  }

  /** @internal Marks the lease as lost: the signal aborts with `reason`. */
  lose(reason: EtcdError): void {
    if (this.#lostBy !== undefined) return;
    this.#lostBy = reason;
    this.#deadlines.delete(this.#expiry);
    for (const callback of this.#onLost) callback();
    this.#signal?.abort(reason);
  }

  #leftMs(now: Moment): number {
    return this.#sent === undefined ? Number.POSITIVE_INFINITY : this.#lifetimeMs - now.since(this.#sent);
  }

  #whyExpired(now: Moment, sent: Moment): string {
    const ranMs = now.monotonic - sent.monotonic;
    const seconds = Math.round((now.since(sent) - ranMs) / 1_000);
    // A difference that rounds to 0 s is not a suspension, because two clocks never agree to the millisecond.
    if (ranMs >= this.#lifetimeMs || seconds === 0) return 'no server acknowledged a renewal in time';
    return `the machine was suspended for ${seconds} s, or its wall clock was set forward`;
  }

  /**
   * Ends this keepalive. The lease expires after its TTL, unless another keepalive renews it. The signal aborts with
   * reason `KeepAliveClosed`.
   */
  async close(): Promise<void> {
    this.lose(leaseLost(this.id, 'KeepAliveClosed', 'is no longer renewed, because its keepalive was closed'));
  }

  /** Same as `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Returns the error for a lease that is lost. `why` completes a sentence that begins with "lease" and the ID. */
export function leaseLost(
  id: bigint,
  reason: 'LeaseExpired' | 'LeaseRevoked' | 'LeaseUnreachable' | 'KeepAliveClosed' | 'ClientClosed',
  why: string,
): EtcdError {
  return new EtcdError(`lease ${id.toString(16)} ${why}`, { code: 'Aborted', reason, outcome: 'unknown' });
}

export function lostWithClient(id: bigint): EtcdError {
  return leaseLost(id, 'ClientClosed', 'is no longer renewed, because the client was closed');
}

/**
 * A point in time on each clock of the machine, in milliseconds. While a machine is suspended, its monotonic clock may
 * stop, but the TTL of a lease continues to run on the server. The wall clock continues to run, but a user or a program
 * may set it. The boot clock continues to run and cannot be set, but only some hosts have this clock. The client treats
 * the lifetime of a lease as over as soon as it is over on one of the clocks, so that a clock can only shorten it.
 */
export class Moment {
  readonly monotonic: number;
  readonly wall: number;
  readonly boot: number;

  /** Reads the clocks, and subtracts `agoMs`. Assumes that the machine was not suspended during this time. */
  constructor(agoMs = 0) {
    this.monotonic = monotonicMs() - agoMs;
    this.wall = environment.Date.now() - agoMs;
    this.boot = ((environment.bootMs ?? bootMs)() ?? 0) - agoMs;
  }

  /** Returns the milliseconds since `then` on the clock that has advanced most. */
  since(then: Moment): number {
    return Math.max(this.monotonic - then.monotonic, this.wall - then.wall, this.boot - then.boot);
  }
}
