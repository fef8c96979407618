import { type IncomingMessage, type ServerResponse, STATUS_CODES as STATUS_TEXTS } from 'node:http';
import { EtcdError, STATUS_CODES, type StatusCode } from '../../base/index.js';
import { gatewayMethods } from '../../extras/transports/gateway/index.js';
import {
  type AnyMethod,
  fromJson,
  isJsonObject,
  type JsonObject,
  JsonReader,
  JsonSyntaxError,
  type JsonValue,
  toJson,
} from '../../extras/transports/json/index.js';
import { decode, encode, type Init } from '../../wire/index.js';
import { timeoutOf } from '../http2-server/request.js';
import type { Clock } from '../memory/clock.js';
import {
  CancelableCall,
  checkMessageBytes,
  type RequestSink,
  type Route,
  type Service,
  StatusError,
  statusOfHandler,
  type UnaryRoute,
} from '../memory/service.js';
import { readBody, sendText } from './messages.js';

// This file implements the JSON gateway of etcd. The sources are `embed/serve.go` and the package grpc-gateway. etcd
// 3.5 uses version 1.16 of grpc-gateway, and etcd 3.6 and 3.7 use version 2.26. The two versions differ mainly in the
// errors.

/** The HTTP status of each gRPC status: `HTTPStatusFromCode` in grpc-gateway. */
const HTTP_STATUS: Readonly<Record<StatusCode, number>> = {
  OK: 200,
  Canceled: 499,
  Unknown: 500,
  InvalidArgument: 400,
  DeadlineExceeded: 504,
  NotFound: 404,
  AlreadyExists: 409,
  PermissionDenied: 403,
  ResourceExhausted: 429,
  FailedPrecondition: 400,
  Aborted: 409,
  OutOfRange: 400,
  Unimplemented: 501,
  Internal: 500,
  Unavailable: 503,
  DataLoss: 500,
  Unauthenticated: 401,
};
/** The status of a canceled call in grpc-gateway 1.16. */
const CANCELED_BEFORE_V2 = 408;

const JSON_TYPE = { 'content-type': 'application/json' } as const;
/** The header fields of a response that comes from a gRPC response. */
const RESULT_FIELDS = { ...JSON_TYPE, 'grpc-metadata-content-type': 'application/grpc' } as const;

const METHODS = gatewayMethods();

/** A body may be this many times as long as the largest message, because of base64, field names and whitespace. */
const MAX_BODY_FACTOR = 16;

const GRPC_METADATA = 'grpc-metadata-';

export interface GatewaySettings {
  readonly service: Service;
  readonly clock: Clock;
  /** The URL at which the connections arrive. */
  readonly endpoint: string;
  /** The major version of grpc-gateway whose errors the gateway sends. */
  readonly errors: 1 | 2;
}

/** Offers the methods of a service over HTTP with JSON. */
export class Gateway {
  readonly #settings: GatewaySettings;

  constructor(settings: GatewaySettings) {
    this.#settings = settings;
  }

  /** Answers a request. `path` begins with `/v3/`. */
  async serve(path: string, request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { service } = this.#settings;
    const method = METHODS.get(path);
    if (method === undefined) return this.#misrouted(response, 'NotFound', 404, 'Not Found');
    if (request.method !== 'POST') return this.#misrouted(response, 'Unimplemented', 405, 'Method Not Allowed');
    const body = await readBody(request, MAX_BODY_FACTOR * service.maxMessageBytes);
    if (body === undefined) return sendText(response, 413, 'the body is too large', { connection: 'close' });
    const call = new CancelableCall(metadataOf(request), this.#settings.endpoint);
    try {
      const stopTimer = this.#startTimer(request, response, call);
      response.on('close', () => {
        stopTimer();
        call.cancel();
      });
      const route = service.find(method.path);
      if (method.kind === 'bidi-streaming') this.#stream(route, body, call, response);
      else {
        // An empty body stands for an empty message.
        const [json] = new JsonReader(body).next() ?? [{}];
        // grpc-gateway 1.16 takes null for an empty message.
        const message = this.#message(method, json === null && this.#settings.errors === 1 ? {} : json);
        if ('unary' in route) await this.#unary(route, message, call, response);
        else this.#stream(route, message, call, response);
      }
    } catch (error) {
      this.#fail(response, error);
    }
  }

  async #unary(route: UnaryRoute, request: unknown, call: CancelableCall, response: ServerResponse): Promise<void> {
    const answer = await route.unary(request, call);
    if (response.headersSent || response.destroyed) return;
    const text = JSON.stringify(jsonOf(route.method, answer));
    response.writeHead(200, { ...RESULT_FIELDS, 'content-length': Buffer.byteLength(text) }).end(text);
  }

  /** Serves a call with a stream of responses. `requests` is the only request, or the body with all requests. */
  #stream(route: Route, requests: unknown, call: CancelableCall, response: ServerResponse): void {
    if ('unary' in route) throw new StatusError('Internal', `${route.method.path} is not a streaming method`);
    let isOver = false;
    const end = (error?: unknown): void => {
      if (isOver) return;
      isOver = true;
      if (error !== undefined) return this.#failStream(response, statusOf(error));
      // grpc-gateway 2 sets the content type only when it sends the first message.
      if (!response.headersSent && this.#settings.errors === 1) response.writeHead(200, JSON_TYPE);
      response.end();
    };
    const send = (message: Init<unknown>): void => {
      if (isOver || response.destroyed) return;
      if (!response.headersSent) response.writeHead(200, RESULT_FIELDS);
      response.write(`${JSON.stringify({ result: jsonOf(route.method, message) })}\n`);
    };
    const sink = route.streaming({ send, end }, call);
    response.on('close', () => {
      if (!isOver) sink.canceled();
      isOver = true;
    });
    try {
      if (typeof requests === 'string') this.#sendAll(route.method, requests, sink, () => isOver);
      else sink.message(requests);
      if (!isOver) sink.halfClosed();
    } catch (error) {
      end(error);
    }
  }

