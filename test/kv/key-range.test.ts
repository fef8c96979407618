import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { fromKey, keyRange, prefix } from '../../src/index.js';
import { prefixEnd, resolveKeys } from '../../src/kv/key-range.js';
import { compareBytes } from '../../src/runtime/bytes.js';
import { errorOf } from '../support/errors.js';

const SEED = 33;
const bytes = (...values: number[]): Uint8Array => new Uint8Array(values);
const key = fc.uint8Array({ minLength: 1, maxLength: 6 });

describe('the end of a prefix (S33)', () => {
  test('is the prefix with its last byte below 0xff raised, cut after it', () => {
    expect(prefixEnd(bytes(1, 2))).toEqual(bytes(1, 3));
    expect(prefixEnd(bytes(1, 0xff))).toEqual(bytes(2));
    expect(prefixEnd(bytes(1, 0xff, 0xff))).toEqual(bytes(2));
  });

  test('of nothing but 0xff is no end', () => {
    expect(prefixEnd(bytes(0xff, 0xff))).toEqual(bytes(0));
  });

  test('bounds exactly the keys with that prefix', () => {
    const near = fc.tuple(key, fc.uint8Array({ maxLength: 3 })).map(([a, b]) => bytes(...a, ...b));
    fc.assert(
      fc.property(key, fc.oneof(key, near), (start, candidate) => {
        const range = resolveKeys(prefix(start), 'keys');
        const noEnd = compareBytes(range.rangeEnd, bytes(0)) === 0;
        const inside =
          compareBytes(candidate, range.key) >= 0 && (noEnd || compareBytes(candidate, range.rangeEnd) < 0);
        expect(inside).toBe(startsWith(candidate, start));
      }),
      { seed: SEED, numRuns: 1_000 },
    );
  });
});

describe('keys as they go over the wire', () => {
  test('one key has no end, the empty prefix is every key, fromKey has the end "\\0" (S33)', () => {
    expect(resolveKeys('a', 'keys')).toEqual({ key: bytes(97), rangeEnd: bytes() });
    expect(resolveKeys(prefix(''), 'keys')).toEqual({ key: bytes(0), rangeEnd: bytes(0) });
    expect(resolveKeys(fromKey('a'), 'keys')).toEqual({ key: bytes(97), rangeEnd: bytes(0) });
    expect(resolveKeys(keyRange('a', 'b'), 'keys')).toEqual({ key: bytes(97), rangeEnd: bytes(98) });
  });

  test.each([
    ['an empty key', '', /^keys: got an empty key/],
    ['an empty start of fromKey', fromKey(''), /^keys\.fromKey: got an empty key/],
    [
      'a prefix that is from a key on at once',
      { ...prefix('a'), ...fromKey('b') },
      /"prefix" and "fromKey"; allowed: .*one of them/,
    ],
    ['a range within a range', prefix(fromKey('a') as never), /^keys\.prefix: got an object/],
    ['a start without an end', { start: 'a' }, /an object with "start"/],
    ['an end before its start', keyRange('b', 'a'), /a start at or after its end/],
    ['a number', 5, /got a number/],
    ['nothing', undefined, /got a? ?undefined/],
    ['a lone surrogate, which is no text', '\ud800', /lone surrogate/],
  ])('%s is refused', async (_what, keys, message) => {
    const error = await errorOf(() => resolveKeys(keys as never, 'keys'));
    expect(error).toMatchObject({ reason: 'InvalidInput', code: 'InvalidArgument', outcome: 'not-sent' });
    expect(error.message).toMatch(message);
  });
});

function startsWith(candidate: Uint8Array, start: Uint8Array): boolean {
  return candidate.length >= start.length && start.every((byte, index) => candidate[index] === byte);
}
