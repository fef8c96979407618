import type { Endpoint } from './endpoint.js';
import type { TlsOptions } from './tls.js';

/**
 * A reliable, bidirectional stream of bytes between the client and an endpoint. The HTTP/2 transport needs nothing else
 * from the runtime.
 */
export interface ByteStream {
  /**
   * Sends the parts in order. The caller must not change the parts afterwards. Returns false if the backlog of unsent
   * bytes has become too long. In that case, the caller waits for the event `drained` before it writes more.
   */
  write(parts: readonly Uint8Array[]): boolean;
  /**
   * Sets whether the stream keeps the process alive: it does if `busy` is true, which is the default. Has no effect on
   * runtimes that do not offer this choice.
   */
  hold(busy: boolean): void;
  /**
   * Closes both directions. First sends the bytes that are still unsent, unless the peer does not read them in time.
   */
  close(): void;
}

/** Callbacks for the events of a byte stream. None of them is called before `OpenByteStream` has returned. */
export interface ByteStreamEvents {
  /** The byte stream is ready to send and receive. */
  opened(): void;
  /** Bytes have arrived. They are valid only during the call. */
  read(bytes: Uint8Array): void;
  /** The backlog of unsent bytes is no longer too long. */
  drained(): void;
  /**
   * The byte stream has closed. This is the last callback, and it is called once. If the byte stream failed, `problem`
   * is the reason; it contains no secret.
   */
  closed(problem?: string): void;
}

/**
 * Starts to open a byte stream over TCP or a Unix socket, with TLS if the endpoint requires TLS. With TLS, the function
 * must offer `h2` by ALPN, require the server to select `h2`, and check the server's certificate against
 * `tls.serverName` or, by default, the endpoint's host.
 */
export type OpenByteStream = (endpoint: Endpoint, tls: TlsOptions | undefined, events: ByteStreamEvents) => ByteStream;

/**
 * Returns a byte stream that has failed because of `problem`. The stream sends nothing. It calls `events.closed` with
 * `problem` in the next microtask.
 */
export function failedByteStream(problem: string, events: ByteStreamEvents): ByteStream {
  queueMicrotask(() => events.closed(problem));
  return { write: () => true, hold: () => {}, close: () => {} };
}

/**
 * The part of `node:diagnostics_channel` that the client uses. `publish` must not throw even if a subscriber throws.
 */
interface DiagnosticsChannel {
  readonly hasSubscribers: boolean;
  publish(message: unknown): void;
}

/** Returns the diagnostics channel for runtimes without `node:diagnostics_channel`. The channel publishes nothing. */
export function silentChannel(): DiagnosticsChannel {
  return { hasSubscribers: false, publish: () => {} };
}

/** The part of `AsyncLocalStorage` that the client uses: a value that follows the calls of an asynchronous function. */
export interface AsyncContext<T> {
  /** Calls `action`. `getStore` returns `value` inside `action`, also after an `await`. */
  run<R>(value: T, action: () => R): R;
  getStore(): T | undefined;
}

/** Returns the context for runtimes without `AsyncLocalStorage`. Its value is always undefined. */
export function noContext(): AsyncContext<never> {
  return { run: (_, action) => action(), getStore: () => undefined };
}
