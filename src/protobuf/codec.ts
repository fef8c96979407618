import type { Init } from './init.js';
import { type MessageReader, Reader } from './reader.js';
import { type MessageWriter, Writer } from './writer.js';

export type { Init };

/** How one message type stands on the wire. */
export interface Codec<T> extends MessageReader<T>, MessageWriter<T> {
  /** Full protobuf name. */
  readonly typeName: string;
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
