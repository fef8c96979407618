import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import protobuf from 'protobufjs';
import { describe, expect, it } from 'vitest';
import { EtcdError } from '../../src/base/etcd-error.js';
import { TxnRequest, WatchCreateRequest } from '../../src/gen/etcdserverpb/rpc.js';
import { Event, KeyValue } from '../../src/gen/mvccpb/kv.js';
import { decode } from '../../src/wire/protobuf/reader.js';
import type { Codec } from '../../src/wire/protobuf/schema.js';
import { encode } from '../../src/wire/protobuf/writer.js';
import {
  codecOf,
  grpcMethods,
  merged,
  messageArbitrary,
  messageTypes,
  ours,
  protobufjs,
  protoLoader,
  protoTree,
} from '../support/arbitraries.js';
import { iterations } from '../support/thorough.js';
import {
  joined,
  nestedGroups,
  nestedTxns,
  spliced,
  unknownField,
  varint,
  WIRE_BODIES,
  wireField,
} from '../support/wire-bytes.js';

const SEED = 20_140_709;
const RUNS = iterations(60);

const types = messageTypes.map((type) => [type.fullName.slice(1), type] as const);

describe('the codec of every message', () => {
  it.each(types)('decodes its own encoding of a %s to an equal message', (_, type) => {
    check(messageArbitrary(type), (message) => same(ours.decode(type, ours.encode(type, message)), message), {
      examples: [[codecOf(type).create()]],
    });
  });

  it.each(types)(
    'encodes %s to the same bytes as protobufjs, and decodes these bytes to the same message',
    (_, type) => {
      check(messageArbitrary(type), (message) => {
        const bytes = protobufjs.encode(type, message);
        same(ours.encode(type, message), bytes);
        same(ours.decode(type, bytes), message);
        same(protobufjs.decode(type, bytes), message);
      });
    },
  );

  it.each(types)('skips unknown fields of every wire type at every level of %s, as protobufjs does', (_, type) => {
    check(
      fc.tuple(messageArbitrary(type), fc.array(unknownField, { minLength: 1, maxLength: 8 })),
      ([message, extra]) => {
        const bytes = spliced(type, protobufjs.encode(type, message), extra);
        same(ours.decode(type, bytes), message);
        // protobufjs 8 refuses a group in a message without fields. protobufjs 7, which proto-loader uses, accepts it.
        same(protoLoader.decode(type, bytes), message);
      },
    );
  });

  it.each(types)('skips a field of %s whose wire type does not match its declaration', (_, type) => {
    for (const field of type.fieldsArray) {
      for (const [wireType, body] of Object.entries(WIRE_BODIES)) {
        if (wireTypesOf(field).includes(Number(wireType))) continue;
        const bytes = wireField(field.id, Number(wireType), body);
        same(ours.decode(type, bytes), codecOf(type).create());
        same(protobufjs.decode(type, bytes), codecOf(type).create());
      }
    }
  });

  // If both encodings contain the same message field, this package and protobufjs 8 merge the two values.
  // protobufjs 7, which proto-loader uses, keeps only the last value, so this test does not compare with proto-loader.
  it.each(types)('decodes two concatenated encodings of %s to one merged message', (_, type) => {
    check(fc.tuple(messageArbitrary(type), messageArbitrary(type)), ([first, second]) => {
      const bytes = joined([ours.encode(type, first), ours.encode(type, second)]);
      same(ours.decode(type, bytes), merged(type, first, second));
      same(protobufjs.decode(type, bytes), merged(type, first, second));
    });
  });
});

describe('the codecs of every method', () => {
  it.each(grpcMethods)('encode and decode the messages of $path as proto-loader does', ({ sides }) => {
    for (const { type, coder } of sides) {
      check(messageArbitrary(type), (message) => {
        const bytes = coder.encode(type, message);
        same(ours.encode(type, message), bytes);
        same(ours.decode(type, bytes), message);
        same(coder.decode(type, bytes), message);
      });
    }
  });
});

describe('the codec of a oneof', () => {
  const oneofs = messageTypes.flatMap((type) => type.oneofsArray.flatMap((oneof) => oneof.fieldsArray));

  it.each(oneofs.map((field) => [field.fullName.slice(1), field] as const))(
    'decodes and encodes %s when this field is present with its default value',
    (_, field) => {
      const type = field.parent as protobuf.Type;
      const isMessage = field.resolvedType instanceof protobuf.Type;
      const bytes = wireField(field.id, isMessage || field.type === 'bytes' ? 2 : 0, new Uint8Array(1));
      const message = ours.decode(type, bytes);
      const { case: given } = Object.values(message).find((member) => isOneof(member)) as { case: string };
      expect(given).toBe(protobuf.util.camelCase(field.name));
      expect(ours.encode(type, message)).toStrictEqual(bytes);
    },
  );
});

