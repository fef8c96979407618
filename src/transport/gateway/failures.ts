import { EtcdError, type Outcome } from '../../errors/etcd-error.js';
import { statusCode } from '../../errors/status.js';
import { errorFromStatus } from '../../errors/status-error.js';
import { isJsonObject } from '../../protobuf/json.js';

/** gRPC's status of what is no other. */
const UNKNOWN = 2;

/** What a failure concerns. */
export interface Where {
  readonly method: string;
  readonly endpoint: string;
}

/**
 * As Node.js, and Bun, say that nobody listens there, or that there is no such host. A browser does not say. That a
 * host is unreachable (EHOSTUNREACH, ENETUNREACH) may be how a connection ends that stood: it is not among them.
 */
const NEVER_CONNECTED: ReadonlySet<unknown> = new Set([
  ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT'],
  ...['ConnectionRefused', 'FailedToOpenSocket'],
]);

/**
 * `fetch` itself failed. Whether the request had left by then most hosts do not tell: then it may have. What a host says
 * that sends requests again concerns its last copy alone.
 */
export function fetchFailed(error: unknown, { method, endpoint }: Where, mayRepeat = false): EtcdError {
  const { code, cause } = error as { readonly code?: unknown; readonly cause?: { readonly code?: unknown } };
  const neverConnected = !mayRepeat && (NEVER_CONNECTED.has(code) || NEVER_CONNECTED.has(cause?.code));
  const why = [cause, error].map((each) => (each as Error | undefined)?.message).find(Boolean) ?? 'fetch failed';
  return new EtcdError(neverConnected ? `cannot connect to ${endpoint}: ${why}` : `the connection was lost: ${why}`, {
    code: 'Unavailable',
    reason: neverConnected ? 'ConnectFailed' : 'ConnectionLost',
    outcome: neverConnected ? 'not-sent' : 'unknown',
    method,
    endpoint,
    cause: error,
  });
}

export function connectionLost(problem: string, where: Where): EtcdError {
  return new EtcdError(problem, { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown', ...where });
}

/** The error in an answer of the gateway: `{ code, message }`, those of streams within `error`. */
export function errorFromJson(json: unknown, where: Where, httpStatus?: number): EtcdError {
  const { code, grpc_code: oldCode, message, error } = isJsonObject(json) ? json : {};
  if (isJsonObject(error)) return errorFromJson(error, where, httpStatus);
  // The gateway's own, for a path that it has not.
  if (httpStatus === 404 && message === 'Not Found')
    return notInGateway({ path: where.method }, where.endpoint, 'rejected');
  // No error is OK.
  const number = Number(code ?? oldCode) || UNKNOWN;
  const text = message ?? error;
  return errorFromStatus(statusCode(number), typeof text === 'string' ? text : '', where);
}

/** What the mux of etcd's server says of a path that it does not have, and etcd 3.4's gateway. */
const NO_SUCH_PATH = /^(?:404 page not found|Not Found)\s*$/;

/** Every version of the gateway that this client speaks to has them. */
const IN_EVERY_GATEWAY = /^\/etcdserverpb\.(?:KV|Watch|Lease)\//;

/**
 * An answer whose HTTP status is not one of success. Where the gateway `isKnown` to be there, a proxy that finds no path
 * to it for a while is no reason to give up.
 */
export function errorFromAnswer(status: number, text: string, where: Where, isKnown: boolean): EtcdError {
  const isPassing = status === 404 && isKnown && IN_EVERY_GATEWAY.test(where.method);
  const error = errorFromText(status, text, where);
  return isPassing && error.reason === 'NotInGateway' ? errorFromProxy(status, where) : error;
}

function errorFromText(status: number, text: string, where: Where): EtcdError {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    // The page of a proxy, or of a server without a gateway.
  }
  if (isJsonObject(json) && ('code' in json || 'error' in json)) return errorFromJson(json, where, status);
  if (status !== 404) return errorFromProxy(status, where);
  return notInGateway({ path: where.method }, where.endpoint, NO_SUCH_PATH.test(text) ? 'rejected' : 'unknown');
}

function errorFromProxy(status: number, where: Where): EtcdError {
  // A browser does not tell the status of a redirection.
  const what = status === 0 ? 'a redirection' : `HTTP ${status}`;
  return connectionLost(`${what}, and nothing that etcd's gateway says`, where);
}

export function notInGateway(
  { path }: { readonly path: string },
  endpoint: string,
  outcome: Outcome = 'not-sent',
): EtcdError {
  return refusal(`etcd's JSON gateway has no ${path.slice(1)}`, path, endpoint, outcome);
}

/** What the gateway cannot do, though it has the RPC. */
export function refusal(problem: string, method: string, endpoint: string, outcome: Outcome = 'not-sent'): EtcdError {
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
