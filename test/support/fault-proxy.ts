import { connect, createServer, type Server, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

type Direction = 'to-server' | 'to-client';

/** A TCP proxy in front of one server, that misbehaves on demand. */
export class FaultProxy {
  readonly endpoint: string;
  readonly #server: Server;
  readonly #pairs = new Set<{ client: Socket; server: Socket }>();
  /** What is swallowed instead of forwarded. */
  readonly #swallow = new Set<Direction>();
  #hold: ((chunk: Buffer, pair: { client: Socket; server: Socket }) => boolean) | undefined;
  readonly #onData: ((direction: Direction, chunk: Buffer) => void)[] = [];

  private constructor(server: Server, port: number) {
    this.#server = server;
    this.endpoint = `http://127.0.0.1:${port}`;
  }

  /** In front of `target`, an http URL; closed when the test ends. */
  static async start(target: string): Promise<FaultProxy> {
    const { hostname, port } = new URL(target);
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const proxy = new FaultProxy(server, (server.address() as { port: number }).port);
    server.on('connection', (client) => proxy.#accept(client, connect(Number(port), hostname)));
    onTestFinished(() => proxy.close());
    return proxy;
  }

  get connections(): number {
    return this.#pairs.size;
  }

  /** Ends every connection, as a dying server's kernel does. New ones are taken. */
  dropConnections(): void {
    for (const { client, server } of [...this.#pairs]) {
      client.destroy();
      server.destroy();
    }
  }

  /** Ends every connection with RST. */
  reset(): void {
    for (const { client, server } of [...this.#pairs]) {
      client.resetAndDestroy();
      server.destroy();
    }
  }

  /** Swallows everything, both ways, on present and future connections. */
  blackhole(): void {
    this.#swallow.add('to-server').add('to-client');
  }

  /** Lets bytes through in one direction only. */
  oneWay(direction: Direction): void {
    this.#swallow.add(direction === 'to-server' ? 'to-client' : 'to-server');
  }

  /** Forwards again. What was swallowed is gone, so connections that lost bytes end. */
  heal(): void {
    this.#swallow.clear();
    this.dropConnections();
  }

  /**
   * The next answer is lost: what the server sends after the next request is swallowed and the connection dropped.
   * Resolves when that has happened.
   */
  loseNextAnswer(isRequest: (chunk: Buffer) => boolean): Promise<void> {
    return new Promise((resolve) => {
      let sent = false;
      const listener = (direction: Direction, chunk: Buffer): void => {
        if (direction === 'to-server' && isRequest(chunk)) {
          sent = true;
          this.#swallow.add('to-client');
        } else if (direction === 'to-client' && sent && hasHeaders(chunk)) {
          this.#onData.splice(this.#onData.indexOf(listener), 1);
          this.heal();
          resolve();
        }
      };
      this.#onData.push(listener);
    });
  }

  /**
   * The next request is held up on its way, and the client's side of its connection dropped. Resolves then, with what
   * lets the request go on to the server.
   */
  holdNextRequest(isRequest: (chunk: Buffer) => boolean): Promise<() => void> {
    return new Promise((resolve) => {
      this.#hold = (chunk, pair) => {
        if (!isRequest(chunk)) return false;
        this.#hold = undefined;
        this.#pairs.delete(pair);
        pair.client.removeAllListeners('close').destroy();
        onTestFinished(() => void pair.server.destroy());
        resolve(() => void pair.server.write(chunk));
        return true;
      };
    });
  }

  async close(): Promise<void> {
    this.dropConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #accept(client: Socket, server: Socket): void {
    const pair = { client, server };
    this.#pairs.add(pair);
    const forget = (): void => {
      this.#pairs.delete(pair);
      client.destroy();
      server.destroy();
    };
    for (const socket of [client, server]) socket.setNoDelay(true).on('error', forget).on('close', forget);
    client.on('data', (chunk) => {
      if (!this.#hold?.(chunk, pair)) this.#forward('to-server', chunk, server);
    });
    server.on('data', (chunk) => this.#forward('to-client', chunk, client));
  }

  #forward(direction: Direction, chunk: Buffer, to: Socket): void {
    for (const listener of [...this.#onData]) listener(direction, chunk);
    if (!this.#swallow.has(direction) && !to.destroyed) to.write(chunk);
  }
}

const FRAME_HEADER_BYTES = 9;
const HEADERS = 1;

/** An answer begins with HEADERS; before it a server may acknowledge settings, ping, or open its window. */
function hasHeaders(chunk: Buffer): boolean {
  for (let at = 0; at + FRAME_HEADER_BYTES <= chunk.length; at += FRAME_HEADER_BYTES + chunk.readUIntBE(at, 3)) {
    if (chunk[at + 3] === HEADERS) return true;
  }
  return false;
}
