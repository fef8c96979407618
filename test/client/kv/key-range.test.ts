import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { compareBytes } from '../../../src/base/bytes.js';
import { prefixEnd, resolveKeys } from '../../../src/client/kv/keys.js';
import { fromKey, keyRange, prefix } from '../../../src/index.js';
import { errorOf } from '../../support/errors.js';

const SEED = 33;
const bytes = (...values: number[]): Uint8Array => new Uint8Array(values);
const key = fc.uint8Array({ minLength: 1, maxLength: 6 });

// Rule S33 (docs/semantics.md): the end of a prefix follows etcd's rule.
describe('the range end of a prefix', () => {
  test('is the prefix up to its last byte below 0xff, with that byte incremented', () => {
    expect(prefixEnd(bytes(1, 2))).toEqual(bytes(1, 3));
    expect(prefixEnd(bytes(1, 0xff))).toEqual(bytes(2));
    expect(prefixEnd(bytes(1, 0xff, 0xff))).toEqual(bytes(2));
  });

  test('is "\\0", which stands for no upper bound, when every byte of the prefix is 0xff', () => {
    expect(prefixEnd(bytes(0xff, 0xff))).toEqual(bytes(0));
  });

  test('bounds exactly the keys that start with the prefix', () => {
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

describe('the `keys` argument', () => {
  test('resolves to no range end for a single key, and to the range end "\\0" for `fromKey` and for the empty prefix', () => {
    expect(resolveKeys('a', 'keys')).toEqual({ key: bytes(97), rangeEnd: bytes() });
    expect(resolveKeys(prefix(''), 'keys')).toEqual({ key: bytes(0), rangeEnd: bytes(0) });
    expect(resolveKeys(fromKey('a'), 'keys')).toEqual({ key: bytes(97), rangeEnd: bytes(0) });
    expect(resolveKeys(keyRange('a', 'b'), 'keys')).toEqual({ key: bytes(97), rangeEnd: bytes(98) });
  });

  test('resolves to every key of the store for `fromKey` of an empty key', () => {
    expect(resolveKeys(fromKey(''), 'keys')).toEqual(resolveKeys(prefix(''), 'keys'));
  });

  test.each<[string, () => unknown, RegExp]>([
    ['an empty key', () => '', /^keys: got an empty key/],
    ['a `keyRange` that starts at an empty key', () => keyRange('', 'a'), /^start: got an empty key/],
    ['a `keyRange` that ends at an empty key', () => keyRange('a', ''), /^end: got an empty key/],
    ['two ranges in one object', () => ({ ...prefix('a'), ...fromKey('b') }), /^keys: got an object \(Object\)/],
    ['`prefix` of a range', () => prefix(fromKey('a') as never), /^prefix: got an object \(KeyRange\)/],
    ['a plain object with a prefix', () => ({ prefix: 'a' }), /^keys: got an object .*; allowed: a key, prefix\(/],
    ['a plain object with a start and an end', () => ({ start: 'a', end: 'b' }), /^keys: got an object/],
    ['a `keyRange` whose end is before its start', () => keyRange('b', 'a'), /a start at or after the end/],
    ['a `keyRange` whose end equals its start', () => keyRange('a', 'a'), /a start at or after the end/],
    ['a number', () => 5, /got a number/],
    ['undefined', () => undefined, /got undefined/],
    ['null', () => null, /got null/],
    ['a string with a lone surrogate', () => '\ud800', /lone surrogate/],
  ])('is refused when it is %s', async (_what, keys, message) => {
    const error = await errorOf(() => resolveKeys(keys() as never, 'keys'));
    expect(error).toMatchObject({ reason: 'InvalidInput', code: 'InvalidArgument', outcome: 'not-sent' });
    expect(error.message).toMatch(message);
  });
});

function startsWith(candidate: Uint8Array, start: Uint8Array): boolean {
  return candidate.length >= start.length && start.every((byte, index) => candidate[index] === byte);
}
