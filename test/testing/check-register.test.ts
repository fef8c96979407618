import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { checkRegister, type Operation, type RegisterCall, type RegisterResult } from '../../src/testing/index.js';

type RegisterOperation = Operation<RegisterCall, RegisterResult>;

const SEED = 9;

function operation(call: RegisterCall, startMs: number, endMs: number, result?: RegisterResult): RegisterOperation {
  return { process: 'p', call, startMs, endMs, outcome: 'ok', result };
}

const read = (value: string | undefined, startMs: number, endMs: number): RegisterOperation =>
  operation({ type: 'read' }, startMs, endMs, value);
const write = (value: string | undefined, startMs: number, endMs: number): RegisterOperation =>
  operation({ type: 'write', value }, startMs, endMs);
const swap = (expected: string, value: string, swapped: boolean, startMs: number, endMs: number): RegisterOperation =>
  operation({ type: 'compare-and-swap', expected, value }, startMs, endMs, swapped);
const unknown = (made: RegisterOperation): RegisterOperation => ({
  ...made,
  outcome: 'unknown',
  endMs: Number.POSITIVE_INFINITY,
  result: undefined,
});

describe('`checkRegister` accepts', () => {
  test.for<[string, RegisterOperation[]]>([
    ['an empty history', []],
    [
      'operations that run one after another',
      [read(undefined, 0, 1), write('a', 2, 3), read('a', 4, 5), write(undefined, 6, 7), read(undefined, 8, 9)],
    ],
    ['a read that sees a concurrent write', [write('a', 0, 10), read('a', 1, 2)]],
    ['a read that does not see a concurrent write', [write('a', 0, 10), read(undefined, 8, 9)]],
    [
      'two concurrent writes when a later read returns one of the values',
      [write('a', 0, 10), write('b', 0, 10), read('a', 11, 12)],
    ],
    [
      'two concurrent writes whose values are read one after the other',
      [write('a', 0, 10), write('b', 0, 10), read('b', 3, 4), read('a', 5, 6)],
    ],
    [
      'a write of unknown outcome whose value is first read much later',
      [unknown(write('a', 0, 1)), read(undefined, 50, 51), read('a', 90, 91)],
    ],
    [
      'a write of unknown outcome whose value is never read',
      [unknown(write('a', 0, 1)), write('b', 5, 6), read('b', 90, 91)],
    ],
    ['a failed write whose value is never read', [{ ...write('a', 0, 1), outcome: 'fail' }, read(undefined, 2, 3)]],
    ['a read of unknown outcome', [write('a', 0, 1), unknown(read('z', 2, 3)), read('a', 4, 5)]],
    [
      'two concurrent swaps when only one swap succeeds',
      [write('a', 0, 1), swap('a', 'b', true, 2, 9), swap('a', 'c', false, 2, 9), read('b', 10, 11)],
    ],
    [
      'a swap of unknown outcome',
      [write('a', 0, 1), unknown(swap('a', 'b', true, 2, 3)), read('a', 4, 5), read('b', 6, 7)],
    ],
  ])('%s', ([, operations]) => {
    expect(checkRegister(operations)).toEqual([]);
  });

  test('every history in which each operation takes effect at one moment between its start and its end', () => {
    const step = fc.record({
      kind: fc.constantFrom('read', 'write', 'swap'),
      value: fc.constantFrom('a', 'b', 'c'),
      expected: fc.constantFrom('a', 'b', 'c'),
      before: fc.nat({ max: 60 }),
      after: fc.nat({ max: 60 }),
      lost: fc.constantFrom(...Array<boolean>(9).fill(false), true),
    });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
        let state: string | undefined;
        const operations = steps.map(({ kind, value, expected, before, after, lost }, index): RegisterOperation => {
          const moment = index * 10;
          const [startMs, endMs] = [moment - before, moment + after];
          const seen = state;
          if (kind === 'write' || (kind === 'swap' && state === expected)) state = value;
          const made =
            kind === 'read'
              ? read(seen, startMs, endMs)
              : kind === 'write'
                ? write(value, startMs, endMs)
                : swap(expected, value, seen === expected, startMs, endMs);
          return lost ? unknown(made) : made;
        });
        expect(checkRegister(operations)).toEqual([]);
      }),
      { seed: SEED, numRuns: 300 },
    );
  });
});

describe('`checkRegister` reports', () => {
  test.for<[string, RegisterOperation[]]>([
    ['a read of a value that no operation wrote', [read('z', 0, 1)]],
    ['a read of an overwritten value', [write('a', 0, 1), write('b', 2, 3), read('a', 4, 5)]],
    ['a read that misses an earlier write', [write('a', 0, 1), read(undefined, 2, 3)]],
    [
      'reads that see two writes in different orders',
      [write('a', 0, 10), write('b', 0, 10), read('a', 11, 12), read('b', 13, 14)],
    ],
    [
      'a read of the old value after a read of the new value',
      [write('a', 0, 1), write('b', 2, 20), read('b', 3, 4), read('a', 5, 6)],
    ],
    ['a failed write whose value is read', [{ ...write('a', 0, 1), outcome: 'fail' }, read('a', 2, 3)]],
    [
      'a write of unknown outcome whose value is read before the write began',
      [read('a', 0, 1), unknown(write('a', 5, 6))],
    ],
    [
      'a write of unknown outcome that takes effect twice',
      [unknown(write('a', 0, 1)), read('a', 2, 3), write('b', 4, 5), read('a', 6, 7)],
    ],
    [
      'two successful swaps that expect the same value',
      [write('a', 0, 1), swap('a', 'b', true, 2, 9), swap('a', 'c', true, 2, 9)],
    ],
    [
      'a swap that failed although the register held the expected value',
      [write('a', 0, 1), swap('a', 'b', false, 2, 3)],
    ],
  ])('%s', ([, operations]) => {
    expect(checkRegister(operations).map(({ rule }) => rule)).toEqual(['not linearizable']);
  });

  test('a stale read after 200 writes, and accepts a valid history of 400 operations, within the test timeout', () => {
    const writes = Array.from({ length: 200 }, (_, index) => write(`v${index}`, index * 10, index * 10 + 35));
    const reads = Array.from({ length: 200 }, (_, index) => read(`v${index}`, index * 10 + 36, index * 10 + 37));
    const stale = read('v3', 1_990, 1_991);
    expect(checkRegister([...writes, stale]).length).toBe(1);
    expect(
      checkRegister(
        writes
          .map((each, index) => ({ ...each, startMs: index * 10, endMs: index * 10 + 9 }))
          .flatMap((each, index) => [
            each,
            { ...(reads[index] as RegisterOperation), startMs: index * 10 + 9.2, endMs: index * 10 + 9.4 },
          ]),
      ),
    ).toEqual([]);
  });
});
