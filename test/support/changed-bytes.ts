import fc from 'fast-check';

/**
 * A change to a sequence of bytes. `at` is the position as a fraction of the length, so that a change applies to a
 * sequence of any length.
 */
type Change = { readonly at: number } & (
  | { readonly change: 'octet'; readonly octet: number }
  | { readonly change: 'end' }
  | { readonly change: 'removal'; readonly length: number }
  | { readonly change: 'repetition'; readonly length: number }
  | { readonly change: 'insertion'; readonly bytes: Uint8Array }
);

const at = fc.double({ min: 0, max: 1, noNaN: true });
const length = fc.nat({ max: 20 });
const change: fc.Arbitrary<Change> = fc.oneof(
  fc.record({ at, change: fc.constant('octet' as const), octet: fc.nat({ max: 255 }) }),
  fc.record({ at, change: fc.constant('end' as const) }),
  fc.record({ at, change: fc.constant('removal' as const), length }),
  fc.record({ at, change: fc.constant('repetition' as const), length }),
  fc.record({ at, change: fc.constant('insertion' as const), bytes: fc.uint8Array({ maxLength: 12 }) }),
);

/** Applies at most `maxChanges` random changes to the bytes, so that decoders receive input that is almost valid. */
export function changedBytes(bytes: fc.Arbitrary<Uint8Array>, maxChanges = 4): fc.Arbitrary<Uint8Array> {
  return fc.tuple(bytes, fc.array(change, { maxLength: maxChanges })).map(([start, changes]) =>
    changes.reduce((before, each) => {
      const place = Math.floor(each.at * before.length);
      const [head, tail] = [before.subarray(0, place), before.subarray(place)];
      if (each.change === 'octet') return Buffer.concat([head, [each.octet], tail.subarray(1)].map(Buffer.from));
      if (each.change === 'end') return head;
      if (each.change === 'removal') return Buffer.concat([head, tail.subarray(each.length)]);
      if (each.change === 'repetition') return Buffer.concat([head, tail.subarray(0, each.length), tail]);
      return Buffer.concat([head, each.bytes, tail]);
    }, start),
  );
}
