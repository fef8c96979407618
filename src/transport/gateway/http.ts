import { EtcdError } from '../../errors/etcd-error.js';
import { messageFields } from '../../gen/descriptors.js';
import { methods } from '../../gen/methods.js';
import { decode, encode, type Init } from '../../protobuf/codec.js';
import { fromJson, isJsonObject, toJson } from '../../protobuf/json.js';
import { type AnyMethod, methodByPath } from '../../protobuf/method-table.js';
import type { Method } from '../../protobuf/schema.js';
import { Lines } from '../../runtime/text.js';
import { encodeRequest, responseTooLarge } from '../messages.js';
import type { Metadata } from '../transport.js';
import {
  connectionLost,
  errorFromAnswer,
  errorFromJson,
  fetchFailed,
  malformed,
  notInGateway,
  type Where,
} from './failures.js';
import { gatewayPath } from './paths.js';

/** What is asked of `fetch`: a URL, a POST, and an answer whose body can be read as it comes. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface HttpOptions {
  readonly fetch: Fetch;
  readonly maxRequestBytes: number;
  /** Whether headers other than those that etcd's CORS allows may be sent. */
  readonly allHeaders: boolean;
  /** Whether the host may send a request again by itself. */
  readonly mayRepeat: boolean;
}

/**
 * Characters that a byte of a message may take: base64 makes a third more of keys and values, but names of fields and
 * numbers in decimal make far more of the few bytes of small ones.
 */
const JSON_FACTOR = 10;

/** Somewhat less than a string may have in V8, 2^29 - 24. */
const MAX_CHARACTERS = 2 ** 29 - 2 ** 20;

/** An answer with an error is read up to here: etcd's are short, and a proxy may send a page of any length. */
const MAX_ERROR_CHARACTERS = 65_536;

/** Their answers have no header; that to Alarm has none before etcd 3.5. Every other answer of etcd's has one. */
const WITHOUT_HEADER: ReadonlySet<string> = new Set([
  methods.maintenance.alarm.path,
  methods.maintenance.defragment.path,
  methods.maintenance.moveLeader.path,
  methods.maintenance.snapshot.path,
]);

/** A method, whatever it is asked. */
export type Answers<Response> = Pick<Method<unknown, Response>, 'path' | 'response'>;

/** POSTs to the gateway of one member, and what comes of them. */
export class GatewayHttp {
  readonly endpoint: string;
  readonly #options: HttpOptions;
  /** Whether etcd's gateway has answered here: then an answer of something else passes. */
  #isKnown = false;

  constructor(endpoint: string, options: HttpOptions) {
    this.endpoint = endpoint;
    this.#options = options;
  }

