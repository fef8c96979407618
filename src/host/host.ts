import type { Endpoint } from './endpoint.js';
import type { TlsOptions } from './tls.js';

/**
 * A reliable stream of bytes to an endpoint, in both directions. The HTTP/2 transport needs nothing else from the
 * runtime.
 */
export interface ByteStream {
  /**
   * Sends the parts in order. The caller must not change them afterwards. Returns false if the backlog of unsent bytes
   * has grown too long. `drained` is called once the backlog has been sent.
   */
  write(parts: readonly Uint8Array[]): boolean;
  /**
   * Sets whether the stream keeps the process alive, which it does by default. Has no effect if the runtime has no such
   * choice.
   */
  hold(busy: boolean): void;
  /** Sends the bytes that are still unsent, if the peer reads them soon, and closes both directions. */
  close(): void;
}

/** Callbacks for the events of a byte stream. None of them is called before `OpenByteStream` has returned. */
export interface ByteStreamEvents {
  opened(): void;
  /** Bytes have arrived. They are valid only during the call. */
  read(bytes: Uint8Array): void;
  drained(): void;
  /**
   * The byte stream has closed. Called once, and last. `problem` is the reason if it failed, and contains no secret.
   */
  closed(problem?: string): void;
}

/**
 * Starts to open a byte stream: TCP or a Unix socket, with TLS if the endpoint requires it. With TLS, the function must
 * offer `h2` by ALPN, require the server to select it, and check the server's certificate against the endpoint's host
 * or `tls.serverName`.
 */
export type OpenByteStream = (endpoint: Endpoint, tls: TlsOptions | undefined, events: ByteStreamEvents) => ByteStream;

/** Returns a byte stream that fails: it sends nothing, and reports at once that it has closed because of `problem`. */
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

/** The diagnostics channel for runtimes without `node:diagnostics_channel`. It publishes nothing. */
export function silentChannel(): DiagnosticsChannel {
  return { hasSubscribers: false, publish: () => {} };
}
