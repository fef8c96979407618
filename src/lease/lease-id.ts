import { invalidInput } from '../errors/etcd-error.js';
import { checkInt64, reading, show } from '../runtime/arguments.js';

/**
 * A lease, given by its ID or by an object that contains the ID: a `Lease`, a `KeepAlive` or a `Session`. The object
 * keeps the ID after its lease has ended. The server then reports that the lease does not exist.
 *
 * @example
 * const lease = await etcd.lease.grant({ ttl: 60 });
 * await etcd.put('a', 'x', { lease });
 * await etcd.put('b', 'x', { lease: lease.id });
 */
export type LeaseLike = bigint | { readonly id: bigint } | { readonly leaseId: bigint };

/**
 * Returns the ID of a lease. `argument` is the name of the argument in error messages. `least` is the smallest ID
 * allowed: 1n, or 0n in a call where 0n means no lease.
 *
 * @throws EtcdError with reason `InvalidInput` if `lease` has no ID, or if the ID is below `least` or above 2^63 - 1.
 */
export function leaseIdOf(lease: LeaseLike, argument: string, least = 1n): bigint {
  const isObject = typeof lease === 'object' && lease !== null;
  const id = isObject ? reading(lease, argument, () => ('id' in lease ? lease.id : lease.leaseId)) : lease;
  if (typeof id === 'bigint') return checkInt64(id, argument, least);
  throw invalidInput(argument, show(lease), 'a lease ID (bigint), a Lease, a KeepAlive or a Session');
}

/** A check for the option `lease` of a function: a lease, or 0n for no lease. */
export function checkLease(lease: LeaseLike, argument: string): void {
  leaseIdOf(lease, argument, 0n);
}
