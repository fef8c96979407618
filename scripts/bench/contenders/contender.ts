/** What a watch is on: one key, or all that begin with a prefix. */
type Watched = { readonly key: string } | { readonly prefix: string };

/** Is given the value of each event. */
export type OnEvent = (value: Uint8Array) => void;

/**
 * A client as the benchmark uses it: each call is what a program that knows the client would write, and its result is
 * turned into what such a program would look at. What a client has nothing for is left out.
 */
export interface Contender {
  /** Length of the value in bytes. */
  get(key: string): Promise<number>;
  put(key: string, value: Buffer): Promise<unknown>;
  /** Puts the value where the key is there; whether it was. */
  txn(key: string, value: Buffer): Promise<boolean>;
  /** Number of keys that begin with the prefix, all of them read with their values. */
  scan(prefix: string): Promise<number>;
  /** Resolves once the server has created the watch, to what ends it; events of puts alone. */
  watch(watched: Watched, onEvent: OnEvent, startRevision?: bigint): Promise<() => Promise<unknown>>;
  /** Grants a lease; what it resolves to renews it once. */
  lease(): Promise<() => Promise<unknown>>;
  /** What it resolves to takes the lock, which nobody else wants, and frees it. */
  lock?(name: string): Promise<() => Promise<unknown>>;
}

/** Of the answers to one call. Some clients' default of 4 MB is less than 100,000 keys weigh. */
export const UNLIMITED_RESPONSES = { 'grpc.max_receive_message_length': -1 } as const;

/** Seconds: long enough not to run out while nobody renews it. */
export const LEASE_TTL = 600;
