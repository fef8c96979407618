import { checkInt64, type Int64Like, invalidInput, show } from '../../base/index.js';

/**
 * A lease, given by its ID or by an object that contains the ID: a `Lease`, a `KeepAlive` or a `Session`. The object
 * keeps the ID after its lease has ended. The server then reports that the lease does not exist.
 *
 * @example
 * const lease = await etcd.lease.grant({ ttl: 60 });
 * await etcd.put('a', 'x', { lease });
 * await etcd.put('b', 'x', { lease: lease.id });
 */
export type LeaseLike = Int64Like | { readonly id: bigint } | { readonly leaseId: bigint };

/**
 * Returns the ID of a lease. `argument` is the name of the argument in error messages. An ID may be negative, because
 * etcd accepts a negative ID from a client that chooses the ID of its lease.
 *
 * @throws EtcdError with reason `InvalidInput` if `lease` has no ID, or if the ID is 0n or outside the range of int64.
 */
export function leaseIdOf(lease: LeaseLike, argument: string): bigint {
  const id = leaseIdOrNone(lease, argument);
  if (id !== 0n) return id;
  throw invalidInput(argument, '0n', 'the ID of a lease, which is not 0n');
}

/** Does the same as `leaseIdOf`, but permits 0n, which means no lease. */
export function leaseIdOrNone(lease: LeaseLike, argument: string): bigint {
  const isObject = typeof lease === 'object' && lease !== null;
  const id = !isObject ? lease : 'id' in lease ? lease.id : lease.leaseId;
  if (typeof id === 'bigint' || typeof id === 'number') return checkInt64(id, argument, -(2n ** 63n));
  throw invalidInput(argument, show(lease), 'a lease ID, a Lease, a KeepAlive or a Session');
}
