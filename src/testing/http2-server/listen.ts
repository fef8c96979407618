import { createServer, type Server, type Socket } from 'node:net';
import { invalidInput } from '../../errors/etcd-error.js';
import { overSocket } from '../../host/node.js';
import { checkCount, checkName, checkOptions, checkPositiveCount, show } from '../../runtime/arguments.js';
import { checkClock } from '../memory/clock.js';
import { checkServer, type MemoryEtcd } from '../memory/memory-etcd.js';
import type { Service } from '../memory/service.js';
import type { ServerConnection } from './connection.js';
import { Http2Server, type Http2ServerOptions } from './server.js';

/** A service that can be reached at a port. */
interface PortService extends Service {
  /** Adds the URL of the port to the member list. Returns a function that removes it. */
  advertise?(url: string): () => void;
}

/** Options of `listen`. */
export interface ListenOptions extends Http2ServerOptions {
  /** Address to listen at. Default: 127.0.0.1. */
  readonly host?: string | undefined;
  /** Port number. Default: 0, which chooses a free port. */
  readonly port?: number | undefined;
}

const MAX_PORT = 65_535;

const LISTEN_OPTIONS = {
  host: checkName,
  port: checkPort,
  clock: checkClock,
  maxConcurrentStreams: checkPositiveCount,
  maxReceiveBytes: checkPositiveCount,
  minPingIntervalMs: checkCount,
} as const;

/**
 * Opens a port at which other programs, such as etcdctl, reach the server over TCP, without TLS. The member list of the
 * server then contains the URL of the port. While the server is stopped, the port resets each new connection. Runs on
 * Node.js only.
 *
 * @throws EtcdError with reason `InvalidInput` if an option is unknown or out of range; Error if the port is in use.
 *
 * @example
 * const server = new MemoryEtcd();
 * await using listener = await listen(server);
 * await using etcd = new Client({ endpoints: [listener.endpoint] });
 * await etcd.put('color', 'blue');
 */
export async function listen(server: MemoryEtcd, options: ListenOptions = {}): Promise<Listener> {
  checkServer(server);
  checkOptions(options, LISTEN_OPTIONS, 'listen');
  return openPort(server, options);
}

/** Opens a port for any service. */
export async function openPort(service: PortService, options: ListenOptions = {}): Promise<Listener> {
  const { host = '127.0.0.1', port = 0 } = options;
  const tcp = createServer({ noDelay: true });
  await new Promise<void>((resolve, reject) => {
    tcp.once('error', reject).listen(port, host, resolve);
  });
  const endpoint = `http://${host.includes(':') ? `[${host}]` : host}:${(tcp.address() as { port: number }).port}`;
  return new Listener(new Http2Server(service, options), tcp, endpoint, service.advertise?.(endpoint));
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
  /** @internal */
  readonly server: Http2Server;
  readonly #tcp: Server;
  readonly #withdraw: (() => void) | undefined;
  readonly #connections = new Map<Socket, ServerConnection>();

  /** @internal */
  constructor(server: Http2Server, tcp: Server, endpoint: string, withdraw?: () => void) {
    this.server = server;
    this.#tcp = tcp;
    this.endpoint = endpoint;
    this.port = (tcp.address() as { port: number }).port;
    this.#withdraw = withdraw;
    tcp.on('connection', (socket) => {
      const connection = server.accept(this.endpoint, (events) => {
        socket.on('data', (bytes) => events.read(bytes));
        return overSocket(socket, events);
      });
      if (connection === undefined) return void socket.on('error', () => {}).resetAndDestroy();
      this.#connections.set(socket, connection);
      socket.on('close', () => this.#connections.delete(socket));
    });
  }

  /**
   * Shuts down all connections gracefully, with GOAWAY, as etcd does when it ends: open calls finish, and the clients
   * open new calls on new connections.
   */
  leave(): void {
    this.server.leave();
  }

  /** Resets all connections of this port, as a kernel may do when a process dies. The port accepts new connections. */
  reset(): void {
    for (const socket of this.#connections.keys()) socket.resetAndDestroy();
  }

  /** Closes the port, and all its connections after GOAWAY. Resolves when all connections are closed. */
  async close(): Promise<void> {
    this.#withdraw?.();
    for (const connection of this.#connections.values()) connection.close();
    await new Promise<void>((resolve) => {
      this.#tcp.close(() => resolve());
    });
  }

  /** Calls `close`. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }
}

function checkPort(port: number, argument: string): void {
  if (checkCount(port, argument) > MAX_PORT) throw invalidInput(argument, show(port), 'at most 65535');
}
