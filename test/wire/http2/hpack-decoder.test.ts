import { describe, expect, test } from 'vitest';
import { ConnectionError } from '../../../src/wire/http2/frame.js';
import { type HeaderList, HpackDecoder } from '../../../src/wire/http2/hpack.js';
import { block, type Field, integer, STATIC_FIELDS, tableSize } from '../../support/http2-hpack.js';

// These tests check the HPACK decoder: RFC 7541.

/** The limit, in bytes, on the size of a decoded header list. */
const LIMIT = 65_536;
/** The index of the newest entry in the dynamic table. */
const FIRST_DYNAMIC = STATIC_FIELDS.length + 1;

describe('the HPACK decoder refuses', () => {
  test.each<[string, Buffer]>([
    ['index 0 (6.1)', Buffer.of(0x80)],
    ['an index beyond both tables (2.3.3)', Buffer.of(0x80 | FIRST_DYNAMIC)],
    ['a name index beyond both tables', Buffer.concat([integer(0x40, 0x3f, FIRST_DYNAMIC), Buffer.of(1, 0x61)])],
    ['a literal that ends after its first octet', Buffer.of(0x40)],
    ['a literal that ends before its value', Buffer.of(0x00, 0x01, 0x61)],
    ['a name longer than the block', Buffer.of(0x00, 0x05, 0x61)],
    ['a value longer than the block', Buffer.of(0x00, 0x01, 0x61, 0x02, 0x62)],
    ['an index that ends before its last octet (5.1)', Buffer.of(0xff, 0x80)],
    ['a length that ends before its last octet', Buffer.of(0x00, 0x7f)],
    ['an integer of more than 32 bits (5.1)', Buffer.of(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f)],
    ['an integer that is continued by 60 octets of zeros', Buffer.of(0xff, ...Array<number>(60).fill(0x80), 0x00)],
    ['a length of more than 64 bits', Buffer.of(0x00, 0x7f, ...Array<number>(10).fill(0xff), 0x01)],
    ['a table size update beyond SETTINGS_HEADER_TABLE_SIZE (6.3)', tableSize(4_097)],
    ['a table size update after a field (4.2)', Buffer.of(0x82, 0x20)],
    [
      'a table size update after a field that exceeds the limit on the header list',
      Buffer.concat([block([['a', 'b'.repeat(70_000)]]), tableSize(0)]),
    ],
    ['a table size update that ends before its last octet', Buffer.of(0x3f)],
  ])('%s', (_, bytes) => {
    expect(refusal(() => decode(new HpackDecoder(LIMIT), bytes))).toBe('COMPRESSION_ERROR');
  });

  test('an index whose entry was evicted', () => {
    const decoder = new HpackDecoder(LIMIT);
    decode(decoder, block([['a', 'b']], 'with indexing'));
    expect(decode(decoder, Buffer.of(0x80 | FIRST_DYNAMIC)).fields).toEqual([['a', 'b']]);
    decode(decoder, Buffer.concat([tableSize(0), tableSize(4_096)]));
    expect(refusal(() => decode(decoder, Buffer.of(0x80 | FIRST_DYNAMIC)))).toBe('COMPRESSION_ERROR');
  });
});

