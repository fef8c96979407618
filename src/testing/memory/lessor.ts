import { NO_BYTES } from '../../base/index.js';
import { ELECTION_MS, HEARTBEAT_MS } from '../raft/host.js';
import { KeyRange } from './key-range.js';
import { serverError } from './service.js';
import type { MemberSettings } from './settings.js';
import type { Store } from './store.js';

/** The minimum TTL, which etcd's `etcdserver/server.go` computes from the election timeout: 2 s. */
const MIN_TTL_SECONDS = BigInt(Math.ceil((Math.trunc((3 * (ELECTION_MS / HEARTBEAT_MS)) / 2) * HEARTBEAT_MS) / 1_000));
/** `MaxLeaseTTL` in etcd's source `lease/lessor.go`. */
const MAX_TTL_SECONDS = 9_000_000_000n;
/** How long the lessor waits before it tries again to revoke an expired lease that it could not revoke. */
const RETRY_MS = 500;

/** The part of a `Member` that its lessor needs. */
interface Host {
  readonly store: Store;
  readonly settings: Pick<MemberSettings, 'clock'>;
  randomId(): bigint;
  /** Proposes to revoke a lease that has expired. */
  revokeExpired(id: bigint): void;
}

interface Lease {
  readonly id: bigint;
  readonly ttlSeconds: bigint;
  /** The time in milliseconds at which the lease expires, on the clock of the member. Infinity while suspended. */
  dueMs: number;
  /** The number of the grant or renewal that set `dueMs`. It orders leases that expire at the same time. */
  refresh: number;
}

/** A lease without its keys, as a member keeps it across a restart. etcd does not keep the remaining time either. */
export interface LeaseRecord {
  readonly id: bigint;
  readonly ttlSeconds: bigint;
}

/**
 * The leases of a member. The store knows which keys are attached to which lease.
 *
 * The lessor revokes a lease exactly when the remaining time of the lease has passed. etcd looks for expired leases
 * every 500 ms and revokes at most 500 of them each time. In etcd, a lease therefore lives longer, usually by up to
 * half a second.
 */
export class Lessor {
  readonly #member: Host;
  readonly #leases = new Map<bigint, Lease>();
  /** The number of grants and renewals so far. */
  #refreshes = 0;
  #isSuspended = false;
  #nextId: bigint;
  /** The timer that revokes the expired leases. It never runs later than the next expiry, but may run earlier. */
  #timer: { readonly dueMs: number; readonly cancel: () => void } | undefined;

  constructor(member: Host) {
    this.#member = member;
    this.#nextId = member.randomId();
  }

  has(id: bigint): boolean {
    return this.#leases.has(id);
  }

