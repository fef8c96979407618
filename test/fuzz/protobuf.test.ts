import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import type protobuf from 'protobufjs';
import { expect } from 'vitest';
import { EtcdError } from '../../src/base/etcd-error.js';
import { decode } from '../../src/wire/protobuf/reader.js';
import { encode, type Init } from '../../src/wire/protobuf/writer.js';
import {
  type Coder,
  codecs,
  type Fields,
  messageArbitrary,
  messageTypes,
  ours,
  protobufjs,
  protoLoader,
  protoTree,
} from '../support/arbitraries.js';
import { changedBytes } from '../support/changed-bytes.js';
import { fromHex, fuzz, hex } from '../support/fuzz.js';
import { joined, plausibleBytes, varint, wireField } from '../support/wire-bytes.js';

interface Input {
  /** Full name of the message type. */
  readonly type: string;
  readonly bytes: string;
}

/** Generates fields that are nested up to 130 levels deep. Their field numbers are 1 or those of the type. */
function nested(type: protobuf.Type): fc.Arbitrary<Uint8Array> {
  const number = fc.constantFrom(1, ...type.fieldsArray.map(({ id }) => id));
  return fc.tuple(fc.array(number, { maxLength: 130 }), fc.constantFrom(2, 3)).map(([numbers, wireType]) =>
    numbers.reduce((inner: Uint8Array, each) => {
      const body = wireType === 2 ? joined([varint(BigInt(inner.length)), inner]) : inner;
      return wireField(each, wireType, body);
    }, new Uint8Array(0)),
  );
}

const inputs: fc.Arbitrary<Input> = fc.constantFrom(...messageTypes).chain((type) => {
  const encoded = messageArbitrary(type).map((message) => ours.encode(type, message));
  const bytes = fc.oneof(
    { weight: 6, arbitrary: changedBytes(encoded) },
    { weight: 2, arbitrary: plausibleBytes(type) },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 80 }) },
    { weight: 1, arbitrary: nested(type) },
  );
  return bytes.map((each) => ({ type: type.fullName.slice(1), bytes: hex(each) }));
});

fuzz<Input>({
  target: 'protobuf',
  property: 'the codec decodes any bytes to the same message as protobufjs, or rejects the bytes as malformed',
  inputs,
  runs: 15_000,
  parts: { message: 0.3, malformed: 0.2 },
  check: ({ type, bytes: text }) => {
    const codec = codecs.get(type);
    if (codec === undefined) throw new Error(`unknown message ${type}`);
    const bytes = fromHex(text);
    const theirs = readBy(protobufjs, type, bytes);
    let message: Fields;
    try {
      message = decode(codec, bytes);
    } catch (error) {
      if (!(error instanceof EtcdError)) throw error;
      expect(error).toMatchObject({ reason: 'MalformedMessage', code: 'Internal', outcome: 'unknown' });
      expect(error.message.length).toBeLessThan(200);
      // protobufjs allows deeper nesting, longer varints, and field 0 in a message without fields.
      const isLenient = /varint longer|nested deeper/.test(error.message) || Object.keys(codec.create()).length === 0;
      if (!isLenient) expect(theirs).toBeUndefined();
      return 'malformed';
    }
    // protobufjs 8 refuses a group in a message without fields. protobufjs 7, which proto-loader uses, accepts it.
    if (theirs !== undefined) same(message, theirs);
    else if (!hasReplacements(message)) expect(readBy(protoLoader, type, bytes)).toBeDefined();
    // A large length prefix must not make the decoder allocate memory, so the message must not be larger than the
    // input.
    expect(weightOf(message)).toBeLessThanOrEqual(bytes.length);
    same(decode(codec, encode(codec, message as Init<Fields>)), message);
    // The decoder must ignore bytes before and after the given part of the input.
    same(decode(codec, joined([Uint8Array.of(8, 1), bytes, Uint8Array.of(8, 1)]), 2, 2 + bytes.length), message);
    return 'message';
  },
});

function readBy(coder: Coder, type: string, bytes: Uint8Array): Fields | undefined {
  try {
    return coder.decode(protoTree.lookupType(type), bytes);
  } catch {
    return undefined;
  }
}

/** Whether the message contains replacement characters. They stand for invalid UTF-8, which other decoders refuse. */
function hasReplacements(message: Fields): boolean {
  return JSON.stringify(message, (_, value) => (typeof value === 'bigint' ? String(value) : value)).includes('\ufffd');
}

/** Returns the number of bytes and elements in a message's fields. Fails if messages are nested deeper than 100. */
function weightOf(message: object, depth = 0): number {
  expect([Object.getPrototypeOf(message), depth <= 100]).toEqual([Object.prototype, true]);
  let weight = 0;
  for (const [name, field] of Object.entries(message)) {
    // Do not count the string `case` of a oneof, because the wire format contains only the field number.
    if (name === 'case') continue;
    for (const value of Array.isArray(field) ? field : [field]) {
      if (Array.isArray(field)) weight += 1;
      if (value instanceof Uint8Array || typeof value === 'string') weight += value.length;
      else if (typeof value === 'object' && value !== null)
        weight += weightOf(value, name === 'value' ? depth : depth + 1);
    }
  }
  return weight;
}

/** Same as `toStrictEqual`, but faster when the values are equal. */
function same(actual: unknown, expected: unknown): void {
  if (!isDeepStrictEqual(actual, expected)) expect(actual).toStrictEqual(expected);
}
