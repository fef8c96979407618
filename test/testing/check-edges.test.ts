import { expect, test } from 'vitest';
import {
  type Claim,
  checkLock,
  checkOrder,
  checkWatch,
  type OrderedOperation,
  type SeenEvent,
} from '../../src/testing/index.js';

const put = (revision: bigint, key: string): SeenEvent => ({ revision, type: 'put', key, value: `${key}${revision}` });

test('`checkLock` reports every claim that begins while an earlier claim still lasts', () => {
  const claim = (holder: string, token: bigint, fromMs: number, untilMs: number): Claim => ({
    holder,
    token,
    fromMs,
    untilMs,
  });
  const truth = [
    put(2n, 'a'),
    { ...put(3n, 'a'), type: 'delete' } as const,
    put(4n, 'b'),
    { ...put(5n, 'b'), type: 'delete' } as const,
    put(6n, 'c'),
  ];
  const claims = [claim('a', 2n, 0, 100), claim('b', 4n, 10, 20), claim('c', 6n, 30, 40)];
  expect(checkLock(claims, truth).map(({ detail }) => detail)).toEqual([
    'b with token 4 while a with token 2 held it',
    'c with token 6 while a with token 2 held it',
  ]);
});

test('`checkOrder` treats two calls as concurrent when the second call begins at the moment the first call ends', () => {
  const read = (startMs: number, endMs: number, revision: bigint): OrderedOperation => ({
    ...{
      process: 'p',
      call: { type: 'read', key: 'x' },
      startMs,
      endMs,
      outcome: 'ok',
      result: { revision, value: undefined },
    },
  });
  expect(checkOrder([read(0, 5, 4n), read(5, 9, 3n)], [])).toEqual([]);
});

test('`checkWatch` reports a revision whose events arrive in two batches, even if the revision begins inside a batch', () => {
  const truth = [put(5n, 'a'), put(6n, 'a'), put(6n, 'b')];
  const [first, second, third] = truth as [SeenEvent, SeenEvent, SeenEvent];
  expect(checkWatch(truth, [[first, second], [third]]).map(({ rule }) => rule)).toEqual(['torn']);
});
