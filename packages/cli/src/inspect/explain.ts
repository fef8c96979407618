import {
  EtcdError,
  type FieldDescriptor,
  messageFields,
  NO_BYTES,
  Reader,
  type ScalarType,
  STATIC_TABLE,
  textOf,
} from '../../../../src/internal.js';
import { ENVELOPE, ENVELOPE_FIELDS, isProtobufValue, PROTOBUF_PREFIX_BYTES } from './kubernetes.js';

/** The wire types of Protobuf by number: https://protobuf.dev/programming-guides/encoding/#structure. */
type WireType = 'varint' | 'fixed64' | 'length-delimited' | 'group' | 'end of group' | 'fixed32';

const WIRE_TYPES: readonly WireType[] = ['varint', 'fixed64', 'length-delimited', 'group', 'end of group', 'fixed32'];
const [VARINT, LENGTH_DELIMITED] = [0, 2];
/** Maximum nesting depth of messages. The content of a message that is nested deeper becomes one span of bytes. */
const MAX_DEPTH = 100;

/** The meaning of some consecutive bytes of a message: the tag, the length or the value of a field. */
export interface Span {
  /** Offset of the first byte. */
  readonly start: number;
  /** Offset after the last byte. */
  readonly end: number;
  /** Number of nested messages that contain the span. 0 for the fields of the outermost message. */
  readonly depth: number;
  /**
   * The role of the bytes in the field. A field whose type is a message has no `value` span; the spans of the nested
   * message's fields follow the `length` span instead. An empty value has no span, either.
   */
  readonly part: 'tag' | 'length' | 'value';
  readonly number: number;
  readonly wireType: WireType;
  /** Descriptor of the field. Undefined if the message has no field with this number and wire type. */
  readonly field: FieldDescriptor | undefined;
  /**
   * For a `length` span, the number of bytes. For a `value` span, the decoded value, or the raw bytes if the field is
   * unknown. For a `tag` span, undefined.
   */
  readonly value: number | bigint | boolean | string | Uint8Array | undefined;
}

/**
 * Yields a span for every tag, length and value of a Protobuf message, in order. A field that occurs twice has two sets
 * of spans. The value of a key of Kubernetes that is an object in Protobuf has a `value` span for its prefix, which the
 * spans of the fields around the object follow.
 *
 * @throws EtcdError with reason `MalformedMessage` if the message is malformed, after the generator has yielded the
 * last span that it could decode.
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
  /** The value of the latest field with the name `key`. */
  let key = NO_BYTES;
  for (;;) {
    const tagAt = reader.at;
    const tag = reader.tag();
    if (tag === 0) return;
    const field = fieldOf(typeName, tag);
    const common = { depth, number: tag >>> 3, wireType: WIRE_TYPES[tag & 7] as WireType, field };
    yield { ...common, part: 'tag', start: tagAt, end: reader.at, value: undefined };
    const valueAt = reader.at;
    if ((tag & 7) === LENGTH_DELIMITED) {
      const value = reader.bytes();
      const contentAt = reader.at - value.length;
      yield { ...common, part: 'length', start: valueAt, end: contentAt, value: value.length };
      if (field !== undefined && 'message' in field.type && depth < MAX_DEPTH) {
        yield* fieldsOf(field.type.message, bytes, contentAt, reader.at, depth + 1);
      } else if (field !== undefined && isNumeric(field)) {
        const packed = new Reader(bytes, typeName, contentAt, reader.at);
        while (packed.at < reader.at) {
          const at = packed.at;
          const element = numberFrom(packed, field);
          yield { ...common, part: 'value', start: at, end: packed.at, value: element };
        }
      } else if (value.length > 0) {
        if (field?.name === 'key') key = value;
        const inner = field?.name === 'value' ? envelopeOf(key, bytes, contentAt, reader.at, depth) : undefined;
        const innerAt = inner === undefined ? reader.at : contentAt + PROTOBUF_PREFIX_BYTES;
        const shown = bytes.slice(contentAt, innerAt);
        yield {
          ...common,
          part: 'value',
          start: contentAt,
          end: innerAt,
          value: isText(field) ? textOf(shown) : shown,
        };
        yield* inner ?? [];
      }
    } else if (field !== undefined) {
      const value = numberFrom(reader, field);
      yield { ...common, part: 'value', start: valueAt, end: reader.at, value };
    } else {
      reader.skip(tag);
      yield { ...common, part: 'value', start: valueAt, end: reader.at, value: bytes.slice(valueAt, reader.at) };
    }
  }
}

