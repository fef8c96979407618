import type { EtcdError, Outcome, Reason } from '../errors/etcd-error.js';

/** Reasons for which the client itself ended the call. They prove nothing about an endpoint. */
const ENDED_BY_CLIENT: ReadonlySet<Reason> = new Set(['InvalidInput', 'ClientClosed', 'Canceled', 'DeadlineExceeded']);

/** Reasons for which a working member refuses a call for a moment. */
const MOMENTARY: ReadonlySet<Reason> = new Set(['LeaderChanged', 'ProposalDropped', 'TimeoutWaitAppliedIndex']);

/**
 * Whether a working member refused the call for a moment: its cluster has just elected another leader, or the member is
 * behind with applying entries. The same member will soon answer. Another member may be further behind: while the old
 * leader is paused, for example, only the follower that has already learned of the new leader can answer.
 */
export function isMomentaryRefusal({ reason }: EtcdError): boolean {
  return MOMENTARY.has(reason);
}

/** Whether the endpoint caused the failure, rather than the request. If so, another endpoint may succeed. */
export function isEndpointFailure({ code, reason }: EtcdError): boolean {
  if (reason === 'NotSupportedForLearner' || reason === 'ConnectionLost' || reason === 'ProposalDropped') return true;
  return code === 'Unavailable' && !ENDED_BY_CLIENT.has(reason);
}

/**
 * Whether a failed attempt may be repeated. A write is repeated only if it provably was not processed: either it was
 * never sent, or the member refused it unprocessed. An idempotent method may be repeated after any endpoint failure.
 */
export function mayRetry(method: { readonly repeatable: boolean }, error: EtcdError): boolean {
  if (!isEndpointFailure(error)) return false;
  return error.outcome !== 'unknown' || method.repeatable;
}

/** What happened to the calls made under one signal. The error of a wait that times out or is cancelled reports it. */
export interface CallTrace {
  /** URL of the endpoint that has not answered the current attempt yet. */
  endpoint: string | undefined;
  /** The latest failure since the latest response. */
  failure: EtcdError | undefined;
  /** Whether a server may have received one of the calls. */
  reached: boolean;
  /** Outcome of the writes, if the code that waits has recorded it. */
  outcome: Outcome | undefined;
}

const traces = new WeakMap<AbortSignal, CallTrace>();

/** Starts to trace the calls under `signal`. If `source` is given and has a trace, `signal` shares that trace. */
export function traceCalls(signal: AbortSignal, source: AbortSignal | undefined): CallTrace {
  const trace = traceOf(source) ?? { endpoint: undefined, failure: undefined, reached: false, outcome: undefined };
  traces.set(signal, trace);
  return trace;
}

/** The trace of the calls under `signal`, if `traceCalls` was called for it. */
export function traceOf(signal: AbortSignal | undefined): CallTrace | undefined {
  return signal === undefined ? undefined : traces.get(signal);
}
