/** 63 random bits, never 0: for IDs of leases, which are positive, and for keys that nobody else has. */
export function randomId(): bigint {
  const [random = 0n] = crypto.getRandomValues(new BigUint64Array(1));
  return BigInt.asUintN(63, random) || 1n;
}
