import fc from 'fast-check';
import { expect, test } from 'vitest';
import { SortedList } from '../../src/base/sorted-list.js';

interface Item {
  readonly key: number;
  readonly value: number;
}

const change = fc.record({ key: fc.nat(400), value: fc.nat(), isDeleted: fc.boolean() });

test('a sorted list contains the same items as a map, in the order of their keys', () => {
  fc.assert(
    fc.property(
      fc.array(change, { maxLength: 3_000, size: 'max' }),
      fc.nat(410),
      fc.option(fc.nat(410)),
      (changes, first, end) => {
        const model = new Map<number, Item>();
        const list = new SortedList<Item, number>((item, key) => item.key - key);
        for (const { key, value, isDeleted } of changes) {
          if (isDeleted) list.delete(key);
          else list.put(key, { key, value });
          if (isDeleted) model.delete(key);
          else model.set(key, { key, value });
          expect(list.get(key)).toEqual(model.get(key));
        }
        const sorted = [...model.values()].sort((a, b) => a.key - b.key);
        expect(list.size).toBe(sorted.length);
        expect(list.first).toEqual(sorted[0]);
        expect([...list.from(first)]).toEqual(sorted.filter(({ key }) => key >= first));
        const wanted = sorted.filter(({ key }) => key >= first && (end === null || key < end));
        expect(list.slice(first, end ?? undefined)).toEqual(wanted);
      },
    ),
    { seed: 18, numRuns: 60 },
  );
});

test.for([
  ['in order', (index: number) => index],
  ['in reverse', (index: number) => 19_999 - index],
  ['in another order', (index: number) => (index * 7_919) % 20_000],
] as const)('a sorted list of 20,000 items that are added %s has all of them between any two keys', ([, keyAt]) => {
  const list = new SortedList<number, number>((item, key) => item - key);
  for (let index = 0; index < 20_000; index += 1) list.put(keyAt(index), keyAt(index));
  expect(list.slice(0, undefined)).toEqual(Array.from({ length: 20_000 }, (_, index) => index));
  expect(list.slice(511, 1_026)).toEqual(Array.from({ length: 515 }, (_, index) => 511 + index));
  for (let key = 0; key < 20_000; key += 2) list.delete(key);
  expect(list.slice(10, 15)).toEqual([11, 13]);
  expect(list.size).toBe(10_000);
});

test('a sorted list of 100,000 items compares a deleted key with few of its items', () => {
  let comparisons = 0;
  const list = new SortedList<number, number>((item, key) => {
    comparisons += 1;
    return item - key;
  });
  for (let key = 0; key < 100_000; key += 1) list.put(key, key);
  comparisons = 0;
  for (let key = 0; key < 100_000; key += 2) list.delete(key);
  expect(comparisons / 50_000).toBeLessThan(2 * Math.log2(100_000));
});