/**
 * Returns the spans after the prefix of an object of Kubernetes, which is the value of `key` and begins at `start`.
 * Returns undefined if the value does not have this prefix, or if the bytes after the prefix are malformed.
 */
function envelopeOf(
  key: Uint8Array,
  bytes: Uint8Array,
  start: number,
  end: number,
  depth: number,
): readonly Span[] | undefined {
  if (!isProtobufValue(key, bytes.subarray(start, end))) return undefined;
  try {
    return [...fieldsOf(ENVELOPE, bytes, start + PROTOBUF_PREFIX_BYTES, end, depth + 1)];
  } catch (error) {
    if (error instanceof EtcdError) return undefined;
    throw error;
  }
}

/** Returns undefined if the message has no field with this number and a matching wire type. */
function fieldOf(typeName: string, tag: number): FieldDescriptor | undefined {
  const fields = messageFields[typeName] ?? ENVELOPE_FIELDS[typeName];
  const field = fields?.find(({ number }) => number === tag >>> 3);
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
  return 'scalar' in type ? reader[type.scalar as Exclude<ScalarType, 'bytes' | 'string'>]() : reader.int32();
}

/** One representation in an HPACK header block: RFC 7541, section 6. */
export interface HeaderSpan {
  /** Offset of the first byte. */
  readonly start: number;
  /** Offset after the last byte. */
  readonly end: number;
  /** What the representation is: a header field, or a size update of the dynamic table. */
  readonly kind: 'field' | 'table size';
  /** Human-readable text that says how the field is encoded, or which maximum size the dynamic table gets. */
  readonly encoding: string;
  /** Offset of the field's value. Undefined if the value is in a table. */
  readonly valueAt?: number;
}

/** Lists the representations of a complete and valid HPACK header block, in order. */
export function* headerSpans(block: Uint8Array): Generator<HeaderSpan, void, undefined> {
  let at = 0;
  /** Reads an integer (RFC 7541, section 5.1). `prefix` is a mask whose set bits are the bits of the prefix. */
  const integer = (prefix: number): number => {
    let value = (block[at++] ?? 0) & prefix;
    if (value < prefix) return value;
    for (let shift = 0; ; shift += 7) {
      const byte = block[at++] ?? 0;
      value += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) return value;
    }
  };
  // A string consists of its length, then that many bytes (section 5.2).
  const skipString = (): void => {
    const length = integer(0x7f);
    at += length;
  };
  /** Skips a literal field, and returns the offset of its value. */
  const skipLiteral = (prefix: number): number => {
    if (integer(prefix) === 0) skipString();
    const valueAt = at;
    skipString();
    return valueAt;
  };
  while (at < block.length) {
    const start = at;
    const first = block[start] as number;
    let kind: HeaderSpan['kind'] = 'field';
    let encoding: string;
    let valueAt: number | undefined;
    if (first >= 0x80) {
      const index = integer(0x7f);
      encoding = `entry ${index} of the ${index <= STATIC_TABLE.length ? 'static' : 'dynamic'} table`;
    } else if (first >= 0x40) {
      valueAt = skipLiteral(0x3f);
      encoding = 'added to the dynamic table';
    } else if (first >= 0x20) {
      encoding = `dynamic table size: ${integer(0x1f)} bytes`;
      kind = 'table size';
    } else {
      valueAt = skipLiteral(0x0f);
      encoding = first >= 0x10 ? 'never indexed' : 'not indexed';
    }
    yield { start, end: at, kind, encoding, ...(valueAt === undefined ? {} : { valueAt }) };
  }
}
