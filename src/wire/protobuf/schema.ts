import type { MessageReader } from './reader.js';
import type { MessageWriter } from './writer.js';

/** Decodes and encodes the messages of one type. */
export interface Codec<T> extends MessageReader<T>, MessageWriter<T> {}

/** Which side of a call may send more than one message: neither side, the server, or both sides. */
export type MethodKind = 'unary' | 'server-streaming' | 'bidi-streaming';

/** One RPC of a service. */
export interface Method<Request, Response, Kind extends MethodKind = MethodKind> {
  /** gRPC path, such as `/etcdserverpb.KV/Put`. */
  readonly path: `/${string}/${string}`;
  readonly kind: Kind;
  readonly request: Codec<Request>;
  readonly response: Codec<Response>;
  /** Whether a call is idempotent: safe to resend if the outcome of an attempt is unknown. Default: false. */
  readonly repeatable?: boolean | undefined;
}

/** The scalar types of protobuf that etcd's messages use. */
export type ScalarType = 'bool' | 'bytes' | 'int64' | 'string' | 'uint32' | 'uint64';

/** The type of a field: a scalar, or the full name of a message or an enum. */
export type FieldType = { readonly scalar: ScalarType } | { readonly message: string } | { readonly enum: string };

/** A field of a message, as declared in the .proto file. */
export interface FieldDescriptor {
  readonly number: number;
  /** The name in the .proto file, such as `create_revision`. */
  readonly name: string;
  /** The name of the property in TypeScript, such as `createRevision`. */
  readonly property: string;
  readonly type: FieldType;
  readonly repeated?: true;
  /** If the field belongs to a oneof, the name of the TypeScript property for that oneof. */
  readonly oneof?: string;
}

/** The scalar types by the letters that stand for them, as in the tables of `tableCodec`. */
const SCALARS: Readonly<Record<string, ScalarType>> = {
  b: 'bool',
  i: 'int64',
  n: 'uint32',
  s: 'string',
  u: 'uint64',
  y: 'bytes',
};

/**
 * A field in the text of a message: the letter of its type, `*` for a repeated field, the number and the name. These
 * follow: `=` and the property if it is not the name in camel case, `:` and the full name of the type for a message
 * (letter `m`) or an enum (letter `e`), and `@` and the property of the oneof.
 */
const FIELD = /(\w)(\*?)(\d+)(\w+)(?:=(\w+))?(?::([\w.]+))?(?:@(\w+))?/g;

/** Returns the fields of each message from texts such as `y1key i2create_revision e3type:mvccpb.Event.EventType`. */
export function fieldsFromTexts(
  texts: Readonly<Record<string, string>>,
): Readonly<Record<string, readonly FieldDescriptor[]>> {
  return Object.fromEntries(Object.entries(texts).map(([message, text]) => [message, fieldsFromText(text)]));
}

function fieldsFromText(text: string): readonly FieldDescriptor[] {
  return Array.from(
    text.matchAll(FIELD),
    ([, letter = '', repeated, number, name = '', property, type = '', oneof]) => ({
      number: Number(number),
      name,
      property: property ?? name.replace(/_(\w)/g, (_, first: string) => first.toUpperCase()),
      type:
        letter === 'm'
          ? { message: type }
          : letter === 'e'
            ? { enum: type }
            : { scalar: SCALARS[letter] as ScalarType },
      ...(repeated === '*' ? { repeated: true as const } : {}),
      ...(oneof === undefined ? {} : { oneof }),
    }),
  );
}
