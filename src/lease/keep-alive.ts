import { EtcdError } from '../errors/etcd-error.js';
import { CheckedSignal, onAbort } from '../runtime/signals.js';
import { after, monotonicMs } from '../runtime/timers.js';

/** The part of a TTL, and the most in milliseconds, by which the local deadline precedes the server's. */
const MARGIN_PART = 0.1;
const MARGIN_MAX_MS = 1_000;

/**
 * A lease being renewed. Its deadline counts from the time the last acknowledged request was *sent*: the server's own
 * count began later, so it cannot end the lease earlier, however late the answer was read.
 */
export class KeepAlive implements AsyncDisposable {
  /** The lease. */
  readonly id: bigint;
  readonly #lost: CheckedSignal;
  /** On the monotonic clock. */
  #deadline = Number.POSITIVE_INFINITY;
  /** When the last request that was acknowledged was sent. */
  #sentAt = Number.NEGATIVE_INFINITY;
  #ttl: number | undefined;
  #disarm: () => void = () => {};
  #onFirst: () => void = () => {};

  constructor(id: bigint) {
    this.id = id;
    this.#lost = new CheckedSignal(() => {
      if (monotonicMs() < this.#deadline) return undefined;
      return leaseLost(id, 'LeaseUnreachable', 'no renewal was acknowledged in time, the server may have ended it');
    });
  }

  /** Aborts when the lease is lost, with an `EtcdError` that says why; `aborted` compares clocks when read. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  /** Seconds granted at the last renewal; undefined before the first. */
  get ttl(): number | undefined {
    return this.#ttl;
  }

  /** Whether the lease is certain to be alive now. Compares clocks. */
  valid(): boolean {
    return this.#ttl !== undefined && !this.#lost.aborted;
  }

  /** Resolves when the lease is known to be alive. @throws EtcdError with the reason where it is lost before. */
  renewed(): Promise<void> {
    return new Promise((resolve, reject) => {
      if (this.#lost.aborted) return reject(this.signal.reason);
      if (this.#ttl !== undefined) return resolve();
      const offAbort = onAbort(this.signal, () => reject(this.signal.reason));
      const before = this.#onFirst;
      this.#onFirst = () => {
        before();
        offAbort();
        resolve();
      };
    });
  }

  /** Milliseconds for which the lease is certain to live on, unless somebody revokes it. */
  remainingMs(): number {
    return this.valid() ? this.#deadline - monotonicMs() : 0;
  }

  /** @internal The request sent at `sentAt` was acknowledged with this TTL, in seconds. A lease lost stays lost. */
  acknowledged(sentAt: number, ttl: number): void {
    if (this.#lost.aborted) return;
    // The later request's answer holds, also where it leaves less time: the lease may be another of the same number.
    if (sentAt < this.#sentAt) return;
    const ttlMs = ttl * 1000;
    const deadline = sentAt + ttlMs - Math.min(ttlMs * MARGIN_PART, MARGIN_MAX_MS);
    const isFirst = this.#ttl === undefined;
    this.#ttl = ttl;
    this.#sentAt = sentAt;
    this.#deadline = deadline;
    this.#disarm();
    this.#disarm = after(deadline - monotonicMs(), () => this.#lost.aborted);
    if (isFirst && monotonicMs() < deadline) this.#onFirst();
  }

  /** @internal */
  lose(reason: EtcdError): void {
    this.#disarm();
    this.#lost.abort(reason);
  }

  /** Stops renewing: the lease runs out by itself. The signal aborts with reason `KeepAliveClosed`. */
  async close(): Promise<void> {
    this.lose(leaseLost(this.id, 'KeepAliveClosed', 'its keepalive was closed'));
  }

  /** As `close`. */
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
