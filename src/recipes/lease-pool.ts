import { internally } from '../channel/rpc.js';
import { WaitTrace } from '../channel/wait-trace.js';
import type { CoreKeyspace } from '../client/keyspace.js';
import { type WaitOptions, withinLimit } from '../concurrency/waiting.js';
import { amended, EtcdError } from '../errors/etcd-error.js';
import { MAX_TTL } from '../lease/leases.js';
import { Moment } from '../lease/moment.js';
import { orAborted } from '../runtime/signals.js';
import { lowerBound } from '../runtime/sorted-list.js';
import { monotonicMs } from '../runtime/timers.js';

/**
 * How many times as fast as another clock a clock may run: the clocks of the client and of etcd's leader. A keepalive
 * allows the same ratio, with its margin of a tenth of the TTL (rule S14 in docs/semantics.md).
 */
const MAX_RATE = 10 / 9;
const MS_PER_S = 1_000;

/** A lease of the pool, which several keys share. The server may not have granted it yet. */
export interface PooledLease {
  /** Undefined until the client knows that the server has granted the lease. */
  readonly id: bigint | undefined;
  /** Waits until the server has granted the lease. @throws EtcdError, see `LeasePool.leaseFor`. */
  granted(what: string, options: WaitOptions): Promise<bigint>;
}

class SharedLease implements PooledLease {
  id: bigint | undefined;
  /** The TTL in seconds: that of the request, until the client knows the granted one. */
  ttl: number;
  /** A time before the client sent the request. */
  readonly asked = new Moment();
  /** When the client received the answer, on the monotonic clock. Infinity until then. */
  answeredMs = Number.POSITIVE_INFINITY;
  /** How many writes have got the lease from the pool. */
  writes = 0;
  readonly #grant: Promise<bigint>;
  /** The failures of the grant, for the errors of the calls that wait for it. */
  readonly #trace = new WaitTrace();
  readonly #stop = new AbortController();
  readonly #onUnwanted: () => void;
  #waiters = 0;

  /** `onUnwanted` is called before the grant is canceled because no call waits for it any longer. */
  constructor(client: CoreKeyspace, ttl: number, onUnwanted: () => void) {
    this.ttl = ttl;
    this.#onUnwanted = onUnwanted;
    this.#grant = this.#granted(client);
  }

  /** When the lease ends at the earliest, on the monotonic clock, if all clocks run at the same rate. */
  get endMs(): number {
    return this.asked.monotonic + this.ttl * MS_PER_S;
  }

  /** Resolves when the server has answered, also with an error. */
  async answered(): Promise<void> {
    await this.#grant.catch(() => {});
  }

