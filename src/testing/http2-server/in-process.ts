import { Fifo, ProcessKeeper } from '../../base/index.js';
import { type ByteStream, type ByteStreamEvents, failedByteStream, type OpenByteStream } from '../../host/index.js';
import { type EmbeddedTransportFactory, http2Over } from '../../wire/index.js';
import type { Direction } from '../faults/paced-pipe.js';
import { type MemoryEtcd, membersOf } from '../memory/memory-etcd.js';
import type { MemoryMember } from '../memory/memory-member.js';
import { Http2Server } from './server.js';

/**
 * The length in bytes from which a backlog of undelivered bytes counts as long. While the backlog in one direction is
 * long, the sender in this direction does not write: it waits for the event `drained`.
 */
const LONG_BACKLOG_BYTES = 262_144;

/** What one end of a connection sends to the other end: bytes, or the opening or the closing of the connection. */
interface Delivery {
  readonly connection: InProcessConnection;
  readonly direction: Direction;
  /** The bytes. Empty for the opening and the closing of the connection. The receiver must not change them. */
  readonly bytes: readonly Uint8Array[];
}

/**
 * Decides when a delivery arrives: each call of `run` lets the oldest delivery in that direction of the connection
 * arrive. So deliveries arrive in the order in which they were sent, even if `Deliver` calls `run` in another order. If
 * `Deliver` never calls `run` for one of them, the last delivery in that direction does not arrive.
 */
export type Deliver = (delivery: Delivery, run: () => void) => void;

/**
 * Returns a function that opens byte streams to a server in the same process. The client's HTTP/2 transport and the
 * server exchange the same bytes as over TCP. By default, each delivery arrives in a separate microtask.
 */
export function inProcess(server: Http2Server, deliver: Deliver = (_, run) => queueMicrotask(run)): OpenByteStream {
  return (endpoint, tls, events) => {
    if (endpoint.tls || tls !== undefined)
      return failedByteStream('a server in the same process does not support TLS', events);
    return new InProcessConnection(server, endpoint.url, events, deliver).client;
  };
}

/**
 * Returns a transport that reaches a server in this process over HTTP/2. The client and the server exchange the same
 * bytes as over TCP, so a test also covers the client's HTTP/2, and a trace shows all frames.
 *
 * @example
 * const server = new MemoryEtcd();
 * const etcd = new Client({ transport: memoryOverHttp2(server) });
 */
export function memoryOverHttp2(server: MemoryEtcd | MemoryMember): EmbeddedTransportFactory {
  const members = membersOf(server);
  const opens = new Map(members.map((member) => [member.endpoint, inProcess(new Http2Server(member))]));
  const [first] = opens.values();
  const open: OpenByteStream = (endpoint, tls, events) =>
    ((opens.get(endpoint.url) ?? first) as OpenByteStream)(endpoint, tls, events);
  return Object.assign(http2Over(open), { endpoints: [...opens.keys()] });
}

/** One connection between a client and a server in the same process. */
export class InProcessConnection {
  readonly client: End;
  readonly #server: End;

  constructor(server: Http2Server, endpoint: string, events: ByteStreamEvents, deliver: Deliver) {
    const ends = (direction: Direction): End =>
      new End((bytes, run) => deliver({ connection: this, direction, bytes }, run));
    this.client = ends('to-server');
    this.#server = ends('to-client');
    this.client.events = events;
    this.client.keepProcessAlive(true);
    // The handshake takes one delivery in each direction, as in TCP.
    this.client.send([], () => {
      const accepted = server.accept(endpoint, (serverEvents) => {
        this.#server.events = serverEvents;
        this.#server.send([], () => events.opened());
        return this.#server;
      });
      if (accepted === undefined) this.#server.send([], () => this.cut('connect ECONNREFUSED'));
    });
    this.client.peer = this.#server;
    this.#server.peer = this.client;
  }

  /** Closes both ends at once. Bytes that have not arrived are lost. Both ends report `problem` as the reason. */
  cut(problem = 'read ECONNRESET'): void {
    this.client.finish(problem);
    this.#server.finish(problem);
  }
}

/** A delivery that has not arrived yet. */
interface Step {
  /** Number of bytes. */
  readonly length: number;
  readonly arrive: () => void;
}

/** One end of a connection, with the deliveries on their way to the other end. */
class End implements ByteStream {
  /** The callbacks of the owner of this end. Undefined at the server until it has accepted the connection. */
  events: ByteStreamEvents | undefined;
  peer: End | undefined;
  readonly #deliver: (bytes: readonly Uint8Array[], run: () => void) => void;
  readonly #steps = new Fifo<Step>();
  #backlogBytes = 0;
  #congested = false;
  #closing = false;
  #over = false;
  readonly #keeper = new ProcessKeeper();

  constructor(deliver: (bytes: readonly Uint8Array[], run: () => void) => void) {
    this.#deliver = deliver;
  }

  write(parts: readonly Uint8Array[]): boolean | undefined {
    if (this.#closing) return undefined;
    this.send(parts, () => {
      for (const part of parts) this.peer?.receive(part);
    });
    this.#congested = this.#backlogBytes >= LONG_BACKLOG_BYTES;
    return !this.#congested;
  }

  keepProcessAlive(busy: boolean): void {
    this.#keeper.keepProcessAlive(busy && !this.#over);
  }

  close(): void {
    if (this.#closing) return;
    this.send([], () => this.peer?.finish());
    this.#closing = true;
    queueMicrotask(() => this.finish());
  }

  /** Sends the bytes, which arrive after everything that was sent before. Calls `arrive` when they have arrived. */
  send(bytes: readonly Uint8Array[], arrive: () => void): void {
    if (this.#closing) return;
    const length = bytes.reduce((sum, part) => sum + part.length, 0);
    this.#backlogBytes += length;
    this.#steps.push({ length, arrive });
    this.#deliver(bytes, () => this.#step());
  }

  receive(bytes: Uint8Array): void {
    if (!this.#over) this.events?.read(bytes);
  }

  /** Ends this end of the connection. */
  finish(problem?: string): void {
    if (this.#over) return;
    this.#over = true;
    this.#closing = true;
    this.keepProcessAlive(false);
    this.events?.closed(problem);
  }

  /** Lets the oldest step arrive. */
  #step(): void {
    const step = this.#steps.shift();
    if (step === undefined) return;
    this.#backlogBytes -= step.length;
    step.arrive();
    if (!this.#congested || this.#over || this.#backlogBytes >= LONG_BACKLOG_BYTES) return;
    this.#congested = false;
    this.events?.drained();
  }
}
