import { concatBytes, readError, settledWithin } from '../base/index.js';
import {
  type ByteStream,
  type ByteStreamEvents,
  bytesOfChunk,
  isWebStreams,
  type OverCallerStream,
  type WebReader,
  type WebStreams,
  type WebWriter,
} from './host.js';

/** Backlog of unsent bytes at which the client waits for the event `drained`. */
const LONG_BACKLOG_BYTES = 262_144;
/** The time limit in milliseconds for sending the last bytes of a connection that the client closes. */
const FLUSH_TIMEOUT_MS = 1_000;

interface Opening {
  /** Resolves when the streams are connected. Undefined if they already are. */
  readonly opened?: Promise<unknown>;
}

export class WebByteStream implements ByteStream {
  readonly #reader: WebReader;
  readonly #writer: WebWriter;
  readonly #events: ByteStreamEvents;
  /** The number of bytes that the client has written, but that the writable stream has not accepted yet. */
  #waitingBytes = 0;
  #closing = false;
  #ended = false;

  /** @throws TypeError if one of the streams is locked to another reader or writer. */
  constructor(streams: WebStreams & Opening, events: ByteStreamEvents) {
    this.#events = events;
    this.#reader = streams.readable.getReader();
    this.#writer = streams.writable.getWriter();
    // Also listen to the writable stream: if only this stream fails, the readable stream may stay open.
    this.#writer.closed.catch((error: unknown) => this.#finish(error));
    this.#readAll(streams.opened).catch((error: unknown) => this.#finish(error));
  }

  write(parts: readonly Uint8Array[]): boolean | undefined {
    if (this.#ended || this.#closing) return undefined;
    const bytes = parts.length === 1 ? (parts[0] as Uint8Array) : concatBytes(...parts);
    this.#waitingBytes += bytes.length;
    // `closed` of the writer does not reject if workerd refuses a write because another request has opened the socket.
    this.#writer.write(bytes).then(
      () => this.#sent(bytes.length),
      (error: unknown) => this.#finish(error),
    );
    return this.#waitingBytes < LONG_BACKLOG_BYTES;
  }

  /** Does nothing: web streams cannot influence whether the process stays alive. */
  keepProcessAlive(): void {}

  close(): void {
    if (this.#ended || this.#closing) return;
    this.#closing = true;
    // Without this time limit, a peer that does not read could keep the streams from ever closing.
    const flushed = this.#writer.close().catch(() => {});
    void settledWithin(FLUSH_TIMEOUT_MS, flushed).then(() => this.#finish());
  }

  #sent(bytes: number): void {
    const wasLong = this.#waitingBytes >= LONG_BACKLOG_BYTES;
    this.#waitingBytes -= bytes;
    if (wasLong && this.#waitingBytes < LONG_BACKLOG_BYTES && !this.#ended) this.#events.drained();
  }

  async #readAll(opened: Promise<unknown> | undefined): Promise<void> {
    await opened;
    if (this.#ended) return;
    this.#events.opened();
    for (let read = await this.#reader.read(); !read.done; read = await this.#reader.read()) {
      if (this.#ended) return;
      this.#events.read(bytesOfChunk(read.value));
    }
    this.#finish();
  }

  /** `error` is undefined if the end is not a failure. */
  #finish(error?: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    // Both streams may have ended or failed already. Then these calls reject, and change nothing.
    this.#reader.cancel(error).catch(() => {});
    this.#writer.abort(error).catch(() => {});
    if (error === undefined) this.#events.closed();
    else this.#events.closed(readError(error)?.message ?? 'the stream failed', error);
  }
}

/**
 * Implements `overCallerStream` for runtimes without `node:tls`. It accepts web streams only, and no https: endpoints.
 */
export const overWebStreams: OverCallerStream = (stream, endpoint, _, events) => {
  if (!isWebStreams(stream))
    throw new Error(
      'connect returned a stream of Node.js; allowed in this runtime: { readable, writable } of web streams',
    );
  if (endpoint.tls)
    throw new Error(
      'this runtime cannot add TLS to the stream that connect returned; use an http: endpoint, and let connect or the peer of the stream do TLS',
    );
  return new WebByteStream(stream, events);
};