describe('the dynamic table', () => {
  test('evicts the oldest entries to make room for a new entry (4.4)', () => {
    const decoder = new HpackDecoder(LIMIT);
    // Three entries of 34 bytes fit into 110 bytes.
    decode(decoder, Buffer.concat([tableSize(110), block(letters('abcd'), 'with indexing')]));
    expect(at(decoder, 0, 1, 2)).toEqual(letters('dcb'));
    expect(refusal(() => at(decoder, 3))).toBe('COMPRESSION_ERROR');
  });

  test('keeps the oldest entry when the new entry fills the table exactly, and when its size becomes exact (4.3, 4.4)', () => {
    const decoder = new HpackDecoder(LIMIT);
    // Three entries of 34 bytes fill a table of 102 bytes exactly.
    decode(decoder, Buffer.concat([tableSize(102), block(letters('abc'), 'with indexing')]));
    expect(at(decoder, 0, 1, 2)).toEqual(letters('cba'));
    decode(decoder, Buffer.concat([tableSize(68), tableSize(102)]));
    expect(at(decoder, 0, 1)).toEqual(letters('cb'));
    expect(refusal(() => at(decoder, 2))).toBe('COMPRESSION_ERROR');
  });

  test('is emptied without an error when a field larger than the table arrives (4.4)', () => {
    const decoder = new HpackDecoder(LIMIT);
    decode(decoder, block(letters('ab'), 'with indexing'));
    const large: Field = ['c', 'x'.repeat(4_096)];
    expect(decode(decoder, block([large], 'with indexing')).fields).toEqual([large]);
    expect(refusal(() => at(decoder, 0))).toBe('COMPRESSION_ERROR');
  });

  test('accepts a new field that uses the name of the entry that the field evicts (4.4)', () => {
    const decoder = new HpackDecoder(LIMIT);
    decode(decoder, Buffer.concat([tableSize(64), block([['name', 'value']], 'with indexing')]));
    const again = Buffer.concat([integer(0x40, 0x3f, FIRST_DYNAMIC), Buffer.of(3), Buffer.from('new')]);
    expect(decode(decoder, again).fields).toEqual([['name', 'new']]);
    expect(at(decoder, 0)).toEqual([['name', 'new']]);
  });

  test('can change its size several times before the first field of a block (4.2)', () => {
    const decoder = new HpackDecoder(LIMIT);
    decode(decoder, block(letters('ab'), 'with indexing'));
    const sizes = Buffer.concat([tableSize(40), tableSize(4_096)]);
    expect(decode(decoder, Buffer.concat([sizes, Buffer.of(0x80 | FIRST_DYNAMIC)])).fields).toEqual(letters('b'));
    expect(refusal(() => at(decoder, 1))).toBe('COMPRESSION_ERROR');
  });

  test('keeps the newest entries after thousands of additions', () => {
    const decoder = new HpackDecoder(LIMIT);
    const all = Array.from({ length: 3_000 }, (_, index): Field => ['n', `${index}`]);
    for (const field of all) {
      decode(decoder, block([field], 'with indexing'));
      expect(at(decoder, 0)).toEqual([field]);
    }
    // The table has room for 4,096 / (1 + 4 + 32) = 110 entries.
    expect(at(decoder, ...Array.from({ length: 110 }, (_, index) => index))).toEqual(all.slice(-110).reverse());
    expect(refusal(() => at(decoder, 110))).toBe('COMPRESSION_ERROR');
  });

  test.each(['without indexing', 'never indexed'] as const)(
    'does not store a literal field with the representation "%s"',
    (literal) => {
      const decoder = new HpackDecoder(LIMIT);
      expect(decode(decoder, block(letters('a'), literal)).fields).toEqual(letters('a'));
      expect(refusal(() => at(decoder, 0))).toBe('COMPRESSION_ERROR');
    },
  );

  test('stores even fields beyond the limit on the header list, because the peer may refer to them later', () => {
    const decoder = new HpackDecoder(100);
    const { fields, isTooLarge } = decode(decoder, block(letters('abcd'), 'with indexing'));
    expect({ fields, isTooLarge }).toEqual({ fields: letters('ab'), isTooLarge: true });
    expect(at(decoder, 0, 1)).toEqual(letters('dc'));
  });
});

test('the limit on the header list counts the name, the value and 32 bytes for each field', () => {
  // The two fields count 2 * (1 + 1 + 32) = 68 bytes.
  expect(decode(new HpackDecoder(68), block(letters('ab')))).toEqual({ fields: letters('ab'), isTooLarge: false });
  expect(decode(new HpackDecoder(67), block(letters('ab')))).toEqual({ fields: letters('a'), isTooLarge: true });
});

test('the decoder maps every octet, even beyond ASCII, to the character with the same code', () => {
  expect(decode(new HpackDecoder(LIMIT), block([['a', '\x00\x7f\x80\xff']])).fields).toEqual([
    ['a', '\x00\x7f\x80\xff'],
  ]);
});

function decode(decoder: HpackDecoder, bytes: Uint8Array): HeaderList {
  // Surround the block with other bytes, as in a chunk from the network.
  const chunk = Buffer.concat([Buffer.of(0xff), bytes, Buffer.of(0xff)]);
  return decoder.decode(chunk, 1, 1 + bytes.length);
}

function at(decoder: HpackDecoder, ...indexes: readonly number[]): readonly Field[] {
  return decode(decoder, Buffer.concat(indexes.map((index) => integer(0x80, 0x7f, FIRST_DYNAMIC + index)))).fields;
}

function letters(names: string): Field[] {
  return [...names].map((name) => [name, name.toUpperCase()]);
}

function refusal(action: () => unknown): string | undefined {
  try {
    action();
    return undefined;
  } catch (error) {
    if (error instanceof ConnectionError && error.code === 9) return 'COMPRESSION_ERROR';
    throw error;
  }
}
