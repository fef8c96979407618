import { invalidInput } from '../errors/etcd-error.js';
import { checkInt64, show } from '../runtime/arguments.js';

/**
 * A lease, given by its id or by an object that has one: a `Lease`, a `KeepAlive` or a `Session`. An object whose lease
 * has ended still names that lease; the server then answers that it does not exist.
 *
 * @example
 * ```ts
 * const lease = await etcd.lease.grant({ ttl: 60 });
 * await etcd.put('a', 'x', { lease });
 * await etcd.put('b', 'x', { lease: lease.id });
 * ```
 */
export type LeaseLike = bigint | { readonly id: bigint } | { readonly leaseId: bigint };

/**
 * The id of a lease. `least` is 1n, or 0n where 0n stands for no lease.
 *
 * @throws EtcdError with reason `InvalidInput` if `lease` has no id that int64 holds.
 */
export function leaseIdOf(lease: LeaseLike, argument: string, least = 1n): bigint {
  if (typeof lease === 'bigint') return checkInt64(lease, argument, least);
  if (typeof lease === 'object' && lease !== null) {
    if ('id' in lease) return checkInt64(lease.id, `${argument}.id`, least);
    if ('leaseId' in lease) return checkInt64(lease.leaseId, `${argument}.leaseId`, least);
  }
  const allowed = `a bigint from ${least} to 2^63 - 1, or an object with such an id: a Lease, a KeepAlive or a Session`;
  throw invalidInput(argument, show(lease), allowed);
}
