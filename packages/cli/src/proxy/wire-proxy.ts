import { once } from 'node:events';
import { connect as connectHttp2, type IncomingHttpHeaders } from 'node:http2';
import {
  type AddressInfo,
  createServer,
  type NetConnectOpts,
  type Server,
  type Socket,
  connect as tcpConnect,
} from 'node:net';
import { createSecureContext, TLSSocket, connect as tlsConnect } from 'node:tls';
import {
  after,
  CONNECTION_PREFACE,
  concatBytes,
  type Endpoint,
  escapeControls,
  monotonicMs,
  NO_BYTES,
  pause,
  percentDecoded,
  type TlsOptions,
  textOf,
  tlsOptions,
} from '../../../../src/internal.js';
import { beginsHttp2, type TcpAddress } from '../inspect/index.js';
import { FaultRules } from './fault-rules.js';
import type { Copy } from './http2-requests.js';
import { Relay } from './relay.js';
import { type RequestGate, requestGate } from './request-gate.js';
import { addressText, type Traffic } from './traffic.js';

/** Time limit in milliseconds for opening a connection to a member. */
const DIAL_TIMEOUT_MS = 5_000;
/** Default time limit in milliseconds for the TLS handshake and the first bytes, and for the head of each request. */
const REQUEST_TIMEOUT_MS = 60_000;
/** Time limit in milliseconds for the copy of a request. */
const COPY_TIMEOUT_MS = 10_000;

/** The certificate that the proxy shows to its clients, and its private key, in PEM. */
export interface ProxyTls {
  readonly cert: string;
  readonly key: string;
  /** The authorities that sign the certificates of clients. Without them, clients need no certificate. */
  readonly clientCa?: string | undefined;
}

export interface WireProxyOptions {
  readonly host: string;
  readonly port: number;
  /** Undefined for a proxy without TLS. */
  readonly listenTls?: ProxyTls | undefined;
  /** The members. A connection goes to the first one that accepts it; the next connection begins with the next one. */
  readonly members: readonly Endpoint[];
  /** TLS options for members whose URL begins with `https:`. */
  readonly memberTls?: TlsOptions | undefined;
  /** Default: no faults. */
  readonly rules?: FaultRules;
  /** Names of this host, besides `host` and localhost, that requests of HTTP/1.1 may contain. Default: none. */
  readonly allowHosts?: readonly string[];
  /** Whether a connection may change to another protocol, such as WebSocket. Default: false. */
  readonly allowUpgrades?: boolean;
  /** Time limit in milliseconds for the first bytes of a connection, and for the head of each request. Default: 60,000. */
  readonly requestTimeoutMs?: number;
  readonly traffic: Traffic;
  /** Receives problems as text without control characters. */
  readonly onProblem: (problem: string) => void;
  /** The number of connections so far. Several proxies share it, so that their connections have different numbers. */
  readonly counter?: { connections: number };
}

/**
 * A proxy between any clients and a cluster. It forwards the bytes of each connection unchanged, and reports each
 * frame. The proxy ends TLS on both sides, because it could not read the bytes otherwise.
 */
export class WireProxy {
  readonly url: string;
  readonly #options: WireProxyOptions;
  readonly #server: Server;
  readonly #relays = new Set<Relay>();
  /** The open sockets to clients and members. */
  readonly #sockets = new Set<Socket>();
  readonly #stopping = new AbortController();
  readonly #gate: RequestGate;
  readonly #counter: { connections: number };
  #dialed = 0;

