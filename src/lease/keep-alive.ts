import { EtcdError } from '../errors/etcd-error.js';
import { CheckedSignal, onAbort } from '../runtime/signals.js';
import { after, monotonicMs } from '../runtime/timers.js';

/** The client's deadline for a lease is earlier than the server's by this fraction of the TTL. */
const MARGIN_PART = 0.1;
/** The longest time by which the client's deadline is earlier than the server's. */
const MARGIN_MAX_MS = 1_000;

/**
 * A lease that the client renews until it is closed or lost. `lease.keepAlive` makes one.
 *
 * ```text
 *   granted ──────┐
 *                 ▼          no answer yet          deadline passed
 *   requested ─▶ kept alive ─────────────▶ doubtful ───────────────▶ lost
 *                 ▲                           │
 *                 └──────── acknowledged ─────┘
 *   every state ─▶ lost, revoked or closed
 *
 * - granted: The server has created the lease, and its deadline counts from when the grant was sent.
 * - requested: The client knows only the id, so the lease is not valid until the first renewal is acknowledged.
 * - kept alive: The server has acknowledged the latest renewal, and the client sends the next at a third of the TTL.
 * - doubtful: A renewal is unanswered or the stream broke; the lease stays valid until its deadline.
 * - lost: The deadline has passed, the lease does not exist on the server, or the server refuses to renew it.
 * - revoked: This client revokes the lease. The lease counts as lost even before the request is sent.
 * - closed: The keepalive or the client was closed, so the lease expires without further renewals.
 *
 * The deadline counts from the time when the client *sent* the latest acknowledged request, however late it reads the
 * answer. The server counts from the later time when it received the request, so the lease does not end before
 * the client's deadline.
 *
 * @example
 * const lease = await etcd.lease.grant({ ttl: 10 });
 * await using alive = etcd.lease.keepAlive(lease);
 * alive.signal.addEventListener('abort', () => console.error('lost:', alive.signal.reason));
 * await etcd.put('workers/1', 'up', { lease });
 */
export class KeepAlive implements AsyncDisposable {
  /** The id of the lease. */
  readonly id: bigint;
  readonly #lost: CheckedSignal;
  /** The deadline of the lease, on the monotonic clock. */
  #deadline = Number.POSITIVE_INFINITY;
  /** When the client sent the latest acknowledged request. */
  #sentAt = Number.NEGATIVE_INFINITY;
  #ttl: number | undefined;
  #stopTimer: () => void = () => {};
  #onFirstRenewal: (() => void)[] = [];

  /** @internal */
  constructor(id: bigint) {
    this.id = id;
    this.#lost = new CheckedSignal(() => {
      if (monotonicMs() < this.#deadline) return undefined;
      return leaseLost(id, 'LeaseUnreachable', 'no renewal was acknowledged in time; the server may have ended it');
    });
  }

  /**
   * Aborts when the lease is lost, with an `EtcdError` that has the reason. Reading `aborted` compares the
   * deadline with the monotonic clock, so the result is correct even if the timer fires late.
   */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  /** The TTL in seconds from the latest grant or renewal; undefined until the client knows it. */
  get ttl(): number | undefined {
    return this.#ttl;
  }

  /** Whether the lease is certain to be alive now. Compares the deadline with the clock, as `signal.aborted` does. */
  valid(): boolean {
    return this.#ttl !== undefined && !this.#lost.aborted;
  }

  /** Resolves when the lease is known to be alive. @throws EtcdError with the reason if the lease is lost first. */
  renewed(): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#lost.aborted) return reject(this.signal.reason);
      if (this.#ttl !== undefined) return resolve();
      const offAbort = onAbort(this.signal, () => reject(this.signal.reason));
      this.#onFirstRenewal.push(() => {
        offAbort();
        resolve();
      });
    });
  }

  /** Milliseconds for which the lease is certain to stay alive, unless another client revokes it. */
  remainingMs(): number {
    return this.valid() ? this.#deadline - monotonicMs() : 0;
  }

  /**
   * @internal Records that the server acknowledged the request sent at `sentAt` with a TTL in seconds. A lost lease
   * stays lost. An answer to a request older than the latest acknowledged one is ignored, even if it leaves more time,
   * because another lease may have been granted with the same id.
   */
  acknowledged(sentAt: number, ttl: number): void {
    if (this.#lost.aborted || sentAt < this.#sentAt) return;
    const ttlMs = ttl * 1000;
    const deadline = sentAt + ttlMs - Math.min(ttlMs * MARGIN_PART, MARGIN_MAX_MS);
    this.#ttl = ttl;
    this.#sentAt = sentAt;
    this.#deadline = deadline;
    this.#stopTimer();
    // Reading `aborted` compares the clock with the deadline and aborts the signal.
    this.#stopTimer = after(deadline - monotonicMs(), () => this.#lost.aborted);
    if (monotonicMs() < deadline) for (const resolve of this.#onFirstRenewal.splice(0)) resolve();
  }

  /** @internal */
  lose(reason: EtcdError): void {
    this.#stopTimer();
    this.#lost.abort(reason);
  }

  /** Stops renewing, so that the lease expires after its TTL. The signal aborts with reason `KeepAliveClosed`. */
  async close(): Promise<void> {
    this.lose(leaseLost(this.id, 'KeepAliveClosed', 'its keepalive was closed'));
  }

  /** Same as `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

export function leaseLost(
  id: bigint,
  reason: 'LeaseExpired' | 'LeaseRevoked' | 'LeaseUnreachable' | 'KeepAliveClosed' | 'ClientClosed',
  why: string,
): EtcdError {
  return new EtcdError(`lease ${id.toString(16)}: ${why}`, { code: 'Aborted', reason, outcome: 'unknown' });
}

export function lostWithClient(id: bigint): EtcdError {
  return leaseLost(id, 'ClientClosed', 'the client was closed');
}
