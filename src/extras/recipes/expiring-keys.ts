import {
  amended,
  type BytesLike,
  backoffMs,
  checkBoolean,
  checkGivenOptions,
  checkOptions,
  checkPositiveCount,
  EtcdError,
  invalidInput,
  monotonicMs,
  ownBytes,
  pauseUntil,
  show,
  timedOut,
} from '../../base/index.js';
import {
  type CoreKeyspace,
  checkTtl,
  checkUsualTtl,
  compare,
  type KeyspaceClient,
  keyspaceClientOf,
  op,
  ownKey,
  type PutResult,
} from '../../client/index.js';
import {
  type CallOptions,
  checkCallOptions,
  internally,
  type WithHeader,
  WRITE_OPTIONS,
  type WriteOptions,
  withSharedLimit,
} from '../../rpc/index.js';
import { LeasePool } from './lease-pool.js';

/** Options of `new ExpiringKeys`. */
export interface ExpiringKeysOptions {
  /**
   * How much longer than its TTL a key may live, as a fraction of the TTL. A greater granularity needs fewer leases.
   * Default 0.1: a key with a TTL of 60 s lives for 60 to 66 s. Even with granularity 0, a key may live one second too
   * long.
   */
  readonly granularity?: number | undefined;
  /**
   * The maximum number of keys that share a lease. etcd deletes the keys of a lease in one revision, and applies no
   * other write meanwhile. Default 1,000.
   */
  readonly maxKeysPerLease?: number | undefined;
}

/** Options of `ExpiringKeys.touch`. */
export interface TouchOptions extends WriteOptions {
  /** How long the key lives, in whole seconds from 1 to 3,600, or to 9,000,000,000 with `allowLongTtl`. */
  readonly ttl: number;
  /**
   * Allows a `ttl` above an hour. Without this option, the client refuses such a TTL, because callers usually mean
   * milliseconds. Default false.
   */
  readonly allowLongTtl?: boolean | undefined;
}

/** Options of `ExpiringKeys.put`. */
export interface ExpiringPutOptions extends TouchOptions {
  /** Whether `put` also returns the key as it was before the put. Default false. */
  readonly prevKv?: boolean | undefined;
}

const OPTIONS = { granularity: checkGranularity, maxKeysPerLease: checkPositiveCount } as const;
const TOUCH_OPTIONS = { ttl: checkTtl, allowLongTtl: checkBoolean, ...WRITE_OPTIONS } as const;
const PUT_OPTIONS = { prevKv: checkBoolean, ...TOUCH_OPTIONS } as const;

/**
 * Keys that etcd deletes when their TTL has passed, such as the entries of a cache. In etcd, a TTL belongs to a lease,
 * and a lease for each key is expensive. So keys whose TTLs end at about the same time share a lease: their TTLs may
 * differ, and they may be written at different times. Use one `ExpiringKeys` for all keys of a process.
 *
 * A key lives for at least `ttl` seconds, counted from the call. It lives for at most `ttl * (1 + granularity)`
 * seconds, or `ttl + 1` if that is more, counted from when the call resolves, plus the time until etcd notices the end
 * of the lease. `docs/leases.md` says how long etcd takes, and when leases end earlier or later than they should. If
 * the TTL is below the minimum TTL of the server, which is 2 s by default, the minimum counts instead.
 *
 * The keys are plain keys: read, watch and delete them like any other key. A put with another method, such as `put` of
 * the client, detaches a key from its lease, so that the key does not expire. With `retryWrites`, do not make tens of
 * thousands of calls at once, because each write under way needs a guard.
 *
 * @example
 * const cache = new ExpiringKeys(etcd);
 * await cache.put('cache/user/7', 'Ada', { ttl: 60 });
 * console.log(await cache.touch('cache/user/7', { ttl: 3_600 })); // true
 * console.log((await etcd.get('cache/user/7'))?.text()); // Ada
 */
export class ExpiringKeys {
  readonly #client: KeyspaceClient;
  readonly #pool: LeasePool;

  /** @throws EtcdError with reason `InvalidInput` if an argument is invalid. */
  constructor(client: CoreKeyspace, options: ExpiringKeysOptions = {}) {
    this.#client = keyspaceClientOf(client);
    checkOptions(options, OPTIONS, 'ExpiringKeys');
    const { granularity = 0.1, maxKeysPerLease = 1_000 } = options;
    this.#pool = new LeasePool(client, granularity, maxKeysPerLease);
  }

