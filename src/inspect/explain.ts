import { messageFields } from '../gen/descriptors.js';
import { Reader } from '../protobuf/reader.js';
import type { FieldDescriptor, ScalarType } from '../protobuf/schema.js';
import { textOf } from '../runtime/bytes.js';

/** https://protobuf.dev/programming-guides/encoding/#structure. */
type WireType = 'varint' | 'fixed64' | 'length-delimited' | 'group' | 'end of group' | 'fixed32';

const WIRE_TYPES: readonly WireType[] = ['varint', 'fixed64', 'length-delimited', 'group', 'end of group', 'fixed32'];
const [VARINT, LENGTH_DELIMITED] = [0, 2];
/** What is nested deeper is shown as bytes. */
const MAX_DEPTH = 100;

/** A run of bytes of a message, and what it is. */
export interface Span {
  /** Where it begins, and where the next one does. */
  readonly start: number;
  readonly end: number;
  /** Of how many messages within the first it is part. */
  readonly depth: number;
  /** `value` is a whole one; that of a message is not there, but its fields are. */
  readonly part: 'tag' | 'length' | 'value';
  readonly number: number;
  readonly wireType: WireType;
  /** Undefined where the message has no such field of such a wire type. */
  readonly field: FieldDescriptor | undefined;
  /** Of a length the length; of a value the value: as in the message's type here, or bytes where there is no field. */
  readonly value: number | bigint | boolean | string | Uint8Array | undefined;
}

/**
 * What each byte of a message is, in order. A field that comes twice is told of twice.
 *
 * @throws EtcdError, reason `MalformedMessage`, after the last that could be made out.
 */
export function* explain(typeName: string, bytes: Uint8Array): Generator<Span, void, undefined> {
  yield* fieldsOf(typeName, bytes, 0, bytes.length, 0);
}

function* fieldsOf(
  typeName: string,
  bytes: Uint8Array,
  start: number,
  end: number,
  depth: number,
): Generator<Span, void, undefined> {
  const reader = new Reader(bytes, typeName, start, end);
  for (;;) {
    const tagAt = reader.at;
    const tag = reader.tag();
    if (tag === 0) return;
    const field = fieldOf(typeName, tag);
    const spans = new Spans(tag, field, depth);
    yield spans.of('tag', tagAt, reader.at, undefined);
    const valueAt = reader.at;
    if ((tag & 7) === LENGTH_DELIMITED) {
      const value = reader.bytes();
      const contentAt = reader.at - value.length;
      yield spans.of('length', valueAt, contentAt, value.length);
      if (field !== undefined && 'message' in field.type && depth < MAX_DEPTH) {
        yield* fieldsOf(field.type.message, bytes, contentAt, reader.at, depth + 1);
      } else if (field !== undefined && isNumeric(field)) {
        const packed = new Reader(bytes, typeName, contentAt, reader.at);
        while (packed.at < reader.at) {
          const at = packed.at;
          const element = numberFrom(packed, field);
          yield spans.of('value', at, packed.at, element);
        }
      } else if (value.length > 0) {
        yield spans.of('value', contentAt, reader.at, isText(field) ? textOf(value) : value);
      }
    } else if (field !== undefined) {
      const value = numberFrom(reader, field);
      yield spans.of('value', valueAt, reader.at, value);
    } else {
      reader.skip(tag);
      yield spans.of('value', valueAt, reader.at, bytes.slice(valueAt, reader.at));
    }
  }
}

class Spans {
  readonly #tag: number;
  readonly #field: FieldDescriptor | undefined;
  readonly #depth: number;

  constructor(tag: number, field: FieldDescriptor | undefined, depth: number) {
    this.#tag = tag;
    this.#field = field;
    this.#depth = depth;
  }

  of(part: Span['part'], start: number, end: number, value: Span['value']): Span {
    const wireType = WIRE_TYPES[this.#tag & 7] as WireType;
    return { start, end, depth: this.#depth, part, number: this.#tag >>> 3, wireType, field: this.#field, value };
  }
}

/** The field that such a tag belongs to: a known number with a wire type of another kind is an unknown field. */
function fieldOf(typeName: string, tag: number): FieldDescriptor | undefined {
  const field = messageFields[typeName]?.find(({ number }) => number === tag >>> 3);
  if (field === undefined) return undefined;
  const wireType = tag & 7;
  const fits = isNumeric(field)
    ? wireType === VARINT || (wireType === LENGTH_DELIMITED && field.repeated === true)
    : wireType === LENGTH_DELIMITED;
  return fits ? field : undefined;
}

function isNumeric({ type }: FieldDescriptor): boolean {
  return 'enum' in type || ('scalar' in type && type.scalar !== 'bytes' && type.scalar !== 'string');
}

function isText(field: FieldDescriptor | undefined): boolean {
  return field !== undefined && 'scalar' in field.type && field.type.scalar === 'string';
}

function numberFrom(reader: Reader, { type }: FieldDescriptor): number | bigint | boolean {
  return 'scalar' in type ? READ_NUMBER[type.scalar as keyof typeof READ_NUMBER](reader) : reader.int32();
}

const READ_NUMBER: Readonly<
  Record<Exclude<ScalarType, 'bytes' | 'string'>, (reader: Reader) => number | bigint | boolean>
> = {
  bool: (reader) => reader.bool(),
  int64: (reader) => reader.int64(),
  uint32: (reader) => reader.uint32(),
  uint64: (reader) => reader.uint64(),
};
