import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { HpackDecoder, HpackEncoder, neverIndexedBytes, writeNeverIndexed } from '../../../src/wire/http2/hpack.js';
import { BlockReader, type Field, type Written } from '../../support/http2-hpack.js';

// These tests check the HPACK encoder: RFC 7541.

const SEED = 7_541;
const FIELDS: readonly Field[] = [
  [':method', 'POST'],
  [':path', '/etcdserverpb.KV/Range'],
  ['te', 'trailers'],
];

describe('repeated fields', () => {
  test('are encoded in one octet each', () => {
    const encoder = new HpackEncoder();
    expect(encoder.encode(FIELDS).length).toBeGreaterThan(20);
    expect(encoder.encode(FIELDS).length).toBe(FIELDS.length);
  });

  test('are decoded correctly after the encoder has added other fields to the dynamic table', () => {
    const [encoder, reader] = [new HpackEncoder(), new BlockReader()];
    for (const name of ['a', 'b', 'c']) read(reader, encoder.encode([[name, 'x']]));
    expect(fieldsOf(read(reader, encoder.encode([...FIELDS, ['a', 'x']])))).toEqual([...FIELDS, ['a', 'x']]);
  });

  test('are encoded as literals, and evict no other fields, when the dynamic table has no room for them', () => {
    const [encoder, reader] = [new HpackEncoder(), new BlockReader()];
    const many = Array.from({ length: 200 }, (_, index): Field => [`name-${index}`, 'x'.repeat(50)]);
    expect(fieldsOf(read(reader, encoder.encode(many)))).toEqual(many);
    const again = read(reader, encoder.encode(many));
    expect(fieldsOf(again)).toEqual(many);
    const kinds = again.map(({ kind }) => kind);
    const indexed = kinds.filter((kind) => kind === 'indexed').length;
    expect(indexed).toBeGreaterThan(40);
    expect(kinds.slice(0, indexed).every((kind) => kind === 'indexed')).toBe(true);
    expect(kinds.slice(indexed).every((kind) => kind === 'without indexing')).toBe(true);
  });
});

describe('the peer’s SETTINGS_HEADER_TABLE_SIZE', () => {
  test('empties the dynamic table and prevents additions when it is 0', () => {
    const [encoder, reader] = [new HpackEncoder(), new BlockReader()];
    read(reader, encoder.encode(FIELDS));
    const written = resized(encoder, reader, 0);
    expect(written[0]).toEqual({ kind: 'table size', bytes: 0 });
    expect(fieldsOf(written)).toEqual(FIELDS);
    expect(new Set(read(reader, encoder.encode(FIELDS)).map(({ kind }) => kind))).toEqual(
      new Set(['indexed', 'without indexing']),
    );
  });

  test('is signaled once, in the next block', () => {
    const [encoder, reader] = [new HpackEncoder(), new BlockReader()];
    resized(encoder, reader, 100);
    expect(read(reader, encoder.encode(FIELDS)).some(({ kind }) => kind === 'table size')).toBe(false);
  });

  test('is neither adopted nor signaled when it exceeds the default', () => {
    const encoder = new HpackEncoder();
    encoder.resize(65_536);
    expect(read(new BlockReader(), encoder.encode(FIELDS)).some(({ kind }) => kind === 'table size')).toBe(false);
  });

  test('is signaled with both its smallest and its final value when it changes twice between two blocks (RFC 7541, 4.2)', () => {
    const [encoder, reader] = [new HpackEncoder(), new BlockReader()];
    read(reader, encoder.encode(FIELDS));
    for (const size of [0, 4_096]) {
      encoder.resize(size);
      reader.announced(size);
    }
    expect(fieldsOf(read(reader, encoder.encode(FIELDS)))).toEqual(FIELDS);
  });
});

describe('a field that is never indexed (6.2.3)', () => {
  test.each([0, 1, 126, 127, 128, 254, 255, 16_510, 16_511])('can have a value of %i octets', (length) => {
    const value = 'v'.repeat(length);
    const bytes = Buffer.alloc(neverIndexedBytes('token', value) + 2, 0xff);
    const end = writeNeverIndexed(bytes, 1, 'token', value);
    expect(end).toBe(bytes.length - 1);
    expect([bytes[0], bytes[1], bytes[end]]).toEqual([0xff, 0x10, 0xff]);
    expect(read(new BlockReader(), bytes.subarray(1, end))).toEqual([
      { kind: 'never indexed', name: 'token', value, octets: end - 1 },
    ]);
  });
});

describe('fields with any content', () => {
  const text = fc.string({
    unit: fc.integer({ min: 0, max: 255 }).map((code) => String.fromCharCode(code)),
    maxLength: 60,
  });
  const field = fc.oneof(
    fc.constantFrom<Field>(...FIELDS, [':scheme', 'https'], ['content-type', 'x']),
    fc.tuple(text, text),
    fc.tuple(fc.constantFrom('a', 'b'), fc.string({ maxLength: 300, unit: 'grapheme-ascii' })),
  );
  const step = fc.oneof(
    { arbitrary: fc.array(field, { maxLength: 8 }).map((fields) => ({ fields })), weight: 4 },
    { arbitrary: fc.nat({ max: 10_000 }).map((size) => ({ size })), weight: 1 },
  );

  test('are decoded unchanged even if the table size changes between blocks', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 20 }), (steps) => {
        const [encoder, reader, decoder] = [new HpackEncoder(), new BlockReader(), new HpackDecoder(1_000_000)];
        for (const step of steps) {
          if ('size' in step) {
            encoder.resize(step.size);
            reader.announced(step.size);
            continue;
          }
          const bytes = encoder.encode(step.fields);
          expect(fieldsOf(read(reader, bytes))).toEqual(step.fields);
          expect(decoder.decode(bytes, 0, bytes.length).fields).toEqual(step.fields);
        }
      }),
      { seed: SEED, numRuns: 500 },
    );
  });
});

function read(reader: BlockReader, bytes: Uint8Array): Written[] {
  return reader.read(Buffer.from(bytes));
}

/**
 * Tells the encoder and the reader that the peer has announced a table size of `bytes`. Returns the contents of the
 * encoder's next block.
 */
function resized(encoder: HpackEncoder, reader: BlockReader, bytes: number): Written[] {
  encoder.resize(bytes);
  reader.announced(bytes);
  return read(reader, encoder.encode(FIELDS));
}

function fieldsOf(written: readonly Written[]): Field[] {
  return written.flatMap((field) => (field.kind === 'table size' ? [] : [[field.name, field.value] as const]));
}
