import { checkCount, checkPositive } from './arguments.js';
import type { BytesLike } from './bytes.js';
import { Channel } from './channel/channel.js';
import { type CallOptions, checkTimeout, Rpc } from './channel/rpc.js';
import { clientClosed, invalidInput } from './errors.js';
import type { Keys } from './kv/key-range.js';
import type { KeyValue } from './kv/key-value.js';
import { type GetOptions, KV, type ScanOptions } from './kv/kv.js';
import type { DeleteOptions, PutOptions, RangeOptions } from './kv/requests.js';
import type { DeleteResult, PutResult, RangeResult, WithHeader } from './kv/results.js';
import { Leases } from './lease/lease.js';
import { type Raw, rawStubs } from './raw.js';
import { type Endpoint, parseEndpoint, type TlsOptions } from './transport/endpoint.js';
import { grpcJs } from './transport/grpc-js/transport.js';
import type { TransportFactory, TransportOptions } from './transport/transport-options.js';
import type { Op, Txn, TxnResult } from './txn/op.js';
import { Watch, type WatchOptions } from './watch/watch.js';
import { WatchStream } from './watch/watch-stream.js';

export interface ClientOptions {
  /** URLs of the members: `http://host:port`, `https://host:port` or `unix:///path`; the port defaults to 2379. */
  readonly endpoints: readonly string[];
  /** For `https` endpoints. Certificates are verified, each against its own endpoint's name. */
  readonly tls?: TlsOptions | undefined;
  /**
   * Milliseconds for a call without `timeoutMs` of its own, retries included. Default 15,000: more than it takes to find
   * out that a connection is dead, so that a read can still go elsewhere.
   */
  readonly timeoutMs?: number | undefined;
  /** Milliseconds for a connection to come about. Default 3,000. */
  readonly connectTimeoutMs?: number | undefined;
  /** Milliseconds between probes of a busy connection; at least 5,000, which etcd enforces. Default 6,000. */
  readonly pingIntervalMs?: number | undefined;
  /** Milliseconds for a probe to be answered; an event loop blocked for longer loses the connection. Default 4,000. */
  readonly pingTimeoutMs?: number | undefined;
  /** Longest request in bytes. Default 1,572,864, as the server's `--max-request-bytes`. */
  readonly maxRequestBytes?: number | undefined;
  /** Longest response in bytes. Default 2^31 - 1: the server sends what was asked for. */
  readonly maxReceiveBytes?: number | undefined;
  /** Operations in a transaction. Default 128, as the server's `--max-txn-ops`. */
  readonly maxTxnOps?: number | undefined;
  /** What carries the calls. Default: `grpcJs`. */
  readonly transport?: TransportFactory | undefined;
}

/** The server's own minimum between pings: faster ones are answered with GOAWAY. */
const MIN_PING_INTERVAL_MS = 5_000;

/**
 * A client of one etcd cluster. Nothing is dialled before the first call. Close it, or `await using` it: until then its
 * open watches and kept leases keep the process alive.
 */
export class Client implements AsyncDisposable {
  /** Grant, renew, revoke, look up. */
  readonly lease: Leases;
  /** Every RPC, as it stands on the wire. */
  readonly raw: Raw;
  readonly #channel: Channel;
  readonly #kv: KV;
  readonly #watchStream: WatchStream;

