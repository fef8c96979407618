/** The same bytes as the kind of Uint8Array that grpc-js asks for. */
export function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}
