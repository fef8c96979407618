import { type ErrorContext, EtcdError, type Outcome } from './etcd-error.js';
import { type ServerReason, STATUS_CODES, type StatusCode, serverReason, statusOfReason } from './status.js';

/** The format in which Go prints a gRPC error. The `cancel_reason` of a watch contains such text. */
const GO_PRINTED = /^rpc error: code = (\w+) desc = (.*)$/s;

/** Status codes with which etcd leaves open whether the request took effect. */
const INCONCLUSIVE: ReadonlySet<StatusCode> = new Set(['Canceled', 'DeadlineExceeded', 'Unavailable', 'DataLoss']);

/** etcd checks the quota again when it applies a write. If the quota is exceeded then, the write is done and refused. */
const REFUSED_AFTER_APPLYING: ReadonlySet<ServerReason> = new Set(['NoSpace']);

/**
 * Refusals that prove that nothing was done, whatever status they have. A learner processes no request; before etcd 3.6
 * it refuses with Unavailable. Raft drops a proposal before it appends it to its log (`ErrProposalDropped` in raft.go), and
 * etcd forwards that with status Unknown.
 */
const REFUSED_UNPROCESSED: ReadonlySet<ServerReason> = new Set(['NotSupportedForLearner', 'ProposalDropped']);

/** Maximum length of a text, which is that of header fields. The text of a watch may be longer, and is cut. */
const MAX_TEXT_CHARS = 65_536;

/** Converts a gRPC status, from the server or from a proxy, to an error. */
export function errorFromStatus(code: StatusCode, message: string, context: Partial<ErrorContext> = {}): EtcdError {
  const reason = serverReason(message);
  return new EtcdError(problemOf(code, message), {
    code,
    reason: reason ?? (code === 'Unavailable' ? 'ConnectionLost' : 'Other'),
    outcome: outcomeOf(code, reason, message),
    ...context,
  });
}

/** Converts the printed form of an error, such as the `cancel_reason` of a watch, to an error. */
export function errorFromText(text: string, context: Partial<ErrorContext> = {}): EtcdError {
  const [, name, message = text] = GO_PRINTED.exec(text) ?? [];
  const reason = serverReason(message) ?? serverReason(`etcdserver: ${message}`);
  const code = reason === undefined ? printedCode(name) : statusOfReason(reason);
  return new EtcdError(problemOf(code, message), { code, reason: reason ?? 'Other', outcome: 'rejected', ...context });
}

/** The code with this name. `OK` counts as unknown, because an error cannot have it. */
function printedCode(name: string | undefined): StatusCode {
  return STATUS_CODES.find((code) => code === name && code !== 'OK') ?? 'Unknown';
}

function problemOf(code: StatusCode, message: string): string {
  return message === '' ? `gRPC status ${code}` : message.slice(0, MAX_TEXT_CHARS);
}

/**
 * Only a named error of etcd proves that the server checked the request and refused it. Any other status, above all
 * Unavailable, may come from a server that was killed after it applied the request, or from a proxy.
 */
function outcomeOf(code: StatusCode, reason: ServerReason | undefined, message: string): Outcome {
  if (reason === undefined) {
    return code === 'Unimplemented' && /^unknown (service|method) /.test(message) ? 'rejected' : 'unknown';
  }
  if (REFUSED_AFTER_APPLYING.has(reason)) return 'unknown';
  if (REFUSED_UNPROCESSED.has(reason)) return 'rejected';
  // Checks both codes, because the lock and election services forward errors with status Unknown.
  return INCONCLUSIVE.has(code) || INCONCLUSIVE.has(statusOfReason(reason)) ? 'unknown' : 'rejected';
}
