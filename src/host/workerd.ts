import { connect } from 'cloudflare:sockets';
import { concatBytes } from '../runtime/bytes.js';
import { settledWithin } from '../runtime/timers.js';
import type { ByteStream, ByteStreamEvents, OpenByteStream } from './host.js';
import type { TlsOptions } from './tls.js';

export { silentChannel as diagnosticsChannel } from './host.js';
export { createSha256 } from './sha256.js';

/** More than this waiting to be sent is long. */
const LONG_BYTES = 262_144;
/** For the last words of a connection to be sent. */
const FLUSH_TIMEOUT_MS = 1_000;

/** Byte streams on `cloudflare:sockets`: https://developers.cloudflare.com/workers/runtime-apis/tcp-sockets/. */
export const openByteStream: OpenByteStream = (endpoint, tls, events) => {
  const { address } = endpoint;
  if ('path' in address) return refused('there are no Unix sockets here', events);
  if (endpoint.tls && asksForMore(tls))
    return refused(
      'TLS here knows the authorities of the platform and no others, and no certificate of a client',
      events,
    );
  try {
    const secureTransport = endpoint.tls ? 'on' : 'off';
    const socket = connect({ hostname: address.host, port: address.port }, { secureTransport, allowHalfOpen: false });
    return new WorkerdStream(socket, events);
  } catch (error) {
    return refused((error as Error).message, events);
  }
};

function asksForMore(tls: TlsOptions | undefined): boolean {
  return tls !== undefined && Object.values(tls).some((value) => value !== undefined);
}

function refused(problem: string, events: ByteStreamEvents): ByteStream {
  queueMicrotask(() => events.closed(problem));
  return { write: () => true, hold: () => {}, close: () => {} };
}

class WorkerdStream implements ByteStream {
  readonly #socket: ReturnType<typeof connect>;
  readonly #events: ByteStreamEvents;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  /** Given to the socket, and not yet taken by it. */
  #waitingBytes = 0;
  #closed = false;

  constructor(socket: ReturnType<typeof connect>, events: ByteStreamEvents) {
    this.#socket = socket;
    this.#events = events;
    this.#writer = socket.writable.getWriter();
    void this.#run();
  }

  write(parts: readonly Uint8Array[]): boolean {
    if (this.#closed) return true;
    const bytes = parts.length === 1 ? (parts[0] as Uint8Array) : concatBytes(...parts);
    this.#waitingBytes += bytes.length;
    // What goes wrong ends the reading too.
    this.#writer.write(bytes).then(
      () => this.#sent(bytes.length),
      () => {},
    );
    return this.#waitingBytes < LONG_BYTES;
  }

  /** A worker lives as long as its request. */
  hold(): void {}

  close(): void {
    if (this.#closed) return;
    // What a peer that does not read keeps waiting would be waited for without end.
    const flushed = this.#writer.close().catch(() => {});
    void settledWithin(FLUSH_TIMEOUT_MS, flushed).then(() => this.#socket.close().catch(() => {}));
  }

  #sent(bytes: number): void {
    const wasLong = this.#waitingBytes >= LONG_BYTES;
    this.#waitingBytes -= bytes;
    if (wasLong && this.#waitingBytes < LONG_BYTES && !this.#closed) this.#events.drained();
  }

  async #run(): Promise<void> {
    let problem: string | undefined;
    try {
      await this.#socket.opened;
      this.#events.opened();
      const reader = this.#socket.readable.getReader();
      for (let read = await reader.read(); !read.done; read = await reader.read()) this.#events.read(read.value);
    } catch (error) {
      problem = (error as Error).message;
    }
    this.#closed = true;
    this.#events.closed(problem);
  }
}
