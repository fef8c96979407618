import { createServer, type Server, type Socket } from 'node:net';
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls';
import {
  checkCount,
  checkedLaterAll,
  checkFields,
  checkName,
  checkOptions,
  checkPositiveCount,
  concatBytes,
  invalidInput,
  show,
} from '../../base/index.js';
import { overSocket } from '../../host/node.js';
import { Http1Server, type HttpService, isHttp1 } from '../http1-server/server.js';
import { checkClock } from '../memory/clock.js';
import { type MemoryEtcd, membersOf } from '../memory/memory-etcd.js';
import type { MemoryMember } from '../memory/memory-member.js';
import type { ServerConnection } from './connection.js';
import { Http2Server, type Http2ServerOptions } from './server.js';

/** A service that can be reached at a port. */
interface PortService extends HttpService {
  /** Adds the URL of the port to the member list. Returns a function that removes it. */
  advertise?(url: string): () => void;
}

/** Options of `listen`. */
export interface ListenOptions extends Http2ServerOptions {
  /** Address to listen at. Default: 127.0.0.1. */
  readonly host?: string | undefined;
  /** Port number. Default: 0, which chooses a free port. */
  readonly port?: number | undefined;
  /**
   * The certificate of the server and its private key, in PEM format. The port then accepts only TLS, and its URL
   * begins with `https:`. Default: no TLS.
   */
  readonly tls?: ServerTls | undefined;
}

/**
 * The certificate of a server.
 *
 * @example
 * const serve = (tls: ServerTls) => listen(new MemoryEtcd(), { tls });
 * const open = async () => serve({ cert: await readFile('server.crt'), key: await readFile('server.key') });
 */
export interface ServerTls {
  /** The certificate and its intermediate certificates. It must name the host of the URL. */
  readonly cert: string | Uint8Array;
  /** The private key of `cert`. It must not be encrypted. */
  readonly key: string | Uint8Array;
}

const MAX_PORT = 65_535;

const LISTEN_OPTIONS = {
  host: checkName,
  port: checkPort,
  tls: checkServerTls,
  clock: checkClock,
  maxConcurrentStreams: checkPositiveCount,
  maxReceiveBytes: checkPositiveCount,
  minPingIntervalMs: checkCount,
} as const;

const TLS_OPTIONS = checkedLaterAll('cert', 'key');

/**
 * Opens a port at which other programs, such as etcdctl and curl, reach the server: a `MemoryEtcd` with one member, or
 * one of several members. Like a real member, the port serves
 * gRPC over HTTP/2. Over HTTP/1.1, it serves the JSON gateway at `/v3/`, and the pages `/health`, `/livez`, `/readyz`,
 * `/version` and `/metrics`. The member list of the server contains the URL of the port while the port is open. While
 * the server is stopped, the port resets each new connection. Runs on Node.js only.
 *
 * @throws EtcdError with reason `InvalidInput` if an option is unknown or out of range; Error if the port is in use.
 *
 * @example
 * const server = new MemoryEtcd();
 * await using listener = await listen(server);
 * await using etcd = new Client({ endpoints: [listener.endpoint] });
 * await etcd.put('color', 'blue');
 */
export async function listen(server: MemoryEtcd | MemoryMember, options: ListenOptions = {}): Promise<Listener> {
  const [member, ...others] = membersOf(server) as [MemoryMember];
  checkOptions(options, LISTEN_OPTIONS, 'listen');
  if (others.length > 0) throw invalidInput('server', 'a MemoryEtcd with several members', 'one of its members');
  return openPort(member, options);
}

/** @throws EtcdError with reason `InvalidInput` unless the options contain a certificate and its private key. */
function checkServerTls(tls: ServerTls): void {
  checkFields(tls, TLS_OPTIONS, 'tls');
  for (const name of ['cert', 'key'] as const)
    if (typeof tls[name] !== 'string' && !(tls[name] instanceof Uint8Array))
      throw invalidInput(`tls.${name}`, show(tls[name]), 'a PEM text, as a string or bytes');
  try {
    createSecureContext(pemOf(tls));
  } catch (error) {
    // The message of `createSecureContext` contains no part of the key.
    throw invalidInput(
      'tls',
      `an unusable pair of cert and key (${(error as Error).message})`,
      'a certificate and its private key',
    );
  }
}

function pemOf({ cert, key }: ServerTls): { readonly cert: string | Buffer; readonly key: string | Buffer } {
  const pem = (text: string | Uint8Array): string | Buffer => (typeof text === 'string' ? text : Buffer.from(text));
  return { cert: pem(cert), key: pem(key) };
}

