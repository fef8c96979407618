import type { ByteStream, ByteStreamEvents } from '../../host/index.js';
import { type Clock, realTime } from '../memory/clock.js';
import type { Service } from '../memory/service.js';
import { ServerConnection } from './connection.js';
import type { ConnectionSettings } from './stream.js';

/** etcd's default of `--max-concurrent-streams`: no limit. */
const MAX_CONCURRENT_STREAMS = 2 ** 32 - 1;
/** etcd's default of `--grpc-keepalive-min-time`, in milliseconds. */
const MIN_PING_INTERVAL_MS = 5_000;

/** Options of an HTTP/2 server. */
export interface Http2ServerOptions {
  /** The clock of deadlines and of the intervals between pings. Default: the real time. */
  readonly clock?: Clock | undefined;
  /** Maximum number of open streams on a connection: etcd's `--max-concurrent-streams`. Default: 4,294,967,295. */
  readonly maxConcurrentStreams?: number | undefined;
  /** Maximum size of a request in bytes. Default: the maximum of the `MemoryEtcd`. */
  readonly maxReceiveBytes?: number | undefined;
  /**
   * Minimum interval in milliseconds between the pings of a client while streams are open: etcd's
   * `--grpc-keepalive-min-time`. Without open streams, the minimum is two hours. The server closes the connection after
   * more than two early pings. 0 allows all pings. Default: 5,000.
   */
  readonly minPingIntervalMs?: number | undefined;
}

/** Serves gRPC over HTTP/2 on any number of connections. */
export class Http2Server {
  readonly #settings: ConnectionSettings;
  readonly #connections = new Set<ServerConnection>();

  constructor(service: Service, options: Http2ServerOptions = {}) {
    this.#settings = {
      service,
      clock: options.clock ?? realTime,
      maxConcurrentStreams: options.maxConcurrentStreams ?? MAX_CONCURRENT_STREAMS,
      maxReceiveBytes: options.maxReceiveBytes ?? service.maxMessageBytes,
      minPingIntervalMs: options.minPingIntervalMs ?? MIN_PING_INTERVAL_MS,
    };
  }

  /** Number of open connections. */
  get connections(): number {
    return this.#connections.size;
  }

  /**
   * Serves a connection that a client has opened. `endpoint` is the URL that the client uses. `open` receives the
   * callbacks for the events of the byte stream, and returns the byte stream, which is open already. Returns undefined,
   * and does not call `open`, if the service accepts no connections.
   */
  accept(endpoint: string, open: (events: ByteStreamEvents) => ByteStream): ServerConnection | undefined {
    const { service } = this.#settings;
    const disconnect = service.connect === undefined ? ignore : service.connect(() => connection.lose());
    if (disconnect === undefined) return undefined;
    const connection: ServerConnection = new ServerConnection(endpoint, this.#settings, open, () => {
      disconnect();
      this.#connections.delete(connection);
    });
    this.#connections.add(connection);
    return connection;
  }

  /**
   * Shuts down all connections gracefully, with GOAWAY: open calls finish, and the clients open new calls on new
   * connections. A connection closes when its last call has ended.
   */
  leave(): void {
    for (const connection of [...this.#connections]) connection.leave();
  }

  /** Ends all calls, and closes all connections after GOAWAY. The server still accepts new connections. */
  close(): void {
    for (const connection of [...this.#connections]) connection.close();
  }
}

function ignore(): void {}
