import { NO_BYTES } from '../runtime/bytes.js';
import type { Codec, Init } from './codec.js';
import type { Reader } from './reader.js';
import type { Writer } from './writer.js';

/**
 * The type of a field, as one letter: string, bytes (y), bool, int64, uint64, uint32 (n), enum or message. An enum is
 * encoded as int32.
 */
type Kind = 's' | 'y' | 'b' | 'i' | 'u' | 'n' | 'e' | 'm';

const ZEROS: Readonly<Record<Kind, unknown>> = {
  s: '',
  y: NO_BYTES,
  b: false,
  i: 0n,
  u: 0n,
  n: 0,
  e: 0,
  m: undefined,
};
const VARINT = 0;
const LENGTH_DELIMITED = 2;

interface Field {
  readonly number: number;
  readonly property: string;
  readonly kind: Kind;
  readonly isRepeated: boolean;
  /** The codec of a nested message. */
  readonly codec: Codec<unknown> | undefined;
}

/** A field in the text of a table: the kind, `*` for a repeated field, the number, and the name of the property. */
const FIELD = /^(.)(\*?)(\d+)(.+)$/;

type Message = Record<string, unknown>;

/**
 * Returns a codec that reads the layout of its message from a table. It is slower than the generated code of a codec,
 * but much smaller, so it serves the messages that clients seldom send or receive. The table is the text `fields`,
 * such as `s1name s*2roles m3options`. `codecs` returns the codecs of the nested messages in the order of their fields.
 * It is a function, because a message type may refer to a type that is defined later.
 */
export function tableCodec<T extends object>(
  typeName: string,
  fields = '',
  codecs: () => readonly Codec<unknown>[] = () => [],
): Codec<T> {
  let table: readonly Field[] | undefined;
  const parsed = (): readonly Field[] => {
    table ??= parse(fields, codecs());
    return table;
  };
  return {
    typeName,
    create: () => {
      const message: Message = {};
      for (const { property, kind, isRepeated } of parsed()) message[property] = isRepeated ? [] : ZEROS[kind];
      return message as T;
    },
    write: (writer, message: Init<T>) => {
      for (const field of parsed()) write(writer, field, (message as Message)[field.property]);
    },
    read: (reader, message) => {
      for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
        const field = parsed().find(({ number }) => number === tag >>> 3);
        if (field === undefined || !read(reader, field, tag & 7, message as Message)) reader.skip(tag);
      }
    },
  };
}

function parse(fields: string, codecs: readonly Codec<unknown>[]): readonly Field[] {
  let nested = 0;
  return fields
    .split(' ')
    .filter((text) => text !== '')
    .map((text) => {
      const [, kind, repeated, number, property] = FIELD.exec(text) as unknown as [
        string,
        Kind,
        string,
        string,
        string,
      ];
      const codec = kind === 'm' ? codecs[nested++] : undefined;
      return { number: Number(number), property, kind, isRepeated: repeated === '*', codec };
    });
}

function write(writer: Writer, field: Field, value: unknown): void {
  const { number, kind, isRepeated } = field;
  const wireType = wireTypeOf(kind);
  if (!isRepeated) {
    if (isDefault(kind, value)) return;
    writer.tag((number << 3) | wireType);
    writeValue(writer, field, value);
  } else if (wireType === LENGTH_DELIMITED) {
    for (const each of (value as readonly unknown[] | undefined) ?? []) {
      writer.tag((number << 3) | wireType);
      writeValue(writer, field, each);
    }
  } else
    writer.packedField((number << 3) | LENGTH_DELIMITED, value as readonly unknown[] | undefined, (each) =>
      writeValue(writer, field, each),
    );
}

function isDefault(kind: Kind, value: unknown): boolean {
  if (kind === 'b') return !value;
  if (kind === 'y') return value === undefined || (value as Uint8Array).length === 0;
  return value === undefined || value === ZEROS[kind];
}

function writeValue(writer: Writer, { kind, codec }: Field, value: unknown): void {
  switch (kind) {
    case 's':
      return writer.string(value as string);
    case 'y':
      return writer.bytes(value as Uint8Array);
    case 'b':
      return writer.bool(value as boolean);
    case 'i':
      return writer.int64(value as bigint);
    case 'u':
      return writer.uint64(value as bigint);
    case 'n':
      return writer.uint32(value as number);
    case 'e':
      return writer.int32(value as number);
    case 'm':
      return writer.message(codec as Codec<unknown>, value as Init<unknown>);
  }
}

/** Reads the value of a field. Returns false without reading if the wire type does not fit the field. */
function read(reader: Reader, field: Field, wireType: number, message: Message): boolean {
  const { property, kind, isRepeated } = field;
  const expected = wireTypeOf(kind);
  const values = message[property] as unknown[];
  if (wireType !== expected) {
    if (!isRepeated || expected !== VARINT || wireType !== LENGTH_DELIMITED) return false;
    reader.packed(values, () => readValue(reader, field, undefined));
  } else if (isRepeated) values.push(readValue(reader, field, undefined));
  else message[property] = readValue(reader, field, message[property]);
  return true;
}

function readValue(reader: Reader, { kind, codec }: Field, before: unknown): unknown {
  switch (kind) {
    case 's':
      return reader.string();
    case 'y':
      return reader.bytes();
    case 'b':
      return reader.bool();
    case 'i':
      return reader.int64();
    case 'u':
      return reader.uint64();
    case 'n':
      return reader.uint32();
    case 'e':
      return reader.int32();
    case 'm':
      return reader.message(codec as Codec<unknown>, before);
  }
}

function wireTypeOf(kind: Kind): number {
  return 'sym'.includes(kind) ? LENGTH_DELIMITED : VARINT;
}
