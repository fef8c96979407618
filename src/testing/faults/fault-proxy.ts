import { connect, createServer, type Server, type Socket } from 'node:net';
import {
  checkChoice,
  checkFunction,
  checkGivenOptions,
  checkMs,
  checkName,
  checkOptions,
  checkPositiveCount,
  invalidInput,
  oneOf,
} from '../../base/index.js';
import { parseEndpoint } from '../../host/index.js';
import { type BytesTest, hasHeaders } from './bytes-test.js';
import { type Direction, type Pace, pacedPipe, type ThrottleOptions } from './paced-pipe.js';

/** Options of a fault proxy. */
export interface FaultProxyOptions {
  /**
   * Returns the sender's name if the bytes of one read from a client contain it, and otherwise undefined. The latest
   * name applies to the whole connection. Pass this name to `cutOff` to cut off all connections of the sender.
   */
  readonly senderOf?: ((bytes: Uint8Array) => string | undefined) | undefined;
}

const DIRECTIONS = { 'to-server': true, 'to-client': true } as const satisfies Record<Direction, true>;

const PROXY_OPTIONS = { senderOf: checkFunction } as const;

/** One connection through the proxy: the socket to the client, and the socket to the server. */
interface Pair {
  readonly client: Socket;
  readonly server: Socket;
  /** Latest name that `senderOf` returned for this connection; undefined if there was none. */
  sender: string | undefined;
  /** Whether the proxy drops the server's bytes, because `loseNextAnswer` chose this connection. */
  losesAnswer: boolean;
}

const THROTTLE_OPTIONS = {
  bytesPerSecond: checkPositiveCount,
  bufferBytes: checkPositiveCount,
  direction: oneOf(DIRECTIONS),
} as const;
const UNCHANGED: Pace = { delayMs: undefined, sliceBytes: undefined, rate: undefined, paused: false };

/**
 * A TCP proxy that stands in front of one server and causes faults on demand. Runs on Node.js only.
 *
 * @example
 * import { Client } from 'etcdwire';
 * import { FaultProxy } from 'etcdwire/testing';
 *
 * await using proxy = await FaultProxy.start('http://127.0.0.1:2379');
 * await using etcd = new Client({ endpoints: [proxy.endpoint] });
 * proxy.delay(100);
 * await etcd.put('k', 'v');
 * proxy.heal();
 */
