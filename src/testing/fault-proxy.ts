import { connect, createServer, type Server, type Socket } from 'node:net';
import { checkOptions } from '../runtime/arguments.js';
import type { BytesTest } from './bytes-test.js';
import { Lane, type Pace } from './lane.js';

/** Which way bytes go through a proxy. */
export type Direction = 'to-server' | 'to-client';

/** How connections are told apart. */
export interface FaultProxyOptions {
  /** Tells from bytes to the server who sends them, for `cutOff`; what it told last holds for their connection. */
  readonly senderOf?: ((bytes: Uint8Array) => string | undefined) | undefined;
}

const PROXY_OPTIONS = { senderOf: true } as const;

interface Pair {
  readonly client: Socket;
  readonly server: Socket;
  sender: string | undefined;
  losesAnswer: boolean;
}

const AS_IT_COMES: Pace = { delayMs: undefined, sliceBytes: undefined, paused: false };

/** A TCP proxy in front of one server, that misbehaves on demand. Only on Node. */
export class FaultProxy implements AsyncDisposable {
  readonly #server: Server;
  readonly #port: number;
  readonly #senderOf: FaultProxyOptions['senderOf'];
  readonly #pairs = new Set<Pair>();
  /** Ways to the server whose clients are gone, for a request that is held up. */
  readonly #heldUp = new Set<Socket>();
  /** What is swallowed instead of forwarded. */
  readonly #swallow = new Set<Direction>();
  readonly #cutOff = new Set<string>();
  #pace: Pace = AS_IT_COMES;
  #hold: ((bytes: Uint8Array, pair: Pair) => boolean) | undefined;
  readonly #onBytes = new Set<(direction: Direction, bytes: Uint8Array, pair: Pair) => void>();

  private constructor(server: Server, port: number, { senderOf }: FaultProxyOptions) {
    this.#server = server;
    this.#port = port;
    this.#senderOf = senderOf;
  }

  /** In front of `target`, `http://host:port` or `https://host:port`; takes connections on 127.0.0.1. */
  static async start(target: string, options: FaultProxyOptions = {}): Promise<FaultProxy> {
    checkOptions(options, PROXY_OPTIONS, 'FaultProxy.start');
    const { hostname, port } = new URL(target);
    const server = createServer();
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject).listen(0, '127.0.0.1', resolve);
    });
    const proxy = new FaultProxy(server, (server.address() as { port: number }).port, options);
    server.on('connection', (client) => proxy.#accept(client, connect(Number(port), hostname)));
    return proxy;
  }

  /** To give to a client in place of the server's own. */
  get endpoint(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** On 127.0.0.1. */
  get port(): number {
    return this.#port;
  }

  /** How many connections there are. */
  get connections(): number {
    return this.#pairs.size;
  }

  /** Ends every connection, as a dying server's kernel does. New ones are taken. */
  dropConnections(): void {
    for (const pair of [...this.#pairs]) this.#end(pair);
  }

  /** Ends every connection with RST. */
  reset(): void {
    for (const pair of [...this.#pairs]) {
      pair.client.resetAndDestroy();
      this.#end(pair);
    }
  }

  /** Reads no more, from either side, until `heal`: nothing is lost, and the buffers on the way fill up. */
  pause(): void {
    this.#pace = { ...this.#pace, paused: true };
    for (const pair of this.#pairs) suspend(pair);
  }

  /** Swallows everything, both ways, on present and future connections. */
  blackhole(): void {
    this.#swallow.add('to-server').add('to-client');
  }

  /** Lets bytes through in one direction only. */
  oneWay(direction: Direction): void {
    this.#swallow.add(direction === 'to-server' ? 'to-client' : 'to-server');
  }

  /** Swallows everything, both ways, on the connections of this sender. */
  cutOff(sender: string): void {
    this.#cutOff.add(sender);
  }

  /** Cuts what it forwards into writes of so many bytes, so that the receiver reads it in pieces. */
  slice(bytes: number): void {
    this.#pace = { ...this.#pace, sliceBytes: bytes };
  }

  /** Forwards everything so many milliseconds late, in order. */
  delay(ms: number): void {
    this.#pace = { ...this.#pace, delayMs: ms };
  }

  /** Forwards again, at once and whole. What was swallowed is gone, so connections that may have lost bytes end. */
  heal(): void {
    const lossy = this.#swallow.size > 0 || this.#cutOff.size > 0;
    this.#swallow.clear();
    this.#cutOff.clear();
    this.#pace = AS_IT_COMES;
    if (lossy) this.dropConnections();
    for (const { client, server } of this.#pairs) {
      client.resume();
      server.resume();
    }
  }

  /**
   * The next answer is lost: what the server sends after the next such request is swallowed and its connection dropped.
   * Resolves when that has happened; other connections and faults stay.
   */
  loseNextAnswer(isRequest: BytesTest): Promise<void> {
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
   * The next such request is held up on its way, and the client's side of its connection dropped. Resolves then, with
   * what lets the request go on to the server.
   */
  holdNextRequest(isRequest: BytesTest): Promise<() => void> {
    return new Promise((resolve) => {
      this.#hold = (bytes, pair) => {
        if (!isRequest(bytes)) return false;
        this.#hold = undefined;
        this.#pairs.delete(pair);
        this.#heldUp.add(pair.server);
        pair.client.removeAllListeners('close').destroy();
        resolve(() => void pair.server.write(bytes));
        return true;
      };
    });
  }

  /** Ends all connections, and takes no more. */
  async close(): Promise<void> {
    this.dropConnections();
    for (const server of this.#heldUp) server.destroy();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  /** As `close`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #accept(client: Socket, server: Socket): void {
    const pair: Pair = { client, server, sender: undefined, losesAnswer: false };
    this.#pairs.add(pair);
    const end = (): void => this.#end(pair);
    for (const socket of [client, server]) socket.setNoDelay(true).on('error', end).on('close', end);
    const pace = (): Pace => this.#pace;
    const lanes = { 'to-server': new Lane(client, server, pace), 'to-client': new Lane(server, client, pace) };
    const forward = (direction: Direction, bytes: Uint8Array): void => {
      for (const listener of [...this.#onBytes]) listener(direction, bytes, pair);
      if (!this.#isSwallowed(direction, pair)) lanes[direction].push(bytes);
    };
    client.on('data', (bytes) => {
      pair.sender = this.#senderOf?.(bytes) ?? pair.sender;
      if (!this.#hold?.(bytes, pair)) forward('to-server', bytes);
    });
    server.on('data', (bytes) => forward('to-client', bytes));
    if (this.#pace.paused) suspend(pair);
  }

  #end(pair: Pair): void {
    this.#pairs.delete(pair);
    pair.client.destroy();
    pair.server.destroy();
  }

  #isSwallowed(direction: Direction, { sender, losesAnswer }: Pair): boolean {
    if (losesAnswer && direction === 'to-client') return true;
    return this.#swallow.has(direction) || (sender !== undefined && this.#cutOff.has(sender));
  }
}

function suspend({ client, server }: Pair): void {
  client.pause();
  server.pause();
}

const FRAME_HEADER_BYTES = 9;
const HEADERS = 1;

/** An answer begins with HEADERS; before it a server may acknowledge settings, ping, or open its window. */
function hasHeaders(bytes: Uint8Array): boolean {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (let at = 0; at + FRAME_HEADER_BYTES <= bytes.length; at += FRAME_HEADER_BYTES + (view.getUint32(at) >>> 8)) {
    if (bytes[at + 3] === HEADERS) return true;
  }
  return false;
}
