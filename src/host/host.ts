import type { Endpoint } from './endpoint.js';
import type { TlsOptions } from './tls.js';

/** A reliable stream of bytes to an endpoint, in both directions. It is all that the HTTP/2 transport needs of a host. */
export interface ByteStream {
  /**
   * Sends the parts in order. The caller must not change them afterwards. Returns false if the backlog of unsent bytes has
   * grown long; `drained` is called when it is gone.
   */
  write(parts: readonly Uint8Array[]): boolean;
  /** Sets whether the stream keeps the process alive, if the host has such a choice. It does by default. */
  hold(busy: boolean): void;
  /** Sends the bytes that were written, if the peer reads them, and closes both directions. */
  close(): void;
}

/** The events of a byte stream. The host calls none of them before `OpenByteStream` has returned. */
export interface ByteStreamEvents {
  opened(): void;
  /** Bytes have arrived. They are valid only during the call. */
  read(bytes: Uint8Array): void;
  drained(): void;
  /** Called once, and last. `problem` says what went wrong, if anything did, and contains no secret. */
  closed(problem?: string): void;
}

/**
 * Starts to open a byte stream: TCP or a Unix socket, with TLS if the endpoint requires it. With TLS, the host must offer
 * `h2` by ALPN, require the server to select it, and check the server's certificate against the endpoint's host or
 * `tls.serverName`.
 */
export type OpenByteStream = (endpoint: Endpoint, tls: TlsOptions | undefined, events: ByteStreamEvents) => ByteStream;

/** The byte stream of a host that cannot open one. It reports `problem` as the reason that it closed. */
export function failedByteStream(problem: string, events: ByteStreamEvents): ByteStream {
  queueMicrotask(() => events.closed(problem));
  return { write: () => true, hold: () => {}, close: () => {} };
}

/** The part of `node:diagnostics_channel` that the client uses. `publish` must not throw if a subscriber does. */
interface DiagnosticsChannel {
  readonly hasSubscribers: boolean;
  publish(message: unknown): void;
}

/** The diagnostics channel of hosts without `node:diagnostics_channel`. It publishes nothing. */
export function silentChannel(): DiagnosticsChannel {
  return { hasSubscribers: false, publish: () => {} };
}