describe('repeated enums', () => {
  const values = [0, 1, 0, -1, 300];

  it('are decoded from packed, unpacked and mixed encodings', () => {
    const writer = protobuf.Writer.create();
    for (const value of values) writer.uint32(40).int32(value);
    const unpacked = writer.finish();
    const packed = protobuf.Writer.create().uint32(42).fork();
    for (const value of values) packed.int32(value);
    const run = packed.ldelim().finish();
    expect(decode(WatchCreateRequest, unpacked).filters).toStrictEqual(values);
    expect(decode(WatchCreateRequest, run).filters).toStrictEqual(values);
    expect(decode(WatchCreateRequest, joined([run, unpacked])).filters).toStrictEqual([...values, ...values]);
  });

  it('are encoded as a packed field', () => {
    expect(encode(WatchCreateRequest, { filters: [0, 1] })).toStrictEqual(Uint8Array.of(42, 2, 0, 1));
    expect(encode(WatchCreateRequest, { filters: [] })).toStrictEqual(new Uint8Array(0));
  });

  it('are rejected as malformed when a value extends beyond the end of the packed field', () => {
    expectMalformed(WatchCreateRequest, [42, 1, 0x80, 0x01]);
  });
});

describe('a nested message that occurs twice', () => {
  it('is decoded to one message, where a later value of a field replaces an earlier value', () => {
    const first = encode(Event, { kv: { key: Uint8Array.of(1), version: 2n } });
    const second = encode(Event, { kv: { version: 3n, lease: 4n } });
    const { kv } = decode(Event, joined([first, second]));
    expect(kv).toStrictEqual({ ...KeyValue.create(), key: Uint8Array.of(1), version: 3n, lease: 4n });
  });
});

describe('the protobuf decoder', () => {
  it('refuses a transaction whose messages are nested more than 100 levels deep', () => {
    for (const depth of [40, 50])
      expect(encode(TxnRequest, decode(TxnRequest, nestedTxns(depth)))).toStrictEqual(nestedTxns(depth));
    expectMalformed(TxnRequest, nestedTxns(51), 'nested deeper');
    expectMalformed(TxnRequest, nestedTxns(100_000), 'nested deeper');
  });

  it('refuses unknown groups that are nested more than 100 levels deep', () => {
    expect(decode(KeyValue, nestedGroups(100))).toStrictEqual(KeyValue.create());
    expectMalformed(KeyValue, nestedGroups(101), 'nested deeper');
    expectMalformed(KeyValue, nestedGroups(100_000), 'nested deeper');
  });

  it('accepts many nested messages or groups at the same level', () => {
    const groups = joined(Array.from({ length: 300 }, () => nestedGroups(60)));
    expect(decode(KeyValue, groups)).toStrictEqual(KeyValue.create());
    const event = encode(Event, { kv: { version: 1n } });
    expect(decode(Event, joined(Array.from({ length: 300 }, () => event))).kv?.version).toBe(1n);
  });

  it('refuses a group that has no end tag, the end tag of another group, or no start tag', () => {
    expectMalformed(KeyValue, [0xa3, 0x06, 8, 1]);
    expectMalformed(KeyValue, [0xa3, 0x06, 0xac, 0x06]);
    expectMalformed(KeyValue, [0xa4, 0x06]);
  });

  it.each([2n ** 31n, 2n ** 32n - 1n, 2n ** 32n + 1n, 2n ** 63n, 3n])(
    'refuses a length of %s without a large allocation when only two bytes are left',
    (length) => {
      const [event, key, filters, unknown] = [0x12, 0x0a, 0x2a, 0xa2];
      const before = process.memoryUsage().arrayBuffers;
      const declared = varint(length);
      expectMalformed(Event, [event, ...declared, 0, 0], 'length');
      expectMalformed(KeyValue, [key, ...declared, 0, 0], 'length');
      expectMalformed(WatchCreateRequest, [filters, ...declared, 0, 0], 'length');
      expectMalformed(KeyValue, [unknown, 0x06, ...declared, 0, 0], 'length');
      expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(2 ** 24);
    },
  );

  it('refuses a field that extends beyond the end of its nested message, even if more bytes follow', () => {
    expectMalformed(Event, [0x12, 3, 0x0a, 2, 65, 66, 8, 1], 'length');
    expectMalformed(Event, [0x12, 2, 16, 0x80, 1, 8, 1], 'truncated');
    expectMalformed(Event, [0x12, 3, 0xa1, 0x06, 0, 0, 0, 0, 0, 0, 0, 0], 'truncated');
  });

  it('refuses a varint that has more than 10 bytes', () => {
    const ones = (bytes: number, last = 1): number[] => [...Array.from({ length: bytes - 1 }, () => 0xff), last];
    expect(decode(KeyValue, Uint8Array.from([16, ...ones(10)])).createRevision).toBe(-1n);
    expectMalformed(KeyValue, [16, ...ones(11)], 'varint longer');
    expectMalformed(KeyValue, [0xa0, 0x06, ...ones(11)], 'varint longer');
    expectMalformed(KeyValue, [10, ...ones(11, 0)], 'varint longer');
    expectMalformed(KeyValue, ones(11, 0), 'varint longer');
    expectMalformed(Event, [8, ...ones(11)], 'varint longer');
    expectMalformed(WatchCreateRequest, [32, ...ones(11)], 'varint longer');
  });

  it('accepts a bool or an enum whose varint has more than 32 bits', () => {
    expect(decode(WatchCreateRequest, Uint8Array.from([32, ...varint(2n ** 32n)])).progressNotify).toBe(true);
    expect(decode(WatchCreateRequest, Uint8Array.from([40, ...varint(2n ** 32n + 1n)])).filters).toStrictEqual([1]);
  });

  it('refuses a field number that is 0 or out of range, whatever the wire type, in messages and in groups', () => {
    for (let tag = 0; tag < 8; tag += 1) {
      expectMalformed(KeyValue, [tag | 0x90, 0x80, 0x80, 0x80, 0x10, 0], 'field number out of range');
      expectMalformed(KeyValue, [tag, 0, 0, 0, 0, 0, 0, 0, 0], 'field number out of range');
      expectMalformed(KeyValue, [0xa3, 0x06, tag, 0xa4, 0x06], 'field number out of range');
    }
  });

  it('refuses the wire types 6 and 7', () => {
    expectMalformed(KeyValue, [14, 0], 'wire type 6');
    expectMalformed(KeyValue, [15, 0], 'wire type 7');
  });
});

