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
  onAbort,
  oneOf,
} from '../../base/index.js';
import { parseEndpoint } from '../../host/index.js';
import { FrameType } from '../../wire/index.js';
import type { BytesTest } from './bytes-test.js';
import { bytesOfStreams, FrameScanner } from './frame-scanner.js';
import { type Direction, type Pace, PacedPipe, type ThrottleOptions } from './paced-pipe.js';

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
  readonly pipes: Readonly<Record<Direction, PacedPipe>>;
  /** Aborts when both sockets are closed. */
  readonly ended: AbortController;
  /** Latest name that `senderOf` returned for this connection; undefined if there was none. */
  sender: string | undefined;
  /**
   * The streams whose answers `loseNextAnswer` waits for. From the first such stream on, the proxy drops the server's
   * bytes. Undefined before.
   */
  lostStreams: Set<number> | undefined;
}

/** What one read from a client's socket contains. */
interface Sent {
  readonly pair: Pair;
  readonly bytes: Uint8Array;
  readonly streams: ReadonlyMap<number, Uint8Array>;
}

/** A call of `loseNextAnswer` or `holdNextRequest` that waits for a request. */
interface Trap {
  /** Returns whether the bytes contained the request. */
  readonly catches: (sent: Sent) => boolean;
  readonly reject: (error: unknown) => void;
}

/** The types of the frames with which a server answers a request, or refuses the request. */
const ANSWERS: ReadonlySet<number> = new Set([FrameType.DATA, FrameType.HEADERS, FrameType.RST_STREAM]);

