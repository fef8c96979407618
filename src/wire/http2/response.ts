import {
  type ErrorContext,
  EtcdError,
  errorFromStatus,
  type Outcome,
  type Reason,
  type StatusCode,
  statusCode,
  textOf,
} from '../../base/index.js';
import { ErrorCode, errorCodeName, StreamError } from './frame.js';
import { problemOfField } from './header-reader.js';
import type { HeaderList } from './hpack.js';

// Reads the headers and trailers of a response, and derives the status of a call from how its stream ended:
// https://grpc.github.io/grpc/core/md_doc__p_r_o_t_o_c_o_l-_h_t_t_p2.html

/** The header or trailer fields of a response that gRPC uses, and the result of the checks on all fields. */
export interface ResponseFields {
  /** The value of `:status`; undefined in trailers. */
  readonly httpStatus: number | undefined;
  readonly contentType: string | undefined;
  /** The value of `server`, the name of the program that answered. etcd does not send this field. */
  readonly server: string | undefined;
  /** The value of `content-length`, if the server sent this field. */
  readonly contentLength: number | undefined;
  readonly grpcStatus: number | undefined;
  readonly grpcMessage: string;
  /** Whether the field list exceeds this client's SETTINGS_MAX_HEADER_LIST_SIZE. */
  readonly isTooLarge: boolean;
  /** Why the fields are malformed, or undefined if they are well-formed: RFC 9113, section 8.1.1. */
  readonly malformed: string | undefined;
}

/**
 * Checks that the fields are valid as headers, or as trailers if `trailers` is true.
 *
 * @throws StreamError if the fields are not valid.
 */
export function checkFields(fields: ResponseFields, trailers: boolean): void {
  let problem = fields.malformed;
  if (trailers && fields.httpStatus !== undefined) problem ??= ':status in trailers';
  if (!trailers && fields.httpStatus === undefined) problem ??= 'a response without :status';
  if (problem !== undefined) throw new StreamError(ErrorCode.PROTOCOL_ERROR, problem);
}

/** Picks the fields of a response that gRPC uses, and checks all fields. */
export function responseFields({ fields, isTooLarge }: HeaderList): ResponseFields {
  let httpStatus: number | undefined;
  let contentType: string | undefined;
  let server: string | undefined;
  let contentLength: number | undefined;
  let grpcStatus: number | undefined;
  let grpcMessage = '';
  let malformed: string | undefined;
  let regular = false;
  for (const [name, value] of fields) {
    malformed ??= problemOfField(name, value);
    if (name.startsWith(':')) {
      if (name !== ':status' || regular || httpStatus !== undefined || !/^\d{3}$/.test(value)) {
        malformed ??= 'an invalid pseudo-header field';
      }
      httpStatus = Number(value);
      continue;
    }
    regular = true;
    if (name === 'content-type') contentType = value;
    else if (name === 'server') server = value;
    else if (name === 'grpc-status') grpcStatus = /^\d{1,9}$/.test(value) ? Number(value) : Number.NaN;
    else if (name === 'grpc-message') grpcMessage = percentDecoded(value);
    else if (name === 'content-length') {
      contentLength = Number(value);
      if (!/^\d{1,15}$/.test(value)) malformed ??= 'a content-length that is not a number';
    }
  }
  return { httpStatus, contentType, server, contentLength, grpcStatus, grpcMessage, isTooLarge, malformed };
}

/** Decodes `grpc-message`, which is percent-encoded UTF-8. Leaves invalid escapes as they are. */
export function percentDecoded(text: string): string {
  if (!text.includes('%')) return text;
  const bytes: number[] = [];
  for (let at = 0; at < text.length; at += 1) {
    const encoded = /^%([0-9A-Fa-f]{2})/.exec(text.slice(at, at + 3));
    bytes.push(encoded === null ? text.charCodeAt(at) : Number.parseInt(encoded[1] as string, 16));
    if (encoded !== null) at += 2;
  }
  return textOf(Uint8Array.from(bytes));
}

/** What an answer that is not a gRPC status says: the status of the call, and the reason of its error. */
type Verdict = readonly [code: StatusCode, reason: Reason];

/**
 * The gRPC status for an HTTP status: https://grpc.github.io/grpc/core/md_doc_http-grpc-status-mapping.html. All other
 * HTTP statuses become `Unknown`, and say that the server is not etcd.
 *
 * - `ConnectionLost`: A proxy may send this status because it cannot reach etcd or is overloaded. etcd may answer the
 *   next attempt.
 * - `Other`: The status refuses one request, because it took too long or is too large. Other requests may succeed.
 */
const OF_HTTP: Readonly<Record<number, Verdict>> = {
  400: ['Internal', 'NotEtcd'],
  401: ['Unauthenticated', 'NotEtcd'],
  403: ['PermissionDenied', 'NotEtcd'],
  404: ['Unimplemented', 'NotEtcd'],
  408: ['Unknown', 'Other'],
  413: ['Unknown', 'Other'],
  414: ['Unknown', 'Other'],
  429: ['Unavailable', 'ConnectionLost'],
  431: ['Unknown', 'Other'],
  502: ['Unavailable', 'ConnectionLost'],
  503: ['Unavailable', 'ConnectionLost'],
  504: ['Unavailable', 'ConnectionLost'],
};