  /**
   * Writes a key that lives for `ttl` seconds. Replaces the value and the TTL of an existing key.
   *
   * @throws EtcdError as `put` of the client does. If the outcome is `unknown`, the key may have been written, or may
   * still be written.
   *
   * @example
   * const cache = new ExpiringKeys(etcd);
   * const { header } = await cache.put('cache/user/7', 'Ada', { ttl: 60, timeoutMs: 2_000 });
   * console.log(header.revision > 0n); // true
   */
  async put(key: BytesLike, value: BytesLike, options: ExpiringPutOptions): Promise<WithHeader<PutResult>> {
    checkGivenOptions(options, PUT_OPTIONS, 'ExpiringKeys.put');
    const { prevKv } = options;
    const ownedKey = ownKey(key, 'key');
    const ownedValue = ownBytes(value, 'value');
    return this.#withLease('ExpiringKeys.put', options, (lease, limits) =>
      this.#client.put(ownedKey, ownedValue, { ...limits, lease, prevKv }),
    );
  }

  /**
   * Lets a key live for `ttl` seconds from now on, without sending its value. Also shortens the life of a key, and
   * gives a TTL to a key that has none. Returns false if the key does not exist. A watch of the key gets a put event.
   *
   * @throws EtcdError as `txn` of the client does. If the outcome is `unknown`, the key may have the new TTL, or may
   * still get it.
   *
   * @example
   * const cache = new ExpiringKeys(etcd);
   * await cache.put('cache/user/7', 'Ada', { ttl: 60 });
   * console.log(await cache.touch('cache/user/7', { ttl: 600 })); // true
   */
  async touch(key: BytesLike, options: TouchOptions): Promise<boolean> {
    checkGivenOptions(options, TOUCH_OPTIONS, 'ExpiringKeys.touch');
    const owned = ownKey(key, 'key');
    return this.#withLease('ExpiringKeys.touch', options, (lease, limits) => this.#move(owned, lease, limits));
  }

  /**
   * Removes the TTL of a key, so that the key does not expire. Returns false if the key does not exist. A watch of the
   * key gets a put event.
   *
   * @throws EtcdError as `txn` of the client does. If the outcome is `unknown`, the key may have lost its TTL, or may
   * still lose it.
   *
   * @example
   * const cache = new ExpiringKeys(etcd);
   * await cache.put('cache/user/7', 'Ada', { ttl: 60 });
   * await cache.persist('cache/user/7');
   * console.log(await cache.remainingTtl('cache/user/7')); // Infinity
   */
  async persist(key: BytesLike, options: WriteOptions = {}): Promise<boolean> {
    checkOptions(options, WRITE_OPTIONS, 'ExpiringKeys.persist');
    return this.#move(ownKey(key, 'key'), 0n, options);
  }

  /**
   * Returns how many seconds are left until the lease of a key ends, rounded down. Returns `Infinity` if the key has no
   * lease, and undefined if the key does not exist. Costs two calls for a key with a lease, and otherwise one.
   *
   * @example
   * const cache = new ExpiringKeys(etcd);
   * await cache.put('cache/user/7', 'Ada', { ttl: 60 });
   * const seconds = (await cache.remainingTtl('cache/user/7')) ?? 0;
   * console.log(seconds > 50 && seconds <= 66); // true
   * console.log(await cache.remainingTtl('cache/user/8')); // undefined
   */
  async remainingTtl(key: BytesLike, options: CallOptions = {}): Promise<number | undefined> {
    checkCallOptions(options, 'ExpiringKeys.remainingTtl');
    const owned = ownKey(key, 'key');
    const limits = withSharedLimit(options, this.#client.rpc.settings.timeoutMs);
    for (let ended: bigint | undefined; ; ) {
      const kv = await this.#client.get(owned, { ...limits, keysOnly: true });
      if (kv === undefined) return undefined;
      if (kv.lease === 0n) return Number.POSITIVE_INFINITY;
      if (kv.lease === ended) return 0;
      const { remainingTtl } = await this.#client.lease.timeToLive(kv.lease, limits);
      if (remainingTtl !== undefined) return remainingTtl;
      // The lease has ended since the client read the key, so the key is gone, or another client has written it.
      ended = kv.lease;
    }
  }

  /** Attaches an existing key to another lease, or to none (0n). Returns false if the key does not exist. */
  async #move(key: BytesLike, lease: bigint, options: WriteOptions): Promise<boolean> {
    const txn = { if: [compare.exists(key)], then: [op.put(key, '', { ignoreValue: true, lease })] };
    return (await this.#client.txn(txn, options)).succeeded;
  }

  /**
   * Runs a write with a lease of the pool. Repeats the write with another lease only if the server has refused it
   * because the lease does not exist, for example because another client has revoked it, or the process was suspended.
   */
  async #withLease<T>(
    what: string,
    options: TouchOptions,
    write: (lease: bigint, limits: WriteOptions) => Promise<T>,
  ): Promise<T> {
    const { ttl, allowLongTtl, signal, timeoutMs = this.#client.rpc.settings.timeoutMs } = options;
    checkUsualTtl(ttl, allowLongTtl);
    const startMs = monotonicMs();
    const deadline = startMs + timeoutMs;
    const limits: WriteOptions = internally(options, { deadline });
    const { closed } = this.#client.core.settings;
    for (let refusals = 0; ; refusals += 1) {
      const lease = this.#pool.leaseFor(ttl);
      try {
        const id = lease.id ?? (await lease.granted(what, { signal, timeoutMs, deadline }));
        return await write(id, limits);
      } catch (error) {
        if (!isLeaseGone(error)) throw refusals > 0 ? rejectedBefore(error) : error;
        this.#pool.drop(lease);
        // The first repetition begins at once. A further refusal is unlikely, unless the endpoints belong to several
        // clusters, so the client pauses before each further repetition.
        const resumesMs = refusals > 0 ? monotonicMs() + backoffMs(refusals) : startMs;
        if (resumesMs >= deadline) throw timedOut(what, timeoutMs, 'rejected', undefined, new Map([['', error]]));
        if (refusals > 0) await pauseUntil(resumesMs, signal, closed);
      }
    }
  }
}

function isLeaseGone(error: unknown): error is EtcdError {
  return error instanceof EtcdError && error.reason === 'LeaseNotFound' && error.outcome === 'rejected';
}

/** Returns `error` with outcome `rejected` instead of `not-sent`, because a server has refused an earlier attempt. */
function rejectedBefore(error: unknown): unknown {
  return error instanceof EtcdError && error.outcome === 'not-sent' ? amended(error, { outcome: 'rejected' }) : error;
}

function checkGranularity(value: number, argument: string): number {
  if (typeof value === 'number' && value >= 0 && Number.isFinite(value)) return value;
  throw invalidInput(argument, show(value), 'a number of 0 or more, such as 0.1');
}