describe('a decoded bytes field', () => {
  it('is a new Uint8Array, not a view of the input Buffer', () => {
    const { key } = decode(KeyValue, Buffer.from([10, 2, 65, 66]));
    expect(key).toStrictEqual(Uint8Array.of(65, 66));
    expect(key.buffer.byteLength).toBe(2);
  });
});

describe('a string field', () => {
  it('keeps a byte order mark when it is encoded and decoded', () => {
    const type = protoTree.lookupType('etcdserverpb.AuthUserAddRequest');
    const message = { ...codecOf(type).create(), name: '\uFEFFroot', password: '\uFEFF' };
    expect(ours.encode(type, message)).toStrictEqual(protobufjs.encode(type, message));
    expect(ours.decode(type, ours.encode(type, message))).toStrictEqual(message);
  });
});

function check<T>(arbitrary: fc.Arbitrary<T>, holds: (value: T) => void, options: fc.Parameters<[T]> = {}): void {
  // The runs take milliseconds. The time limit ends the search for a smaller failing input, which may take minutes.
  fc.assert(fc.property(arbitrary, holds), { seed: SEED, numRuns: RUNS, interruptAfterTimeLimit: 3_000, ...options });
}

/** Same as `toStrictEqual`, but faster when the values are equal. */
function same(actual: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(actual, expected)) expect(actual).toStrictEqual(expected);
}

function wireTypesOf(field: protobuf.Field): number[] {
  if (field.resolvedType instanceof protobuf.Enum) return field.repeated ? [0, 2] : [0];
  return field.resolvedType !== null || field.type === 'bytes' || field.type === 'string' ? [2] : [0];
}

function isOneof(member: unknown): boolean {
  return typeof member === 'object' && member !== null && 'case' in member;
}

function expectMalformed<T>(codec: Codec<T>, bytes: Iterable<number>, problem = 'malformed '): void {
  const attempt = (): T => decode(codec, Uint8Array.from(bytes));
  expect(attempt).toThrowError(EtcdError);
  expect(attempt).toThrowError(expect.objectContaining({ reason: 'MalformedMessage', code: 'Internal' }));
  expect(attempt).toThrowError(problem);
}
