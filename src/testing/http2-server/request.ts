import { type FixedFields, type HeaderList, type Metadata, problemOfField } from '../../wire/index.js';
import { BAD_REQUEST, METHOD_NOT_ALLOWED, UNSUPPORTED_MEDIA_TYPE } from './response-headers.js';

/** A response to a request that is not a valid gRPC request. */
interface Rejection {
  readonly fields: FixedFields;
  /** The status message. */
  readonly message: string;
}

/** The header or trailer fields of a request that the server uses, and the result of the checks on all fields. */
export interface RequestFields {
  /** The value of `:path`. */
  readonly path: string;
  /** The time limit of the call in milliseconds. Infinity for a call without a deadline. */
  readonly timeoutMs: number;
  /** The value of `grpc-encoding`. */
  readonly encoding: string;
  /** The value of `content-length`, if the client sent this field. */
  readonly contentLength: number | undefined;
  readonly metadata: Metadata;
  /** Whether the field list exceeds the server's SETTINGS_MAX_HEADER_LIST_SIZE. */
  readonly isTooLarge: boolean;
  /** Why the fields are malformed as headers, or undefined if they are well-formed: RFC 9113, section 8.1.1. */
  readonly malformed: string | undefined;
  /** Why the fields are malformed as trailers, or undefined if they are well-formed. */
  readonly malformedTrailers: string | undefined;
  /** How the server answers headers that are well-formed, but not a gRPC request. */
  readonly rejection: Rejection | undefined;
}

/** The pseudo-header fields of a request: RFC 9113, section 8.3.1. */
const PSEUDO: ReadonlySet<string> = new Set([':method', ':scheme', ':path', ':authority']);
/**
 * Fields that are not part of the metadata: fields of HTTP, and most of those in `isReservedHeader` of grpc-go,
 * http_util.go.
 */
const RESERVED =
  /^(?:content-type|content-length|te|host|grpc-(?:message-type|encoding|message|status|timeout|accept-encoding))$/;
const GRPC_CONTENT_TYPE = /^application\/grpc(?:$|[+;])/;

/** Picks the fields that the server uses, and checks all fields. */
export function requestFields({ fields, isTooLarge }: HeaderList): RequestFields {
  const pseudo = new Map<string, string>();
  const metadata: Record<string, string> = Object.create(null);
  let contentType = '';
  let timeout: string | undefined;
  let encoding = '';
  let contentLength: number | undefined;
  let hosts = 0;
  let regular = false;
  let problem: string | undefined;
  for (const [name, value] of fields) {
    problem ??= problemOfField(name, value);
    if (name.startsWith(':')) {
      if (!PSEUDO.has(name) || regular || pseudo.has(name)) problem ??= 'an invalid pseudo-header field';
      pseudo.set(name, value);
      continue;
    }
    regular = true;
    if (name === 'content-type') contentType = value;
    else if (name === 'grpc-timeout') timeout = value;
    else if (name === 'grpc-encoding') encoding = value;
    else if (name === 'host') hosts += 1;
    else if (name === 'te' && value !== 'trailers') problem ??= 'a field te other than "trailers"';
    else if (name === 'content-length') {
      contentLength = Number(value);
      if (!/^\d{1,15}$/.test(value)) problem ??= 'a content-length that is not a number';
    }
    // grpc-go passes all values of a field to the service. etcd uses only the first value.
    if (!RESERVED.test(name)) metadata[name] ??= value;
  }
  const path = pseudo.get(':path') ?? '';
  const method = pseudo.get(':method') ?? '';
  const isComplete = path !== '' && method !== '' && pseudo.has(':scheme');
  const timeoutMs = timeout === undefined ? Number.POSITIVE_INFINITY : timeoutOf(timeout);
  return {
    path,
    timeoutMs: typeof timeoutMs === 'number' ? timeoutMs : 0,
    encoding,
    contentLength,
    metadata,
    isTooLarge,
    malformed: problem ?? (isComplete ? undefined : 'a request without :method, :scheme or :path'),
    malformedTrailers: problem ?? (pseudo.size > 0 ? 'a pseudo-header field in trailers' : undefined),
    rejection: rejectionOf(method, contentType, timeoutMs, pseudo.has(':authority') ? 1 : 0, hosts),
  };
}

/** Applies the checks of grpc-go, in its order: `operateHeaders` in http2_server.go. */
function rejectionOf(
  method: string,
  contentType: string,
  timeoutMs: number | string,
  authorities: number,
  hosts: number,
): Rejection | undefined {
  if (hosts > 1) {
    const message = `num values of :authority: ${authorities}, num values of host: ${hosts}, both must only have 1 value as per HTTP/2 spec`;
    return { fields: BAD_REQUEST, message };
  }
  if (!GRPC_CONTENT_TYPE.test(contentType)) {
    const message = `invalid gRPC request content-type ${quoted(contentType)}`;
    return { fields: UNSUPPORTED_MEDIA_TYPE, message };
  }
  if (typeof timeoutMs === 'string') return { fields: BAD_REQUEST, message: `malformed grpc-timeout: ${timeoutMs}` };
  if (method === 'POST') return undefined;
  const message = `Received a HEADERS frame with :method ${quoted(method)} which should be POST`;
  return { fields: METHOD_NOT_ALLOWED, message };
}

/** The units of `grpc-timeout`, in milliseconds. */
const TIMEOUT_UNITS: Readonly<Record<string, number>> = {
  H: 3_600_000,
  M: 60_000,
  S: 1_000,
  m: 1,
  u: 1e-3,
  n: 1e-6,
};

/** Returns the timeout in milliseconds, or grpc-go's text of the error: `decodeTimeout` in http_util.go. */
export function timeoutOf(value: string): number | string {
  if (value.length < 2) return `transport: timeout string is too short: ${quoted(value)}`;
  if (value.length > 9) return `transport: timeout string is too long: ${quoted(value)}`;
  const unit = TIMEOUT_UNITS[value.slice(-1)];
  if (unit === undefined) return `transport: timeout unit is not recognized: ${quoted(value)}`;
  const amount = value.slice(0, -1);
  if (!/^\d+$/.test(amount)) return `strconv.ParseUint: parsing ${quoted(amount)}: invalid syntax`;
  return Number(amount) * unit;
}

/** Quotes a text as Go's `%q` does. `JSON.stringify` gives the same result for printable ASCII. */
function quoted(text: string): string {
  return JSON.stringify(text);
}
