import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { RevisionAssembler, type WatchBatch } from '../../../src/client/watch/event.js';
import { KeyValue, Event as WireEvent } from '../../../src/gen/mvccpb/kv.js';

const SEED = 20_260;

describe('the revision assembler (S4, S5)', () => {
  test('returns a revision whose events arrive in several fragments when the last fragment has arrived', () => {
    const assembler = new RevisionAssembler();
    expect(assembler.push([event(3n), event(3n)], true)).toEqual([]);
    expect(assembler.push([event(3n)], true)).toEqual([]);
    expect(shape(assembler.push([event(3n), event(4n)], false))).toEqual([
      [3n, 4],
      [4n, 1],
    ]);
  });

  test('returns a revision before the last fragment when an event of the next revision follows', () => {
    const assembler = new RevisionAssembler();
    expect(shape(assembler.push([event(3n), event(4n)], true))).toEqual([[3n, 1]]);
    expect(assembler.hasPartial).toBe(true);
  });

  test('returns the same revisions no matter where a sequence of events is cut into fragments', () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 5 }), { maxLength: 20 });
    fc.assert(
      fc.property(sizes, fc.array(fc.boolean()), (revisions, cuts) => {
        const events = revisions.flatMap((size, index) => Array.from({ length: size }, () => event(BigInt(index + 1))));
        const assembler = new RevisionAssembler();
        const out: WatchBatch[] = [];
        const part: WireEvent[] = [];
        events.forEach((next, index) => {
          part.push(next);
          if (cuts[index] && index < events.length - 1) out.push(...assembler.push(part.splice(0), true));
        });
        out.push(...assembler.push(part, false));
        expect(shape(out)).toEqual(revisions.map((size, index) => [BigInt(index + 1), size]));
      }),
      { seed: SEED },
    );
  });
});

function event(modRevision: bigint): WireEvent {
  return { ...WireEvent.create(), kv: { ...KeyValue.create(), modRevision } };
}

function shape(batches: readonly WatchBatch[]): [bigint, number][] {
  return batches.map(({ revision, events }) => [revision, events.length]);
}
