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

/** The queue is a, b, c, d. Then b leaves it while waiting, c puts its key a second time, and a and c leave in turn. */
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
      'held by one claim after another, in the order of the queue',
      [claim('a', 2, 0, 10), claim('c', 4, 10, 20), claim('d', 5, 25, 30)],
    ],
    [
      'whose claims are not listed in the order of time',
      [claim('d', 5, 25, 30), claim('a', 2, 0, 10), claim('c', 4, 10, 20)],
    ],
    ['that its owner c never claimed', [claim('a', 2, 0, 10), claim('d', 5, 25, Number.POSITIVE_INFINITY)]],
  ])('%s', ([, claims]) => {
    expect(checkLock(claims, TRUTH)).toEqual([]);
  });
});

describe('checkLock reports a lock', () => {
  test.for<[string, string[], Claim[]]>([
    ['held by two claims at the same time', ['two holders'], [claim('a', 2, 0, 10), claim('c', 4, 9, 20)]],
    [
      'held by a second claim while the first claim never ended',
      ['two holders'],
      [claim('a', 2, 0, Number.POSITIVE_INFINITY), claim('c', 4, 50, 60)],
    ],
    [
      'held by a claim within the time of another claim',
      ['two holders'],
      [claim('a', 2, 0, 100), claim('c', 4, 10, 20)],
    ],
    [
      'held by a later key of the queue before an earlier key',
      ['out of order'],
      [claim('c', 4, 0, 10), claim('a', 2, 10, 20)],
    ],
    ['held twice with one key', ['out of order'], [claim('a', 2, 0, 10), claim('a', 2, 15, 20)]],
    ['held with a key that was never first in the queue', ['not first in queue'], [claim('b', 3, 0, 10)]],
    ['held with the revision of a later put', ['not first in queue'], [claim('c', 7, 0, 10)]],
    ['held without a key', ['not first in queue'], [claim('x', 99, 0, 10)]],
  ])('%s', ([, rules, claims]) => {
    expect(checkLock(claims, TRUTH).map(({ rule }) => rule)).toEqual(rules);
  });

  test('held by two claims, with the names and the tokens of both holders', () => {
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