  granted(what: string, { signal, maxWaitMs }: WaitOptions): Promise<bigint> {
    // All calls that wait for the grant have its trace, so that each of their errors names the failures of the grant.
    const options = { ...internally({ signal }, { trace: this.#trace }), maxWaitMs };
    this.#waiters += 1;
    const granted = withinLimit(
      what,
      options,
      undefined,
      (limit) => {
        const { signal: ended } = limit;
        // No server has received the write, which waits for the grant.
        limit.setOutcome('not-sent');
        return orAborted(this.#grant, ended);
      },
      'timeoutMs',
    );
    return granted.finally(() => {
      this.#waiters -= 1;
      if (this.#waiters > 0 || this.id !== undefined) return;
      this.#onUnwanted();
      this.#stop.abort();
    });
  }

  /**
   * Whether the lease lives for at least `ttl` and at most `longest` seconds from `now` on. The age of the lease counts
   * from `asked` on the clock that has advanced most for the first condition. For the second condition, it counts from
   * the answer on the clock that a suspension stops. So an error of a clock can only make the client grant a lease in
   * vain.
   */
  fits(now: Moment, ttl: number, longest: number): boolean {
    const leastMs = this.ttl * MS_PER_S - now.since(this.asked) * MAX_RATE;
    const ageMs = Math.max(0, now.monotonic - this.answeredMs);
    return leastMs >= ttl * MS_PER_S && this.ttl * MS_PER_S - ageMs / MAX_RATE <= longest * MS_PER_S;
  }

  async #granted(client: CoreKeyspace): Promise<bigint> {
    const limits = { signal: this.#stop.signal, timeoutMs: Number.POSITIVE_INFINITY };
    try {
      const { id, ttl } = await client.lease.grant({ ttl: this.ttl, ...internally(limits, { trace: this.#trace }) });
      [this.id, this.ttl, this.answeredMs] = [id, ttl, monotonicMs()];
      return id;
    } catch (error) {
      // The outcome of the grant is not that of the write, which waited for the grant.
      throw error instanceof EtcdError ? amended(error, { outcome: 'not-sent' }) : error;
    }
  }
}

/**
 * Leases that keys with different TTLs share. A write gets the lease that ends first among those that live long enough,
 * and not too long, for its TTL. If there is none, the pool grants one. The client does not renew the leases.
 */
export class LeasePool {
  readonly #client: CoreKeyspace;
  readonly #granularity: number;
  readonly #maxKeys: number;
  /** The leases that have room for more keys, by `endMs`. Leases that have ended stay until the next call. */
  readonly #leases: SharedLease[] = [];
  /** The server's minimum TTL in seconds, as far as the client has noticed it. */
  #minTtl = 0;

  constructor(client: CoreKeyspace, granularity: number, maxKeys: number) {
    this.#client = client;
    this.#granularity = granularity;
    this.#maxKeys = maxKeys;
  }

  /**
   * Returns a lease for a write that begins now. The lease lives for at least `ttl` seconds from now on, and for at
   * most the bound that `ExpiringKeys` states. `granted` of a new lease rejects with the error of the grant, with
   * outcome `not-sent`.
   */
  leaseFor(ttl: number): PooledLease {
    const now = new Moment();
    const longest = this.#longest(ttl);
    this.#leases.splice(0, this.#indexAt(now.monotonic));
    for (let index = this.#indexAt(now.monotonic + ttl * MS_PER_S); index < this.#leases.length; index += 1) {
      const lease = this.#leases[index] as SharedLease;
      if (lease.endMs > now.monotonic + longest * MS_PER_S) break;
      if (lease.fits(now, ttl, longest)) return this.#used(lease);
    }
    return this.#used(this.#grant(longest));
  }

  /** Forgets a lease, because it does not exist on the server. */
  drop(lease: PooledLease): void {
    const index = this.#leases.indexOf(lease as SharedLease);
    if (index >= 0) this.#leases.splice(index, 1);
  }

  /** How long a lease for a key with this TTL may live, in whole seconds. */
  #longest(ttl: number): number {
    const least = Math.max(ttl, this.#minTtl);
    return Math.min(MAX_TTL, Math.max(least + 1, Math.floor(least * (1 + this.#granularity))));
  }

  #grant(ttl: number): SharedLease {
    const lease: SharedLease = new SharedLease(this.#client, ttl, () => this.drop(lease));
    this.#add(lease);
    void lease.answered().then(() => {
      // The granted TTL may differ from the requested one, and so may the position of the lease.
      const { length } = this.#leases;
      this.drop(lease);
      if (lease.id === undefined) return;
      if (lease.ttl > ttl) this.#minTtl = Math.max(this.#minTtl, lease.ttl);
      if (this.#leases.length < length) this.#add(lease);
    });
    return lease;
  }

  #add(lease: SharedLease): void {
    this.#leases.splice(this.#indexAt(lease.endMs), 0, lease);
  }

  #used(lease: SharedLease): SharedLease {
    lease.writes += 1;
    if (lease.writes >= this.#maxKeys) this.drop(lease);
    return lease;
  }

  /** Returns the index of the first lease that does not end before this time. */
  #indexAt(endMs: number): number {
    return lowerBound(this.#leases.length, (index) => (this.#leases[index] as SharedLease).endMs < endMs);
  }
}
