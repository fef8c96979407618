import { InvalidArgumentError } from 'commander';

/** A count or a revision: 0 or more. */
export function int64(text: string): bigint {
  const value = /^\d{1,19}$/.test(text) ? BigInt(text) : -1n;
  if (value < 0n || value >= 2n ** 63n) throw new InvalidArgumentError('Allowed: a whole number from 0 to 2^63 - 1.');
  return value;
}

/** As etcdctl writes it. */
export function leaseId(text: string): bigint {
  const value = /^[0-9a-f]{1,16}$/i.test(text) ? BigInt(`0x${text}`) : 0n;
  if (value === 0n || value >= 2n ** 63n)
    throw new InvalidArgumentError('Allowed: the id of a lease in hexadecimal, such as 694d8c1b2f4a3e01.');
  return value;
}

/** Seconds, as leases have them. */
export function seconds(text: string): number {
  const value = /^\d{1,10}$/.test(text) ? Number(text) : 0;
  if (value === 0) throw new InvalidArgumentError('Allowed: a whole number of seconds, 1 or more.');
  return value;
}
