import { connect } from 'cloudflare:sockets';
import { concatBytes } from '../runtime/bytes.js';
import { settledWithin } from '../runtime/timers.js';
import { type ByteStream, type ByteStreamEvents, failedByteStream, type OpenByteStream } from './host.js';

export { noContext as asyncContext, silentChannel as diagnosticsChannel } from './host.js';
export { createSha256 } from './sha256.js';

/**
 * The maximum backlog of unsent bytes. Once the backlog has reached this length, the client stops writing until the
 * event `drained`.
 */
const LONG_BACKLOG_BYTES = 262_144;
/** The time limit in milliseconds for sending the last bytes of a connection that the client closes. */
const FLUSH_TIMEOUT_MS = 1_000;

/**
 * Opens a byte stream with the TCP sockets of workerd:
 * https://developers.cloudflare.com/workers/runtime-apis/tcp-sockets/
 */
export const openByteStream: OpenByteStream = (endpoint, tls, events) => {
  const { address } = endpoint;
  if ('path' in address) return failedByteStream('workerd has no Unix sockets', events);
  if (endpoint.tls && tls !== undefined && Object.values(tls).some((value) => value !== undefined))
    return failedByteStream('workerd supports no TLS options: it trusts only the authorities of the platform', events);
  try {
    const secureTransport = endpoint.tls ? 'on' : 'off';
    const socket = connect({ hostname: address.host, port: address.port }, { secureTransport, allowHalfOpen: false });
    return new WorkerdStream(socket, events);
  } catch (error) {
    return failedByteStream((error as Error).message, events);
  }
};

class WorkerdStream implements ByteStream {
  readonly #socket: ReturnType<typeof connect>;
  readonly #events: ByteStreamEvents;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  /** The number of bytes that the client has written to the socket but the socket has not sent yet. */
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
    // The error of a failed write is ignored here. It also ends the read loop in `#run`, which reports the error.
    this.#writer.write(bytes).then(
      () => this.#sent(bytes.length),
      () => {},
    );
    return this.#waitingBytes < LONG_BACKLOG_BYTES;
  }

  /** Does nothing, because a worker runs as long as the request that it serves, whether or not a stream is open. */
  hold(): void {}

  close(): void {
    if (this.#closed) return;
    // Without this time limit, a peer that does not read could keep the socket from ever closing.
    const flushed = this.#writer.close().catch(() => {});
    void settledWithin(FLUSH_TIMEOUT_MS, flushed).then(() => this.#socket.close().catch(() => {}));
  }

  #sent(bytes: number): void {
    const wasLong = this.#waitingBytes >= LONG_BACKLOG_BYTES;
    this.#waitingBytes -= bytes;
    if (wasLong && this.#waitingBytes < LONG_BACKLOG_BYTES && !this.#closed) this.#events.drained();
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
