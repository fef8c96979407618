import {
  type ErrorContext,
  EtcdError,
  errorFromStatus,
  isInEveryEtcd,
  LineSplitter,
  type Outcome,
  readError,
  statusCode,
} from '../../../base/index.js';
import { messageFields } from '../../../gen/descriptors.js';
import { methods } from '../../../gen/methods.js';
import {
  connectFailed,
  decode,
  encode,
  encodeRequest,
  type Init,
  type Metadata,
  type Method,
  responseTooLarge,
} from '../../../wire/index.js';
import { fromJson, isJsonObject, toJson } from '../json/json.js';
import { type AnyMethod, methodByPath } from '../json/method-table.js';
import { gatewayPath } from './rpcs.js';

/** The part of `fetch` that the gateway transport uses: a POST whose response body can be read while it arrives. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface HttpOptions {
  /** Undefined for the `fetch` of the runtime. */
  readonly fetch: Fetch | undefined;
  readonly maxRequestBytes: number;
  /** Whether to send headers that etcd's CORS support does not allow. */
  readonly allHeaders: boolean;
  /** Whether `fetch` may resend a request. */
  readonly mayRepeat: boolean;
}

/** The properties of an RPC method that the client needs to read a response. */
type ResponseMethod<Response> = Pick<Method<unknown, Response>, 'path' | 'response'>;

/**
 * The client accepts at most this many characters of JSON for each byte that a message may have. Base64 makes keys and
 * values a third longer. Field names and decimal numbers make a small message many times longer.
 */
const JSON_CHARACTERS_PER_BYTE = 10;

/** Maximum length of a response text, in characters: a little less than V8's maximum string length of 2^29 - 24. */
const MAX_CHARACTERS = 2 ** 29 - 2 ** 20;

/** About the maximum number of characters that the client reads of an error response. A proxy may send a long page. */
const MAX_ERROR_CHARACTERS = 65_536;

/**
 * Paths of the methods whose responses may lack the field `header`. The response to Alarm lacks this field before etcd
 * 3.5. The responses to the other three methods never have it. All other responses of etcd have a header.
 */
const WITHOUT_HEADER: ReadonlySet<string> = new Set([
  methods.maintenance.alarm.path,
  methods.maintenance.defragment.path,
  methods.maintenance.moveLeader.path,
  methods.maintenance.snapshot.path,
]);

/** Sends POST requests to the JSON gateway of one member, and reads the responses. */
export class GatewayHttp {
  readonly endpoint: string;
  readonly #options: HttpOptions;
  /**
   * Whether etcd's gateway has answered. If so, a later response that is not from the gateway probably comes from a
   * proxy that cannot reach etcd.
   */
  #isKnown = false;

  constructor(endpoint: string, options: HttpOptions) {
    this.endpoint = endpoint;
    this.#options = options;
  }

