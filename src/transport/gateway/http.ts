import { type ErrorContext, EtcdError, type Outcome } from '../../errors/etcd-error.js';
import { statusCode } from '../../errors/status.js';
import { errorFromStatus } from '../../errors/status-error.js';
import { messageFields } from '../../gen/descriptors.js';
import { methods } from '../../gen/methods.js';
import { decode, encode, type Init } from '../../protobuf/codec.js';
import { fromJson, isJsonObject, toJson } from '../../protobuf/json.js';
import { type AnyMethod, methodByPath } from '../../protobuf/method-table.js';
import type { Method } from '../../protobuf/schema.js';
import { LineSplitter } from '../../runtime/bytes.js';
import { encodeRequest, responseTooLarge } from '../messages.js';
import type { Metadata } from '../transport.js';
import { gatewayPath } from './rpcs.js';

/** The part of `fetch` that the gateway uses: it sends a POST, and reads the response body while it arrives. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface HttpOptions {
  readonly fetch: Fetch;
  readonly maxRequestBytes: number;
  /** Whether to send headers that etcd's CORS support does not allow. */
  readonly allHeaders: boolean;
  /** Whether the host may resend a request by itself. */
  readonly mayRepeat: boolean;
}

/** What the reader of a response needs to know of its method. */
export type ResponseMethod<Response> = Pick<Method<unknown, Response>, 'path' | 'response'>;

/**
 * Most characters of JSON for one byte of a message. Base64 makes keys and values a third longer. Field names and
 * decimal numbers make a small message much longer than its few bytes.
 */
const JSON_CHARACTERS_PER_BYTE = 10;

/** A little less than the longest string of V8, 2^29 - 24 characters. */
const MAX_CHARACTERS = 2 ** 29 - 2 ** 20;

/** The client reads this much of an error response. etcd's are short, but a proxy may send a page of any length. */
const MAX_ERROR_CHARACTERS = 65_536;

/**
 * Methods whose responses have no header; Alarm has none before etcd 3.5. All other responses of etcd have a header.
 */
const WITHOUT_HEADER: ReadonlySet<string> = new Set([
  methods.maintenance.alarm.path,
  methods.maintenance.defragment.path,
  methods.maintenance.moveLeader.path,
  methods.maintenance.snapshot.path,
]);

/** Sends POSTs to the gateway of one member, and reads the responses. */
export class GatewayHttp {
  readonly endpoint: string;
  readonly #options: HttpOptions;
  /**
   * Whether etcd's gateway has answered here. Afterwards, a response from anything else counts as a passing failure.
   */
  #isKnown = false;

  constructor(endpoint: string, options: HttpOptions) {
    this.endpoint = endpoint;
    this.#options = options;
  }

