import { writeUint32 } from './frame.js';

/** Compressed flag and length: https://grpc.github.io/grpc/core/md_doc__p_r_o_t_o_c_o_l-_h_t_t_p2.html */
export const MESSAGE_PREFIX_BYTES = 5;

/** The message behind its prefix, not compressed. There must be room for both. */
export function writeMessage(bytes: Uint8Array, at: number, message: Uint8Array): void {
  bytes[at] = 0;
  writeUint32(bytes, at + 1, message.length);
  bytes.set(message, at + MESSAGE_PREFIX_BYTES);
}