export class FaultProxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #port: number;
  readonly #senderOf: FaultProxyOptions['senderOf'];
  readonly #pairs = new Set<Pair>();
  /**
   * Sockets to the server for the requests that `holdNextRequest` holds back. The clients that sent these requests are
   * disconnected.
   */
  readonly #heldRequests = new Set<Socket>();
  /** Directions in which the proxy drops all bytes. */
  readonly #swallowed = new Set<Direction>();
  /** Names of the senders that are cut off. */
  readonly #cutOff = new Set<string>();
  #pace: Pace = UNCHANGED;
  /** Set by `holdNextRequest`. Checks the bytes of each read, and returns true if it held them back. */
  #hold: ((bytes: Uint8Array, pair: Pair) => boolean) | undefined;
  readonly #onBytes = new Set<(direction: Direction, bytes: Uint8Array, pair: Pair) => void>();

  private constructor(server: Server, port: number, { senderOf }: FaultProxyOptions) {
    this.#server = server;
    this.#port = port;
    this.#senderOf = senderOf;
  }

  /**
   * Starts a proxy on a free port of 127.0.0.1. `target` is `http://host:port` or `https://host:port`.
   *
   * @throws EtcdError with reason `InvalidInput` if an option is invalid, or if `target` is not the URL of a TCP port.
   */
  static async start(target: string, options: FaultProxyOptions = {}): Promise<FaultProxy> {
    checkOptions(options, PROXY_OPTIONS, 'FaultProxy.start');
    const { address } = parseEndpoint(target, 'target');
    if (!('host' in address)) throw invalidInput('target', 'a Unix socket', 'the URL of a TCP port');
    const { host, port } = address;
    const server = createServer();
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject).listen(0, '127.0.0.1', resolve);
    });
    const proxy = new FaultProxy(server, (server.address() as { port: number }).port, options);
    server.on('connection', (client) => proxy.#accept(client, connect(port, host)));
    return proxy;
  }

  /**
   * URL of the proxy, for a client to use in place of the server's own URL. Its scheme is `http`. If the server uses
   * TLS, the client needs the scheme `https` instead.
   */
  get endpoint(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Port of the proxy on 127.0.0.1. */
  get port(): number {
    return this.#port;
  }

  /** Number of open connections. */
  get connections(): number {
    return this.#pairs.size;
  }

  /** Closes every connection, as a kernel does when a server process dies. The proxy still accepts new connections. */
  dropConnections(): void {
    for (const pair of [...this.#pairs]) this.#end(pair);
  }

  /** Closes every client's connection with a TCP RST. The proxy still accepts new connections. */
  reset(): void {
    for (const pair of [...this.#pairs]) {
      pair.client.resetAndDestroy();
      this.#end(pair);
    }
  }

  /** Stops reading from both sides until `heal`. No bytes are lost, but the socket buffers fill up. */
  pause(): void {
    this.#pace = { ...this.#pace, paused: true };
    for (const pair of this.#pairs) pausePair(pair);
  }

  /** Drops all bytes in both directions, on present and future connections, until `heal`. */
  blackhole(): void {
    this.#swallowed.add('to-server').add('to-client');
  }

  /** Forwards bytes only in the given direction, and drops the bytes of the opposite direction, until `heal`. */
  oneWay(direction: Direction): void {
    checkChoice(DIRECTIONS, direction, 'direction');
    this.#swallowed.add(direction === 'to-server' ? 'to-client' : 'to-server');
  }

  /** Drops all bytes on the connections of the sender with this name, until `heal`. See the option `senderOf`. */
  cutOff(sender: string): void {
    this.#cutOff.add(checkName(sender, 'sender'));
  }

  /** Until `heal`, writes at most this many bytes at a time, so that the receiver reads small pieces. */
  slice(bytes: number): void {
    this.#pace = { ...this.#pace, sliceBytes: checkPositiveCount(bytes, 'bytes') };
  }

  /** Until `heal`, delays all bytes by this many milliseconds, and keeps their order. */
  delay(ms: number): void {
    this.#pace = { ...this.#pace, delayMs: checkMs(ms, 'ms') };
  }

  /**
   * Until `heal`, forwards at most `bytesPerSecond` in each direction of each connection, or only in `direction`, like a
   * slow link with a buffer.
   *
   * @throws EtcdError with reason `InvalidInput` if an option is unknown or out of range.
   */
  throttle(options: ThrottleOptions): void {
    checkGivenOptions(options, THROTTLE_OPTIONS, 'throttle');
    checkPositiveCount(options.bytesPerSecond, 'bytesPerSecond');
    this.#pace = { ...this.#pace, rate: options };
  }

  /**
   * Ends all faults, except a pending `loseNextAnswer` or `holdNextRequest`. If the proxy may have dropped bytes, it
   * closes all connections, because their data is now incomplete.
   */
  heal(): void {
    const lossy = this.#swallowed.size > 0 || this.#cutOff.size > 0;
    this.#swallowed.clear();
    this.#cutOff.clear();
    this.#pace = UNCHANGED;
    if (lossy) this.dropConnections();
    for (const { client, server } of this.#pairs) {
      client.resume();
      server.resume();
    }
  }

  /**
   * Drops the server's answer to the next request for which `isRequest` returns true, and closes the connection that
   * the request came on. Also drops all other bytes of the server on that connection, from the request on. Resolves
   * when that connection is closed. Other connections and faults are not affected.
   */
  async loseNextAnswer(isRequest: BytesTest): Promise<void> {
    checkFunction(isRequest, 'isRequest');
    return new Promise((resolve) => {
      let chosen: Pair | undefined;
      const listener = (direction: Direction, bytes: Uint8Array, pair: Pair): void => {
        const isOpen = chosen !== undefined && this.#pairs.has(chosen);
        if (direction === 'to-server' && !isOpen && isRequest(bytes)) {
          chosen = pair;
          pair.losesAnswer = true;
        } else if (direction === 'to-client' && pair.losesAnswer && hasHeaders(bytes)) {
          this.#onBytes.delete(listener);
          this.#end(pair);
          resolve();
        }
      };
      this.#onBytes.add(listener);
    });
  }

  /**
   * Holds back the next request for which `isRequest` returns true, and closes the client's side of its connection.
   * Then resolves with a function that forwards the request to the server.
   */
  async holdNextRequest(isRequest: BytesTest): Promise<() => void> {
    checkFunction(isRequest, 'isRequest');
    return new Promise((resolve) => {
      this.#hold = (bytes, pair) => {
        if (!isRequest(bytes)) return false;
        this.#hold = undefined;
        this.#pairs.delete(pair);
        this.#heldRequests.add(pair.server);
        pair.client.removeAllListeners('close').destroy();
        resolve(() => void pair.server.write(bytes));
        return true;
      };
    });
  }

  /** Closes all connections, and accepts no new connections. */
  async close(): Promise<void> {
    this.dropConnections();
    for (const server of this.#heldRequests) server.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** Calls `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #accept(client: Socket, server: Socket): void {
    const pair: Pair = { client, server, sender: undefined, losesAnswer: false };
    this.#pairs.add(pair);
    const end = (): void => this.#end(pair);
    for (const socket of [client, server]) socket.setNoDelay(true).on('error', end).on('close', end);
    const pace = (): Pace => this.#pace;
    const pipes = {
      'to-server': pacedPipe('to-server', client, server, pace),
      'to-client': pacedPipe('to-client', server, client, pace),
    };
    const forward = (direction: Direction, bytes: Uint8Array): void => {
      for (const listener of [...this.#onBytes]) listener(direction, bytes, pair);
      if (!this.#isSwallowed(direction, pair)) pipes[direction](bytes);
    };
    client.on('data', (bytes) => {
      pair.sender = this.#senderOf?.(bytes) ?? pair.sender;
      if (!this.#hold?.(bytes, pair)) forward('to-server', bytes);
    });
    server.on('data', (bytes) => forward('to-client', bytes));
    if (this.#pace.paused) pausePair(pair);
  }

  #end(pair: Pair): void {
    this.#pairs.delete(pair);
    pair.client.destroy();
    pair.server.destroy();
  }

  #isSwallowed(direction: Direction, { sender, losesAnswer }: Pair): boolean {
    if (losesAnswer && direction === 'to-client') return true;
    return this.#swallowed.has(direction) || (sender !== undefined && this.#cutOff.has(sender));
  }
}

function pausePair({ client, server }: Pair): void {
  client.pause();
  server.pause();
}
