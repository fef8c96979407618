import type { Clock } from './clock.js';

/** The minor versions of etcd whose behavior a `MemoryEtcd` can show. */
export type MemoryVersion = '3.5' | '3.6' | '3.7';

/** The settings of a member, with all defaults filled in. */
export interface MemberSettings {
  readonly version: MemoryVersion;
  readonly clock: Clock;
  /** Returns a random number from 0 to below 1. */
  readonly random: () => number;
  /** Name of the member. */
  readonly name: string;
  /** The URL that the member advertises to clients while it listens at no port. */
  readonly endpoint: string;
  /** Maximum number of operations in a transaction: etcd's `--max-txn-ops`. */
  readonly maxTxnOps: number;
  /** Maximum size of a request in bytes: etcd's `--max-request-bytes`. */
  readonly maxRequestBytes: number;
  /** Maximum size of the database in bytes: etcd's `--quota-backend-bytes`. */
  readonly quotaBytes: number;
  /** How long an authentication token is valid after its last use, in seconds: etcd's `--auth-token-ttl`. */
  readonly tokenTtlSeconds: number;
  /** Interval in milliseconds of the progress notifications of watches: etcd's `--watch-progress-notify-interval`. */
  readonly progressIntervalMs: number;
}

/**
 * The number of bytes that etcd adds to `--max-request-bytes`: `MaxRequestBytesWithOverhead` in etcd's
 * `config/config.go`.
 */
const GRPC_OVERHEAD_BYTES = 524_288;

/** Returns the maximum length in bytes of a gRPC message that the member receives, and of a fragment of a watch. */
export function maxMessageBytes({ maxRequestBytes }: MemberSettings): number {
  return maxRequestBytes + GRPC_OVERHEAD_BYTES;
}
