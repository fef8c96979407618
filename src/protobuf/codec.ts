import { Reader } from './reader.js';
import { Writer } from './writer.js';

type Scalar = Uint8Array | string | number | bigint | boolean | undefined;

/**
 * What may be given where a message is to be sent: every field is optional and stands for its default when left out.
 * A oneof is given whole: its case and its value.
 */
export type Init<T> = T extends Scalar
  ? T
  : T extends readonly (infer Element)[]
    ? readonly Init<Element>[]
    : T extends { case: infer Case; value: infer Value }
      ? { readonly case: Case; readonly value: Init<Value> }
      : { readonly [Field in keyof T]?: Init<T[Field]> | undefined };

/** How one message type stands on the wire. */
export interface Codec<T> {
  /** Full protobuf name. */
  readonly typeName: string;
  /** The message with every field at its default. */
  create(): T;
  write(writer: Writer, message: Init<T>): void;
  /** Reads fields up to the reader's end, over those that `message` has already. */
  read(reader: Reader, message: T): void;
}

/** @throws TypeError, RangeError on a value that the field's type cannot hold. */
export function encode<T>(codec: Codec<T>, message: Init<T>): Uint8Array {
  const writer = new Writer();
  codec.write(writer, message);
  return writer.finish();
}

/** @throws EtcdError, reason `MalformedMessage`, on bytes that are no such message. */
export function decode<T>(codec: Codec<T>, bytes: Uint8Array): T {
  const message = codec.create();
  codec.read(new Reader(bytes, codec.typeName), message);
  return message;
}
