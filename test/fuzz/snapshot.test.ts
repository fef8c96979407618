import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect } from 'vitest';
import { EtcdError } from '../../src/base/etcd-error.js';
import { Snapshot } from '../../src/client/services/maintenance.js';
import { fromHex, fuzz, hex } from '../support/fuzz.js';

/** One message of a snapshot stream, with the next bytes of the database. */
interface Piece {
  readonly blob: string;
  /** The number of bytes that follow this piece according to the member, in decimal digits. */
  readonly remainingBytes: string;
}

/** A fault in the transfer of the pieces. */
type Change = { readonly at: number } & (
  | { readonly change: 'lost' | 'twice' | 'swapped' | 'last' | 'digest of a part' }
  | { readonly change: 'octet'; readonly place: number }
  | { readonly change: 'count'; readonly bytes: bigint }
);

const SECTOR_BYTES = 512;

const whole = fc
  .tuple(fc.nat({ max: 4 }), fc.array(fc.nat({ max: 700 }), { maxLength: 8 }), fc.nat({ max: 255 }))
  .map(([sectors, cuts, octet]) => {
    const database = new Uint8Array(sectors * SECTOR_BYTES).map((_, index) => octet + index * 7);
    const pieces: Piece[] = [];
    let sent = 0;
    for (const size of [...cuts, Number.POSITIVE_INFINITY]) {
      const blob = database.subarray(sent, sent + size);
      sent += blob.length;
      if (blob.length > 0 || size === 0) pieces.push(piece(blob, database.length - sent));
    }
    return [...pieces, piece(createHash('sha256').update(database).digest(), 0)];
  });
const at = fc.nat({ max: 9 });
const change: fc.Arbitrary<Change> = fc.oneof(
  fc.record({ at, change: fc.constantFrom('lost', 'twice', 'swapped', 'last', 'digest of a part') }),
  fc.record({ at, change: fc.constant('octet' as const), place: fc.nat({ max: 700 }) }),
  fc.record({
    at,
    change: fc.constant('count' as const),
    bytes: fc.oneof(fc.constantFrom(0n, -1n, 2n ** 63n - 1n, -(2n ** 63n), 512n), fc.bigInt(0n, 2_048n)),
  }),
);

function piece(blob: Uint8Array, remaining: number | bigint): Piece {
  return { blob: hex(blob), remainingBytes: String(remaining) };
}

function changed(pieces: readonly Piece[], each: Change): readonly Piece[] {
  const index = each.at % Math.max(1, pieces.length);
  const [before, after] = [pieces.slice(0, index), pieces.slice(index + 1)];
  const old = pieces[index];
  if (old === undefined) return pieces;
  switch (each.change) {
    case 'lost':
      return [...before, ...after];
    case 'twice':
      return [...before, old, old, ...after];
    case 'swapped':
      return [...before, ...after.slice(0, 1), old, ...after.slice(1)];
    case 'last':
      return before;
    case 'digest of a part': {
      const digest = createHash('sha256')
        .update(fromHex(before.map(({ blob }) => blob).join('')))
        .digest();
      return [...before, piece(digest, 0)];
    }
    case 'octet': {
      const bytes = fromHex(old.blob);
      const place = each.place % Math.max(1, bytes.length);
      return [
        ...before,
        { ...old, blob: hex(bytes.map((octet, offset) => (offset === place ? octet ^ 1 : octet))) },
        ...after,
      ];
    }
    case 'count':
      return [...before, { ...old, remainingBytes: String(each.bytes) }, ...after];
  }
}

fuzz<readonly Piece[]>({
  target: 'snapshot',
  property:
    'a snapshot is complete, or its iterator rejects before it yields the last bytes, however the messages are damaged',
  inputs: fc
    .tuple(whole, fc.oneof(fc.constant([]), fc.array(change, { maxLength: 3 })))
    .map(([pieces, changes]) => changes.reduce(changed, pieces)),
  runs: 4_000,
  parts: { whole: 0.3, corrupt: 0.2 },
  check: async (pieces) => {
    const sent = fromHex(pieces.map(({ blob }) => blob).join(''));
    const handedOut: Uint8Array[] = [];
    let corrupt = false;
    try {
      for await (const chunk of new Snapshot(() => responses(pieces))) handedOut.push(chunk);
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
      expect(error).toMatchObject({ reason: 'SnapshotCorrupt', code: 'DataLoss' });
      corrupt = true;
    }
    const received = Buffer.concat(handedOut);
    expect(received.equals(sent.subarray(0, received.length))).toBe(true);
    if (corrupt) {
      expect(received.length).toBeLessThanOrEqual(Math.max(0, sent.length - 32));
      expect(isWhole(sent) && pieces.every((each, index) => isCounted(each, pieces, index))).toBe(false);
      return 'corrupt';
    }
    expect([received.length, isWhole(sent)]).toEqual([sent.length, true]);
    return 'whole';
  },
});

async function* responses(
  pieces: readonly Piece[],
): AsyncGenerator<{ header: undefined; remainingBytes: bigint; blob: Uint8Array; version: string }, void> {
  for (const { blob, remainingBytes } of pieces)
    yield { header: undefined, remainingBytes: BigInt(remainingBytes), blob: fromHex(blob), version: '' };
}

function isWhole(bytes: Uint8Array): boolean {
  const [database, digest] = [bytes.subarray(0, -32), bytes.subarray(-32)];
  if (database.length === 0 || bytes.length % SECTOR_BYTES !== 32) return false;
  return createHash('sha256').update(database).digest().equals(digest);
}

/** Whether a piece's `remainingBytes` is correct: the number of bytes after the piece, without the final digest. */
function isCounted({ remainingBytes }: Piece, pieces: readonly Piece[], index: number): boolean {
  const after = pieces.slice(index + 1).reduce((bytes, { blob }) => bytes + blob.length / 2, 0);
  return BigInt(remainingBytes) === BigInt(Math.max(0, after - 32));
}
