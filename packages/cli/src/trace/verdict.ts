import {
  changesNothing,
  ErrorCode,
  type EtcdError,
  errorFromStatus,
  errorFromText,
  errorOfReset,
  type JsonObject,
  type Outcome,
  percentDecoded,
  type Reason,
  remedyOf,
  statusCode,
} from '../../../../src/internal.js';
import { headerIn, type WireFrame } from '../inspect/index.js';

/** What the traffic shows of the outcome of a failed call. A proxy may have seen more of the answer than the client. */
export interface Verdict {
  readonly reason: Reason;
  /** What happened to the write. Undefined if the call writes nothing, or if no call has failed. */
  readonly outcome: Outcome | undefined;
  /** How the outcome follows from the traffic. Empty without an outcome. */
  readonly conclusion: string;
  /** What docs/errors.md advises for the reason, in Markdown. */
  readonly remedy: string;
}

/** A call, as far as the traffic shows it. */
export interface Call {
  /** gRPC path, such as `/etcdserverpb.KV/Put`. */
  readonly method: string;
  readonly isStreaming: boolean;
  /** Whether the whole request has left the client. */
  readonly hasLeft: boolean;
  /** Whether an answer without an error has begun: its first HEADERS have arrived, without `grpc-status`. */
  readonly hasAnswer: boolean;
  /** When the client began the call, in milliseconds on the monotonic clock. */
  readonly atMs: number;
  /** The time limit that the client has told the server, in milliseconds. Undefined if the client has set none. */
  readonly timeoutMs: number | undefined;
}

/** A failure: how the trace names it, and what a client may conclude. */
export interface Failure {
  readonly label: string;
  readonly verdict: Verdict | undefined;
}

type Known = Pick<EtcdError, 'reason' | 'outcome'>;

const CONCLUSIONS: Readonly<Record<Outcome, string>> = {
  'not-sent': 'The request has not left as a whole, so etcd cannot have applied it.',
  rejected: 'etcd has refused the request, and has not applied it.',
  unknown: 'The whole request has left, so etcd may have applied it, or may still apply it.',
  applied: 'An answer without an error has begun, so etcd has applied the request. The client may not know this.',
};
/** The conclusion for a transaction whose answer was cut off: etcd sends HEADERS after it has processed a call. */
const PROCESSED =
  'An answer without an error has begun, so etcd has processed the transaction. Only the rest of the answer says whether its conditions held.';

function verdictOf({ reason, outcome: known }: Known, call: Call | undefined): Verdict {
  const isWrite = call !== undefined && !call.isStreaming && !changesNothing(call.method);
  const outcome = !isWrite ? undefined : known === 'unknown' && !call.hasLeft ? 'not-sent' : known;
  const conclusion = outcome === undefined ? '' : CONCLUSIONS[outcome];
  return { reason, outcome, conclusion, remedy: remedyOf(reason) };
}

/** Returns the verdict on a call whose answer is missing, or was cut off after its first HEADERS. */
function verdictWithoutAnswer(known: Known, call: Call | undefined): Verdict {
  const verdict = verdictOf(known, call);
  if (call?.hasAnswer !== true || verdict.outcome !== 'unknown') return verdict;
  if (call.method.endsWith('/Txn')) return { ...verdict, conclusion: PROCESSED };
  return { ...verdict, outcome: 'applied', conclusion: CONCLUSIONS.applied };
}

/**
 * Returns the failure in a frame that ends a call or the connection with an error, or that could not be decoded. Returns
 * undefined for other frames. `call` is the call of the stream, if the trace shows it.
 */
