import { isDeepStrictEqual } from 'node:util';
import protobuf from 'protobufjs';
import { describe, expect, it } from 'vitest';
import { EtcdError } from '../../../src/base/etcd-error.js';
import {
  PutRequest,
  RequestOp,
  ResponseHeader,
  TxnRequest,
  WatchCreateRequest,
} from '../../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../../src/gen/methods.js';
import { Event, KeyValue } from '../../../src/gen/mvccpb/kv.js';
import { encodeRequest } from '../../../src/wire/messages.js';
import { decode } from '../../../src/wire/protobuf/reader.js';
import type { Codec } from '../../../src/wire/protobuf/schema.js';
import { encode, type Init, Writer } from '../../../src/wire/protobuf/writer.js';

describe('a number that the field type cannot represent', () => {
  it.each([2n ** 63n, -(2n ** 63n) - 1n, 2n ** 64n, 2n ** 200n])('is refused as int64: %s', (value) => {
    expect(() => new Writer().int64(value)).toThrowError(
      new RangeError(`int64: got ${value}; allowed: a bigint from -2^63 to 2^63 - 1`),
    );
    expect(() => encode(KeyValue, { lease: value })).toThrowError(RangeError);
  });

  it.each([-1n, 2n ** 64n, -(2n ** 63n), 2n ** 200n])('is refused as uint64: %s', (value) => {
    expect(() => new Writer().uint64(value)).toThrowError(
      new RangeError(`uint64: got ${value}; allowed: a bigint from 0 to 2^64 - 1`),
    );
    expect(() => encode(ResponseHeader, { memberId: value })).toThrowError(RangeError);
  });

  it.each([2 ** 31, -(2 ** 31) - 1, 2 ** 32, 1.5, Number.NaN, Number.POSITIVE_INFINITY])(
    'is refused as int32, the type of enums: %s',
    (value) => {
      expect(() => new Writer().int32(value)).toThrowError(
        new RangeError(`int32: got ${value}; allowed: a whole number from -2^31 to 2^31 - 1`),
      );
      expect(() => encode(Event, { type: value as Event['type'] })).toThrowError(RangeError);
      expect(() => encode(WatchCreateRequest, { filters: [0, value as 0] })).toThrowError(RangeError);
    },
  );

  it('is refused in a nested message', () => {
    const put = { request: { case: 'requestPut', value: { lease: 2n ** 63n } } } as const;
    const nested: Init<TxnRequest> = { success: [{ request: { case: 'requestTxn', value: { failure: [put] } } }] };
    expect(() => encode(TxnRequest, nested)).toThrowError(RangeError);
  });

  it('is refused, but the largest and the smallest numbers of each type are accepted', () => {
    expect(written((writer) => writer.int64(2n ** 63n - 1n))).toStrictEqual([...ones(8), 0x7f]);
    expect(written((writer) => writer.int64(-(2n ** 63n)))).toStrictEqual([...zeros(9), 1]);
    expect(written((writer) => writer.uint64(2n ** 64n - 1n))).toStrictEqual([...ones(9), 1]);
    expect(written((writer) => writer.int32(2 ** 31 - 1))).toStrictEqual([...ones(4), 7]);
    expect(written((writer) => writer.int32(-(2 ** 31)))).toStrictEqual([...zeros(4), 0xf8, ...ones(4), 1]);
  });
});

describe('a value that the field type does not allow', () => {
  it.each<[string, () => unknown, string]>([
    ['a string for bytes', () => encode(KeyValue, { key: 's3cret' as never }), 'bytes: got a string'],
    ['an array for bytes', () => encode(KeyValue, { key: [1, 2] as never }), 'bytes: got an object (Array)'],
    ['a number for int64', () => encode(KeyValue, { lease: 5 as never }), 'int64: got 5'],
    ['a string for int64', () => encode(KeyValue, { lease: 's3cret' as never }), 'int64: got a string'],
    ['a string for bool', () => encode(PutRequest, { prevKv: 'no' as never }), 'bool: got a string'],
    ['a number for a string', () => new Writer().string(5 as never), 'string: got 5'],
    [
      'a string with a lone surrogate',
      () => new Writer().string('\ud800'),
      'string: got a string with a lone surrogate',
    ],
    [
      'a case that a oneof does not have',
      () => encode(RequestOp, { request: { case: 'x', value: {} } as never }),
      'request: got a case',
    ],
  ])('is refused with an error that does not contain the given text: %s', (_what, attempt, message) => {
    expect(attempt).toThrowError(TypeError);
    expect(attempt).toThrowError(message);
  });

  it.each([-1, 2 ** 32, 1.5, Number.NaN])('is refused as uint32: %s', (value) => {
    expect(() => new Writer().uint32(value)).toThrowError(RangeError);
  });
});

