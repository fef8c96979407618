import { after } from '../../time.js';

/** After a blocked event loop the answer may have arrived and not been read yet. */
const GRACE_MS = 50;

export interface PingerOptions {
  readonly intervalMs: number;
  readonly timeoutMs: number;
  readonly ping: (opaque: number) => void;
  /** No answer came in time: the connection leads nowhere. */
  readonly lost: () => void;
}

/**
 * Probes a connection as long as there are streams on it: without any, etcd counts pings as abuse. Its timers hold no
 * process: streams do that.
 */
export class Pinger {
  readonly #options: PingerOptions;
  #busy = false;
  #count = 0;
  #stopTimer: (() => void) | undefined;
  #awaited: number | undefined;

  constructor(options: PingerOptions) {
    this.#options = options;
  }

  busy(busy: boolean): void {
    this.#busy = busy;
    if (!busy || this.#stopTimer !== undefined) return;
    // Not earlier than that after becoming busy: so the peer's bound holds over pauses, too.
    this.#arm(this.#options.intervalMs, () => this.#ping());
  }

  /** Only the answer to the last ping counts. */
  acknowledged(opaque: number): void {
    if (opaque !== this.#awaited) return;
    this.#awaited = undefined;
    this.stop();
    this.busy(this.#busy);
  }

  stop(): void {
    this.#stopTimer?.();
    this.#stopTimer = undefined;
  }

  #ping(): void {
    if (!this.#busy) return;
    this.#count += 1;
    this.#awaited = this.#count;
    this.#options.ping(this.#count);
    this.#arm(this.#options.timeoutMs, () => this.#arm(GRACE_MS, () => this.#options.lost()));
  }

  #arm(delayMs: number, action: () => void): void {
    this.#stopTimer = after(
      delayMs,
      () => {
        this.#stopTimer = undefined;
        action();
      },
      'background',
    );
  }
}
