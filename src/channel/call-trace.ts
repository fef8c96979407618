import type { EtcdError, Outcome } from '../errors/etcd-error.js';

/** What became of the calls that were made under one signal, for the error of a wait that gives up. */
export interface CallTrace {
  /** The endpoint that has not answered an attempt yet. */
  endpoint: string | undefined;
  /** The latest failure since the latest answer. */
  failure: EtcdError | undefined;
  /** Whether a server may have seen one of the calls. */
  reached: boolean;
  /** What became of the writes, where the one that waits knows it. */
  outcome: Outcome | undefined;
}

const traces = new WeakMap<AbortSignal, CallTrace>();

/** Has the calls under `signal` traced from now on. A signal that stands on another one shares its trace. */
export function traceCalls(signal: AbortSignal, source: AbortSignal | undefined): CallTrace {
  const shared = source === undefined ? undefined : traces.get(source);
  const trace = shared ?? { endpoint: undefined, failure: undefined, reached: false, outcome: undefined };
  traces.set(signal, trace);
  return trace;
}

/** The trace of the calls under a signal, where somebody asked for one. */
export function traceOf(signal: AbortSignal | undefined): CallTrace | undefined {
  return signal === undefined ? undefined : traces.get(signal);
}
