import fc from 'fast-check';
import { expect } from 'vitest';
import { ConnectionError, ErrorCode } from '../../src/wire/http2/frame.js';
import { HeaderReader } from '../../src/wire/http2/header-reader.js';
import { HpackDecoder } from '../../src/wire/http2/hpack.js';
import { responseFields } from '../../src/wire/http2/response.js';
import { changedBytes } from '../support/changed-bytes.js';
import { fromHex, fuzz, hex } from '../support/fuzz.js';
import { BlockReader, block, type Field, integer, STATIC_FIELDS, tableSize } from '../support/http2-hpack.js';

interface Input {
  /** The limit in bytes on the size of the field list that a header block decodes to. */
  readonly maxListBytes: number;
  /** Consecutive header blocks on one connection. */
  readonly blocks: readonly string[];
}

const text = fc.oneof(
  fc.string({ maxLength: 9 }),
  fc.constantFrom('', 'grpc-status', 'x'.repeat(200), 'y'.repeat(4_100)),
);
const field: fc.Arbitrary<Field> = fc.oneof(
  fc.tuple(text, text),
  fc.constantFrom<Field>([':status', '200'], ['grpc-status', '0'], ['grpc-status', '7'], ['content-type', 'text/html']),
);
const index = fc.integer({ min: 0, max: STATIC_FIELDS.length + 12 });
/** Octets with their length in front, marked as Huffman-coded or as plain. */
const octets = fc
  .tuple(fc.uint8Array({ maxLength: 12 }), fc.constantFrom(0, 0x80))
  .map(([bytes, flag]) => Buffer.concat([integer(flag, 0x7f, bytes.length), bytes]));
/** One field representation according to RFC 7541, section 6, or a few arbitrary octets. */
const representation: fc.Arbitrary<Uint8Array> = fc.oneof(
  { weight: 4, arbitrary: index.map((each) => integer(0x80, 0x7f, each)) },
  {
    weight: 4,
    arbitrary: fc
      .tuple(field, fc.constantFrom('with indexing', 'with indexing', 'without indexing', 'never indexed'))
      .map(([each, literal]) => block([each], literal as 'with indexing')),
  },
  {
    weight: 3,
    arbitrary: fc
      .tuple(fc.constantFrom([0x40, 0x3f], [0x00, 0x0f], [0x10, 0x0f]), index, octets)
      .map(([[bits = 0, prefix = 0], name, value]) => Buffer.concat([integer(bits, prefix, name), value])),
  },
  { weight: 1, arbitrary: fc.constantFrom(0, 33, 40, 300, 4_096, 4_097).map(tableSize) },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 4 }) },
);
const aBlock = fc
  .tuple(
    fc.oneof({ weight: 8, arbitrary: fc.constant([]) }, fc.array(fc.constantFrom(0, 33, 300, 4_096).map(tableSize))),
    fc.array(representation, { maxLength: 8 }),
  )
  .map(([sizes, representations]): Uint8Array => Buffer.concat([...sizes, ...representations]));

fuzz<Input>({
  target: 'hpack',
  property:
    'the HPACK decoder decodes any header blocks to the same fields as a second decoder, or fails with COMPRESSION_ERROR',
  inputs: fc.record({
    maxListBytes: fc.constantFrom(0, 100, 300, 65_536),
    blocks: fc
      .array(fc.oneof({ weight: 4, arbitrary: aBlock }, { weight: 1, arbitrary: changedBytes(aBlock, 2) }), {
        maxLength: 6,
      })
      // Repeat blocks, to test the cache of decoded blocks. A repeated block may decode to other fields, because it may
      // refer to the dynamic table, which may have changed in the meantime.
      .chain((blocks) => fc.array(fc.constantFrom(...blocks, new Uint8Array(0)), { maxLength: 9 }))
      .map((blocks) => blocks.map(hex)),
  }),
  runs: 8_000,
  parts: { fields: 0.3, refused: 0.3 },
  check: ({ maxListBytes, blocks }) => {
    const decoder = new HpackDecoder(maxListBytes);
    const headers = new HeaderReader(maxListBytes, responseFields);
    const reader = new BlockReader();
    for (const each of blocks) {
      const bytes = fromHex(`ff${each}00`);
      const end = bytes.length - 1;
      const expected = fieldsReadBy(reader, fromHex(each));
      const { version } = decoder;
      const list = orRefused(() => decoder.decode(bytes, 1, end));
      const known = orRefused(() => headers.read(bytes, 1, end));
      if (list === 'refused' || known === 'refused') {
        expect([list, known, expected]).toEqual(['refused', 'refused', 'refused']);
        return 'refused';
      }
      if (expected === 'refused') throw new Error('the decoder accepted a block that the second decoder refuses');
      expect(list).toEqual(within(maxListBytes, expected));
      // The fields must also be correct if `HeaderReader` returns them from its cache.
      const last = (name: string) => list.fields.filter((each) => each[0] === name).at(-1)?.[1];
      expect(known).toMatchObject({ contentType: last('content-type'), isTooLarge: list.isTooLarge });
      const status = last(':status');
      if (known.malformed === undefined) expect(known.httpStatus).toBe(status && Number(status));
      if (decoder.version === version) expect(orRefused(() => decoder.decode(bytes, 1, end))).toEqual(list);
    }
    return 'fields';
  },
});

function fieldsReadBy(reader: BlockReader, bytes: Uint8Array): readonly Field[] | 'refused' {
  try {
    const written = reader.read(Buffer.from(bytes));
    return written.flatMap((each) => (each.kind === 'table size' ? [] : [[each.name, each.value] as const]));
  } catch {
    return 'refused';
  }
}

/** Returns the first fields that fit within the limit, and whether the limit excludes any field. */
function within(maxListBytes: number, fields: readonly Field[]): { fields: readonly Field[]; isTooLarge: boolean } {
  let bytes = 0;
  const fit = fields.filter(([name, value]) => {
    bytes += name.length + value.length + 32;
    return bytes <= maxListBytes;
  });
  return { fields: fit, isTooLarge: bytes > maxListBytes };
}

function orRefused<T>(read: () => T): T | 'refused' {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof ConnectionError)) throw error;
    expect(error.code).toBe(ErrorCode.COMPRESSION_ERROR);
    return 'refused';
  }
}
