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

/** a waits for none, b gives up while it waits, c and then d come after a; c puts its key anew meanwhile. */
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

describe('a lock was held rightly', () => {
  test.for<[string, Claim[]]>([
    ['by one after the other, in order', [claim('a', 2, 0, 10), claim('c', 4, 10, 20), claim('d', 5, 25, 30)]],
    [
      'whatever the order in which they tell of it',
      [claim('d', 5, 25, 30), claim('a', 2, 0, 10), claim('c', 4, 10, 20)],
    ],
    ['where one had its turn and never used it', [claim('a', 2, 0, 10), claim('d', 5, 25, Number.POSITIVE_INFINITY)]],
  ])('%s', ([, claims]) => {
    expect(checkLock(claims, TRUTH)).toEqual([]);
  });
});

describe('a lock was held wrongly', () => {
  test.for<[string, string[], Claim[]]>([
    ['by two at a time', ['two holders'], [claim('a', 2, 0, 10), claim('c', 4, 9, 20)]],
    ['by one that never stopped', ['two holders'], [claim('a', 2, 0, Number.POSITIVE_INFINITY), claim('c', 4, 50, 60)]],
    ['by one within the time of another', ['two holders'], [claim('a', 2, 0, 100), claim('c', 4, 10, 20)]],
    ['past one that was ahead', ['out of order'], [claim('c', 4, 0, 10), claim('a', 2, 10, 20)]],
    ['twice with one key', ['out of order'], [claim('a', 2, 0, 10), claim('a', 2, 15, 20)]],
    ['by one that never was the first in line', ['not in line'], [claim('b', 3, 0, 10)]],
    ['by the revision of a later put', ['not in line'], [claim('c', 7, 0, 10)]],
    ['without a key', ['not in line'], [claim('x', 99, 0, 10)]],
  ])('%s', ([, rules, claims]) => {
    expect(checkLock(claims, TRUTH).map(({ rule }) => rule)).toEqual(rules);
  });

  test('says who, and with which token', () => {
    expect(checkLock([claim('a', 2, 0, 10), claim('c', 4, 9, 20)], TRUTH)).toEqual([
      { rule: 'two holders', detail: 'c with token 4 while a with token 2 held it' },
    ]);
  });
});

describe('a guarded resource', () => {
  test('refuses a token smaller than one it has seen, and takes the same one again', () => {
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

  test('without fencing takes any, and tells which were stale', () => {
    const resource = new GuardedResource({ fenced: false });
    expect(resource.write('new', 7n) && resource.write('old', 5n) && resource.write('old', 6n)).toBe(true);
    expect(resource.violations).toEqual([
      { rule: 'stale write', detail: 'old with token 5 after token 7' },
      { rule: 'stale write', detail: 'old with token 6 after token 7' },
    ]);
  });
});
