import { type MessageReader, Reader } from './reader.js';
import { type Init, type MessageWriter, Writer } from './writer.js';

export type { Init };

export interface Codec<T> extends MessageReader<T>, MessageWriter<T> {
  /** Full protobuf name, such as `etcdserverpb.PutRequest`. */
  readonly typeName: string;
}

/** The writer that `encode` reuses. Undefined while `encode` uses the writer. */
let spare: Writer | undefined = new Writer();

/** Encodes a message. @throws TypeError or RangeError if the type of a field cannot represent its value. */
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
 * Decodes the message in `bytes` from `start` to `end`. The result contains copies of the bytes, so the caller may
 * reuse `bytes`.
 *
 * @throws EtcdError with reason `MalformedMessage` if the bytes are not a valid message.
 */
export function decode<T>(codec: Codec<T>, bytes: Uint8Array, start = 0, end = bytes.length): T {
  const message = codec.create();
  codec.read(new Reader(bytes, codec.typeName, start, end), message);
  return message;
}
