import { EtcdError, type Outcome } from './etcd-error.js';
import { type ServerReason, serverReason, statusOfReason } from './server-errors.js';
import { STATUS_CODES, type StatusCode } from './status.js';

/** How Go prints a gRPC error; such text turns up in `cancel_reason` of a watch. */
const GO_PRINTED = /^rpc error: code = (\w+) desc = (.*)$/s;

/** Codes of etcd's own errors that leave open whether the request took effect. */
const INCONCLUSIVE: ReadonlySet<StatusCode> = new Set(['Canceled', 'DeadlineExceeded', 'Unavailable', 'DataLoss']);

/** etcd looks at the quota again when it applies a write: beyond it, the write is done, and refused all the same. */
const DONE_ALL_THE_SAME: ReadonlySet<ServerReason> = new Set(['NoSpace']);

/**
 * Refusals that prove that nothing was done, whatever status they come with. A learner looks at no request; before etcd
 * 3.6 it says so with Unavailable. Raft drops a proposal before it appends it to its log (`ErrProposalDropped` in
 * raft.go), and etcd passes that on with status Unknown.
 */
const REFUSED_UNSEEN: ReadonlySet<ServerReason> = new Set(['NotSupportedForLearner', 'ProposalDropped']);

/** As much as header fields may hold; a watch may be told more. */
const LONGEST_TEXT_CHARS = 65_536;

interface Where {
  readonly method?: string | undefined;
  readonly endpoint?: string | undefined;
}

/** A gRPC status that a server or something between sent, as the error it means. */
export function errorFromStatus(code: StatusCode, message: string, where: Where = {}): EtcdError {
  const reason = serverReason(message);
  return new EtcdError(problemOf(code, message), {
    code,
    reason: reason ?? (code === 'Unavailable' ? 'ConnectionLost' : 'Other'),
    outcome: outcomeOf(code, reason, message),
    ...where,
  });
}

/** The error behind a printed one, as in a watch's `cancel_reason`. */
export function errorFromText(text: string, where: Where = {}): EtcdError {
  const printed = GO_PRINTED.exec(text);
  const message = printed?.[2] ?? text;
  const reason = serverReason(message) ?? serverReason(`etcdserver: ${message}`);
  const code = reason === undefined ? printedCode(printed?.[1]) : statusOfReason(reason);
  return new EtcdError(problemOf(code, message), {
    code,
    reason: reason ?? 'Other',
    outcome: 'rejected',
    ...where,
  });
}

/** No error is OK. */
function printedCode(name: string | undefined): StatusCode {
  return STATUS_CODES.find((code) => code === name && code !== 'OK') ?? 'Unknown';
}

function problemOf(code: StatusCode, message: string): string {
  return message === '' ? `gRPC status ${code}` : message.slice(0, LONGEST_TEXT_CHARS);
}

/**
 * Only an error that etcd itself names proves that it looked at the request and refused. Anything else, above all
 * Unavailable, may come from a server that was killed after applying it, or from a proxy that knows nothing.
 */
function outcomeOf(code: StatusCode, reason: ServerReason | undefined, message: string): Outcome {
  if (reason === undefined) {
    return code === 'Unimplemented' && /^unknown (service|method) /.test(message) ? 'rejected' : 'unknown';
  }
  if (DONE_ALL_THE_SAME.has(reason)) return 'unknown';
  if (REFUSED_UNSEEN.has(reason)) return 'rejected';
  // Both: the lock and election services pass errors on with status Unknown.
  return INCONCLUSIVE.has(code) || INCONCLUSIVE.has(statusOfReason(reason)) ? 'unknown' : 'rejected';
}
