import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { toBase64 } from '../../../../src/base/bytes.js';
import { fromBase64, fromJson, toJson } from '../../../../src/extras/transports/json/json.js';
import {
  AuthUserAddRequest,
  PutRequest,
  RangeRequest,
  ResponseHeader,
  TxnRequest,
  WatchRequest,
} from '../../../../src/gen/etcdserverpb/rpc.js';
import { codecOf, messageArbitrary, messageTypes, ours } from '../../../support/arbitraries.js';
import { errorOf } from '../../../support/errors.js';
import { iterations } from '../../../support/thorough.js';

const SEED = 20_260_721;
const RUNS = iterations(40);
const types = messageTypes.map((type) => [type.fullName.slice(1), type] as const);

describe('the JSON of every message', () => {
  it.each(types)('is converted back to the same %s', (_, type) => {
    check(messageArbitrary(type), (message) => {
      const text = JSON.stringify(toJson(codecOf(type), message));
      expect(fromJson(codecOf(type), JSON.parse(text))).toStrictEqual(message);
    });
  });

  it.each(types)('is read by protobufjs as the same %s', (_, type) => {
    check(messageArbitrary(type), (message) => {
      const theirs = type.fromObject(toJson(codecOf(type), message));
      expect(Uint8Array.from(type.encode(theirs).finish())).toStrictEqual(ours.encode(type, message));
    });
  });
});

describe('the JSON of a message', () => {
  it('contains .proto field names, 64-bit integers as strings, bytes as base64, and no default values', () => {
    const request = {
      ...RangeRequest.create(),
      key: Uint8Array.of(0xff, 0),
      maxModRevision: 2n ** 60n,
      sortOrder: 2 as const,
    };
    expect(toJson(RangeRequest, request)).toStrictEqual({
      key: '/wA=',
      max_mod_revision: '1152921504606846976',
      sort_order: 'DESCEND',
    });
  });

  it('may contain names in camel case, integers and enum values as numbers, and null for an omitted field', () => {
    const json = { key: 'YQ', maxModRevision: 7, sortOrder: 2, rangeEnd: null, limit: '-3' };
    expect(fromJson(RangeRequest, json)).toStrictEqual({
      ...RangeRequest.create(),
      key: Uint8Array.of(0x61),
      maxModRevision: 7n,
      sortOrder: 2,
      limit: -3n,
    });
  });

  it('contains the chosen case of a oneof as a field, even if the message in the field is empty', () => {
    const request = { requestUnion: { case: 'progressRequest', value: {} } } as const;
    expect(toJson(WatchRequest, request)).toStrictEqual({ progress_request: {} });
    expect(fromJson(WatchRequest, { progress_request: {} })).toStrictEqual(request);
  });

  it('contains bytes in the form that the conversion functions of the caller produce', () => {
    const json = { key: 'a', value: 'ä' };
    const put = fromJson(PutRequest, json, { bytesFromJson: (text) => new TextEncoder().encode(text) });
    expect(put.value).toStrictEqual(Uint8Array.of(0xc3, 0xa4));
    expect(toJson(PutRequest, put, (bytes) => new TextDecoder().decode(bytes))).toStrictEqual(json);
  });

  it('may contain unknown fields when `ignoreUnknown` is set', () => {
    const json = { revision: '4', since: 'tomorrow' };
    expect(fromJson(ResponseHeader, json, { ignoreUnknown: true }).revision).toBe(4n);
  });

  it.each([
    ['an unknown field', { kex: 'YQ==' }, /^kex: got a field that etcdserverpb\.RangeRequest does not have/],
    ['bytes that are not base64', { key: 'a b' }, /^key: got a string that is not base64/],
    ['base64 of an impossible length', { key: 'abcde' }, /^key: /],
    ['a number for bytes', { key: 5 }, /^key: got the number 5; allowed: a string/],
    ['an integer out of range', { limit: '9223372036854775808' }, /^limit: .*2\^63/],
    ['an integer with a fraction', { limit: 1.5 }, /^limit: got the number 1.5/],
    ['a number above 2^53 - 1', { limit: 2 ** 60 }, /^limit: .*given as a string if above 2\^53 - 1/],
    ['a word for an integer', { limit: 'ten' }, /^limit: got a string/],
    ['an unknown enum value', { sort_order: 'SIDEWAYS' }, /^sort_order: .*NONE, ASCEND, DESCEND/],
    ['an enum value that is a property of every JavaScript object', { sort_order: 'constructor' }, /^sort_order: /],
    ['a string for a boolean', { serializable: 'true' }, /^serializable: .*true or false/],
    ['an array as the message', [], /^etcdserverpb\.RangeRequest: got an object \(Array\); allowed: a JSON object/],
  ])('with %s is refused, and the error names the field or the message', async (_, json, message) => {
    expect(await errorOf(() => fromJson(RangeRequest, json))).toMatchObject({
      reason: 'InvalidInput',
      message: expect.stringMatching(message),
    });
  });

  it('with a lone surrogate in a string is refused, because no Protobuf string can contain it', async () => {
    expect(await errorOf(() => fromJson(AuthUserAddRequest, { name: 'x\ud800' }))).toMatchObject({
      reason: 'InvalidInput',
      message: expect.stringContaining(
        'name: got a string with a lone surrogate; allowed: a string of well-formed Unicode',
      ),
    });
  });

  it.each([
    [{ compare: [{}, { version: '1', value: 'YQ==' }] }, /^compare\[1\]\.value: got value together with version/],
    [{ success: [{ request_range: { limit: true } }] }, /^success\[0\]\.request_range\.limit: /],
    [{ success: {} }, /^success: got an object \(Object\); allowed: a JSON array/],
  ])('is refused with an error that contains the path of the invalid field', (json, message) => {
    expect(() => fromJson(TxnRequest, json)).toThrow(message);
  });
});

it('`toBase64` and `fromBase64` convert bytes in the same way as Node.js', () => {
  check(fc.uint8Array({ maxLength: 20_000 }), (bytes) => {
    expect(toBase64(bytes)).toBe(Buffer.from(bytes).toString('base64'));
    expect(fromBase64(Buffer.from(bytes).toString('base64url'), 'bytes')).toStrictEqual(bytes);
  });
});

function check<T>(arbitrary: fc.Arbitrary<T>, judge: (value: T) => void): void {
  fc.assert(fc.property(arbitrary, judge), { seed: SEED, numRuns: RUNS });
}