  /** The whole message of a request. @throws EtcdError: reason `InvalidInput`; `NotInGateway`. */
  message<Request>(method: Method<Request, unknown>, request: Init<Request>): unknown {
    if (gatewayPath(method) === undefined) throw notInGateway(method, this.endpoint);
    // By way of the bytes: what is refused elsewhere is refused here, and a codec of the caller's own is understood.
    const bytes = encodeRequest(method, request, this.#options.maxRequestBytes);
    return decode(messagesOf(method).request, bytes);
  }

  /** @throws EtcdError: reason `InvalidInput`; `NotInGateway`. */
  body<Request>(method: Method<Request, unknown>, request: Init<Request>): string {
    return this.bodyOf(method, this.message(method, request));
  }

  /** The same of what `message` gave. */
  bodyOf(method: { readonly path: string }, message: unknown): string {
    return JSON.stringify(toJson(messagesOf(method).request, message));
  }

  /** The answer, once its head is there. @throws EtcdError where it is none of etcd's, or an error. */
  async post(method: Answers<unknown>, body: string, metadata: Metadata, signal: AbortSignal): Promise<Response> {
    const where = this.where(method);
    const url = `${this.endpoint}${gatewayPath(method)}`;
    let response: Response;
    try {
      // etcd sends nobody elsewhere. Who follows does a write again, at a host that nobody has named.
      const redirect = 'manual';
      const headers = this.#headers(metadata);
      response = await this.#options.fetch(url, { method: 'POST', body, headers, signal, redirect });
    } catch (error) {
      throw fetchFailed(error, where, this.#options.mayRepeat);
    }
    if (response.ok) return response;
    let text = '';
    if (response.body !== null)
      for await (const chunk of this.#text(response, method)) {
        text += chunk;
        if (text.length > MAX_ERROR_CHARACTERS) break;
      }
    throw errorFromAnswer(response.status, text, where, this.#isKnown);
  }

  /** The answer to a unary call. @throws EtcdError */
  async answer<T>(response: Response, method: Answers<T>, maxBytes: number): Promise<T> {
    let text = '';
    for await (const chunk of this.#text(response, method)) {
      text += chunk;
      this.#checkLength(text.length, maxBytes, method);
    }
    const json = this.#parsed(text, method);
    // A proxy may answer with status 200 and an error all the same.
    if (isJsonObject(json) && !('header' in json) && ('code' in json || 'error' in json))
      throw errorFromJson(json, this.where(method));
    return this.#message(method, text, json, maxBytes);
  }

  /** The messages of a stream as they come: a line each, `{ result }` or `{ error }`. @throws EtcdError */
  async *messages<T>(response: Response, method: Answers<T>, maxBytes: number): AsyncGenerator<T, void> {
    const lines = new Lines();
    for await (const chunk of this.#text(response, method)) {
      for (const line of lines.push(chunk)) if (line.trim() !== '') yield this.#streamed(line, method, maxBytes);
      this.#checkLength(lines.rest.length, maxBytes, method);
    }
    if (lines.rest.trim() !== '') yield this.#streamed(lines.rest, method, maxBytes, 'last');
  }

  #streamed<T>(line: string, method: Answers<T>, maxBytes: number, place?: 'last'): T {
    const where = this.where(method);
    let json: unknown;
    try {
      json = JSON.parse(line);
    } catch {
      // A connection that ends within a line, with a proxy that does not tell, or the page of a proxy.
      const isCut = place === 'last' && line.startsWith('{');
      if (isCut || (this.#isKnown && !line.startsWith('{')))
        throw connectionLost('a line that is not whole JSON', where);
      throw malformed('no JSON', where);
    }
    if (isJsonObject(json) && 'error' in json) throw errorFromJson(json.error, where);
    if (isJsonObject(json) && 'result' in json) return this.#message(method, line, json.result, maxBytes);
    if (this.#isKnown) throw connectionLost("a line that is not of etcd's gateway", where);
    throw malformed('a line without result or error', where);
  }

  #parsed(text: string, method: Answers<unknown>): unknown {
    try {
      return JSON.parse(text);
    } catch {
      // A proxy may end an answer that broke off as if it were whole.
      if (text.startsWith('{')) throw connectionLost('the answer broke off', this.where(method));
      throw malformed('no JSON', this.where(method));
    }
  }

  #message<T>(method: Answers<T>, text: string, json: unknown, maxBytes: number): T {
    const codec = messagesOf(method).response;
    // Of something between that says "all is well", and does not know of what.
    if (!isFrom(json, method)) throw malformed("not an answer of etcd's", this.where(method));
    let message: object;
    try {
      message = fromJson(codec, json, { ignoreUnknown: true }) as object;
    } catch (error) {
      throw malformed((error as EtcdError).problem, this.where(method));
    }
    this.#isKnown = true;
    // A message is shorter than its text.
    if (codec === method.response && text.length <= maxBytes) return message as T;
    const bytes = encode(codec, message);
    if (bytes.length > maxBytes) throw responseTooLarge(bytes.length, maxBytes, this.where(method));
    return codec === method.response ? (message as T) : decode(method.response, bytes);
  }

  async *#text(response: Response, method: Answers<unknown>): AsyncGenerator<string, void> {
    if (response.body === null) throw malformed('no body', this.where(method));
    const reader = response.body.getReader();
    const decoder = new TextDecoder();
    try {
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        yield decoder.decode(read.value, { stream: true });
      }
    } catch (error) {
      throw error instanceof EtcdError ? error : fetchFailed(error, this.where(method), this.#options.mayRepeat);
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  #checkLength(characters: number, maxBytes: number, method: Answers<unknown>): void {
    const most = Math.min(maxBytes * JSON_FACTOR, MAX_CHARACTERS);
    if (characters <= most) return;
    throw responseTooLarge(`more than ${most} characters of JSON`, maxBytes, this.where(method));
  }

  /** Nothing came in answer to the creation of a watch for so long. */
  notCreated(method: { readonly path: string }, creationMs: number): EtcdError {
    const problem =
      `no answer to the creation of a watch within ${creationMs} ms: a proxy in front of etcd may hold back the ` +
      'streamed answer (nginx: proxy_buffering off), or the host has no connection left for it (browsers have six to ' +
      'one host)';
    return connectionLost(problem, this.where(method));
  }

  /** Nothing was heard of a stream for so long. */
  silent(method: { readonly path: string }, silenceMs: number): EtcdError {
    return connectionLost(`nothing was heard for ${silenceMs} ms`, this.where(method));
  }

  where({ path }: { readonly path: string }): Where {
    return { method: path, endpoint: this.endpoint };
  }

  #headers(metadata: Metadata): Record<string, string> {
    const headers: Record<string, string> = { 'content-type': 'application/json' };
    const { token, ...others } = metadata;
    if (token !== undefined) headers.authorization = token;
    if (this.#options.allHeaders)
      for (const [name, value] of Object.entries(others)) headers[`grpc-metadata-${name}`] = value;
    return headers;
  }
}

/** What the interface has as the answer of a method, as the method's own codec has it. */
export function answerFor<T>(method: Answers<T>, message: unknown): T {
  const codec = messagesOf(method).response;
  return codec === method.response ? (message as T) : decode(method.response, encode(codec, message as object));
}

/** The messages of a method as the interface has them: callers may bring codecs that make more of the same bytes. */
function messagesOf({ path }: { readonly path: string }): Pick<AnyMethod, 'request' | 'response'> {
  return methodByPath.get(path) as AnyMethod;
}

/** Whether the JSON can be etcd's answer to this method. */
function isFrom(json: unknown, method: { readonly path: string }): boolean {
  if (!isJsonObject(json)) return false;
  if ('header' in json) return true;
  if (!WITHOUT_HEADER.has(method.path)) return false;
  const fields = messageFields[messagesOf(method).response.typeName] ?? [];
  const names = Object.keys(json);
  return names.length === 0 || names.some((name) => fields.some((field) => field.name === name));
}
