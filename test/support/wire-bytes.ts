import fc from 'fast-check';
import protobuf from 'protobufjs';
import { messageTypes } from './arbitraries.js';

// Builds protobuf encodings that no encoder of etcd's messages writes, such as unknown fields and deep nesting.

const EMPTY = new Uint8Array(0);
/** The lowest number above all field numbers of etcd's API. No message of the API has a field with this number. */
const UNKNOWN_NUMBER = 1 + Math.max(...messageTypes.flatMap((type) => type.fieldsArray.map((field) => field.id)));

/** A field body for each protobuf wire type. Each body is valid only for its own wire type. */
export const WIRE_BODIES: Readonly<Record<number, Uint8Array>> = {
  0: Uint8Array.of(0x80, 1),
  1: Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8),
  2: Uint8Array.of(2, 8, 1),
  3: Uint8Array.of(8, 1),
  5: Uint8Array.of(1, 2, 3, 4),
};

/** Generates fields of any wire type with a field number that no message of etcd's API uses. */
export const unknownField: fc.Arbitrary<Uint8Array> = fc.letrec<{ field: Uint8Array }>((tie) => ({
  field: fc
    .tuple(
      fc.oneof(fc.integer({ min: UNKNOWN_NUMBER, max: 300 }), fc.integer({ min: 300, max: 2 ** 29 - 1 })),
      fc.oneof(
        { maxDepth: 4 },
        fc.bigInt(0n, 2n ** 64n - 1n).map((value) => ({ wireType: 0, body: varint(value) })),
        fc.uint8Array({ minLength: 8, maxLength: 8 }).map((body) => ({ wireType: 1, body })),
        fc.uint8Array({ maxLength: 20 }).map((bytes) => ({ wireType: 2, body: delimited(bytes) })),
        fc.tuple(fc.string(), fc.string()).map((entry) => ({ wireType: 2, body: delimited(mapEntry(...entry)) })),
        fc.array(tie('field'), { maxLength: 3 }).map((inner) => ({ wireType: 3, body: joined(inner) })),
        fc.uint8Array({ minLength: 4, maxLength: 4 }).map((body) => ({ wireType: 5, body })),
      ),
    )
    .map(([number, { wireType, body }]) => wireField(number, wireType, body)),
})).field;

/**
 * Generates up to six fields with the field numbers of this message type, or with one unknown number, but with any wire
 * type and arbitrary bodies.
 */
export function plausibleBytes(type: protobuf.Type): fc.Arbitrary<Uint8Array> {
  const numbers = [...type.fieldsArray.map((field) => field.id), UNKNOWN_NUMBER];
  const field = fc
    .tuple(fc.constantFrom(...numbers), fc.nat({ max: 7 }), fc.uint8Array({ maxLength: 12 }))
    .map(([number, wireType, body]) => wireField(number, wireType, body));
  return fc.array(field, { maxLength: 6 }).map(joined);
}

/**
 * Returns the message with fields of `extra`, taken in turn, before, between and after its own fields, at every level
 * of nesting.
 */
export function spliced(type: protobuf.Type, bytes: Uint8Array, extra: readonly Uint8Array[]): Uint8Array {
  let next = 0;
  const another = (): Uint8Array => extra[next++ % extra.length] ?? EMPTY;
  const splice = (outer: protobuf.Type, message: Uint8Array): Uint8Array => {
    const reader = protobuf.Reader.create(message);
    const parts = [another()];
    while (reader.pos < reader.len) {
      const start = reader.pos;
      const tag = reader.uint32();
      const inner = outer.fieldsById[tag >>> 3]?.resolvedType;
      if (inner instanceof protobuf.Type) {
        parts.push(wireField(tag >>> 3, 2, delimited(splice(inner, reader.bytes()))));
      } else {
        reader.skipType(tag & 7);
        parts.push(message.subarray(start, reader.pos));
      }
      parts.push(another());
    }
    return joined(parts);
  };
  return splice(type, bytes);
}

/** Encodes a field from its number, wire type and body. Adds the end tag if the field is a group. */
export function wireField(number: number, wireType: number, body: Uint8Array): Uint8Array {
  const tag = BigInt(number) << 3n;
  const end = wireType === 3 ? varint(tag | 4n) : EMPTY;
  return joined([varint(tag | BigInt(wireType)), body, end]);
}

export function varint(value: bigint): Uint8Array {
  return protobuf.Writer.create().uint64(String(value)).finish();
}

export function joined(parts: readonly Uint8Array[]): Uint8Array {
  return Uint8Array.from(Buffer.concat(parts));
}

function delimited(bytes: Uint8Array): Uint8Array {
  return protobuf.Writer.create().bytes(bytes).finish();
}

function mapEntry(key: string, value: string): Uint8Array {
  return protobuf.Writer.create().uint32(10).string(key).uint32(18).string(value).finish();
}

/**
 * Encodes a TxnRequest that contains `depth` nested transactions. Each nested transaction adds two levels of messages:
 * a RequestOp and a TxnRequest.
 */
export function nestedTxns(depth: number): Uint8Array {
  const parts: Uint8Array[] = [];
  let length = 0;
  for (let level = 0; level < depth; level += 1) {
    for (const tag of [0x22, 0x12]) {
      const head = protobuf.Writer.create().uint32(tag).uint32(length).finish();
      parts.push(head);
      length += head.length;
    }
  }
  return joined(parts.reverse());
}

/** Encodes `depth` nested groups with an unknown field number. */
export function nestedGroups(depth: number): Uint8Array {
  const tags = (wireType: bigint): Uint8Array[] =>
    Array.from({ length: depth }, () => varint((BigInt(UNKNOWN_NUMBER) << 3n) | wireType));
  return joined([...tags(3n), ...tags(4n)]);
}