  /** The complete message of a request. @throws EtcdError, reason `InvalidInput` or `NotInGateway`. */
  message<Request>(method: Method<Request, unknown>, request: Init<Request>): unknown {
    if (gatewayPath(method) === undefined) throw this.unsupported(method);
    // Encoding first applies the same checks as the other transports, and supports the caller's own codecs.
    const bytes = encodeRequest(method, request, this.#options.maxRequestBytes);
    return decode(schemaOf(method).request, bytes);
  }

  /** The request body for a message from `message`. */
  body(method: { readonly path: string }, message: unknown): string {
    return JSON.stringify(toJson(schemaOf(method).request, message));
  }

  /** Resolves with the response once its headers are here. @throws EtcdError, if the status is not one of success. */
  async post(
    method: ResponseMethod<unknown>,
    body: string,
    metadata: Metadata,
    signal: AbortSignal,
  ): Promise<Response> {
    const url = `${this.endpoint}${gatewayPath(method)}`;
    const headers = this.#headers(metadata);
    let response: Response;
    try {
      // etcd never redirects. Following a redirect would repeat a write on a host that the caller has not named.
      response = await this.#options.fetch(url, { method: 'POST', body, headers, signal, redirect: 'manual' });
    } catch (error) {
      throw this.#fetchFailed(method, error);
    }
    if (response.ok) return response;
    let text = '';
    if (response.body !== null)
      for await (const chunk of this.#text(response, method)) {
        text += chunk;
        if (text.length > MAX_ERROR_CHARACTERS) break;
      }
    throw errorFromResponse(response.status, text, this.#call(method), this.#isKnown);
  }

  /** Reads the response to a unary call. @throws EtcdError */
  async unaryResponse<T>(response: Response, method: ResponseMethod<T>, maxBytes: number): Promise<T> {
    let text = '';
    for await (const chunk of this.#text(response, method)) {
      text += chunk;
      this.#checkLength(text.length, maxBytes, method);
    }
    let json: unknown;
    try {
      json = JSON.parse(text);
    } catch {
      // Some proxies end a truncated response as if it were complete.
      if (text.startsWith('{')) throw this.connectionLost(method, 'the response ends early');
      throw this.#malformed(method, 'the response is not JSON');
    }
    // A proxy may send an error with status 200.
    if (isJsonObject(json) && !('header' in json) && ('code' in json || 'error' in json))
      throw errorFromJson(json, this.#call(method));
    return this.#decoded(method, text, json, maxBytes);
  }

  /** Reads the messages of a stream as they arrive, one a line: `{ result }` or `{ error }`. @throws EtcdError */
  async *streamMessages<T>(response: Response, method: ResponseMethod<T>, maxBytes: number): AsyncGenerator<T, void> {
    const lines = new LineSplitter();
    for await (const chunk of this.#text(response, method)) {
      for (const line of lines.push(chunk)) if (line.trim() !== '') yield this.#streamMessage(line, method, maxBytes);
      this.#checkLength(lines.rest.length, maxBytes, method);
    }
    if (lines.rest.trim() !== '') yield this.#streamMessage(lines.rest, method, maxBytes, 'last');
  }

  /** The error of a call whose connection failed, or failed to deliver a response in time. */
  connectionLost(method: { readonly path: string }, problem: string): EtcdError {
    return connectionLost(problem, this.#call(method));
  }

  /** The error of a request that the gateway does not offer, or that the client does not send over the gateway. */
  unsupported(method: { readonly path: string }, problem?: string): EtcdError {
    return unsupported(this.#call(method), 'not-sent', problem);
  }

  #streamMessage<T>(line: string, method: ResponseMethod<T>, maxBytes: number, place?: 'last'): T {
    let json: unknown;
    try {
      json = JSON.parse(line);
    } catch {
      // The connection ended within a line and a proxy hides that, or a proxy sent a page of its own.
      const isCut = place === 'last' && line.startsWith('{');
      if (isCut || (this.#isKnown && !line.startsWith('{')))
        throw this.connectionLost(method, 'a line of the response is not complete JSON');
      throw this.#malformed(method, 'a line is not JSON');
    }
    if (isJsonObject(json) && 'error' in json) throw errorFromJson(json.error, this.#call(method));
    if (isJsonObject(json) && 'result' in json) return this.#decoded(method, line, json.result, maxBytes);
    if (this.#isKnown) throw this.connectionLost(method, "a line of the response does not come from etcd's gateway");
    throw this.#malformed(method, 'a line has neither result nor error');
  }

  #decoded<T>(method: ResponseMethod<T>, text: string, json: unknown, maxBytes: number): T {
    const codec = schemaOf(method).response;
    // A proxy may send JSON of its own, such as a health report.
    if (!mayBeFromEtcd(json, method)) throw this.#malformed(method, 'the JSON does not come from etcd');
    let message: object;
    try {
      message = fromJson(codec, json, { ignoreUnknown: true }) as object;
    } catch (error) {
      throw this.#malformed(method, (error as EtcdError).problem);
    }
    this.#isKnown = true;
    // A message is shorter than its JSON text, so a short text needs no encoding to prove its length.
    if (codec === method.response && text.length <= maxBytes) return message as T;
    const bytes = encode(codec, message);
    if (bytes.length > maxBytes) throw responseTooLarge(bytes.length, maxBytes, this.#call(method));
    return codec === method.response ? (message as T) : decode(method.response, bytes);
  }

  async *#text(response: Response, method: ResponseMethod<unknown>): AsyncGenerator<string, void> {
    if (response.body === null) throw this.#malformed(method, 'the response has no body');
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    try {
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        yield decoder.decode(read.value, { stream: true });
      }
    } catch (error) {
      throw error instanceof EtcdError ? error : this.#fetchFailed(method, error);
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  #checkLength(characters: number, maxBytes: number, method: ResponseMethod<unknown>): void {
    const most = Math.min(maxBytes * JSON_CHARACTERS_PER_BYTE, MAX_CHARACTERS);
    if (characters <= most) return;
    throw responseTooLarge(`more than ${most} characters of JSON`, maxBytes, this.#call(method));
  }

  #headers(metadata: Metadata): Record<string, string> {
    const headers: Record<string, string> = { 'content-type': 'application/json' };
    const { token, ...others } = metadata;
    if (token !== undefined) headers.authorization = token;
    if (this.#options.allHeaders)
      for (const [name, value] of Object.entries(others)) headers[`grpc-metadata-${name}`] = value;
    return headers;
  }

  #call({ path }: { readonly path: string }): ErrorContext {
    return { method: path, endpoint: this.endpoint };
  }

  #malformed(method: { readonly path: string }, problem: string): EtcdError {
    return new EtcdError(`malformed response from the gateway: ${problem}`, {
      code: 'Internal',
      reason: 'MalformedMessage',
      outcome: 'unknown',
      ...this.#call(method),
    });
  }

  /**
   * The error for a failure of `fetch` itself. Most hosts do not tell whether the request had left, so the outcome is
   * unknown. A host that resends requests reports the failure of its last copy only.
   */
  #fetchFailed(method: { readonly path: string }, error: unknown): EtcdError {
    const { code, cause } = error as { readonly code?: unknown; readonly cause?: { readonly code?: unknown } };
    const isUnreached = NEVER_CONNECTED.has(code) || NEVER_CONNECTED.has(cause?.code);
    const why = [cause, error].map((each) => (each as Error | undefined)?.message).find(Boolean) ?? 'fetch failed';
    if (!isUnreached || this.#options.mayRepeat)
      return connectionLost(`the connection was lost: ${why}`, { ...this.#call(method), cause: error });
    return new EtcdError(`cannot connect to ${this.endpoint}: ${why}`, {
      code: 'Unavailable',
      reason: 'ConnectFailed',
      outcome: 'not-sent',
      ...this.#call(method),
      cause: error,
    });
  }
}

/**
 * Error codes of Node.js and Bun for a host that does not exist, or on which no process listens. Browsers give no code.
 * EHOSTUNREACH and ENETUNREACH are missing, because an established connection can end with them.
 */
const NEVER_CONNECTED: ReadonlySet<unknown> = new Set([
  ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT'],
  ...['ConnectionRefused', 'FailedToOpenSocket'],
]);

/** Converts a response of etcd's schema to one of the method's own codec. */
export function responseFor<T>(method: ResponseMethod<T>, message: unknown): T {
  const codec = schemaOf(method).response;
  return codec === method.response ? (message as T) : decode(method.response, encode(codec, message as object));
}

/** etcd's own codecs of a method. A caller may pass other codecs, which make other messages of the same bytes. */
function schemaOf({ path }: { readonly path: string }): Pick<AnyMethod, 'request' | 'response'> {
  return methodByPath.get(path) as AnyMethod;
}

/** Whether etcd may have sent this JSON as a response of this method. */
function mayBeFromEtcd(json: unknown, method: { readonly path: string }): boolean {
  if (!isJsonObject(json)) return false;
  if ('header' in json) return true;
  if (!WITHOUT_HEADER.has(method.path)) return false;
  const fields = messageFields[schemaOf(method).response.typeName] ?? [];
  const names = Object.keys(json);
  return names.length === 0 || names.some((name) => fields.some((field) => field.name === name));
}

export function connectionLost(problem: string, details: ErrorContext & { readonly cause?: unknown }): EtcdError {
  return new EtcdError(problem, { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown', ...details });
}

/** gRPC status `Unknown`. */
const UNKNOWN = 2;

/** The error in a response: `{ code, message }`, or in a stream `{ error: { code, message } }`. */
function errorFromJson(json: unknown, call: ErrorContext, httpStatus?: number): EtcdError {
  const { code, grpc_code: oldCode, message, error } = isJsonObject(json) ? json : {};
  if (isJsonObject(error)) return errorFromJson(error, call, httpStatus);
  // The gateway's own response for a path that it does not know.
  if (httpStatus === 404 && message === 'Not Found') return unsupported(call, 'rejected');
  // An error never has the code OK (0).
  const number = Number(code ?? oldCode) || UNKNOWN;
  const text = message ?? error;
  return errorFromStatus(statusCode(number), typeof text === 'string' ? text : '', call);
}

/** Text that etcd's HTTP server and the gateway of etcd 3.4 send for a path that they do not know. */
const NO_SUCH_PATH = /^(?:404 page not found|Not Found)\s*$/;

/** Services that every supported version of the gateway offers. */
const IN_EVERY_GATEWAY = /^\/etcdserverpb\.(?:KV|Watch|Lease)\//;

/**
 * The error of a response whose HTTP status is not one of success. After the gateway has answered once (`isKnown`), a
 * 404 for a path that every gateway has comes from a proxy. It is a passing failure, so the client tries again.
 */
function errorFromResponse(status: number, text: string, call: ErrorContext, isKnown: boolean): EtcdError {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    // The page of a proxy, or of a server without a gateway.
  }
  // A browser hides the status of a redirection.
  const response = status === 0 ? 'a redirection' : `HTTP ${status}`;
  const fromProxy = connectionLost(`got ${response}, which does not come from etcd's gateway`, call);
  const isFromGateway = isJsonObject(json) && ('code' in json || 'error' in json);
  if (!isFromGateway && status !== 404) return fromProxy;
  const error = isFromGateway
    ? errorFromJson(json, call, status)
    : unsupported(call, NO_SUCH_PATH.test(text) ? 'rejected' : 'unknown');
  const isPassing = isKnown && status === 404 && IN_EVERY_GATEWAY.test(call.method);
  return isPassing && error.reason === 'NotInGateway' ? fromProxy : error;
}

function unsupported(
  call: ErrorContext,
  outcome: Outcome,
  problem = `etcd's JSON gateway has no ${call.method.slice(1)}`,
): EtcdError {
  return new EtcdError(problem, { code: 'Unimplemented', reason: 'NotInGateway', outcome, ...call });
}