/**
 * The gRPC status for each RST_STREAM error code, according to the section "Errors" of the gRPC protocol. All other
 * codes become `Internal`. Codes with reason `ConnectionLost` count as a lost connection, because another attempt may
 * succeed.
 */
const OF_RESET: Readonly<Record<number, Verdict>> = {
  [ErrorCode.NO_ERROR]: ['Internal', 'ConnectionLost'],
  [ErrorCode.INTERNAL_ERROR]: ['Internal', 'ConnectionLost'],
  [ErrorCode.STREAM_CLOSED]: ['Internal', 'ConnectionLost'],
  [ErrorCode.REFUSED_STREAM]: ['Unavailable', 'StreamRefused'],
  [ErrorCode.CANCEL]: ['Canceled', 'ConnectionLost'],
  [ErrorCode.CONNECT_ERROR]: ['Internal', 'ConnectionLost'],
  [ErrorCode.ENHANCE_YOUR_CALM]: ['ResourceExhausted', 'Other'],
  [ErrorCode.INADEQUATE_SECURITY]: ['PermissionDenied', 'Other'],
};

/** Returns the error in the trailers, or undefined for status OK. Headers that end the stream count as trailers. */
export function errorOfTrailers(fields: ResponseFields, where: ErrorContext): EtcdError | undefined {
  const { grpcStatus, grpcMessage } = fields;
  if (grpcStatus === 0) return undefined;
  if (grpcStatus !== undefined) return errorFromStatus(statusCode(grpcStatus), grpcMessage, where);
  const details = { code: 'Unknown', reason: 'Other', outcome: 'unknown', ...where } as const;
  return new EtcdError('the response ended without grpc-status', details);
}

/** Maximum length of a header, with its name, in an error text. */
const MAX_SHOWN_CHARS = 80;

/**
 * Returns the error for headers that do not begin a gRPC response, for example those of a proxy. Returns undefined if
 * the headers begin a gRPC response.
 */
export function errorOfHeaders(fields: ResponseFields, where: ErrorContext): EtcdError | undefined {
  const { httpStatus = 0, contentType = 'none', server } = fields;
  if (httpStatus === 200 && /^application\/grpc(?:$|[+;])/.test(contentType)) return undefined;
  const [code, reason] = OF_HTTP[httpStatus] ?? ['Unknown', 'NotEtcd'];
  const shown = [`content-type: ${contentType}`, ...(server === undefined ? [] : [`server: ${server}`])];
  const headers = shown.map((text) => text.slice(0, MAX_SHOWN_CHARS)).join(', ');
  const problem = `the server answered with HTTP status ${httpStatus} (${headers}), not with a gRPC response`;
  const why = reason === 'NotEtcd' ? ': it is not etcd, or a proxy refused the call' : '';
  return new EtcdError(problem + why, { code, reason, outcome: 'unknown', ...where });
}

/**
 * Returns the error for a stream that the peer ended with RST_STREAM. According to RFC 9113, section 8.7,
 * REFUSED_STREAM means that the server did not process the request. The outcome is `unknown` nevertheless, because if
 * the server behind HAProxy goes away, HAProxy sends REFUSED_STREAM even for a request that it has already forwarded.
 */
export function errorOfReset(code: number, where: ErrorContext): EtcdError {
  const problem = `the peer ended the stream with RST_STREAM, ${errorCodeName(code)}`;
  const [status, reason] = OF_RESET[code] ?? ['Internal', 'Other'];
  return new EtcdError(problem, { code: status, reason, outcome: 'unknown', ...where });
}

/** Returns the error for a stream whose connection has closed or accepts no more streams. */
export function connectionLost(
  problem: string,
  outcome: Outcome,
  where: ErrorContext,
  reason: Reason = 'ConnectionLost',
  cause?: unknown,
): EtcdError {
  return new EtcdError(problem, { code: 'Unavailable', reason, outcome, cause, ...where });
}

/** Returns the error for request headers that are larger than the server allows. */
export function requestHeadersTooLarge(problem: string, where: ErrorContext): EtcdError {
  return new EtcdError(problem, {
    code: 'ResourceExhausted',
    reason: 'HeadersTooLarge',
    outcome: 'not-sent',
    ...where,
  });
}

export function responseHeadersTooLarge(problem: string, where: ErrorContext): EtcdError {
  return new EtcdError(problem, { code: 'ResourceExhausted', reason: 'Other', outcome: 'unknown', ...where });
}

/** Returns the error for a response that violates the protocol. */
export function badResponse(problem: string, reason: Reason, where: ErrorContext): EtcdError {
  return new EtcdError(problem, { code: 'Internal', reason, outcome: 'unknown', ...where });
}
