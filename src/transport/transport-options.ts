import type { Endpoint } from './endpoint.js';
import type { TlsSource } from './tls.js';
import type { Transport } from './transport.js';

/** How a connection to one endpoint is made and watched over. */
export interface TransportOptions {
  readonly tls: TlsSource | undefined;
  /** From the start of dialling to the peer's SETTINGS: a peer that accepts and never speaks is given up then. */
  readonly connectTimeoutMs: number;
  /**
   * How often a connection with open calls or streams is probed. etcd drops a client that pings more often than every 5 s.
   * Apart from that, a request that is left without any byte for a second is followed by a probe, as far as etcd allows.
   */
  readonly pingIntervalMs: number;
  /** How long a probe may go unanswered before the connection is closed. */
  readonly pingTimeoutMs: number;
  /** Longest request sent, in bytes; a longer one is refused. */
  readonly maxRequestBytes: number;
  /** Longest response taken, in bytes. */
  readonly maxReceiveBytes: number;
  /** Operations that a transaction may have, for a transport that adds some of its own. Default 128. */
  readonly maxTxnOps?: number | undefined;
}

/** What holds where the caller says nothing else. */
export const TRANSPORT_DEFAULTS = {
  connectTimeoutMs: 3_000,
  pingIntervalMs: 6_000,
  pingTimeoutMs: 2_500,
  maxRequestBytes: 1_572_864,
  maxReceiveBytes: 2 ** 31 - 1,
} as const satisfies Omit<TransportOptions, 'tls' | 'maxTxnOps'>;

/** Makes the transport of one endpoint. Nothing is dialled before the first call. */
export type TransportFactory = (endpoint: Endpoint, options: TransportOptions) => Transport;