const THROTTLE_OPTIONS = {
  bytesPerSecond: checkPositiveCount,
  bufferBytes: checkPositiveCount,
  direction: oneOf(DIRECTIONS),
} as const;
/** The pace without faults. */
const UNCHANGED = { delayMs: undefined, sliceBytes: undefined, rate: undefined, paused: false } as const;

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
  /** Connections with a request that `holdNextRequest` holds back. The sockets to their clients are closed. */
  readonly #held = new Set<Pair>();
  /** Directions in which the proxy drops all bytes. */
  readonly #swallowed = new Set<Direction>();
  /** Names of the senders that are cut off. */
  readonly #cutOff = new Set<string>();
  #paceReplaced = new AbortController();
  #pace: Pace = { ...UNCHANGED, replaced: this.#paceReplaced.signal };
  readonly #traps = new Set<Trap>();

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
    const server = createServer({ allowHalfOpen: true });
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject).listen(0, '127.0.0.1', resolve);
    });
    const proxy = new FaultProxy(server, (server.address() as { port: number }).port, options);
    server.on('connection', (client) => proxy.#accept(client, connect({ port, host, allowHalfOpen: true })));
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
    this.#changePace({ paused: true });
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
    this.#changePace({ sliceBytes: checkPositiveCount(bytes, 'bytes') });
  }

  /** Until `heal`, delays all bytes by this many milliseconds, and keeps their order. */
  delay(ms: number): void {
    this.#changePace({ delayMs: checkMs(ms, 'ms') });
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
    this.#changePace({ rate: options });
  }

  /**
   * Ends all faults, except a pending `loseNextAnswer` or `holdNextRequest`. Forwards delayed bytes at once. If the proxy
   * may have dropped bytes, it closes all connections, because their data is now incomplete.
   */
  heal(): void {
    const lossy = this.#swallowed.size > 0 || this.#cutOff.size > 0;
    this.#swallowed.clear();
    this.#cutOff.clear();
    this.#changePace(UNCHANGED);
    if (lossy) this.dropConnections();
    for (const { pipes } of this.#pairs) for (const pipe of Object.values(pipes)) pipe.resume();
  }

  /**
   * Drops the server's answer to the next request for which `isRequest` returns true, and closes the connection that
   * the request came on. Also drops all other bytes of the server on that connection, from the request on. Resolves
   * when that connection is closed. Other connections and faults are not affected. The connection must use HTTP/2
   * without TLS. `isRequest` receives the bytes that one read contains of one stream.
   *
   * Rejects with the error that `isRequest` throws, and with an Error if the proxy is closed before the request arrives.
   */
  loseNextAnswer(isRequest: BytesTest): Promise<void> {
    return this.#nextRequest(isRequest, ({ pair, streams }, resolve) => {
      const isNext = ([id, bytes]: readonly [number, Uint8Array]): boolean =>
        pair.lostStreams?.has(id) !== true && isRequest(bytes);
      const found = [...streams].find(isNext);
      if (found === undefined) return false;
      pair.lostStreams = (pair.lostStreams ?? new Set()).add(found[0]);
      onAbort(pair.ended.signal, resolve);
      return true;
    });
  }

  /**
   * Holds back the next request for which `isRequest` returns true, and closes the client's side of its connection.
   * Then resolves with a function that forwards the request to the server.
   *
   * Rejects with the error that `isRequest` throws, and with an Error if the proxy is closed before the request arrives.
   */
  holdNextRequest(isRequest: BytesTest): Promise<() => void> {
    return this.#nextRequest(isRequest, ({ pair, bytes }, resolve) => {
      if (!isRequest(bytes)) return false;
      this.#pairs.delete(pair);
      this.#held.add(pair);
      pair.client.destroy();
      resolve(() => pair.pipes['to-server'].push(bytes));
      return true;
    });
  }

  /** Closes all connections, and accepts no new connections. */
  async close(): Promise<void> {
    const closed = new Promise((resolve) => this.#server.close(resolve));
    for (const pair of [...this.#pairs, ...this.#held]) this.#end(pair);
    for (const { reject } of this.#traps) reject(notArrived());
    this.#traps.clear();
    await closed;
  }

  /** Calls `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #changePace(changes: Partial<Pace>): void {
    const before = this.#paceReplaced;
    this.#paceReplaced = new AbortController();
    this.#pace = { ...this.#pace, ...changes, replaced: this.#paceReplaced.signal };
    before.abort();
  }

  /** Passes what clients send to `take`, until `take` returns true because it has found the request. */
  #nextRequest<T>(isRequest: BytesTest, take: (sent: Sent, resolve: (value: T) => void) => boolean): Promise<T> {
    const found = new Promise<T>((resolve, reject) => {
      checkFunction(isRequest, 'isRequest');
      if (!this.#server.listening) throw notArrived();
      this.#traps.add({ catches: (sent) => take(sent, resolve), reject });
    });
    // A test that fails before it awaits this promise must not also report an unhandled rejection.
    found.catch(() => {});
    return found;
  }

  #accept(client: Socket, server: Socket): void {
    const ended = new AbortController();
    const place = { paceNow: () => this.#pace, ended: ended.signal };
    const pipes = {
      'to-server': new PacedPipe({ ...place, direction: 'to-server', from: client, to: server }),
      'to-client': new PacedPipe({ ...place, direction: 'to-client', from: server, to: client }),
    };
    const pair: Pair = { client, server, pipes, ended, sender: undefined, lostStreams: undefined };
    this.#pairs.add(pair);
    for (const socket of [client, server])
      socket
        .setNoDelay(true)
        .on('error', () => this.#end(pair))
        .on('close', () => client.destroyed && server.destroyed && this.#end(pair));
    const sent = new FrameScanner('to-server');
    const received = new FrameScanner('to-client');
    client.on('data', (bytes) => this.#fromClient(pair, bytes, sent)).on('end', () => pipes['to-server'].end());
    server.on('data', (bytes) => this.#fromServer(pair, bytes, received)).on('end', () => pipes['to-client'].end());
    if (this.#pace.paused) pausePair(pair);
  }

  #fromClient(pair: Pair, bytes: Uint8Array, scanner: FrameScanner): void {
    const parts = scanner.scan(bytes);
    pair.sender = this.#senderOf?.(bytes) ?? pair.sender;
    for (const trap of [...this.#traps]) {
      if (!this.#pairs.has(pair)) return;
      try {
        if (trap.catches({ pair, bytes, streams: bytesOfStreams(parts) })) this.#traps.delete(trap);
      } catch (error) {
        this.#traps.delete(trap);
        trap.reject(error);
      }
    }
    if (this.#pairs.has(pair) && !this.#isSwallowed('to-server', pair)) pair.pipes['to-server'].push(bytes);
  }

  #fromServer(pair: Pair, bytes: Uint8Array, scanner: FrameScanner): void {
    for (const { type, streamId, begins } of scanner.scan(bytes))
      if (begins && ANSWERS.has(type)) pair.lostStreams?.delete(streamId);
    if (pair.lostStreams?.size === 0) this.#end(pair);
    else if (!this.#isSwallowed('to-client', pair)) pair.pipes['to-client'].push(bytes);
  }

  #end(pair: Pair): void {
    this.#pairs.delete(pair);
    this.#held.delete(pair);
    pair.client.destroy();
    pair.server.destroy();
    pair.ended.abort();
  }

  #isSwallowed(direction: Direction, { sender, lostStreams }: Pair): boolean {
    if (lostStreams !== undefined && direction === 'to-client') return true;
    return this.#swallowed.has(direction) || (sender !== undefined && this.#cutOff.has(sender));
  }
}

function pausePair({ client, server }: Pair): void {
  client.pause();
  server.pause();
}

function notArrived(): Error {
  return new Error('the fault proxy was closed before a request arrived for which isRequest returns true');
}
