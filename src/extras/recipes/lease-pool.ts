import { amended, EtcdError, lowerBound, monotonicMs, orAborted, type SignalOption } from '../../base/index.js';
import { type CoreKeyspace, MAX_TTL, Moment } from '../../client/index.js';
import { withinLimit } from '../../locks/index.js';
import { internally, WaitTrace } from '../../rpc/index.js';

/**
 * The greatest ratio that the pool expects between the rates of two clocks: the clock of the client and the clock of
 * etcd's leader. The deadline of a keepalive allows for the same ratio if the TTL is at most 10 s (rule S14 in
 * docs/semantics.md).
 */
const MAX_RATE = 10 / 9;
const MS_PER_S = 1_000;

/** The limits of a write that waits for its lease. `timeoutMs` ends at the time `deadline` of `monotonicMs`. */
interface GrantLimits {
  readonly signal: SignalOption;
  readonly timeoutMs: number;
  readonly deadline: number;
}

/** A lease of the pool, which several keys share. The server may not have granted it yet. */
export class SharedLease {
  /** Undefined until the client knows that the server has granted the lease. */
  id: bigint | undefined;
  /** The TTL in seconds: the requested TTL, and after the server's answer the granted TTL. */
  ttl: number;
  /** A time before the client sent the request for the lease. */
  readonly asked: Moment = new Moment();
  /** The time on the monotonic clock, in milliseconds, when the client received the lease. Infinity until then. */
  answeredMs = Number.POSITIVE_INFINITY;
  /** The number of writes to which the pool has given this lease. */
  writes = 0;
  /** Settles when the server has granted the lease, or the grant has failed. */
  readonly grant: Promise<bigint>;
  /** The failures of the grant, for the errors of the calls that wait for it. */
  readonly #trace = new WaitTrace();
  readonly #stop = new AbortController();
  readonly #onUnwanted: () => void;
  #waiters = 0;

  /** If no call waits for the grant any longer, calls `onUnwanted` and then cancels the grant. */
  constructor(client: CoreKeyspace, ttl: number, onUnwanted: () => void) {
    this.ttl = ttl;
    this.#onUnwanted = onUnwanted;
    this.grant = this.#granted(client);
  }

  /** The earliest end of the lease on the monotonic clock, in milliseconds, if all clocks run at the same rate. */
  get endMs(): number {
    return this.asked.monotonic + this.ttl * MS_PER_S;
  }

  /** Waits until the server has granted the lease. @throws EtcdError, see `LeasePool.leaseFor`. */
  granted(what: string, { signal, timeoutMs, deadline }: GrantLimits): Promise<bigint> {
    // All calls that wait for the grant share one trace, so that the error of each call names the failures of the
    // grant.
    const options = { ...internally({ signal }, { trace: this.#trace, deadline }), maxWaitMs: timeoutMs };
    this.#waiters += 1;
    const granted = withinLimit(
      what,
      options,
      undefined,
      (limit) => {
        const { signal: ended } = limit;
        // No server has received the write, which waits for the grant.
        limit.setOutcome('not-sent');
        return orAborted(this.grant, ended);
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
   * Returns whether the lease lives for at least `ttl` and at most `longest` seconds from `now` on. For the lower
   * bound, the age of the lease counts from `asked`, on the clock of the machine that has advanced most. For the upper
   * bound, the age counts from the answer, on the monotonic clock, which may stand still while the machine is
   * suspended. So a wrong clock can only make the pool request a lease without need.
   */
  fits(now: Moment, ttl: number, longest: number): boolean {
    const leastMs = this.ttl * MS_PER_S - now.since(this.asked) * MAX_RATE;
    const ageMs = Math.max(0, now.monotonic - this.answeredMs);
    return leastMs >= ttl * MS_PER_S && this.ttl * MS_PER_S - ageMs / MAX_RATE <= longest * MS_PER_S;
  }

  async #granted(client: CoreKeyspace): Promise<bigint> {
    const limits = { signal: this.#stop.signal, timeoutMs: Number.POSITIVE_INFINITY };
    try {
      const { id, ttl } = await client.lease.grant({
        ttl: this.ttl,
        allowLongTtl: true,
        ...internally(limits, { trace: this.#trace, goesOn: true }),
      });
      [this.id, this.ttl, this.answeredMs] = [id, ttl, monotonicMs()];
      return id;
    } catch (error) {
      // The client has not sent the write, which waited for the grant, whatever the outcome of the grant is.
      throw error instanceof EtcdError ? amended(error, { outcome: 'not-sent' }) : error;
    }
  }
}

/**
 * Leases that keys with different TTLs share. A write gets the lease that ends first among those that live long enough,
 * and not too long, for its TTL. If there is no such lease, the pool requests one from the server. The client does not
 * renew the leases.
 *
 * Why keys share leases: each grant is a proposal to raft, and so is the end of each lease. The leader begins to revoke
 * at most 500 leases every 500 ms, and has at most 16 revocations in progress (`revokeExpiredLeases` and
 * `leaseRevokeRate` in server/lease/lessor.go, `maxPendingRevokes` in server/etcdserver/server.go). It deletes the keys
 * of a lease in one revision, so a lease with very many keys blocks other writes for some time.
 */
export class LeasePool {
  readonly #client: CoreKeyspace;
  readonly #granularity: number;
  readonly #maxKeys: number;
  /**
   * The leases that have room for more keys, sorted by `endMs`. A lease that has ended stays until the next `leaseFor`.
   */
  readonly #leases: SharedLease[] = [];
  /** The server's minimum TTL in seconds. 0 until the server has granted a longer TTL than the requested one. */
  #minTtl = 0;

  constructor(client: CoreKeyspace, granularity: number, maxKeys: number) {
    this.#client = client;
    this.#granularity = granularity;
    this.#maxKeys = maxKeys;
  }

  /**
   * Returns a lease for a write that begins now. The lease lives for at least `ttl` seconds from now on, and for at
   * most the bound that `ExpiringKeys` states. `granted` rejects if the grant fails, or if the wait times out or is
   * canceled. The outcome of the error is `not-sent`.
   */
  leaseFor(ttl: number): SharedLease {
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
  drop(lease: SharedLease): void {
    const index = this.#leases.indexOf(lease);
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
    const settled = lease.grant.catch(() => {});
    void settled.then(() => {
      // The granted TTL may differ from the requested one, so the lease may belong at another position of the list.
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