  /** @throws EtcdError, reason `InvalidInput`. */
  constructor(options: ClientOptions) {
    const endpoints = checkEndpoints(options.endpoints);
    const transportOptions = checkTransportOptions(options);
    const factory = options.transport ?? grpcJs;
    this.#channel = new Channel(endpoints, (endpoint) => factory(endpoint, transportOptions));
    const rpc = new Rpc(this.#channel, checkTimeout(options.timeoutMs ?? 15_000, 'timeoutMs'));
    this.#kv = new KV(rpc, { maxTxnOps: Number(checkCount(options.maxTxnOps ?? 128, 'maxTxnOps', 1n)) });
    this.#watchStream = new WatchStream(rpc);
    this.lease = new Leases(rpc);
    this.raw = rawStubs(rpc);
  }

  /** The key, or undefined where there is none. */
  get(key: BytesLike, options?: GetOptions & CallOptions): Promise<KeyValue | undefined> {
    return this.#kv.get(key, options);
  }

  /** A key or a range of keys. */
  range(keys: Keys, options?: RangeOptions & CallOptions): Promise<WithHeader<RangeResult>> {
    return this.#kv.range(keys, options);
  }

  /** Every key of a range in ascending order, all as of one revision, page by page. */
  scan(keys: Keys, options?: ScanOptions & CallOptions): AsyncGenerator<KeyValue, void> {
    return this.#kv.scan(keys, options);
  }

  put(key: BytesLike, value: BytesLike, options?: PutOptions & CallOptions): Promise<WithHeader<PutResult>> {
    return this.#kv.put(key, value, options);
  }

  delete(keys: Keys, options?: DeleteOptions & CallOptions): Promise<WithHeader<DeleteResult>> {
    return this.#kv.delete(keys, options);
  }

  /** If every condition holds run `then`, else `else`; `succeeded` tells which, and types the responses. */
  txn<const Then extends readonly Op[] = [], const Else extends readonly Op[] = []>(
    txn: Txn<Then, Else>,
    options?: CallOptions,
  ): Promise<WithHeader<TxnResult<Then, Else>>> {
    return this.#kv.txn(txn, options);
  }

  /** Discards history below `revision`. */
  compact(
    revision: bigint,
    options?: { readonly physical?: boolean | undefined } & CallOptions,
  ): Promise<WithHeader<object>> {
    return this.#kv.compact(revision, options);
  }

  /** Events of a key or a range of keys, each once and in order. */
  watch(keys: Keys, options: WatchOptions = {}): Watch {
    return new Watch(this.#watchStream, keys, options);
  }

  /** Ends all calls, watches and keepalives with reason `ClientClosed`, and lets the connections go. */
  async close(): Promise<void> {
    this.lease.close();
    this.#watchStream.end(clientClosed());
    await this.#channel.close();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

function checkEndpoints(endpoints: readonly string[]): Endpoint[] {
  if (!Array.isArray(endpoints) || endpoints.length === 0) {
    throw invalidInput(
      'endpoints',
      Array.isArray(endpoints) ? 'an empty list' : String(endpoints),
      'a list of at least one URL',
    );
  }
  return endpoints.map((endpoint, index) => parseEndpoint(endpoint, `endpoints[${index}]`));
}

function checkTransportOptions(options: ClientOptions): TransportOptions {
  const ms = (name: 'connectTimeoutMs' | 'pingIntervalMs' | 'pingTimeoutMs', byDefault: number): number =>
    checkPositive(options[name] ?? byDefault, name, 'milliseconds');
  const bytes = (name: 'maxRequestBytes' | 'maxReceiveBytes', byDefault: number): number =>
    Number(checkCount(options[name] ?? byDefault, name, 1n));
  const pingIntervalMs = ms('pingIntervalMs', 6_000);
  if (pingIntervalMs < MIN_PING_INTERVAL_MS) {
    throw invalidInput(
      'pingIntervalMs',
      String(pingIntervalMs),
      `${MIN_PING_INTERVAL_MS} or more: etcd drops clients that ping more often`,
    );
  }
  return {
    tls: options.tls,
    connectTimeoutMs: ms('connectTimeoutMs', 3_000),
    pingIntervalMs,
    pingTimeoutMs: ms('pingTimeoutMs', 4_000),
    maxRequestBytes: bytes('maxRequestBytes', 1_572_864),
    maxReceiveBytes: bytes('maxReceiveBytes', 2 ** 31 - 1),
  };
}
