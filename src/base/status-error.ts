import { type ErrorContext, EtcdError, type Outcome } from './etcd-error.js';
import { provesNoEffect } from './refusals.js';
import { type ServerReason, STATUS_CODES, type StatusCode, serverReason, statusOfReason } from './status.js';

/** The format of a gRPC error that Go has printed. The `cancel_reason` of a watch has this format. */
const GO_PRINTED = /^rpc error: code = (\w+) desc = (.*)$/s;

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
  const remedy = reason === 'NoSpace' ? '; compact with physical: true, then defragment' : '';
  const problem = problemOf(code, message) + remedy;
  return new EtcdError(isNotEtcd ? `${problem}: the server speaks gRPC, but it is not etcd` : problem, {
    code,
    reason: isNotEtcd ? 'NotEtcd' : (reason ?? (code === 'Unavailable' ? 'ConnectionLost' : 'Other')),
    outcome: outcomeOf(code, reason, message, context.method),
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
function outcomeOf(code: StatusCode, reason: ServerReason | undefined, message: string, method?: string): Outcome {
  const isProof =
    reason === undefined
      ? code === 'Unimplemented' && /^unknown (service|method) /.test(message)
      : provesNoEffect(code, reason, method);
  return isProof ? 'rejected' : 'unknown';
}