describe('a nested message', () => {
  const lengths = [0, 1, 126, 127, 128, 129, 16_382, 16_383, 16_384, 16_385, 2_097_151, 2_097_152];

  it.each(lengths)('of %i bytes has the shortest possible length prefix', (length) => {
    const head = protobuf.Writer.create().uint32(length).finish();
    expect(head).toHaveLength(length < 128 ? 1 : length < 16_384 ? 2 : length < 2_097_152 ? 3 : 4);
    const writer = new Writer();
    writer.message(sevens, length);
    expect(Buffer.concat([head, new Uint8Array(length).fill(7)]).equals(writer.finish())).toBe(true);
  });

  it('does not damage the surrounding fields when its length prefix needs more bytes than the writer reserved', () => {
    for (const length of [100, 120, 130, 16_370, 16_390]) {
      const kv: KeyValue = { ...KeyValue.create(), value: new Uint8Array(length).fill(7), lease: 9n };
      const event: Event = { type: 1, kv, prevKv: { ...kv, version: 300n } };
      expect(isDeepStrictEqual(decode(Event, encode(Event, event)), event)).toBe(true);
    }
  });

  it('does not damage the surrounding messages when several length prefixes need more bytes than the writer reserved', () => {
    // As `length` grows, the length prefixes of the put, of its operation and of the transactions become one byte
    // longer, one after another.
    for (const from of [110, 16_365]) {
      for (let length = from; length < from + 25; length += 1) {
        const put = { ...PutRequest.create(), value: new Uint8Array(length).fill(7) };
        const txn = txnAround(txnAround(txnAround(put)));
        expect(isDeepStrictEqual(decode(TxnRequest, encode(TxnRequest, txn)), txn)).toBe(true);
      }
    }
  });
});

describe('a packed field', () => {
  it.each([127, 128, 20_000])('of %i values has its length as a prefix', (length) => {
    const filters = Array.from({ length }, (_, index) => (index % 2) as 0 | 1);
    const head = protobuf.Writer.create().uint32(0x2a).uint32(length).finish();
    expect(encode(WatchCreateRequest, { filters })).toStrictEqual(Uint8Array.from([...head, ...filters]));
  });
});

describe('`encodeRequest`', () => {
  it('returns the bytes of the message', () => {
    const request = { key: Uint8Array.of(107), lease: 5n };
    expect(encodeRequest(methods.kv.put, request, 100)).toStrictEqual(encode(PutRequest, request));
  });

  it.each([
    ['an int64', () => encodeRequest(methods.kv.put, { lease: 2n ** 63n }, 100), '/etcdserverpb.KV/Put'],
    [
      'a uint64',
      () => encodeRequest(methods.cluster.memberRemove, { id: -1n }, 100),
      '/etcdserverpb.Cluster/MemberRemove',
    ],
    ['an enum', () => encodeRequest(methods.kv.range, { sortOrder: (2 ** 31) as 0 }, 100), '/etcdserverpb.KV/Range'],
  ])('refuses %s that is out of range with reason InvalidInput and outcome not-sent', (_, attempt, method) => {
    const error = refusalOf(attempt);
    expect(error).toMatchObject({ code: 'InvalidArgument', reason: 'InvalidInput', outcome: 'not-sent', method });
    expect(error.cause).toBeInstanceOf(RangeError);
    expect(error.message).toMatch(/: got .*; allowed: a /);
  });

  it('refuses a number in place of a bigint with reason InvalidInput and outcome not-sent', () => {
    const request = { lease: 5 as unknown as bigint };
    const error = refusalOf(() => encodeRequest(methods.kv.put, request, 100));
    expect(error).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent', method: '/etcdserverpb.KV/Put' });
    expect(error.cause).toBeInstanceOf(TypeError);
  });

  it('refuses a request that is longer than `maxRequestBytes`, and accepts a request of exactly that length', () => {
    const request = { value: new Uint8Array(1000) };
    const { length } = encode(PutRequest, request);
    expect(encodeRequest(methods.kv.put, request, length)).toHaveLength(length);
    const error = refusalOf(() => encodeRequest(methods.kv.put, request, length - 1));
    expect(error).toMatchObject({ code: 'InvalidArgument', reason: 'InvalidInput', outcome: 'not-sent' });
    expect(error.message).toBe(
      `etcdserverpb.PutRequest: got ${length} bytes; allowed: at most ${length - 1} bytes (option maxRequestBytes of the client, --max-request-bytes of the server)`,
    );
  });
});

/** A codec whose message is a number. It encodes the number n as n bytes with the value 7. */
const sevens: Codec<number> = {
  typeName: 'test.Sevens',
  create: () => 0,
  write(writer, count) {
    for (let index = 0; index < count; index += 1) writer.uint32(7);
  },
  read: () => {},
};

function written(write: (writer: Writer) => void): number[] {
  const writer = new Writer();
  write(writer);
  return [...writer.finish()];
}

/** Returns bytes of a varint with only the continuation bit set. */
function zeros(count: number): number[] {
  return Array.from({ length: count }, () => 0x80);
}

function ones(count: number): number[] {
  return Array.from({ length: count }, () => 0xff);
}

function txnAround(inner: PutRequest | TxnRequest): TxnRequest {
  const request =
    'compare' in inner
      ? ({ case: 'requestTxn', value: inner } as const)
      : ({ case: 'requestPut', value: inner } as const);
  return { ...TxnRequest.create(), success: [{ request }] };
}

function refusalOf(attempt: () => unknown): EtcdError {
  try {
    attempt();
  } catch (error) {
    if (error instanceof EtcdError) return error;
    throw error;
  }
  throw new Error('the call did not throw an error');
}
