import { describe, expect, test } from 'vitest';
import { type Claim, checkLock, GuardedResource, type SeenEvent } from '../../src/testing/index.js';

function put(revision: number, key: string): SeenEvent {
  return { revision: BigInt(revision), type: 'put', key, value: '' };
}

function deleted(revision: number, key: string): SeenEvent {
  return { revision: BigInt(revision), type: 'delete', key, value: '' };
}

/** Returns a claim: the holder says that it held the lock with this token from `fromMs` to `untilMs`. */
function claim(holder: string, token: number, fromMs: number, untilMs: number): Claim {
  return { holder, token: BigInt(token), fromMs, untilMs };
}

/**
 * The history of the lock's queue in etcd. The contenders a, b, c and d join the queue. Then b leaves while it waits, c
 * puts its key a second time, a leaves, and c leaves.
 */
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

describe('`checkLock` accepts a lock', () => {
  test.for<[string, Claim[]]>([
    [
      'that is claimed by one holder after another, in the order of the queue',
      [claim('a', 2, 0, 10), claim('c', 4, 10, 20), claim('d', 5, 25, 30)],
    ],
    [
      'whose claims are not listed in chronological order',
      [claim('d', 5, 25, 30), claim('a', 2, 0, 10), claim('c', 4, 10, 20)],
    ],
    [
      'that one contender never claims while it is first in the queue',
      [claim('a', 2, 0, 10), claim('d', 5, 25, Number.POSITIVE_INFINITY)],
    ],
  ])('%s', ([, claims]) => {
    expect(checkLock(claims, TRUTH)).toEqual([]);
  });
});

describe('`checkLock` reports a lock', () => {
  test.for<[string, string[], Claim[]]>([
    ['that two holders claim at the same time', ['two holders'], [claim('a', 2, 0, 10), claim('c', 4, 9, 20)]],
    [
      'that a second holder claims although the claim of the first holder never ended',
      ['two holders'],
      [claim('a', 2, 0, Number.POSITIVE_INFINITY), claim('c', 4, 50, 60)],
    ],
    [
      'that a second holder claims and releases during the claim of the first holder',
      ['two holders'],
      [claim('a', 2, 0, 100), claim('c', 4, 10, 20)],
    ],
    [
      'that a holder claims before another holder whose key is earlier in the queue',
      ['out of order'],
      [claim('c', 4, 0, 10), claim('a', 2, 10, 20)],
    ],
    ['that a holder claims twice with the same key', ['out of order'], [claim('a', 2, 0, 10), claim('a', 2, 15, 20)]],
    [
      'that a holder claims with a key that was never first in the queue',
      ['not first in queue'],
      [claim('b', 3, 0, 10)],
    ],
    [
      'that a holder claims with a token from the second put of its key, not from the first put',
      ['not first in queue'],
      [claim('c', 7, 0, 10)],
    ],
    ['that a holder claims without a key in the queue', ['not first in queue'], [claim('x', 99, 0, 10)]],
  ])('%s', ([, rules, claims]) => {
    expect(checkLock(claims, TRUTH).map(({ rule }) => rule)).toEqual(rules);
  });

  test('that two holders claim at the same time, and names both holders and their tokens', () => {
    expect(checkLock([claim('a', 2, 0, 10), claim('c', 4, 9, 20)], TRUTH)).toEqual([
      { rule: 'two holders', detail: 'c with token 4 while a with token 2 held it' },
    ]);
  });
});

describe('`GuardedResource`', () => {
  test('refuses a token below the highest token so far, but accepts the highest token again', () => {
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

  test('accepts every token and records stale writes when the option `fenced` is false', () => {
    const resource = new GuardedResource({ fenced: false });
    expect(resource.write('new', 7n) && resource.write('old', 5n) && resource.write('old', 6n)).toBe(true);
    expect(resource.violations).toEqual([
      { rule: 'stale write', detail: 'old with token 5 after token 7' },
      { rule: 'stale write', detail: 'old with token 6 after token 7' },
    ]);
  });
});
