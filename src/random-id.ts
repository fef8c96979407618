/** 63 random bits, never 0: the IDs of leases are positive. */
export function randomId(): bigint {
  const [random = 0n] = crypto.getRandomValues(new BigUint64Array(1));
  return BigInt.asUintN(63, random) || 1n;
}
