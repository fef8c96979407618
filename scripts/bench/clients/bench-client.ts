/** The range of a watch: one key, or all keys with a prefix. */
type Watched = { readonly key: string } | { readonly prefix: string };

/** Receives the value of each event. */
export type OnEvent = (value: Uint8Array) => void;

/**
 * A client as the benchmark uses it. Each method makes its call as an experienced user of the client would write it,
 * and reads the part of the result that a typical program needs. An optional method is missing if the client lacks the
 * feature.
 */
export interface BenchClient {
  /** Resolves with the length of the value in bytes. */
  get(key: string): Promise<number>;
  put(key: string, value: Buffer): Promise<unknown>;
  /** Puts the value if the key exists. Resolves with whether the key existed. */
  txn(key: string, value: Buffer): Promise<boolean>;
  /** Reads all keys with the prefix, and their values. Resolves with the number of keys. */
  scan(prefix: string): Promise<number>;
  /**
   * Resolves once the server has created the watch, with a function that cancels the watch. Calls `onEvent` for puts
   * only.
   */
  watch(watched: Watched, onEvent: OnEvent, startRevision?: bigint): Promise<() => Promise<unknown>>;
  /** Grants a lease. Resolves with a function that renews it once. */
  lease(): Promise<() => Promise<unknown>>;
  /** Resolves with a function that takes and releases a lock for which no other client contends. */
  lock?(name: string): Promise<() => Promise<unknown>>;
  /** Resolves with a function that makes the two transactions of `lock`, and nothing else. */
  lockTransactions?(name: string): Promise<() => Promise<unknown>>;
}

/** Options of grpc-js that lift its limit of 4 MB for a response, because the response with 100,000 keys is longer. */
export const UNLIMITED_RESPONSES = { 'grpc.max_receive_message_length': -1 } as const;

/** TTL of leases in seconds. It is longer than a run, because `lease` does not renew its lease in the background. */
export const LEASE_TTL = 600;

/** The names of the clients, as the report shows them. */
export const CLIENTS = ['etcdwire', 'etcdwire over grpc-js', 'etcd3', 'bare grpc-js'] as const;

/**
 * The names of variants of etcdwire that are built from the same sources and differ in their hooks, which are
 * interceptors and diagnostics channels.
 */
export const HOOKED = ['without hooks', 'hooks unused', 'an interceptor', 'a subscriber'] as const;
export type HookedName = (typeof HOOKED)[number];

/** The names of clients of etcdwire without and with `retryWrites`. */
export const RETRYING = ['without retryWrites', 'with retryWrites'] as const;
export type RetryingName = (typeof RETRYING)[number];

export type ClientName = (typeof CLIENTS)[number] | HookedName | RetryingName;
