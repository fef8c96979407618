import { type MessageReader, Reader } from './reader.js';
import { type Init, type MessageWriter, Writer } from './writer.js';

export type { Init };

/** Encodes and decodes one message type. */
export interface Codec<T> extends MessageReader<T>, MessageWriter<T> {
  /** Full protobuf name, such as `etcdserverpb.PutRequest`. */
  readonly typeName: string;
}

/** The writer that all messages reuse, so that only their bytes are allocated. Undefined while a message is encoded. */
let spare: Writer | undefined = new Writer();

/** Encodes a message. @throws TypeError or RangeError for a value that the type of its field cannot hold. */
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
 * Decodes the message in `bytes` from `start` to `end`. The message does not refer to `bytes`.
 *
 * @throws EtcdError, reason `MalformedMessage`, for malformed input.
 */
export function decode<T>(codec: Codec<T>, bytes: Uint8Array, start = 0, end = bytes.length): T {
  const message = codec.create();
  codec.read(new Reader(bytes, codec.typeName, start, end), message);
  return message;
}
