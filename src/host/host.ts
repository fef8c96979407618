import { describeType } from '../base/index.js';
import type { Endpoint } from './endpoint.js';
import type { TlsOptions } from './tls.js';

/**
 * A reliable, bidirectional stream of bytes between the client and an endpoint. The HTTP/2 transport needs nothing else
 * from the runtime.
 */
export interface ByteStream {
  /**
   * Sends the parts in order. The caller must not change the parts afterwards. Returns false if the backlog of unsent
   * bytes has become too long. In that case, the caller waits for the event `drained` before it writes more. Returns
   * undefined without sending anything if the stream has ended, even if `closed` has not been called yet.
   */
  write(parts: readonly Uint8Array[]): boolean | undefined;
  /**
   * Sets whether the stream keeps the process alive: it does if `busy` is true, which is the default. Has no effect on
   * runtimes that do not offer this choice.
   */
  keepProcessAlive(busy: boolean): void;
  /**
   * Closes both directions. First sends the bytes that are still unsent, but may discard them if the backlog is long,
   * and discards the bytes that the peer does not read in time.
   */
  close(): void;
}

/**
 * Callbacks for the events of a byte stream. None of them is called before `OpenByteStream` has returned. A
 * connection passes an object literal to its host, which may copy the callbacks with a spread.
 */
export interface ByteStreamEvents {
  /** The byte stream is ready to send and receive. */
  opened(): void;
  /** Bytes have arrived. They are valid only during the call. */
  read(bytes: Uint8Array): void;
  /** The backlog of unsent bytes is no longer too long. */
  drained(): void;
  /**
   * The byte stream has closed. This is the last callback, and it is called once. If the byte stream failed, `problem`
   * is the reason; it contains no secret. If code of the program made the byte stream fail, `cause` is the error of
   * this code.
   */
  closed(problem?: string, cause?: unknown): void;
}

/**
 * Starts to open a byte stream over TCP or a Unix socket, with TLS if the endpoint requires TLS. With TLS, the function
 * must offer `h2` by ALPN, require the server to select `h2`, and check the server's certificate against
 * `tls.serverName` or, by default, the endpoint's host.
 */
export type OpenByteStream = (endpoint: Endpoint, tls: TlsOptions | undefined, events: ByteStreamEvents) => ByteStream;

/** The part of a `Duplex` stream of Node.js that the client uses. */
export interface DuplexStream {
  /** Adds a listener for an event: `data`, `drain`, `error`, `end` or `close`. */
  on(event: string, listener: (...args: never[]) => void): unknown;
  /** Sends bytes. Returns false if the caller should wait for `drain`. */
  write(bytes: Uint8Array): boolean;
  /** Ends the sending direction after all bytes have been sent. */
  end(): unknown;
  /** Closes both directions at once. */
  destroy(error?: Error): unknown;
}

/** The part of a reader of a `ReadableStream` that the client uses. */
export interface WebReader {
  /** Resolves with the next bytes, or with the end of the stream. */
  read(): Promise<{ readonly done: boolean; readonly value?: Uint8Array | undefined }>;
  /** Tells the source that the client reads no more. */
  cancel(reason?: unknown): Promise<unknown>;
}

/** The part of a writer of a `WritableStream` that the client uses. */
export interface WebWriter {
  /** Rejects if the stream fails. */
  readonly closed: Promise<unknown>;
  /** Sends bytes. Resolves when the stream has accepted them. */
  write(bytes: Uint8Array): Promise<unknown>;
  /** Ends the stream after all bytes have been sent. */
  close(): Promise<unknown>;
  /** Ends the stream at once. */
  abort(reason?: unknown): Promise<unknown>;
}

/** A pair of web streams, such as a socket of workerd or two halves of `TransformStream`s. */
export interface WebStreams {
  /** The received bytes: a `ReadableStream`. */
  readonly readable: {
    /** Locks the stream to a reader. */
    getReader(): WebReader;
    /** Tells the source that the client reads no more. */
    cancel(reason?: unknown): Promise<unknown>;
  };
  /** The bytes to send: a `WritableStream`. */
  readonly writable: {
    /** Locks the stream to a writer. */
    getWriter(): WebWriter;
    /** Ends the stream at once. */
    abort(reason?: unknown): Promise<unknown>;
  };
}

/**
 * A connection that the caller of the client has opened: a `Duplex` stream of Node.js, such as a socket, or a pair of
 * web streams.
 */
export type CallerStream = DuplexStream | WebStreams;

/**
 * Returns the byte stream over a connection that the caller of the client has opened, with TLS if the endpoint requires
 * TLS. The same rules as for `OpenByteStream` apply.
 *
 * @throws Error if the runtime cannot use the connection. The message contains no secret.
 */
export type OverCallerStream = (
  stream: CallerStream,
  endpoint: Endpoint,
  tls: TlsOptions | undefined,
  events: ByteStreamEvents,
) => ByteStream;

/** Whether the connection is a pair of web streams. A `Duplex` has properties of the same names, which are booleans. */
export function isWebStreams(stream: CallerStream): stream is WebStreams {
  return typeof (stream as WebStreams).readable?.getReader === 'function';
}

/** Returns the bytes of a chunk that a stream of the caller has yielded. @throws Error if the chunk is not bytes. */
export function bytesOfChunk(chunk: unknown): Uint8Array {
  // Do not use `instanceof`, because a stream of another realm has another class Uint8Array.
  if (ArrayBuffer.isView(chunk)) return new Uint8Array(chunk.buffer, chunk.byteOffset, chunk.byteLength);
  throw new Error(`the stream that connect returned yields ${describeType(chunk)}; allowed: Uint8Array`);
}

/** Returns a byte stream that sends nothing, and calls `events.closed` with `problem` in the next microtask. */
export function failedByteStream(problem: string, events: ByteStreamEvents): ByteStream {
  queueMicrotask(() => events.closed(problem));
  return { write: () => undefined, keepProcessAlive: () => {}, close: () => {} };
}

/** The part of `AsyncLocalStorage` that the client uses: it stores a value for the duration of an asynchronous call. */
export interface AsyncContext<T> {
  /** Calls `action`. `getStore` returns `value` inside `action`, also after an `await`. */
  run<R>(value: T, action: () => R): R;
  getStore(): T | undefined;
}
