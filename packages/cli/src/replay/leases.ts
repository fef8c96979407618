import type { JsonObject } from '../../../../src/internal.js';
import { type Put, putsIn } from './messages.js';
import type { Operation } from './operations.js';

/** The TTL in seconds of a lease whose TTL the recording does not show. */
const UNKNOWN_TTL_S = 3_600;

interface RecordedLease {
  ttlSeconds: number;
  /** The earliest recorded time at which the lease may expire. */
  dueMs: number;
}

/** The leases of a recording, as its answers show them. IDs are decimal. */
export class RecordedLeases {
  /** The leases that existed before the recording, with their TTLs. */
  readonly before = new Map<string, number>();
  readonly #leases = new Map<string, RecordedLease>();
  readonly #leaseOfKey = new Map<string, string>();

  /** Follows an operation that is carried out. */
  follow({ call, ms, request, answer }: Operation): void {
    if (answer === undefined) return;
    const ttl = Number(answer.TTL ?? 0);
    const id = String(answer.ID ?? request.ID ?? '0');
    if (call.rpc === 'Lease/LeaseGrant') this.#leases.set(id, { ttlSeconds: ttl, dueMs: ms + ttl * 1_000 });
    if (call.rpc === 'Lease/LeaseKeepAlive' && ttl > 0) this.#known(id, ttl).dueMs = ms + ttl * 1_000;
    if (call.rpc === 'Lease/LeaseTimeToLive' && ttl >= 0 && answer.grantedTTL !== undefined)
      this.#known(id, Number(answer.grantedTTL));
    if (call.rpc === 'Lease/LeaseRevoke') {
      this.#known(id, UNKNOWN_TTL_S);
      this.#leases.delete(id);
    }
    if (call.rpc === 'KV/DeleteRange' && request.range_end === undefined) this.#leaseOfKey.delete(String(request.key));
    for (const put of putsIn(call.rpc, request, answer)) this.put(put);
    if (request.lease !== undefined && call.rpc.startsWith('Lock/')) this.#known(String(request.lease), UNKNOWN_TTL_S);
  }

  /** Follows a put of a key. */
  put({ key, lease }: Put): void {
    if (lease === '0') this.#leaseOfKey.delete(key);
    else {
      this.#known(lease, UNKNOWN_TTL_S);
      this.#leaseOfKey.set(key, lease);
    }
  }

  /** Adds a key that existed before the recording. */
  seeded({ key, lease }: JsonObject): void {
    if (lease !== undefined) this.put({ key: String(key), lease: String(lease) });
  }

  /** Removes a lease that expires. */
  expired(id: string): void {
    this.#leases.delete(id);
    for (const [key, lease] of this.#leaseOfKey) if (lease === id) this.#leaseOfKey.delete(key);
  }

  /** Whether a lease may have expired at a recorded time. */
  isDue(id: string, ms: number): boolean {
    const lease = this.#leases.get(id);
    return lease !== undefined && lease.dueMs <= ms;
  }

  /** The lease of a key. Undefined if the key has none. */
  leaseOf(key: string): string | undefined {
    return this.#leaseOfKey.get(key);
  }

  /** The keys of a lease that the recording shows. */
  keysOf(id: string): readonly string[] {
    return [...this.#leaseOfKey].filter(([, lease]) => lease === id).map(([key]) => key);
  }

  /**
   * The lease that may have expired first at a recorded time. Undefined if none can have expired. Considers only leases
   * with keys, of which `isKept` returns false for each.
   */
  firstDue(ms: number, isKept: (key: string) => boolean): string | undefined {
    const due = [...this.#leases].filter(([id, { dueMs }]) => {
      if (dueMs > ms) return false;
      const keys = this.keysOf(id);
      return keys.length > 0 && !keys.some(isKept);
    });
    return due.sort(([, a], [, b]) => a.dueMs - b.dueMs)[0]?.[0];
  }

  /** Returns a lease. Notes that it existed before the recording if the recording does not grant it. */
  #known(id: string, ttlSeconds: number): RecordedLease {
    let lease = this.#leases.get(id);
    if (lease === undefined) {
      lease = { ttlSeconds, dueMs: Number.POSITIVE_INFINITY };
      this.#leases.set(id, lease);
      this.before.set(id, ttlSeconds);
    } else if (this.before.get(id) === UNKNOWN_TTL_S) this.before.set(id, ttlSeconds);
    return lease;
  }
}

/** Returns the IDs of the leases that do not exist, according to the answer of an operation. */
export function missingLeases({ call, request, answer, error }: Operation): readonly string[] {
  if (error?.endsWith('requested lease not found') === true)
    return [request.ID, request.lease].filter((id) => id !== undefined).map(String);
  const isMissing =
    (call.rpc === 'Lease/LeaseKeepAlive' && answer !== undefined && answer.TTL === undefined) ||
    (call.rpc === 'Lease/LeaseTimeToLive' && answer?.TTL === '-1');
  return isMissing ? [String(request.ID)] : [];
}
