import { type ErrorContext, EtcdError, type Outcome } from './etcd-error.js';
import { type ServerReason, STATUS_CODES, type StatusCode, serverReason, statusOfReason } from './status.js';

/** The format of a gRPC error that Go has printed. The `cancel_reason` of a watch has this format. */
const GO_PRINTED = /^rpc error: code = (\w+) desc = (.*)$/s;

/** Status codes that do not show whether the request took effect. */
const INCONCLUSIVE: ReadonlySet<StatusCode> = new Set(['Canceled', 'DeadlineExceeded', 'Unavailable', 'DataLoss']);

/**
 * Reasons of refusals after which the write may have taken effect. etcd checks the quota again while it applies a
 * write, and returns `NoSpace` although it applies the write.
 */
const REFUSED_AFTER_APPLYING: ReadonlySet<ServerReason> = new Set(['NoSpace']);

/**
 * Reasons of refusals that prove that the request had no effect, whatever the status is. A learner does not process the
 * requests that it refuses; before etcd 3.6, it refuses them with status Unavailable. Raft drops a proposal before it
 * appends the proposal to its log (`ErrProposalDropped` in raft.go); etcd forwards that error with status Unknown. A
 * member checks whether the cluster is healthy before it proposes a change of the membership (`ErrUnhealthy` in
 * server.go). While the alarm CORRUPT is raised, each member refuses a write instead of applying it (apply/corrupt.go).
 */
const REFUSED_UNPROCESSED: ReadonlySet<ServerReason> = new Set([
  'NotSupportedForLearner',
  'ProposalDropped',
  'Unhealthy',
  'Corrupt',
]);

/** The client truncates longer error texts, such as a long `cancel_reason` of a watch. */
const MAX_TEXT_CHARS = 65_536;

/** Matches the methods of three services that every supported etcd has, except the newer `RangeStream`. */
const IN_EVERY_ETCD = /^\/etcdserverpb\.(?:KV\/(?!RangeStream$)|Watch\/|Lease\/)/;

/** Whether every supported etcd has the service of the method. A server without this service is not etcd. */
export function isInEveryEtcd({ method = '' }: Partial<ErrorContext>): boolean {
  return IN_EVERY_ETCD.test(method);
}

/** Converts a gRPC status that the server or a proxy sent to an error. */
export function errorFromStatus(code: StatusCode, message: string, context: Partial<ErrorContext> = {}): EtcdError {
  const reason = serverReason(message);
  // A server that knows the service, but not the method, may be an etcd of another version.
  const knowsService = message.startsWith('unknown method ');
  const isNotEtcd = reason === undefined && code === 'Unimplemented' && isInEveryEtcd(context) && !knowsService;
  const problem = problemOf(code, message);
  return new EtcdError(isNotEtcd ? `${problem}: the server speaks gRPC, but it is not etcd` : problem, {
    code,
    reason: isNotEtcd ? 'NotEtcd' : (reason ?? (code === 'Unavailable' ? 'ConnectionLost' : 'Other')),
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

/** Returns `Unknown` for an unknown name, and for `OK`, because an error cannot have status `OK`. */
function printedCode(name: string | undefined): StatusCode {
  return STATUS_CODES.find((code) => code === name && code !== 'OK') ?? 'Unknown';
}

function problemOf(code: StatusCode, message: string): string {
  return message === '' ? `gRPC status ${code}` : message.slice(0, MAX_TEXT_CHARS);
}

/**
 * Returns what the status says about the outcome of the request. As a rule, only an error that etcd itself defines (one
 * with a `reason`) proves that the server checked the request and refused it. Any other error, above all an error with
 * status Unavailable, may come from a proxy, or from a server that was killed after it had applied the request.
 */
function outcomeOf(code: StatusCode, reason: ServerReason | undefined, message: string): Outcome {
  if (reason === undefined) {
    return code === 'Unimplemented' && /^unknown (service|method) /.test(message) ? 'rejected' : 'unknown';
  }
  if (REFUSED_AFTER_APPLYING.has(reason)) return 'unknown';
  if (REFUSED_UNPROCESSED.has(reason)) return 'rejected';
  // Checks both the received status and the usual status of the reason, because the lock and election services forward
  // every error with status Unknown.
  return INCONCLUSIVE.has(code) || INCONCLUSIVE.has(statusOfReason(reason)) ? 'unknown' : 'rejected';
}