  /** The IDs of all leases. The lease that expires first is the first one. */
  get ids(): bigint[] {
    return [...this.#leases.values()].sort(byExpiry).map(({ id }) => id);
  }

  /** The keys that are attached to a lease, in byte order. */
  keysOf(id: bigint): Uint8Array[] {
    const { store } = this.#member;
    return store.keysOf(id).flatMap((key) => store.get(key)?.key ?? []);
  }

  /**
   * Creates a lease. Replaces a TTL below the minimum, also a negative TTL, by the minimum.
   *
   * @throws StatusError with the reason `LeaseTTLTooLarge` or `LeaseExist`.
   */
  grant(id: bigint, ttlSeconds: bigint): LeaseRecord {
    if (ttlSeconds > MAX_TTL_SECONDS) throw serverError('LeaseTTLTooLarge');
    if (this.has(id)) throw serverError('LeaseExist');
    return this.#add({ id, ttlSeconds });
  }

  /** Returns an ID from 1 to 2^63 - 1: like etcd, clears the bit of the sign. See `LeaseGrant` in `v3_server.go`. */
  unusedId(): bigint {
    for (;;) {
      const id = BigInt.asUintN(63, this.#nextId);
      this.#nextId += 1n;
      if (id !== 0n && !this.has(id)) return id;
    }
  }

  /**
   * Ends a lease and deletes its keys, in byte order and at one revision.
   *
   * @throws StatusError with the reason `LeaseNotFound`.
   */
  revoke(id: bigint): void {
    if (!this.#leases.delete(id)) throw serverError('LeaseNotFound');
    if (this.#leases.size === 0) this.#stopTimer();
    const transaction = this.#member.store.write();
    for (const key of this.keysOf(id)) transaction.delete(new KeyRange(key, NO_BYTES));
    transaction.commit();
  }

  /** Gives a lease its full TTL again. Returns the TTL in seconds, or undefined if the lease does not exist. */
  renew(id: bigint): bigint | undefined {
    const lease = this.#leases.get(id);
    if (lease === undefined) return undefined;
    if (lease.dueMs <= this.#nowMs) {
      // The lease has expired, but the timer is late. In this case, etcd answers the renewal after it has revoked the
      // lease.
      this.#expire(lease);
      return undefined;
    }
    this.#refresh(lease, 0);
    return lease.ttlSeconds;
  }

  /**
   * Returns the granted TTL and the remaining time, both in seconds, or undefined if the lease does not exist. The
   * remaining time is rounded toward zero. It is negative if the lease expired a second ago or earlier, but the lessor
   * has not revoked it yet.
   *
   * @throws StatusError with the reason `LeaderChanged` while the lessor is suspended.
   */
  timeToLive(id: bigint): { readonly granted: bigint; readonly remaining: bigint } | undefined {
    const lease = this.#leases.get(id);
    if (lease === undefined) return undefined;
    if (this.#isSuspended) throw serverError('LeaderChanged');
    return { granted: lease.ttlSeconds, remaining: BigInt(Math.trunc((lease.dueMs - this.#nowMs) / 1_000)) };
  }

  /** Expires a lease now. Returns false if the lease does not exist. */
  expire(id: bigint): boolean {
    const lease = this.#leases.get(id);
    if (lease === undefined) return false;
    this.#expire(lease);
    return true;
  }

  /**
   * Keeps all leases alive until `renewAll`, because a member that is stopped, or is not the leader, revokes no lease.
   */
  suspend(): void {
    this.#isSuspended = true;
    for (const lease of this.#leases.values()) lease.dueMs = Number.POSITIVE_INFINITY;
    this.#stopTimer();
  }

  /** Gives all leases their full TTL and one election timeout more, as etcd does when a member becomes the leader. */
  renewAll(): void {
    this.#isSuspended = false;
    for (const lease of this.#leases.values()) this.#refresh(lease, ELECTION_MS);
  }

  snapshot(): LeaseRecord[] {
    return [...this.#leases.values()].map(({ id, ttlSeconds }) => ({ id, ttlSeconds }));
  }

  /** Replaces all leases and gives them their full TTL, as etcd does when it starts and becomes the leader. */
  restore(leases: readonly LeaseRecord[]): void {
    this.#leases.clear();
    this.#stopTimer();
    for (const lease of leases) this.#add(lease);
    this.renewAll();
  }

  get #nowMs(): number {
    return this.#member.settings.clock.now();
  }

  #add({ id, ttlSeconds }: LeaseRecord): Lease {
    const atLeast = ttlSeconds < MIN_TTL_SECONDS ? MIN_TTL_SECONDS : ttlSeconds;
    const lease: Lease = { id, ttlSeconds: atLeast, dueMs: 0, refresh: 0 };
    this.#leases.set(id, lease);
    this.#refresh(lease, 0);
    return lease;
  }

  #refresh(lease: Lease, extraMs: number): void {
    this.#refreshes += 1;
    lease.refresh = this.#refreshes;
    if (this.#isSuspended) lease.dueMs = Number.POSITIVE_INFINITY;
    else lease.dueMs = this.#nowMs + Number(lease.ttlSeconds) * 1_000 + extraMs;
    this.#runBy(lease.dueMs);
  }

  /** Starts the timer for `dueMs`, unless the running timer is due by then. Does nothing if `dueMs` is infinite. */
  #runBy(dueMs: number): void {
    if (dueMs === Number.POSITIVE_INFINITY) return;
    if (this.#timer !== undefined && this.#timer.dueMs <= dueMs) return;
    this.#stopTimer();
    const cancel = this.#member.settings.clock.after(dueMs - this.#nowMs, () => this.#expireDue());
    this.#timer = { dueMs, cancel };
  }

  #stopTimer(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
  }

  #expireDue(): void {
    this.#timer = undefined;
    const nowMs = this.#nowMs;
    const due = [...this.#leases.values()].filter(({ dueMs }) => dueMs <= nowMs).sort(byExpiry);
    for (const lease of due) this.#expire(lease);
    let nextMs = Number.POSITIVE_INFINITY;
    for (const { dueMs } of this.#leases.values()) nextMs = Math.min(nextMs, dueMs > nowMs ? dueMs : nowMs + RETRY_MS);
    this.#runBy(nextMs);
  }

  #expire({ id }: Lease): void {
    if (this.has(id)) this.#member.revokeExpired(id);
  }
}

function byExpiry(a: Lease, b: Lease): number {
  return a.dueMs === b.dueMs ? a.refresh - b.refresh : a.dueMs - b.dueMs;
}