  private constructor(server: Server, options: WireProxyOptions) {
    this.#server = server;
    this.#options = options;
    const { allowHosts = [], allowUpgrades = false, listenTls, counter = { connections: 0 } } = options;
    const { cert, key, clientCa } = listenTls ?? {};
    this.#counter = counter;
    this.#gate = requestGate({ hosts: [options.host, ...allowHosts], cert, allowUpgrades });
    const { port } = server.address() as AddressInfo;
    this.url = `${listenTls === undefined ? 'http' : 'https'}://${addressText({ host: options.host, port })}`;
    const secureContext = listenTls && createSecureContext({ cert, key, ca: clientCa });
    server.on('connection', (socket: Socket) => {
      this.#add(socket);
      const stopTimer = after(options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS, () => {
        this.#problem(`${addressText(addressOf(socket))}: closed, because no request has arrived in time`);
        socket.destroy();
      });
      socket.on('close', stopTimer);
      if (secureContext === undefined) return void this.#accept(socket, socket, stopTimer);
      const tls = new TLSSocket(socket, {
        isServer: true,
        secureContext,
        ALPNProtocols: ['h2', 'http/1.1'],
        requestCert: clientCa !== undefined,
        rejectUnauthorized: clientCa !== undefined,
      });
      tls.on('error', (error) => {
        this.#problem(`${addressText(addressOf(socket))}: the TLS handshake failed: ${error.message}`);
        socket.destroy();
      });
      tls.once('secure', () => void this.#accept(socket, tls, stopTimer));
    });
  }

  /** @throws Error if the proxy cannot listen at the port. */
  static async start(options: WireProxyOptions): Promise<WireProxy> {
    const server = createServer({ noDelay: true, allowHalfOpen: false });
    server.listen(options.port, options.host);
    await once(server, 'listening');
    return new WireProxy(server, options);
  }

  /** Closes all connections, accepts no new ones, and sends no more copies of requests. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    for (const relay of this.#relays) relay.close();
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => void this.#server.close(() => resolve()));
  }

  #add(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => {}).on('close', () => this.#sockets.delete(socket));
  }

  /** The text may contain a text of a server or a client, which a terminal must not execute. */
  #problem(problem: string): void {
    // What fails because the proxy stops is no problem.
    if (this.#stopping.signal.aborted) return;
    this.#options.onProblem(escapeControls(problem));
  }

  /** `client` is the connection above TLS, or the socket if there is no TLS. `stopTimer` ends the wait for a request. */
  async #accept(socket: Socket, client: Socket, stopTimer: () => void): Promise<void> {
    const first = await firstBytes(client);
    stopTimer();
    if (first === undefined) return;
    client.unshift(first);
    const isHttp2 = beginsHttp2(first);
    const dialed = await this.#dial(isHttp2);
    if (dialed === undefined || client.destroyed) {
      dialed?.server.destroy();
      return void socket.destroy();
    }
    const { endpoint, server } = dialed;
    this.#counter.connections += 1;
    const { connections: connection } = this.#counter;
    const { url } = endpoint;
    const certificateName = client instanceof TLSSocket ? commonNameOf(client) : undefined;
    const addresses = { client: addressOf(socket), server: addressOf(server) };
    const { rules = new FaultRules(), traffic } = this.#options;
    traffic.opened?.({ connection, ...addresses, endpoint: url, certificateName, atMs: monotonicMs() });
    const headTimeoutMs = this.#options.requestTimeoutMs ?? REQUEST_TIMEOUT_MS;
    const sendCopy = (copy: Copy): void => this.#sendCopy(endpoint, copy);
    const onProblem = (problem: string): void => this.#problem(problem);
    const place = { client, server, isHttp2, connection, endpoint: url };
    const options = { ...place, rules, gate: this.#gate, headTimeoutMs, traffic, sendCopy, onProblem };
    const relay: Relay = new Relay(options, () => {
      this.#relays.delete(relay);
      socket.destroy();
      traffic.closed?.(connection, monotonicMs());
    });
    this.#relays.add(relay);
    client.resume();
  }

  /** Connects to a member. Returns undefined if no member accepts the connection. */
  async #dial(isHttp2: boolean): Promise<{ readonly endpoint: Endpoint; readonly server: Socket } | undefined> {
    const { members } = this.#options;
    const start = this.#dialed++;
    for (let index = 0; index < members.length && !this.#stopping.signal.aborted; index += 1) {
      const endpoint = members[(start + index) % members.length] as Endpoint;
      try {
        return { endpoint, server: await this.#connect(endpoint, isHttp2) };
      } catch (error) {
        this.#problem(`cannot connect to ${endpoint.url}: ${(error as Error).message}`);
      }
    }
    return undefined;
  }

  async #connect(endpoint: Endpoint, isHttp2: boolean): Promise<Socket> {
    const { address } = endpoint;
    const place: NetConnectOpts =
      'path' in address ? { path: address.path } : { host: address.host, port: address.port, noDelay: true };
    const socket = endpoint.tls
      ? tlsConnect({
          ...place,
          ...tlsOptions(endpoint, this.#options.memberTls),
          ALPNProtocols: [isHttp2 ? 'h2' : 'http/1.1'],
        })
      : tcpConnect(place);
    this.#add(socket);
    const stopTimer = after(DIAL_TIMEOUT_MS, () => socket.destroy(new Error('it did not answer in time')));
    try {
      await once(socket, endpoint.tls ? 'secureConnect' : 'connect', { signal: this.#stopping.signal });
    } catch (error) {
      socket.destroy();
      throw error;
    } finally {
      stopTimer();
    }
    return socket;
  }

  /** Sends a request again on another connection. Reports an error in the answer, and ignores the rest of the answer. */
  #sendCopy(endpoint: Endpoint, { delayMs, request }: Copy): void {
    let hasFailed = false;
    const failed = ({ message }: Error): void => {
      if (!hasFailed) this.#problem(`the copy of a request failed: ${message}`);
      hasFailed = true;
    };
    const send = async (): Promise<void> => {
      const { signal } = this.#stopping;
      await pause(delayMs, signal);
      if (signal.aborted) return;
      const isHttp2 = !(request instanceof Uint8Array);
      const server = await this.#connect(endpoint, isHttp2);
      after(COPY_TIMEOUT_MS, () => server.destroy(), 'background');
      let problem = 'no answer';
      const closed = (): void => {
        if (problem !== '') failed(new Error(problem));
      };
      if (request instanceof Uint8Array) {
        server.on('error', failed).on('close', closed).write(request);
        server.once('data', (answer: Uint8Array) => {
          const [, status = ''] = /^HTTP\/1\.1 (\d+)/.exec(textOf(answer)) ?? [];
          problem = status === '200' ? '' : `HTTP status ${status}`;
          server.destroy();
        });
        return;
      }
      const session = connectHttp2(endpoint.url.replace(/^unix:.*/, 'http://localhost'), {
        createConnection: () => server,
      });
      session.on('error', failed);
      const call = session.request(Object.fromEntries(request.fields));
      // A stream such as Watch answers, and has no status until it ends.
      const answered = (fields: IncomingHttpHeaders): void => {
        const { 'grpc-status': status = '0', 'grpc-message': message = '' } = fields;
        problem = status === '0' ? '' : `status ${status}: ${percentDecoded(`${message}`)}`;
      };
      call.on('response', answered).on('trailers', answered).on('error', failed);
      call.on('close', () => {
        closed();
        session.close();
      });
      call.resume();
      call.end(request.data);
    };
    void send().catch(failed);
  }
}

/**
 * Resolves with the first bytes of a connection, as soon as they tell the version of HTTP. Resolves with undefined if
 * the connection closes before.
 */
function firstBytes(client: Socket): Promise<Uint8Array | undefined> {
  return new Promise((resolve) => {
    let first: Uint8Array = NO_BYTES;
    const read = (bytes: Uint8Array): void => {
      first = concatBytes(first, bytes);
      if (first.length < CONNECTION_PREFACE.length && beginsHttp2(first)) return;
      client.off('data', read).pause();
      resolve(first);
    };
    client.on('data', read).once('close', () => resolve(undefined));
  });
}

function commonNameOf(socket: TLSSocket): string | undefined {
  const name = socket.getPeerCertificate().subject?.CN as string | readonly string[] | undefined;
  return typeof name === 'object' ? name[0] : name;
}

/** Returns the address of the peer. A Unix socket has none, so a recording shows a made-up one. */
function addressOf({ remoteAddress = '127.0.0.1', remotePort = 0 }: Socket): TcpAddress {
  return { host: remoteAddress.replace(/^::ffff:/, ''), port: remotePort };
}
