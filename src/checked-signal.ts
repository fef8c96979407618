const readAborted = getterOf('aborted') as (this: AbortSignal) => boolean;
const readReason = getterOf('reason') as (this: AbortSignal) => unknown;

/**
 * An AbortSignal whose `aborted` asks `check` when it is read, instead of trusting that a timer has fired: after a
 * blocked event loop timers are late, and whatever runs before them must not take the signal for live. `check` gives
 * the reason to abort, or undefined. Once aborted it stays so. A signal made of this one, as by `AbortSignal.any`, does
 * not ask: it waits for the event.
 */
export class CheckedSignal {
  readonly signal: AbortSignal;
  readonly #controller = new AbortController();
  readonly #check: () => unknown;
  #aborting = false;

  constructor(check: () => unknown) {
    this.#check = check;
    this.signal = this.#controller.signal;
    Object.defineProperties(this.signal, {
      aborted: { get: () => this.aborted },
      reason: { get: () => (this.aborted ? readReason.call(this.signal) : undefined) },
      throwIfAborted: {
        value: () => {
          if (this.aborted) throw this.signal.reason;
        },
      },
    });
  }

  get aborted(): boolean {
    if (readAborted.call(this.signal)) return true;
    // Deno reads it itself while it aborts.
    if (this.#aborting) return false;
    const reason = this.#check();
    if (reason === undefined) return false;
    this.abort(reason);
    return true;
  }

  abort(reason: unknown): void {
    this.#aborting = true;
    this.#controller.abort(reason);
  }
}

function getterOf(property: 'aborted' | 'reason'): unknown {
  return Object.getOwnPropertyDescriptor(AbortSignal.prototype, property)?.get;
}