export function failureIn(frame: WireFrame, call: Call | undefined): Failure | undefined {
  const { atMs, bytes, detail, direction, undecoded } = frame;
  if (undecoded !== undefined) {
    const label = `not decoded: ${bytes.length.toLocaleString('en')} bytes, because ${undecoded}`;
    return { label, verdict: undefined };
  }
  const where = { method: call?.method ?? '', endpoint: '' };
  switch (detail.kind) {
    case 'headers': {
      const status = headerIn(frame, 'grpc-status') || '0';
      if (status === '0') return undefined;
      const message = percentDecoded(headerIn(frame, 'grpc-message') ?? '');
      const error = errorFromStatus(statusCode(Number(status)), message, where);
      return { label: `refused: ${message || `status ${status}`}`, verdict: verdictOf(error, call) };
    }
    case 'reset': {
      const label = `the stream is reset: ${detail.code}`;
      if (direction === 'received') {
        // A server may end a stream so after a whole answer (RFC 9113, section 8.1).
        if (call === undefined && detail.code === 'NO_ERROR') return undefined;
        const code = ErrorCode[detail.code as keyof typeof ErrorCode] ?? ErrorCode.INTERNAL_ERROR;
        return { label, verdict: verdictWithoutAnswer(errorOfReset(code, where), call) };
      }
      // A client ends a stream that it no longer needs with RST_STREAM and CANCEL.
      if (call === undefined || (detail.code === 'CANCEL' && call.isStreaming)) return undefined;
      const isLate = call.timeoutMs !== undefined && atMs - call.atMs >= call.timeoutMs - EARLY_MS;
      return {
        label: `the client gives up after ${Math.round(atMs - call.atMs)} ms: ${detail.code}`,
        verdict: verdictWithoutAnswer({ reason: isLate ? 'DeadlineExceeded' : 'Canceled', outcome: 'unknown' }, call),
      };
    }
    case 'http1': {
      if (detail.problem === '') return undefined;
      const isUnavailable = /^50[234]/.test(detail.line);
      const error = errorFromStatus(isUnavailable ? 'Unavailable' : 'Unknown', detail.problem, where);
      return { label: `refused: ${detail.problem}`, verdict: verdictOf(error, call) };
    }
    case 'goAway':
      if (direction === 'sent') return undefined;
      return { label: `the connection is ended: ${detail.debug || detail.code}`, verdict: undefined };
    default:
      return undefined;
  }
}

/** How much earlier than at its time limit a client may give up a call, in milliseconds, because clocks differ. */
const EARLY_MS = 20;

/** Returns the failure of a watch that etcd has canceled, and undefined for any other response. */
export function canceledWatch({ canceled, cancel_reason, compact_revision }: JsonObject): Failure | undefined {
  const isCompacted = compact_revision !== undefined;
  if (canceled !== true || (cancel_reason === undefined && !isCompacted)) return undefined;
  const text = String(cancel_reason ?? 'the revision is compacted');
  const error = isCompacted ? ({ reason: 'Compacted', outcome: 'rejected' } as const) : errorFromText(text);
  return { label: `watch canceled: ${text}`, verdict: verdictOf(error, undefined) };
}

/**
 * Returns the failure of a call whose connection has closed before the end of the answer. `isExcluded` tells whether a GOAWAY has
 * excluded the stream of the call.
 */
export function unanswered(call: Call, isExcluded: boolean): Failure {
  const error: Known = isExcluded
    ? { reason: 'StreamRefused', outcome: 'rejected' }
    : { reason: 'ConnectionLost', outcome: 'unknown' };
  const label = `the connection closes ${call.hasAnswer ? 'within' : 'before'} the answer`;
  return { label, verdict: verdictWithoutAnswer(error, call) };
}

/** Returns the time limit in the header `grpc-timeout`, such as `4999m`, in milliseconds. */
export function grpcTimeoutMs(text: string | undefined): number | undefined {
  const [, count, unit = ''] = /^(\d{1,8})([HMSmun])$/.exec(text ?? '') ?? [];
  return count === undefined ? undefined : Number(count) * (UNIT_MS[unit] as number);
}

const UNIT_MS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1_000, m: 1, u: 1e-3, n: 1e-6 };
