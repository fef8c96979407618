import { invalidInput } from '../errors/etcd-error.js';
import { checkSignal } from './arguments.js';
import { onAbort } from './signals.js';

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

/**
 * A signal that aborts with the first of `checked` and `others` that is aborted, each asked when `aborted` is read. It is
 * for signals that live no longer than `checked`, whose end takes the listeners back.
 *
 * @throws EtcdError, reason `InvalidInput`, where one of them is no AbortSignal.
 */
export function checkedSignalOf(checked: AbortSignal, others: readonly AbortSignal[]): AbortSignal {
  for (const other of others) if (other === undefined) throw invalidInput('signal', 'undefined', 'an AbortSignal');
  for (const other of others) checkSignal(other);
  const sources = [checked, ...others];
  const combined = new CheckedSignal(() => sources.find(({ aborted }) => aborted)?.reason);
  const undos = sources.map((source) =>
    onAbort(source, () => {
      for (const undo of undos) undo();
      if (!combined.aborted) combined.abort(source.reason);
    }),
  );
  if (combined.aborted) for (const undo of undos) undo();
  return combined.signal;
}

function getterOf(property: 'aborted' | 'reason'): unknown {
  return Object.getOwnPropertyDescriptor(AbortSignal.prototype, property)?.get;
}