  /**
   * Passes all requests in a body to a call. As in etcd, a malformed request does not end the call: the gateway ignores
   * the rest of the body.
   */
  #sendAll(method: AnyMethod, body: string, sink: RequestSink<unknown>, isOver: () => boolean): void {
    const reader = new JsonReader(body);
    while (!isOver()) {
      let message: unknown;
      try {
        const next = reader.next();
        if (next === undefined) return;
        message = this.#message(method, next[0]);
      } catch (error) {
        if (error instanceof StatusError && error.code === 'ResourceExhausted') throw error;
        return;
      }
      sink.message(message);
    }
  }

  /** Returns the message that the JSON of a request describes. */
  #message(method: AnyMethod, json: unknown): unknown {
    if (!isJsonObject(json))
      throw new StatusError('InvalidArgument', 'proto: syntax error: the value is not an object');
    const bytes = encode(method.request, fromJson(method.request, json, { ignoreUnknown: true }) as object);
    checkMessageBytes(this.#settings.service, bytes.length);
    return decode(method.request, bytes);
  }

  /** Starts the timer of the field `grpc-timeout`. Returns a function that stops it. */
  #startTimer(request: IncomingMessage, response: ServerResponse, call: CancelableCall): () => void {
    const given = request.headers['grpc-timeout'];
    if (given === undefined || given === '') return () => {};
    const timeoutMs = timeoutOf(String(given));
    if (typeof timeoutMs === 'string') throw new StatusError('InvalidArgument', `invalid grpc-timeout: ${given}`);
    return this.#settings.clock.after(timeoutMs, () => {
      call.cancel();
      this.#fail(response, new StatusError('DeadlineExceeded', 'context deadline exceeded'));
    });
  }

  /**
   * Answers a request that has an unknown path, or whose HTTP method is not POST. grpc-gateway 1.16 sends a text, and
   * grpc-gateway 2 sends JSON.
   */
  #misrouted(response: ServerResponse, code: StatusCode, status: number, text: string): void {
    if (this.#settings.errors === 1) sendText(response, status, text);
    else this.#fail(response, new StatusError(code, text));
  }

  #fail(response: ServerResponse, error: unknown): void {
    if (response.destroyed || response.writableEnded) return;
    const status = statusOf(error);
    if (response.headersSent) return this.#failStream(response, status);
    const { code, message } = status;
    const json = statusJson(code, message);
    const text = JSON.stringify(this.#settings.errors === 1 ? { error: message, ...json } : json);
    response
      .writeHead(this.#httpStatus(code), {
        ...JSON_TYPE,
        'content-length': Buffer.byteLength(text),
        ...(code === 'Unauthenticated' && this.#settings.errors === 2 ? { 'www-authenticate': message } : {}),
      })
      .end(text);
  }

  /** Ends the response of a stream with an error. */
  #failStream(response: ServerResponse, { code, message }: StatusError): void {
    const status = this.#httpStatus(code);
    if (!response.headersSent) response.writeHead(status, JSON_TYPE);
    const json = statusJson(code, message);
    const http = { http_code: status, message, http_status: STATUS_TEXTS[status] };
    const error = this.#settings.errors === 1 ? { grpc_code: json.code, ...http } : json;
    response.end(`${JSON.stringify({ error })}\n`);
  }

  #httpStatus(code: StatusCode): number {
    return code === 'Canceled' && this.#settings.errors === 1 ? CANCELED_BEFORE_V2 : HTTP_STATUS[code];
  }
}

function jsonOf({ response }: AnyMethod, message: Init<unknown>): JsonObject {
  // A handler may leave out fields of its response. Decoding sets them to their default values.
  return toJson(response, decode(response, encode(response, message)));
}

function statusJson(code: StatusCode, message: string): Record<string, JsonValue> {
  return { code: STATUS_CODES.indexOf(code), ...(message === '' ? {} : { message }) };
}

/** Returns the status for an error of the handler or of the request's JSON. */
function statusOf(error: unknown): StatusError {
  if (error instanceof JsonSyntaxError) return new StatusError('InvalidArgument', error.message);
  if (error instanceof EtcdError) return new StatusError('InvalidArgument', `proto: ${error.problem}`);
  return statusOfHandler(error);
}

/**
 * Returns the metadata of the call: `authorization`, and each field whose name begins with `grpc-metadata-`, without
 * this prefix.
 */
function metadataOf({ headers }: IncomingMessage): Record<string, string> {
  const metadata: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    const text = Array.isArray(value) ? value[0] : value;
    if (text === undefined) continue;
    if (name === 'authorization') metadata[name] = text;
    else if (name.startsWith(GRPC_METADATA)) metadata[name.slice(GRPC_METADATA.length)] = text;
  }
  return metadata;
}
