import { EtcdError } from '../errors.js';
import { isJsonObject } from '../json/json-value.js';
import { statusCode } from '../status.js';
import { errorFromStatus } from '../status-error.js';

/** What a failure concerns. */
export interface Where {
  readonly method: string;
  readonly endpoint: string;
}

/** As Node.js, and Bun, say that nobody listens there, or that there is no such host. A browser does not say. */
const NEVER_CONNECTED: ReadonlySet<unknown> = new Set([
  ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'EHOSTUNREACH', 'ENETUNREACH', 'UND_ERR_CONNECT_TIMEOUT'],
  ...['ConnectionRefused', 'FailedToOpenSocket'],
]);

/** `fetch` itself failed. Whether the request had left by then most hosts do not tell: then it may have. */
export function fetchFailed(error: unknown, { method, endpoint }: Where): EtcdError {
  const { code, cause } = error as { readonly code?: unknown; readonly cause?: { readonly code?: unknown } };
  const neverConnected = NEVER_CONNECTED.has(code) || NEVER_CONNECTED.has(cause?.code);
  const why = (cause as Error | undefined)?.message ?? (error instanceof Error ? error.message : 'fetch failed');
  return new EtcdError(neverConnected ? `cannot connect to ${endpoint}: ${why}` : `the connection was lost: ${why}`, {
    code: 'Unavailable',
    reason: neverConnected ? 'ConnectFailed' : 'ConnectionLost',
    outcome: neverConnected ? 'not-sent' : 'unknown',
    method,
    endpoint,
    cause: error,
  });
}

/** The error in an answer of the gateway: `{ code, message }`, those of streams within `error`. */
export function errorFromJson(json: unknown, where: Where): EtcdError {
  const { code, grpc_code: oldCode, message, error } = isJsonObject(json) ? json : {};
  if (isJsonObject(error)) return errorFromJson(error, where);
  const number = Number(code ?? oldCode);
  const text = message ?? error;
  return errorFromStatus(statusCode(number), typeof text === 'string' ? text : '', where);
}

/** An answer that is none of etcd's: of a proxy, or of a server without a gateway. */
export function errorFromHttp(status: number, where: Where): EtcdError {
  if (status === 404) return notInGateway({ path: where.method }, where.endpoint, 'rejected');
  return new EtcdError(`HTTP ${status}, and nothing that etcd's gateway says`, {
    code: 'Unavailable',
    reason: 'ConnectionLost',
    outcome: 'unknown',
    ...where,
  });
}

export function notInGateway(
  { path }: { readonly path: string },
  endpoint: string,
  outcome: 'not-sent' | 'rejected' = 'not-sent',
): EtcdError {
  return refusal(`etcd's JSON gateway has no ${path.slice(1)}`, path, endpoint, outcome);
}

/** What the gateway cannot do, though it has the RPC. */
export function refusal(
  problem: string,
  method: string,
  endpoint: string,
  outcome: 'not-sent' | 'rejected' = 'not-sent',
): EtcdError {
  return new EtcdError(problem, { code: 'Unimplemented', reason: 'NotInGateway', outcome, method, endpoint });
}

export function malformed(problem: string, where: Where): EtcdError {
  return new EtcdError(`malformed answer of the gateway: ${problem}`, {
    code: 'Internal',
    reason: 'MalformedMessage',
    outcome: 'unknown',
    ...where,
  });
}
