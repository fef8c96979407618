// What the output of the normal mode and that of the mode of etcdctl have in common.

export const FORMATS = ['table', 'json', 'simple'] as const;
export type Format = (typeof FORMATS)[number];

/** A stream that the program writes to. */
export interface Sink {
  readonly isTTY?: boolean | undefined;
  write(data: string | Uint8Array): unknown;
}

/** Formats the ID of a member as etcdctl does. */
export function hexId(id: bigint): string {
  return BigInt.asUintN(64, id).toString(16);
}

/** Formats the ID of a lease as etcdctl does. */
export function leaseHex(id: bigint): string {
  return hexId(id).padStart(16, '0');
}
