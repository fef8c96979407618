import { type ErrorContext, EtcdError, type Outcome, type Reason } from '../../errors/etcd-error.js';
import { type StatusCode, statusCode } from '../../errors/status.js';
import { errorFromStatus } from '../../errors/status-error.js';
import { ErrorCode, errorCodeName } from './error-code.js';
import type { ResponseFields } from './response-headers.js';

/** https://grpc.github.io/grpc/core/md_doc_http-grpc-status-mapping.html */
const OF_HTTP_STATUS: Readonly<Record<number, StatusCode>> = {
  400: 'Internal',
  401: 'Unauthenticated',
  403: 'PermissionDenied',
  404: 'Unimplemented',
  429: 'Unavailable',
  502: 'Unavailable',
  503: 'Unavailable',
  504: 'Unavailable',
};

/** "Errors" in https://grpc.github.io/grpc/core/md_doc__p_r_o_t_o_c_o_l-_h_t_t_p2.html; what is not here is `Internal`. */
const OF_ERROR_CODE: Readonly<Record<number, StatusCode>> = {
  [ErrorCode.REFUSED_STREAM]: 'Unavailable',
  [ErrorCode.CANCEL]: 'Canceled',
  [ErrorCode.ENHANCE_YOUR_CALM]: 'ResourceExhausted',
  [ErrorCode.INADEQUATE_SECURITY]: 'PermissionDenied',
};

/** How the trailers, or headers that stand for them, say that the call ended; undefined for OK. */
export function errorOfTrailers(fields: ResponseFields, where: ErrorContext): EtcdError | undefined {
  const { grpcStatus, grpcMessage } = fields;
  if (grpcStatus === 0) return undefined;
  if (grpcStatus === undefined) return statusError('Unknown', 'the answer ended without grpc-status', where);
  return errorFromStatus(statusCode(grpcStatus), grpcMessage, where);
}

/** Headers that are not those of a gRPC answer: whatever sent them, it was hardly etcd. */
export function errorOfHeaders(fields: ResponseFields, where: ErrorContext): EtcdError | undefined {
  const { httpStatus = 0, contentType = 'none' } = fields;
  if (httpStatus !== 200) {
    return statusError(
      OF_HTTP_STATUS[httpStatus] ?? 'Unknown',
      `HTTP status ${httpStatus} in place of an answer`,
      where,
    );
  }
  if (/^application\/grpc(?:$|[+;])/.test(contentType)) return undefined;
  return statusError('Unknown', 'the content-type is not that of gRPC: no etcd answers there', where);
}

/** The stream broke, without blame for either side: another attempt may do better. */
const BROKE: ReadonlySet<number> = new Set([
  ErrorCode.NO_ERROR,
  ErrorCode.INTERNAL_ERROR,
  ErrorCode.STREAM_CLOSED,
  ErrorCode.CANCEL,
  ErrorCode.CONNECT_ERROR,
]);

/**
 * The peer ended the stream by RST_STREAM. REFUSED_STREAM should mean that nothing was done (RFC 9113, section 8.7), but
 * is no proof: HAProxy says so of requests that it has handed on, when the server behind it goes away.
 */
export function errorOfReset(code: number, where: ErrorContext): EtcdError {
  const problem = `the peer ended the stream: RST_STREAM, ${errorCodeName(code)}`;
  const refused = code === ErrorCode.REFUSED_STREAM;
  return new EtcdError(problem, {
    code: OF_ERROR_CODE[code] ?? 'Internal',
    reason: refused ? 'StreamRefused' : BROKE.has(code) ? 'ConnectionLost' : 'Other',
    outcome: 'unknown',
    ...where,
  });
}

/** Above the last stream of GOAWAY: the connection's peer never looked at the stream. RFC 9113, section 6.8. */
export function notProcessed(problem: string, where: ErrorContext): EtcdError {
  return new EtcdError(problem, { code: 'Unavailable', reason: 'StreamRefused', outcome: 'rejected', ...where });
}

/** The connection ended under the stream. */
export function connectionLost(
  problem: string,
  outcome: Outcome,
  where: ErrorContext,
  reason: Reason = 'ConnectionLost',
): EtcdError {
  return new EtcdError(problem, { code: 'Unavailable', reason, outcome, ...where });
}

/** Of the request, and then not sent, or of the answer. */
export function headersTooLarge(problem: string, outcome: 'not-sent' | 'unknown', where: ErrorContext): EtcdError {
  return new EtcdError(problem, { code: 'ResourceExhausted', reason: 'Other', outcome, ...where });
}

/** This side ended the stream: what came is no answer to the call. */
export function badAnswer(problem: string, reason: Reason, where: ErrorContext): EtcdError {
  return new EtcdError(problem, { code: 'Internal', reason, outcome: 'unknown', ...where });
}

function statusError(code: StatusCode, problem: string, where: ErrorContext): EtcdError {
  const reason = code === 'Unavailable' ? 'ConnectionLost' : 'Other';
  return new EtcdError(problem, { code, reason, outcome: 'unknown', ...where });
}
