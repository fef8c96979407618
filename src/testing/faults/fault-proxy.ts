import { connect, createServer, type Server, type Socket } from 'node:net';
import { invalidInput } from '../../errors/etcd-error.js';
import { parseEndpoint } from '../../host/endpoint.js';
import {
  checkChoice,
  checkFunction,
  checkGivenOptions,
  checkMs,
  checkName,
  checkOptions,
  checkPositiveCount,
  oneOf,
} from '../../runtime/arguments.js';
import { toBytes } from '../../runtime/bytes.js';
import { eventLoopTurn, monotonicMs, pause } from '../../runtime/timers.js';

/**
 * Returns whether the bytes of one read from a socket match a condition. If a message spans several reads, each call
 * receives one piece of the message.
 */
export type BytesTest = (bytes: Uint8Array) => boolean;

/**
 * Returns a function that tests whether bytes contain all of the given parts. A string stands for its UTF-8 bytes.
 *
 * @example
 * import { containing, FaultProxy } from 'etcdwire/testing';
 *
 * await using proxy = await FaultProxy.start('http://127.0.0.1:2379');
 * const lost = proxy.loseNextAnswer(containing('/etcdserverpb.KV/Put'));
 */
export function containing(...parts: readonly (string | Uint8Array)[]): BytesTest {
  const wanted = parts.map((part, index) => Buffer.from(toBytes(part, `parts[${index}]`)));
  return (bytes) => {
    const given = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    return wanted.every((part) => given.includes(part));
  };
}

/** Direction of bytes through a proxy. */
export type Direction = 'to-server' | 'to-client';

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

/** How the proxy forwards bytes. */
interface Pace {
  /** Milliseconds between reading bytes and writing them; undefined for no delay. */
  readonly delayMs: number | undefined;
  /** Maximum number of bytes in one write; undefined for no limit. */
  readonly sliceBytes: number | undefined;
  /** How fast the proxy forwards the bytes of one direction of one connection; undefined for no limit. */
  readonly rate: ThrottleOptions | undefined;
  /** Whether the proxy has stopped reading from both sides. */
  readonly paused: boolean;
}

/**
 * Options of `FaultProxy.throttle`.
 *
 * @example
 * const modem: ThrottleOptions = { bytesPerSecond: 64_000, direction: 'to-client' };
 */
export interface ThrottleOptions {
  /** How many bytes the proxy forwards in a second. */
  readonly bytesPerSecond: number;
  /**
   * How many bytes the proxy reads ahead of what it has forwarded. A large buffer acts like the buffers of kernels,
   * routers and modems: the sender has written its bytes long before they arrive. Default: 4 MiB.
   */
  readonly bufferBytes?: number | undefined;
  /** The direction that is slow. Default: both directions. */
  readonly direction?: Direction | undefined;
}

