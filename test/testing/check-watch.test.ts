import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { checkWatch, type SeenEvent, type WatchRule } from '../../src/testing/index.js';

const SEED = 5;

function event(revision: number, key: string, value = `${key}@${revision}`): SeenEvent {
  return { revision: BigInt(revision), type: 'put', key, value };
}

const TRUTH = [event(2, 'a'), event(3, 'a'), event(3, 'b'), event(3, 'c'), event(5, 'b'), event(6, 'a')];
const [a2, a3, b3, c3, b5, a6] = TRUTH as [SeenEvent, SeenEvent, SeenEvent, SeenEvent, SeenEvent, SeenEvent];

describe('`checkWatch` accepts a watch', () => {
  test.for<[string, SeenEvent[][]]>([
    ['one revision in each batch', [[a2], [a3, b3, c3], [b5], [a6]]],
    [
      'several revisions in each batch',
      [
        [a2, a3, b3, c3],
        [b5, a6],
      ],
    ],
    ['all revisions in one batch between empty batches', [[], TRUTH, []]],
  ])('that delivers %s', ([, batches]) => {
    expect(checkWatch(TRUTH, batches)).toEqual([]);
  });

  test('that delivers revisions in batches of any size', () => {
    const history = fc.array(
      fc.record({
        gap: fc.integer({ min: 1, max: 3 }),
        keys: fc.subarray(['a', 'b', 'c'], { minLength: 1 }),
        cut: fc.boolean(),
      }),
    );
    fc.assert(
      fc.property(history, (revisions) => {
        let revision = 1;
        const batches: SeenEvent[][] = [[]];
        for (const { gap, keys, cut } of revisions) {
          revision += gap;
          if (cut) batches.push([]);
          batches.at(-1)?.push(...keys.map((key) => event(revision, key)));
        }
        expect(checkWatch(batches.flat(), batches)).toEqual([]);
      }),
      { seed: SEED },
    );
  });
});

describe('`checkWatch` reports a watch', () => {
  test.for<[string, WatchRule[], SeenEvent[][]]>([
    ['loses an event', ['lost'], [[a2], [a3, c3], [b5], [a6]]],
    ['loses the first event', ['lost'], [[a3, b3, c3], [b5], [a6]]],
    ['loses the last event', ['lost'], [[a2], [a3, b3, c3], [b5]]],
    ['delivers nothing', Array<WatchRule>(6).fill('lost'), []],
    ['repeats an event', ['torn', 'repeated'], [[a2], [a2, a3, b3, c3], [b5], [a6]]],
    ['repeats its last two batches', ['repeated', 'repeated'], [[a2], [a3, b3, c3], [b5], [a6], [b5], [a6]]],
    ['delivers a revision late', ['reordered'], [[a2], [b5], [a3, b3, c3], [a6]]],
    ['reverses the events of a revision', ['reordered', 'reordered'], [[a2], [c3, b3, a3], [b5], [a6]]],
    ['delivers the events of one revision in two batches', ['torn'], [[a2], [a3], [b3, c3], [b5], [a6]]],
    ['delivers a wrong value', ['altered'], [[a2], [a3, b3, c3], [{ ...b5, value: 'x' }], [a6]]],
    [
      'delivers a delete in place of a put',
      ['invented', 'lost'],
      [[a2], [a3, b3, c3], [{ ...b5, type: 'delete' }], [a6]],
    ],
    ['delivers an event that never happened', ['invented'], [[a2], [a3, b3, c3], [event(4, 'a')], [b5], [a6]]],
  ])('that %s', ([, rules, batches]) => {
    const found = checkWatch(TRUTH, batches).map(({ rule }) => rule);
    expect(new Set(found)).toEqual(new Set(rules));
    if (!rules.includes('reordered')) expect(found.length).toBe(rules.length);
  });

  test('that loses or repeats any single event', () => {
    const mistake = fc.record({ at: fc.nat({ max: TRUTH.length - 1 }), kind: fc.constantFrom('lost', 'repeated') });
    fc.assert(
      fc.property(mistake, ({ at, kind }) => {
        const told = kind === 'lost' ? TRUTH.toSpliced(at, 1) : TRUTH.toSpliced(at, 0, TRUTH[at] as SeenEvent);
        expect(checkWatch(TRUTH, [told]).map(({ rule }) => rule)).toEqual([kind]);
      }),
      { seed: SEED },
    );
  });

  test('that repeats an event, and names the event and the batch', () => {
    expect(checkWatch([a2], [[a2], [a2]])).toEqual([
      { rule: 'torn', detail: 'batch 1: revision 2 began in the batch before' },
      { rule: 'repeated', detail: 'batch 1: put of "a" at revision 2' },
    ]);
  });
});
