import { EtcdError } from '../errors.js';
import { methods } from '../gen/methods.js';
import { fromJson } from '../json/from-json.js';
import { isJsonObject } from '../json/json-value.js';
import { toJson } from '../json/to-json.js';
import { decode, encode, type Init } from '../protobuf/codec.js';
import type { Method } from '../protobuf/method.js';
import { encodeRequest } from '../transport/encode-request.js';
import { responseTooLarge } from '../transport/response-too-large.js';
import type { Metadata } from '../transport/transport.js';
import { errorFromHttp, errorFromJson, fetchFailed, malformed, notInGateway, type Where } from './failures.js';
import { gatewayPath } from './paths.js';

export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

export interface HttpOptions {
  readonly fetch: Fetch;
  readonly maxRequestBytes: number;
  /** Whether headers other than those that etcd's CORS allows may be sent. */
  readonly allHeaders: boolean;
}

/** Base64 and JSON make a third more of bytes; the rest is names. */
const JSON_FACTOR = 2;

/** A method, whatever it is asked. */
type AnyMethod<Response> = Pick<Method<unknown, Response>, 'path' | 'response'>;

/** POSTs to the gateway of one member, and what comes of them. */
export class GatewayHttp {
  readonly endpoint: string;
  readonly #options: HttpOptions;

  constructor(endpoint: string, options: HttpOptions) {
    this.endpoint = endpoint;
    this.#options = options;
  }

  /** @throws EtcdError: reason `InvalidInput`; `NotInGateway`. */
  body<Request>(method: Method<Request, unknown>, request: Init<Request>): string {
    if (gatewayPath(method) === undefined) throw notInGateway(method, this.endpoint);
    // By way of the bytes: what is refused elsewhere is refused here, and a codec of the caller's own is understood.
    const bytes = encodeRequest(method, request, this.#options.maxRequestBytes);
    const codec = messagesOf(method).request;
    return JSON.stringify(toJson(codec, decode(codec, bytes)));
  }

  /** The answer, once its head is there. @throws EtcdError where it is none of etcd's, or an error. */
  async post(method: AnyMethod<unknown>, body: string, metadata: Metadata, signal: AbortSignal): Promise<Response> {
    const where = this.where(method);
    const url = `${this.endpoint}${gatewayPath(method)}`;
    let response: Response;
    try {
      response = await this.#options.fetch(url, { method: 'POST', body, headers: this.#headers(metadata), signal });
    } catch (error) {
      throw fetchFailed(error, where);
    }
    if (response.ok) return response;
    const text = await response.text().catch((error: unknown) => {
      throw fetchFailed(error, where);
    });
    const json = errorJson(text);
    throw json === undefined ? errorFromHttp(response.status, where) : errorFromJson(json, where);
  }

  /** The answer to a unary call. @throws EtcdError */
  async answer<T>(response: Response, method: AnyMethod<T>, maxBytes: number): Promise<T> {
    let text = '';
    for await (const chunk of this.#text(response, method)) {
      text += chunk;
      this.#checkLength(text.length, maxBytes, method);
    }
    return this.#message(method, this.#parsed(text, method));
  }

  /** The messages of a stream as they come: a line each, `{ result }` or `{ error }`. @throws EtcdError */
  async *messages<T>(response: Response, method: AnyMethod<T>, maxBytes: number): AsyncGenerator<T, void> {
    let text = '';
    for await (const chunk of this.#text(response, method)) {
      const lines = (text + chunk).split('\n');
      text = lines.pop() as string;
      for (const line of lines) if (line !== '') yield this.#streamed(line, method);
      this.#checkLength(text.length, maxBytes, method);
    }
    if (text.trim() !== '') yield this.#streamed(text, method);
  }

  #streamed<T>(line: string, method: AnyMethod<T>): T {
    const json = this.#parsed(line, method);
    if (!isJsonObject(json)) throw malformed('a line that is no object', this.where(method));
    if ('error' in json) throw errorFromJson(json.error, this.where(method));
    return this.#message(method, json.result);
  }

  #parsed(text: string, method: AnyMethod<unknown>): unknown {
    try {
      return JSON.parse(text);
    } catch {
      throw malformed('no JSON', this.where(method));
    }
  }

  #message<T>(method: AnyMethod<T>, json: unknown): T {
    const codec = messagesOf(method).response;
    try {
      const message = fromJson(codec, json, { ignoreUnknown: true });
      return codec === method.response ? (message as T) : decode(method.response, encode(codec, message as object));
    } catch (error) {
      throw malformed((error as EtcdError).problem, this.where(method));
    }
  }

  async *#text(response: Response, method: AnyMethod<unknown>): AsyncGenerator<string, void> {
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const decoder = new TextDecoder();
    try {
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        yield decoder.decode(read.value, { stream: true });
      }
    } catch (error) {
      throw error instanceof EtcdError ? error : fetchFailed(error, this.where(method));
    } finally {
      reader.cancel().catch(() => {});
    }
  }

  #checkLength(characters: number, maxBytes: number, method: AnyMethod<unknown>): void {
    if (characters <= maxBytes * JSON_FACTOR) return;
    throw responseTooLarge(Math.ceil(characters / JSON_FACTOR), maxBytes, this.where(method));
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

const all: ReadonlyMap<string, Method<unknown, unknown>> = new Map(
  Object.values(methods).flatMap((service) =>
    Object.values(service as Record<string, Method<unknown, unknown>>).map((method) => [method.path, method]),
  ),
);

/** The messages of a method as the interface has them: callers may bring codecs that make more of the same bytes. */
function messagesOf({ path }: { readonly path: string }): Pick<Method<unknown, unknown>, 'request' | 'response'> {
  return all.get(path) as Method<unknown, unknown>;
}

/** Undefined where the text is none of the gateway's errors. */
function errorJson(text: string): unknown {
  try {
    const json: unknown = JSON.parse(text);
    return isJsonObject(json) && ('code' in json || 'error' in json) ? json : undefined;
  } catch {
    return undefined;
  }
}