const THROTTLE_OPTIONS = {
  bytesPerSecond: checkPositiveCount,
  bufferBytes: checkPositiveCount,
  direction: oneOf(DIRECTIONS),
} as const;
const DEFAULT_BUFFER_BYTES = 4 * 1024 * 1024;
/** How many times a second the proxy writes in a throttled direction. */
const WRITES_PER_SECOND = 100;
/** If a write of a throttled proxy is late by up to this many milliseconds, the next writes make up for it. */
const MAX_LATENESS_MS = 100;

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
   * @throws EtcdError with reason `InvalidInput` if `options` has an unknown property; TypeError if `target` is not a
   * URL.
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

  /** URL of the proxy, for a client to use in place of the server's own URL. */
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
   * Until `heal`, forwards at most `bytesPerSecond` in each direction of each connection, like a slow link with a
   * buffer.
   *
   * @throws EtcdError with reason `InvalidInput` if an option is unknown or out of range.
   */
  throttle(options: ThrottleOptions): void {
    checkGivenOptions(options, THROTTLE_OPTIONS, 'throttle');
    checkPositiveCount(options.bytesPerSecond, 'bytesPerSecond');
    this.#pace = { ...this.#pace, rate: options };
  }

  /** Ends all faults. If bytes may have been dropped, closes all connections, because their data is now incomplete. */
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
   * the request came on. Resolves when that connection is closed. Other connections and faults are not affected.
   */
  async loseNextAnswer(isRequest: BytesTest): Promise<void> {
    checkFunction(isRequest, 'isRequest');
    return new Promise((resolve) => {
      const listener = (direction: Direction, bytes: Uint8Array, pair: Pair): void => {
        if (direction === 'to-server' && isRequest(bytes)) pair.losesAnswer = true;
        else if (direction === 'to-client' && pair.losesAnswer && hasHeaders(bytes)) {
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

  /** Closes all connections, and accepts no more. */
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

/**
 * Returns a function that forwards bytes to the socket `to`. It writes the bytes in the order of their arrival, even if
 * the delay changes. Stops reading from the socket `from` while the receiver is slower than the sender, or while the
 * buffer of a throttled direction is full.
 */
function pacedPipe(direction: Direction, from: Socket, to: Socket, paceNow: () => Pace): (bytes: Uint8Array) => void {
  /** Settles when the latest delayed bytes are written; undefined if no bytes are waiting. */
  let last: Promise<void> | undefined;
  /** Number of bytes that were read and not yet written. */
  let waitingBytes = 0;
  /** When a throttled direction may write the next bytes, on the monotonic clock. */
  let freeAt = 0;
  const rateNow = (): ThrottleOptions | undefined => {
    const { rate } = paceNow();
    return rate?.direction === undefined || rate.direction === direction ? rate : undefined;
  };
  const hasRoom = (): boolean => waitingBytes < (rateNow()?.bufferBytes ?? DEFAULT_BUFFER_BYTES);
  const resume = (): void => {
    if (!paceNow().paused && !to.writableNeedDrain && (rateNow() === undefined || hasRoom())) from.resume();
  };
  const write = (bytes: Uint8Array): void => {
    if (!to.destroyed && !to.write(bytes)) from.pause();
  };
  // `write` pauses reading when the buffer of `to` is full. Reading resumes when that buffer is empty again.
  to.on('drain', resume);
  /** Writes the bytes in steps, as fast as the pace allows at each step. */
  const writePaced = async (bytes: Uint8Array): Promise<void> => {
    let at = 0;
    while (at < bytes.length && !to.destroyed) {
      const { sliceBytes } = paceNow();
      const rate = rateNow();
      const stepBytes = rate === undefined ? bytes.length : Math.ceil(rate.bytesPerSecond / WRITES_PER_SECOND);
      const step = bytes.subarray(at, at + Math.min(stepBytes, sliceBytes ?? bytes.length));
      if (rate !== undefined) {
        const now = monotonicMs();
        freeAt = Math.max(now - MAX_LATENESS_MS, freeAt) + (1_000 * step.length) / rate.bytesPerSecond;
        await pause(freeAt - now);
      } else if (at > 0) await eventLoopTurn();
      write(step);
      at += step.length;
      waitingBytes -= step.length;
      if (rate !== undefined) resume();
    }
  };
  return (bytes) => {
    const { delayMs, sliceBytes } = paceNow();
    const isPlain = delayMs === undefined && sliceBytes === undefined && rateNow() === undefined;
    if (last === undefined && isPlain) return write(bytes);
    const arrivedAt = monotonicMs();
    waitingBytes += bytes.length;
    if (rateNow() !== undefined && !hasRoom()) from.pause();
    const sent = (last ?? Promise.resolve()).then(async () => {
      await pause(arrivedAt + (delayMs ?? 0) - monotonicMs());
      await writePaced(bytes);
      if (last === sent) last = undefined;
    });
    last = sent;
  };
}

function pausePair({ client, server }: Pair): void {
  client.pause();
  server.pause();
}

const FRAME_HEADER_BYTES = 9;
const HEADERS = 1;

/**
 * Whether these bytes contain a HEADERS frame, which is the first frame of the server's answer. Frames such as
 * SETTINGS, PING and WINDOW_UPDATE may come before the answer.
 */
function hasHeaders(bytes: Uint8Array): boolean {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at + FRAME_HEADER_BYTES <= bytes.length; at += FRAME_HEADER_BYTES + (view.getUint32(at) >>> 8)) {
    if (bytes[at + 3] === HEADERS) return true;
  }
  return false;
}
