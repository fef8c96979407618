import { concatBytes, readError, settledWithin } from '../base/index.js';
import {
  type ByteStream,
  type ByteStreamEvents,
  bytesOfChunk,
  isWebStreams,
  type OverCallerStream,
  type WebStreams,
} from './host.js';

/** Backlog of unsent bytes at which the client waits for the event `drained`. */
const LONG_BACKLOG_BYTES = 262_144;
/** The time limit in milliseconds for sending the last bytes of a connection that the client closes. */
const FLUSH_TIMEOUT_MS = 1_000;

interface Opening {
  /** Resolves when the streams are connected. Undefined if they already are. */
  readonly opened?: Promise<unknown>;
}

/**
 * Returns the byte stream over a pair of web streams.
 *
 * @throws TypeError if one of the streams is locked to another reader or writer.
 */
export function webByteStream(streams: WebStreams & Opening, events: ByteStreamEvents): ByteStream {
  const reader = streams.readable.getReader();
  const writer = streams.writable.getWriter();
  /** The number of bytes that the client has written, but that the writable stream has not accepted yet. */
  let waitingBytes = 0;
  let closing = false;
  let ended = false;

  /** `error` is undefined if the end is not a failure. */
  const finish = (error?: unknown): void => {
    if (ended) return;
    ended = true;
    // Both streams may have ended or failed already. Then these calls reject, and change nothing.
    reader.cancel(error).catch(() => {});
    writer.abort(error).catch(() => {});
    if (error === undefined) events.closed();
    else events.closed(readError(error)?.message ?? 'the stream failed', error);
  };
  const sent = (bytes: number): void => {
    const wasLong = waitingBytes >= LONG_BACKLOG_BYTES;
    waitingBytes -= bytes;
    if (wasLong && waitingBytes < LONG_BACKLOG_BYTES && !ended) events.drained();
  };
  const readAll = async (): Promise<void> => {
    await streams.opened;
    if (ended) return;
    events.opened();
    for (let read = await reader.read(); !read.done; read = await reader.read()) {
      if (ended) return;
      events.read(bytesOfChunk(read.value));
    }
    finish();
  };
  // Also listen to the writable stream: if only this stream fails, the readable stream may stay open.
  writer.closed.catch(finish);
  readAll().catch(finish);

  return {
    write(parts) {
      if (ended || closing) return undefined;
      const bytes = parts.length === 1 ? (parts[0] as Uint8Array) : concatBytes(...parts);
      waitingBytes += bytes.length;
      // `closed` of the writer does not reject if workerd refuses a write because another request has opened the socket.
      writer.write(bytes).then(() => sent(bytes.length), finish);
      return waitingBytes < LONG_BACKLOG_BYTES;
    },
    // Web streams cannot influence whether the process stays alive.
    keepProcessAlive: () => {},
    close() {
      if (ended || closing) return;
      closing = true;
      // Without this time limit, a peer that does not read could keep the streams from ever closing.
      const flushed = writer.close().catch(() => {});
      void settledWithin(FLUSH_TIMEOUT_MS, flushed).then(() => finish());
    },
  };
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
  return webByteStream(stream, events);
};
