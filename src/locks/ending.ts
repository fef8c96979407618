import { onAbort, type SignalOption } from '../base/index.js';

/** The end of a call that goes on until the signal `stop` of its caller aborts, or a part of the call fails. */
export class Ending {
  readonly #controller = new AbortController();
  readonly #offStop: () => void;
  #failure: { readonly error: unknown } | undefined;

  constructor(stop: SignalOption) {
    const end = (): void => this.#controller.abort(stop?.reason);
    this.#offStop = onAbort(stop, end);
    if (stop?.aborted) end();
  }

  /** Aborts when `stop` aborts, or with the first error. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Ends the call because of an error, unless the call is already ending. */
  readonly fail = (error: unknown): void => {
    if (this.signal.aborted) return;
    this.#failure = { error };
    this.#controller.abort(error);
  };

  /** Ends the call because of an error of a callback of the program. The program gets it even if the call is ending. */
  readonly crash = (error: unknown): void => {
    this.#failure ??= { error };
    this.#controller.abort(error);
  };

  /** Ends the call, as if `stop` had aborted. */
  stop(reason: unknown): void {
    this.#controller.abort(reason);
  }

  /** Stops following `stop`. The call must call this function when it ends. */
  close(): void {
    this.#offStop();
  }

  /** @throws the error with which `fail` has ended the call, or the first error of `crash`. */
  throwIfFailed(): void {
    if (this.#failure !== undefined) throw this.#failure.error;
  }
}
