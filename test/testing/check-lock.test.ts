import { describe, expect, test } from 'vitest';
import { type Claim, checkLock, GuardedResource, type SeenEvent } from '../../src/testing/index.js';

function put(revision: number, key: string): SeenEvent {
  return { revision: BigInt(revision), type: 'put', key, value: '' };
}

function deleted(revision: number, key: string): SeenEvent {
  return { revision: BigInt(revision), type: 'delete', key, value: '' };
}

function claim(holder: string, token: number, fromMs: number, untilMs: number): Claim {
  return { holder, token: BigInt(token), fromMs, untilMs };
}

/** First in the queue is a. Then b gives up while it waits, c and d follow a, and c puts its key a second time. */
const TRUTH = [
  put(2, 'a'),
  put(3, 'b'),
  put(4, 'c'),
  put(5, 'd'),
  deleted(6, 'b'),
  put(7, 'c'),
  deleted(8, 'a'),
  deleted(9, 'c'),
];

describe('checkLock accepts a lock', () => {
  test.for<[string, Claim[]]>([
    [
      'held by one claim after the other, in order',
      [claim('a', 2, 0, 10), claim('c', 4, 10, 20), claim('d', 5, 25, 30)],
    ],
    ['whose claims are listed in another order', [claim('d', 5, 25, 30), claim('a', 2, 0, 10), claim('c', 4, 10, 20)]],
    ['whose turn one owner did not use', [claim('a', 2, 0, 10), claim('d', 5, 25, Number.POSITIVE_INFINITY)]],
  ])('%s', ([, claims]) => {
    expect(checkLock(claims, TRUTH)).toEqual([]);
  });
});

describe('checkLock reports a lock', () => {
  test.for<[string, string[], Claim[]]>([
    ['held by two at a time', ['two holders'], [claim('a', 2, 0, 10), claim('c', 4, 9, 20)]],
    [
      'held by a second while the first never stopped',
      ['two holders'],
      [claim('a', 2, 0, Number.POSITIVE_INFINITY), claim('c', 4, 50, 60)],
    ],
    ['held by one within the time of another', ['two holders'], [claim('a', 2, 0, 100), claim('c', 4, 10, 20)]],
    ['held by a later key before an earlier key', ['out of order'], [claim('c', 4, 0, 10), claim('a', 2, 10, 20)]],
    ['held twice with one key', ['out of order'], [claim('a', 2, 0, 10), claim('a', 2, 15, 20)]],
    ['held with a key that was never the first of the queue', ['not first in queue'], [claim('b', 3, 0, 10)]],
    ['held with the revision of a later put', ['not first in queue'], [claim('c', 7, 0, 10)]],
    ['held without a key', ['not first in queue'], [claim('x', 99, 0, 10)]],
  ])('%s', ([, rules, claims]) => {
    expect(checkLock(claims, TRUTH).map(({ rule }) => rule)).toEqual(rules);
  });

  test('with the names and the tokens of both holders', () => {
    expect(checkLock([claim('a', 2, 0, 10), claim('c', 4, 9, 20)], TRUTH)).toEqual([
      { rule: 'two holders', detail: 'c with token 4 while a with token 2 held it' },
    ]);
  });
});

describe('GuardedResource', () => {
  test('refuses a token smaller than the greatest, and accepts the greatest again', () => {
    const resource = new GuardedResource();
    expect([5n, 5n, 7n, 5n, 6n, 8n].map((token) => resource.write('w', token))).toEqual([
      true,
      true,
      true,
      false,
      false,
      true,
    ]);
    expect(resource.violations).toEqual([]);
  });

  test('accepts every token and records stale writes when fenced is false', () => {
    const resource = new GuardedResource({ fenced: false });
    expect(resource.write('new', 7n) && resource.write('old', 5n) && resource.write('old', 6n)).toBe(true);
    expect(resource.violations).toEqual([
      { rule: 'stale write', detail: 'old with token 5 after token 7' },
      { rule: 'stale write', detail: 'old with token 6 after token 7' },
    ]);
  });
});
