/**
 * Callbacks by signal: each signal gets one listener of ours, however many calls wait on it. Hosts warn of a leak
 * where a signal has more than a few.
 */
const callbacks = new WeakMap<AbortSignal, { readonly set: Set<() => void>; readonly listener: () => void }>();

/** Calls back when the signal aborts, unless called off by the function returned. An aborted signal never calls. */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  let entry = callbacks.get(signal);
  if (entry === undefined) {
    const set = new Set<() => void>();
    const listener = (): void => {
      callbacks.delete(signal);
      for (const call of set) call();
    };
    entry = { set, listener };
    callbacks.set(signal, entry);
    signal.addEventListener('abort', listener, { once: true });
  }
  const { set, listener } = entry;
  // Wrapped, so that the same callback given twice counts twice.
  const call = (): void => callback();
  set.add(call);
  return () => {
    if (!set.delete(call) || set.size > 0) return;
    if (callbacks.get(signal)?.set === set) callbacks.delete(signal);
    signal.removeEventListener('abort', listener);
  };
}

/** Waits for a promise that does not end with the signal. @throws the signal's reason where it aborts first. */
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

/** Runs the action the first time; whoever asks again, be it while the action begins, gets the same promise. */
export function once<Args extends readonly unknown[], T>(
  action: (...args: Args) => Promise<T>,
): (...args: Args) => Promise<T> {
  let result: Promise<T> | undefined;
  return (...args) => {
    if (result === undefined) {
      let settle: (value: Promise<T>) => void = () => {};
      result = new Promise((resolve) => {
        settle = resolve;
      });
      settle(action(...args));
    }
    return result;
  };
}
