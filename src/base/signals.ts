import { checkSignal, type SignalOption } from './arguments.js';
import { invalidInput } from './etcd-error.js';

/** The callbacks of each signal, and the one listener that calls them, because Node.js warns of many listeners. */
const callbacks = new WeakMap<AbortSignal, { readonly set: Set<() => void>; readonly listener: () => void }>();

/** The signals of `CheckedSignal`, which needs no listener, because it calls the callbacks itself. */
const checkedSignals = new WeakSet<AbortSignal>();

/** Returns a function that calls the present callbacks of a signal. Callbacks that are added later are never called. */
function takeCallbacks(signal: AbortSignal): () => void {
  const set = callbacks.get(signal)?.set ?? [];
  callbacks.delete(signal);
  return () => {
    for (const callback of set) callback();
  };
}

/**
 * Calls `callback` when the signal aborts. Returns a function that removes the callback. If the signal has already
 * aborted, or if there is no signal, the callback is never called.
 */
export function onAbort(signal: SignalOption, callback: () => void): () => void {
  if (signal === undefined || signal === null) return () => {};
  const isChecked = checkedSignals.has(signal);
  let entry = callbacks.get(signal);
  if (entry === undefined) {
    // Signals of other libraries may call the listener without `this` and without an event.
    entry = { set: new Set(), listener: () => takeCallbacks(signal)() };
    callbacks.set(signal, entry);
    if (!isChecked) signal.addEventListener('abort', entry.listener, { once: true });
  }
  const { set, listener } = entry;
  // Add a new function to the Set for each call of `onAbort`, so that a callback that is passed twice is called twice.
  const registered = (): void => callback();
  set.add(registered);
  return () => {
    if (!set.delete(registered) || set.size > 0 || isChecked || callbacks.get(signal)?.set !== set) return;
    callbacks.delete(signal);
    signal.removeEventListener('abort', listener);
  };
}

/**
 * Waits for the promise, or until the signal aborts. Resolves with the result of the promise.
 *
 * @throws the error of the promise, or the signal's reason if the signal aborts first.
 */
export async function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  let offAbort = (): void => {};
  const aborted = new Promise<never>((_, reject) => {
    offAbort = onAbort(signal, () => reject(signal.reason));
    if (signal.aborted) reject(signal.reason);
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    offAbort();
  }
}

const readAborted = getterOf('aborted') as (this: AbortSignal) => boolean;
const readReason = getterOf('reason') as (this: AbortSignal) => unknown;

/**
 * Owns an AbortSignal that calls `check` each time the program reads `aborted` or `reason`, or calls `throwIfAborted`,
 * until the signal has aborted. `check` returns the reason to abort, or undefined. If the event loop was blocked,
 * timers fire late, and code that runs before them must already see that the signal has aborted. Once aborted, the
 * signal stays aborted.
 *
 * A signal that is derived from this signal, for example by `AbortSignal.any`, does not call `check`. The derived
 * signal aborts only when the owner calls `abort`, or when a program reads this signal and `check` returns a reason.
 */
export class CheckedSignal {
  readonly signal: AbortSignal;
  readonly #controller = new AbortController();
  readonly #check: () => unknown;
  #aborting = false;

  constructor(check: () => unknown) {
    this.#check = check;
    this.signal = this.#controller.signal;
    checkedSignals.add(this.signal);
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
    // Deno reads `aborted` while it aborts the signal, so a check here would call `abort` again.
    if (this.#aborting) return false;
    const reason = this.#check();
    if (reason === undefined) return false;
    this.abort(reason);
    return true;
  }

  /** Only the first call has an effect. */
  abort(reason: unknown): void {
    if (this.#aborting) return;
    this.#aborting = true;
    const callAll = takeCallbacks(this.signal);
    this.#controller.abort(reason);
    callAll();
  }
}

/**
 * Returns a signal that aborts as soon as `checked` or one of `others` aborts. Reading `aborted` of the returned signal
 * reads `aborted` of these signals. The returned signal removes its listeners only when one of these signals aborts, so
 * `checked` must be a signal that eventually aborts.
 *
 * @throws EtcdError with reason `InvalidInput` if one of `others` is not an AbortSignal.
 */
export function checkedSignalOf(checked: AbortSignal, others: readonly AbortSignal[]): AbortSignal {
  for (const other of others) {
    if (other === undefined || other === null) throw invalidInput('signal', String(other), 'an AbortSignal');
    checkSignal(other);
  }
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