  /**
   * Checks the request, and returns it as a message of etcd's own codec, with every field set.
   *
   * @throws EtcdError with reason `NotInGateway` if the gateway does not offer the method; with reason `InvalidInput`
   * if a value does not fit the type of its field, or if the request is longer than `maxRequestBytes`.
   */
  message<Request>(method: Method<Request, unknown>, request: Init<Request>): unknown {
    if (gatewayPath(method) === undefined) throw this.unsupported(method);
    // Encoding the request applies the same checks as the other transports, and supports the caller's own codecs.
    const bytes = encodeRequest(method, request, this.#options.maxRequestBytes);
    return decode(schemaOf(method).request, bytes);
  }

  /** Returns the JSON body for a message that `GatewayHttp.message` has returned. */
  body(method: { readonly path: string }, message: unknown): string {
    return JSON.stringify(toJson(schemaOf(method).request, message));
  }

  /**
   * Sends a request. Resolves with the response as soon as its headers have arrived.
   *
   * @throws EtcdError if `fetch` does not check certificates or fails, or if the HTTP status is not 2xx.
   */
  async post(
    method: ResponseMethod<unknown>,
    body: string,
    metadata: Metadata,
    signal: AbortSignal,
  ): Promise<Response> {
    const url = `${this.endpoint}${gatewayPath(method)}`;
    const headers = this.#headers(metadata);
    const { fetch = runtimeFetch } = this.#options;
    if (fetch === runtimeFetch && url.startsWith('https:') && trustsEveryServer())
      throw connectFailed({ url: this.endpoint, tls: true }, UNCHECKED);
    let response: Response;
    try {
      // etcd never redirects. Following a redirect would send a write to a server that the caller has not named.
      response = await fetch(url, { method: 'POST', body, headers, signal, redirect: 'manual' });
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
    throw errorFromResponse(response.status, text, this.#contextOf(method), this.#isKnown);
  }

  /**
   * Reads the response to a unary call.
   *
   * @throws EtcdError if the connection breaks, or the response is malformed, longer than `maxBytes`, or an error.
   */
  async unaryResponse<T>(response: Response, method: ResponseMethod<T>, maxBytes: number): Promise<T> {
    let text = '';
    for await (const chunk of this.#text(response, method)) {
      text += chunk;
      this.#checkLength(text.length, maxBytes, method);
    }
    const json = jsonIn(text);
    if (json === undefined) {
      // When a proxy loses its connection to etcd, it may end the truncated response as if the response were complete.
      if (text.startsWith('{')) throw this.connectionLost(method, 'the response ends early');
      throw this.#malformed(method, 'the response is not JSON');
    }
    // A proxy may send an error with status 200.
    if (isJsonObject(json) && !('header' in json) && ('code' in json || 'error' in json))
      throw errorFromJson(json, this.#contextOf(method));
    return this.#decoded(method, text, json, maxBytes);
  }

  /**
   * Reads the messages of a stream as they arrive. Each line is `{ result }` or `{ error }`.
   *
   * @throws EtcdError if the connection breaks, if a line is malformed or longer than `maxBytes`, or if a line reports
   * an error.
   */
  async *streamMessages<T>(response: Response, method: ResponseMethod<T>, maxBytes: number): AsyncGenerator<T, void> {
    const lines = new LineSplitter();
    for await (const chunk of this.#text(response, method)) {
      for (const line of lines.push(chunk)) if (line.trim() !== '') yield this.#streamMessage(line, method, maxBytes);
      this.#checkLength(lines.rest.length, maxBytes, method);
    }
    if (lines.rest.trim() !== '') yield this.#streamMessage(lines.rest, method, maxBytes, 'last');
  }

  /** Returns the error for a call whose connection broke or did not deliver a response in time. */
  connectionLost(method: { readonly path: string }, problem: string): EtcdError {
    return connectionLost(problem, this.#contextOf(method));
  }

  /** Returns the error for a call that the gateway does not offer, or that the client does not send to the gateway. */
  unsupported(method: { readonly path: string }, problem?: string): EtcdError {
    return unsupported(this.#contextOf(method), 'not-sent', problem);
  }

  #streamMessage<T>(line: string, method: ResponseMethod<T>, maxBytes: number, place?: 'last'): T {
    const json = jsonIn(line);
    if (json === undefined) {
      // Either a proxy lost its connection to etcd and ended the response in the middle of a line, or the proxy sent
      // its own page, such as an error page.
      const isCut = place === 'last' && line.startsWith('{');
      if (isCut || (this.#isKnown && !line.startsWith('{')))
        throw this.connectionLost(method, 'a line of the response is not complete JSON');
      throw this.#malformed(method, 'a line is not JSON');
    }
    if (isJsonObject(json) && 'error' in json) throw errorFromJson(json.error, this.#contextOf(method));
    if (isJsonObject(json) && 'result' in json) return this.#decoded(method, line, json.result, maxBytes);
    if (this.#isKnown) throw this.connectionLost(method, "a line of the response does not come from etcd's gateway");
    throw this.#malformed(method, 'a line has neither result nor error');
  }

  #decoded<T>(method: ResponseMethod<T>, text: string, json: unknown, maxBytes: number): T {
    const codec = schemaOf(method).response;
    // A proxy may send its own JSON, such as a health report.
    if (!mayBeFromEtcd(json, method)) throw this.#malformed(method, 'the JSON does not come from etcd');
    let message: object;
    try {
      message = fromJson(codec, json, { ignoreUnknown: true }) as object;
    } catch (error) {
      throw this.#malformed(method, (error as EtcdError).problem);
    }
    this.#isKnown = true;
    // The encoded message is shorter than its JSON text. So if the text is within the limit, the message is too.
    if (codec === method.response && text.length <= maxBytes) return message as T;
    const bytes = encode(codec, message);
    if (bytes.length > maxBytes) throw responseTooLarge(bytes.length, maxBytes, this.#contextOf(method));
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
    throw responseTooLarge(`more than ${most} characters of JSON`, maxBytes, this.#contextOf(method));
  }

  #headers(metadata: Metadata): Record<string, string> {
    const headers: Record<string, string> = { 'content-type': 'application/json' };
    const { token, ...others } = metadata;
    if (token !== undefined) headers.authorization = token;
    if (this.#options.allHeaders)
      for (const [name, value] of Object.entries(others)) headers[`grpc-metadata-${name}`] = value;
    return headers;
  }

  #contextOf({ path }: { readonly path: string }): ErrorContext {
    return { method: path, endpoint: this.endpoint };
  }

  #malformed(method: { readonly path: string }, problem: string): EtcdError {
    return new EtcdError(`malformed response from the gateway: ${problem}`, {
      code: 'Internal',
      reason: 'MalformedMessage',
      outcome: 'unknown',
      ...this.#contextOf(method),
    });
  }

  /**
   * Returns the error for a rejection of `fetch`. The outcome is `not-sent` only if the error code proves that the
   * runtime could not connect. A runtime that resends requests reports only the failure of the last copy of the
   * request, so the outcome is `unknown` even if the runtime could not connect for that copy.
   */
  #fetchFailed(method: { readonly path: string }, error: unknown): EtcdError {
    // A `fetch` that the caller passed may reject with any value.
    const known = readError(error) === undefined ? {} : error;
    const { code, cause } = known as { readonly code?: unknown; readonly cause?: { readonly code?: unknown } };
    const isUnreached = NEVER_CONNECTED.has(code) || NEVER_CONNECTED.has(cause?.code);
    const why = [cause, error].map((each) => readError(each)?.message).find(Boolean) ?? 'fetch failed';
    if (!isUnreached || this.#options.mayRepeat)
      return connectionLost(`the connection was lost: ${why}`, { ...this.#contextOf(method), cause: error });
    return new EtcdError(`cannot connect to ${this.endpoint}: ${why}`, {
      code: 'Unavailable',
      reason: 'ConnectFailed',
      outcome: 'not-sent',
      ...this.#contextOf(method),
      cause: error,
    });
  }
}

function runtimeFetch(url: string, init: RequestInit): Promise<Response> {
  return globalThis.fetch(url, init);
}

const UNCHECKED =
  'the fetch of this runtime does not check certificates, because NODE_TLS_REJECT_UNAUTHORIZED is 0 or false; unset the ' +
  'variable, or pass a fetch that checks certificates to gateway()';

/**
 * Whether an environment variable turns off the checks of certificates in `fetch`. Node.js reads the variable for each
 * connection, and accepts only 0; Bun also accepts false. The `fetch` of Deno ignores the variable, and reading it there
 * would need a permission.
 */
function trustsEveryServer(): boolean {
  if ('Deno' in globalThis) return false;
  const { process } = globalThis as { readonly process?: { readonly env?: Readonly<Record<string, string>> } };
  const setting = process?.env?.NODE_TLS_REJECT_UNAUTHORIZED;
  return setting === '0' || setting === 'false';
}

/**
 * Error codes that Node.js and Bun use when a connection could not be opened. The errors of browsers have no code.
 * EHOSTUNREACH and ENETUNREACH are not in the list, because an established connection can also end with them.
 */
const NEVER_CONNECTED: ReadonlySet<unknown> = new Set([
  ...['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT'],
  ...['ConnectionRefused', 'FailedToOpenSocket'],
]);

/**
 * Returns etcd's own codecs for a method. The caller's method may have codecs that decode the same bytes to other
 * message objects.
 */
function schemaOf({ path }: { readonly path: string }): Pick<AnyMethod, 'request' | 'response'> {
  return methodByPath.get(path) as AnyMethod;
}

/** Returns the JSON value of a text. Returns undefined if the text is not JSON. */
function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Whether this JSON may be etcd's response to this method. */
function mayBeFromEtcd(json: unknown, method: { readonly path: string }): boolean {
  if (!isJsonObject(json)) return false;
  if ('header' in json) return true;
  if (!WITHOUT_HEADER.has(method.path)) return false;
  const fields = messageFields[schemaOf(method).response.typeName] ?? [];
  const names = Object.keys(json);
  return names.length === 0 || names.some((name) => fields.some((field) => field.name === name));
}

function connectionLost(problem: string, details: ErrorContext & { readonly cause?: unknown }): EtcdError {
  return new EtcdError(problem, { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown', ...details });
}

const UNKNOWN = 2;

/** Converts an error object of the gateway, `{ code, message }`, or `{ error: { code, message } }` in a stream. */
function errorFromJson(json: unknown, call: ErrorContext, httpStatus?: number): EtcdError {
  const outer = isJsonObject(json) ? json : {};
  const { code, grpc_code: oldCode, message, error } = isJsonObject(outer.error) ? outer.error : outer;
  // The gateway itself responds in this way to a path that it does not offer.
  if (httpStatus === 404 && message === 'Not Found') return unsupported(call, 'rejected');
  const number = code ?? oldCode;
  const text = message ?? error;
  // An error never has the code OK (0).
  return errorFromStatus(
    statusCode((typeof number === 'number' && number) || UNKNOWN),
    typeof text === 'string' ? text : '',
    call,
  );
}

/** The response text of etcd's HTTP server, and of the gateway of etcd 3.4, for a path that does not exist. */
const NO_SUCH_PATH = /^(?:404 page not found|Not Found)\s*$/;

/**
 * Returns the error for a response whose HTTP status is not 2xx. A gateway offers the services that every etcd has, so
 * a 404 for a path of these services comes from another server. Once the gateway has answered (`isKnown`), that server
 * must be a proxy, and the client treats the 404 as a temporary failure.
 */
function errorFromResponse(status: number, text: string, call: ErrorContext, isKnown: boolean): EtcdError {
  // Undefined if the text is the page of a proxy, or of a server without a gateway.
  const json = jsonIn(text);
  // A browser reports a redirection as status 0.
  const response = status === 0 ? 'a redirection' : `HTTP ${status}`;
  const fromProxy = connectionLost(`got ${response}, which does not come from etcd's gateway`, call);
  const isFromGateway = isJsonObject(json) && ('code' in json || 'error' in json);
  if (!isFromGateway && status !== 404) return fromProxy;
  const error = isFromGateway
    ? errorFromJson(json, call, status)
    : unsupported(call, NO_SUCH_PATH.test(text) ? 'rejected' : 'unknown');
  if (error.reason !== 'NotInGateway' || !isInEveryEtcd(call)) return error;
  const problem = 'the server has no JSON gateway of etcd at this address (HTTP 404)';
  return isKnown ? fromProxy : new EtcdError(problem, { ...error, reason: 'NotEtcd' });
}

function unsupported(
  call: ErrorContext,
  outcome: Outcome,
  problem = `etcd's JSON gateway does not offer ${call.method.slice(1)}; use another transport for this call`,
): EtcdError {
  return new EtcdError(problem, { code: 'Unimplemented', reason: 'NotInGateway', outcome, ...call });
}