/** Opens a port for any service. */
export async function openPort(service: PortService, options: ListenOptions = {}): Promise<Listener> {
  const { host = '127.0.0.1', port = 0, tls } = options;
  const tcp = createServer({ noDelay: true });
  await new Promise<void>((resolve, reject) => {
    tcp.once('error', reject).listen(port, host, resolve);
  });
  const { port: opened } = tcp.address() as { port: number };
  const name = host.includes(':') ? `[${host}]` : host;
  return new Listener(service, options, tcp, `${tls === undefined ? 'http' : 'https'}://${name}:${opened}`);
}

/**
 * An open port of a server.
 *
 * @example
 * const listener = await listen(new MemoryEtcd(), { port: 0 });
 * console.log(listener.endpoint.startsWith('http://127.0.0.1:')); // true
 * await listener.close();
 */
export class Listener implements AsyncDisposable {
  /** The URL of the port, for clients. */
  readonly endpoint: string;
  /** The port number. */
  readonly port: number;
  /** @internal The HTTP/2 side of the port. */
  readonly server: Http2Server;
  readonly #service: PortService;
  readonly #http1: Http1Server;
  readonly #tcp: Server;
  readonly #withdraw: (() => void) | undefined;
  /** The open sockets, below TLS. The value is undefined for HTTP/1.1, and while the version of HTTP is unknown. */
  readonly #connections = new Map<Socket, ServerConnection | undefined>();

  /** @internal */
  constructor(service: PortService, options: ListenOptions, tcp: Server, endpoint: string) {
    this.#service = service;
    this.server = new Http2Server(service, options);
    this.#http1 = new Http1Server(service, endpoint, options.clock);
    this.#tcp = tcp;
    this.endpoint = endpoint;
    this.port = (tcp.address() as { port: number }).port;
    this.#withdraw = service.advertise?.(endpoint);
    const secureContext = options.tls === undefined ? undefined : createSecureContext(pemOf(options.tls));
    tcp.on('connection', (socket) => this.#accept(socket, secureContext));
  }

  /**
   * Shuts down the HTTP/2 connections gracefully, with GOAWAY, as etcd does when it ends: open calls finish, and the
   * clients open new calls on new connections.
   */
  leave(): void {
    this.server.leave();
  }

  /** Resets all connections of this port, as a kernel may do when a process dies. The port accepts new connections. */
  reset(): void {
    for (const socket of this.#connections.keys()) socket.resetAndDestroy();
  }

  /**
   * Closes the port and all its connections. Sends GOAWAY before it closes an HTTP/2 connection. Resolves when all
   * connections are closed.
   */
  async close(): Promise<void> {
    this.#withdraw?.();
    for (const [socket, connection] of this.#connections)
      if (connection === undefined) socket.destroy();
      else connection.close();
    await new Promise<void>((resolve) => {
      this.#tcp.close(() => resolve());
    });
  }

  /** Calls `close`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #accept(socket: Socket, secureContext: SecureContext | undefined): void {
    // An error is followed by the event "close".
    socket.on('error', () => {});
    const disconnect =
      this.#service.connect === undefined ? () => {} : this.#service.connect(() => void socket.destroy());
    if (disconnect === undefined) return void socket.resetAndDestroy();
    this.#connections.set(socket, undefined);
    socket.on('close', () => {
      disconnect();
      this.#connections.delete(socket);
    });
    if (secureContext === undefined) return this.#readStart(socket, socket, disconnect);
    const tls = new TLSSocket(socket, { isServer: true, secureContext, ALPNProtocols: ['h2', 'http/1.1'] });
    tls.on('error', () => socket.destroy()).once('secure', () => this.#readStart(socket, tls, disconnect));
  }

  /**
   * Reads the first bytes of a connection, which show the version of HTTP. `stream` is the connection above TLS, or the
   * socket if there is no TLS.
   */
  #readStart(socket: Socket, stream: Socket, disconnect: () => void): void {
    let start: Uint8Array = new Uint8Array(0);
    const read = (bytes: Uint8Array): void => {
      start = concatBytes(start, bytes);
      const isFirst = isHttp1(start);
      if (isFirst === undefined) return;
      stream.off('data', read);
      if (isFirst) return this.#http1.accept(stream, start);
      // Unregisters the socket at the service, because the HTTP/2 connection registers itself.
      disconnect();
      this.#acceptHttp2(socket, stream, start);
    };
    stream.on('data', read);
  }

  #acceptHttp2(socket: Socket, stream: Socket, start: Uint8Array): void {
    let read = (_: Uint8Array): void => {};
    const connection = this.server.accept(this.endpoint, (events) => {
      read = (bytes) => events.read(bytes);
      stream.on('data', read);
      return overSocket(stream, events);
    });
    if (connection === undefined) return void socket.resetAndDestroy();
    this.#connections.set(socket, connection);
    read(start);
  }
}

function checkPort(port: number, argument: string): void {
  if (checkCount(port, argument) > MAX_PORT) throw invalidInput(argument, show(port), 'at most 65535');
}
