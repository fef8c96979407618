import { type MessageReader, Reader } from './reader.js';
import type { Init } from './writer.js';
import { type MessageWriter, Writer } from './writer.js';

export type { Init };

/** How one message type stands on the wire. */
export interface Codec<T> extends MessageReader<T>, MessageWriter<T> {
  /** Full protobuf name. */
  readonly typeName: string;
}

/** Used again for each message, so that only what it comes to is allocated; gone while one is being written. */
let spare: Writer | undefined = new Writer();

/** @throws TypeError, RangeError on a value that the field's type cannot hold. */
export function encode<T>(codec: Codec<T>, message: Init<T>): Uint8Array {
  const writer = spare ?? new Writer();
  spare = undefined;
  try {
    codec.write(writer, message);
    return writer.finish();
  } finally {
    writer.reset();
    spare = writer;
  }
}

/**
 * The message that stands in `bytes` from `start` to `end`, of which nothing is kept.
 *
 * @throws EtcdError, reason `MalformedMessage`, on bytes that are no such message.
 */
export function decode<T>(codec: Codec<T>, bytes: Uint8Array, start = 0, end = bytes.length): T {
  const message = codec.create();
  codec.read(new Reader(bytes, codec.typeName, start, end), message);
  return message;
}
