import { invalidInput } from '../errors/etcd-error.js';
import { checkInt64, show } from '../runtime/arguments.js';

/**
 * A lease, given by its id or by an object that has one: a `Lease`, a `KeepAlive` or a `Session`. An object whose lease
 * has ended still has the id; the server then answers that the lease does not exist.
 *
 * @example
 * const lease = await etcd.lease.grant({ ttl: 60 });
 * await etcd.put('a', 'x', { lease });
 * await etcd.put('b', 'x', { lease: lease.id });
 */
export type LeaseLike = bigint | { readonly id: bigint } | { readonly leaseId: bigint };

/**
 * Returns the id of a lease. `least` is the smallest id allowed: 1n, or 0n where 0n means no lease.
 *
 * @throws EtcdError with reason `InvalidInput` if `lease` has no id, or its id is below `least` or exceeds int64.
 */
export function leaseIdOf(lease: LeaseLike, argument: string, least = 1n): bigint {
  const id = typeof lease === 'object' && lease !== null ? ('id' in lease ? lease.id : lease.leaseId) : lease;
  if (typeof id === 'bigint') return checkInt64(id, argument, least);
  throw invalidInput(argument, show(lease), 'a lease id (bigint), a Lease, KeepAlive or Session');
}
