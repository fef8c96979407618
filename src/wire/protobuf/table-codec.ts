import { NO_BYTES } from '../../base/index.js';
import type { Reader } from './reader.js';
import type { Codec } from './schema.js';
import type { Init, Writer } from './writer.js';

const VARINT = 0;
const LENGTH_DELIMITED = 2;

/**
 * How a codec encodes the values of one type. Only messages use the codec and the value `before`: see `Reader.message`.
 */
interface Kind {
  readonly wireType: number;
  /** The default value. */
  readonly zero: unknown;
  readonly write: (writer: Writer, value: never, codec: Codec<unknown>) => void;
  readonly read: (reader: Reader, codec: Codec<unknown>, before: unknown) => unknown;
}

/**
 * The types of fields, by the letter that stands for each type in a table. The letter `e` is an enum, that is, an
 * int32.
 */
const KINDS: Readonly<Record<string, Kind>> = {
  b: { wireType: VARINT, zero: false, write: (w, value: boolean) => w.bool(value), read: (r) => r.bool() },
  e: { wireType: VARINT, zero: 0, write: (w, value: number) => w.int32(value), read: (r) => r.int32() },
  i: { wireType: VARINT, zero: 0n, write: (w, value: bigint) => w.int64(value), read: (r) => r.int64() },
  m: {
    wireType: LENGTH_DELIMITED,
    zero: undefined,
    write: (w, value: Init<unknown>, codec) => w.message(codec, value),
    read: (r, codec, before) => r.message(codec, before),
  },
  n: { wireType: VARINT, zero: 0, write: (w, value: number) => w.uint32(value), read: (r) => r.uint32() },
  s: { wireType: LENGTH_DELIMITED, zero: '', write: (w, value: string) => w.string(value), read: (r) => r.string() },
  u: { wireType: VARINT, zero: 0n, write: (w, value: bigint) => w.uint64(value), read: (r) => r.uint64() },
  y: {
    wireType: LENGTH_DELIMITED,
    zero: NO_BYTES,
    write: (w, value: Uint8Array) => w.bytes(value),
    read: (r) => r.bytes(),
  },
};

interface Field {
  readonly number: number;
  readonly property: string;
  readonly kind: Kind;
  readonly isRepeated: boolean;
  /** The codec of a nested message. Fields of other types never use it. */
  readonly codec: Codec<unknown>;
}

/** A field in the text of a table: the kind, `*` for a repeated field, the number, and the name of the property. */
const FIELD = /(\w)(\*?)(\d+)(\w+)/g;

type Message = Record<string, unknown>;

/**
 * Returns a codec that reads the layout of its message from a table. It is slower than the generated code of a codec,
 * but much smaller, so it serves the messages that clients seldom send or receive. The table is the text `fields`, such
 * as `s1name s*2roles m3options`: see `FIELD` and `KINDS`. `codecs` returns the codecs of the nested messages in the
 * order of their fields. It is a function, because a message type may refer to a type that is defined later. `name` is
 * the full name of the type, without the package if the package is `etcdserverpb`.
 */
export function tableCodec<T extends object>(
  name: string,
  fields = '',
  codecs: () => readonly Codec<unknown>[] = () => [],
): Codec<T> {
  let table: readonly Field[] | undefined;
  const parsed = (): readonly Field[] => {
    table ??= parse(fields, codecs());
    return table;
  };
  return {
    typeName: name.includes('.') ? name : `etcdserverpb.${name}`,
    create: () => {
      const message: Message = {};
      for (const { property, kind, isRepeated } of parsed()) message[property] = isRepeated ? [] : kind.zero;
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
  return [...fields.matchAll(FIELD)].map(([, letter = '', repeated, number, property = '']) => ({
    number: Number(number),
    property,
    kind: KINDS[letter] as Kind,
    isRepeated: repeated === '*',
    codec: (letter === 'm' ? codecs[nested++] : undefined) as Codec<unknown>,
  }));
}

function write(writer: Writer, { number, kind, isRepeated, codec }: Field, value: unknown): void {
  const tag = (number << 3) | kind.wireType;
  const writeOne = (one: unknown): void => kind.write(writer, one as never, codec);
  if (!isRepeated) {
    if (isDefault(kind, value)) return;
    writer.tag(tag);
    writeOne(value);
  } else if (kind.wireType === LENGTH_DELIMITED) {
    for (const each of (value as readonly unknown[] | undefined) ?? []) {
      writer.tag(tag);
      writeOne(each);
    }
  } else writer.packedField((number << 3) | LENGTH_DELIMITED, value as readonly unknown[] | undefined, writeOne);
}

/**
 * Whether `write` leaves the field out, because its value is undefined or the default. A falsy bool is the default.
 */
function isDefault({ zero }: Kind, value: unknown): boolean {
  if (zero === false) return !value;
  if (zero === NO_BYTES) return value === undefined || (value as Uint8Array).length === 0;
  return value === undefined || value === zero;
}

/** Reads the value of a field. Returns false without reading if the wire type does not fit the field. */
function read(reader: Reader, field: Field, wireType: number, message: Message): boolean {
  const { property, kind, isRepeated, codec } = field;
  const values = message[property] as unknown[];
  if (wireType !== kind.wireType) {
    if (!isRepeated || kind.wireType !== VARINT || wireType !== LENGTH_DELIMITED) return false;
    reader.packed(values, () => kind.read(reader, codec, undefined));
  } else if (isRepeated) values.push(kind.read(reader, codec, undefined));
  else message[property] = kind.read(reader, codec, message[property]);
  return true;
}
