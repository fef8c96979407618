import { type CoreKeyspace, checkClient, type KeyValue, prefix } from '../client/index.js';
import { type CallOptions, checkCallOptions, type WithHeader, withHeader } from '../rpc/index.js';
import { checkName } from './lock-queue.js';

/** The holder of a lock, or a waiter. */
export interface Contender {
  /** The queue key, with the value that the contender gave. */
  readonly kv: KeyValue;
  /** The fencing token that the contender has if it holds the lock. Earlier contenders have lower tokens. */
  readonly token: bigint;
  readonly leaseId: bigint;
  /**
   * Seconds until the contender's lease expires, unless the contender renews it. Undefined if the lease is gone, or if
   * the key has none.
   */
  readonly remaining: number | undefined;
}

/** The state of a lock at one revision. */
export interface LockState {
  /** Undefined if the lock is free. */
  readonly holder: Contender | undefined;
  /** In the order in which they will hold the lock. */
  readonly waiters: readonly Contender[];
}

/**
 * Reads who holds a lock or leads an election, and who waits for it. Needs no session. `name` is the name of a `Mutex`,
 * an `Election`, Go's `concurrency.Mutex` or `etcdctl lock`. The reads of the leases follow the read of the queue, so a
 * lease may be gone already. etcd does not store when a contender queued, so the result does not contain this time.
 *
 * @throws EtcdError as `range` and `lease.timeToLive` do.
 *
 * @example
 * const { holder, waiters } = await inspectLock(etcd, 'jobs/nightly');
 * console.log(holder?.kv.text(), holder?.remaining, waiters.length);
 */
export async function inspectLock(
  client: CoreKeyspace,
  name: string,
  options: CallOptions = {},
): Promise<WithHeader<LockState>> {
  checkClient(client);
  checkName(name);
  checkCallOptions(options, 'inspectLock');
  const sort = { target: 'createRevision', order: 'asc' } as const;
  const { header, kvs } = await client.range(prefix(`${name}/`), { ...options, sort });
  const remaining = new Map<bigint, number | undefined>();
  const leases = new Set(kvs.map(({ lease }) => lease).filter((lease) => lease !== 0n));
  await Promise.all(
    [...leases].map(async (id) => remaining.set(id, (await client.lease.timeToLive(id, options)).remainingTtl)),
  );
  const [holder, ...waiters] = kvs.map((kv) => ({
    kv,
    token: kv.createRevision,
    leaseId: kv.lease,
    remaining: remaining.get(kv.lease),
  }));
  return withHeader(header, { holder, waiters });
}
