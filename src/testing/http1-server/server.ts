import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { latin1Of } from '../../base/index.js';
import { type Clock, realTime } from '../memory/clock.js';
import type { Service } from '../memory/service.js';
import { Gateway } from './gateway.js';
import { sendText } from './messages.js';

/** A page that a server shows to an HTTP client. */
export interface Page {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** The part of `URLSearchParams` that pages read. */
export interface Query {
  has(name: string): boolean;
  getAll(name: string): string[];
}

/** A service that also has pages besides the gateway, such as `/health`. */
export interface HttpService extends Service {
  /** The major version of grpc-gateway whose errors the JSON gateway sends. Default: 2. */
  readonly gatewayErrors?: 1 | 2;
  /** Returns a page, or undefined if the service has none at this path. */
  page?(method: string, path: string, query: Query): Page | undefined;
}

/** The fields that allow pages of any origin to use the server: `addCORSHeader` in etcd's `embed/serve.go`. */
const CORS = {
  'access-control-allow-headers': 'accept, content-type, authorization',
  'access-control-allow-methods': 'POST, GET, OPTIONS, PUT, DELETE',
  'access-control-allow-origin': '*',
} as const;

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'CONNECT'];

/**
 * Whether a connection that begins with these bytes uses HTTP/1.1. Undefined if more bytes are needed to know. etcd
 * decides in the same way: see `cmux.HTTP1` in the package cmux.
 */
export function isHttp1(start: Uint8Array): boolean | undefined {
  const text = latin1Of(start.subarray(0, 8));
  if (METHODS.some((method) => text.startsWith(`${method} `))) return true;
  return METHODS.some((method) => `${method} `.startsWith(text)) ? undefined : false;
}

/**
 * Serves HTTP/1.1: the JSON gateway and the pages of a service. `node:http` reads the requests and writes the
 * responses.
 *
 * @internal
 */
export class Http1Server {
  readonly #http = createServer({ keepAliveTimeout: 0 }, (request, response) => this.#serve(request, response));
  readonly #service: HttpService;
  readonly #gateway: Gateway;

  constructor(service: HttpService, endpoint: string, clock: Clock = realTime) {
    this.#service = service;
    this.#gateway = new Gateway({ service, clock, endpoint, errors: service.gatewayErrors ?? 2 });
  }

  /** Serves a connection whose first bytes are `start`. */
  accept(socket: Socket, start: Uint8Array): void {
    socket.pause();
    socket.unshift(start);
    this.#http.emit('connection', socket);
    socket.resume();
  }

  #serve(request: IncomingMessage, response: ServerResponse): void {
    for (const [name, value] of Object.entries(CORS)) response.setHeader(name, value);
    if (request.method === 'OPTIONS') return void response.writeHead(200, { 'content-length': 0 }).end();
    const url = urlOf(request);
    if (url === undefined) return sendText(response, 400, 'Bad Request', { connection: 'close' });
    const path = url.pathname.replace(/^\/v3beta\//, '/v3/');
    if (path.startsWith('/v3/')) return void this.#gateway.serve(path, request, response);
    const page = this.#service.page?.(request.method ?? '', path, url.searchParams);
    if (page === undefined) return sendText(response, 404, '404 page not found');
    const { status, headers, body } = page;
    response.writeHead(status, { ...headers, 'content-length': Buffer.byteLength(body) }).end(body);
  }
}

/** Returns the URL of a request with a decoded path, or undefined if the URL is malformed. */
function urlOf({ url = '' }: IncomingMessage): { pathname: string; searchParams: URLSearchParams } | undefined {
  const [target = ''] = url.split('#');
  const [path = '', query = ''] = target.replace(/^https?:\/\/[^/?]*/i, '').split(/\?(.*)/s);
  try {
    return { pathname: decodeURIComponent(path), searchParams: new URLSearchParams(query) };
  } catch {
    return undefined;
  }
}
