import type { Endpoint } from './endpoint.js';
import type { TlsOptions } from './tls.js';

/** The one thing that a host has to offer: a reliable stream of bytes to an endpoint, in both directions. */
export interface ByteStream {
  /**
   * Sends the parts in order. They belong to the host from then on. False: what waits to be sent has grown long;
   * `drained` tells when it is gone.
   */
  write(parts: readonly Uint8Array[]): boolean;
  /** Whether the process is to be kept alive for this stream. Before the first word it is, where the host can tell. */
  hold(busy: boolean): void;
  /** Sends what was written, if the peer takes it, and ends both directions. */
  close(): void;
}

/** What a host tells of a byte stream. None of it is told before `open` has returned. */
export interface ByteStreamEvents {
  opened(): void;
  /** Bytes have come. They are the host's again when this returns. */
  read(bytes: Uint8Array): void;
  drained(): void;
  /** Comes once, last; with what went wrong, if something did, in words without any secret. */
  closed(problem?: string): void;
}

/**
 * Begins to open a stream: TCP or a Unix socket, with TLS where the endpoint says so. TLS offers `h2` by ALPN, insists on
 * it, and checks the certificate against the endpoint's host or `tls.serverName`.
 */
export type OpenByteStream = (endpoint: Endpoint, tls: TlsOptions | undefined, events: ByteStreamEvents) => ByteStream;

/** What there is to see of `node:diagnostics_channel`. A subscriber that throws throws nothing here. */
interface DiagnosticsChannel {
  readonly hasSubscribers: boolean;
  publish(message: unknown): void;
}

/** For hosts that have none. */
export function silentChannel(): DiagnosticsChannel {
  return { hasSubscribers: false, publish: () => {} };
}
