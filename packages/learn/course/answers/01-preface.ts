import type { Socket } from 'node:net';
import { open } from '../01-preface.js';

/** Exercise 1: encodes a SETTINGS frame with any settings. */
export function settings(entries: readonly (readonly [number: number, value: number])[]): Buffer {
  const frame = Buffer.alloc(9 + 6 * entries.length);
  frame.writeUIntBE(6 * entries.length, 0, 3);
  frame.writeUInt8(4, 3);
  for (const [index, [number, value]] of entries.entries()) {
    frame.writeUInt16BE(number, 9 + 6 * index);
    frame.writeUInt32BE(value, 11 + 6 * index);
  }
  return frame;
}

/** Exercise 2: tells from the first bytes of a server whether it speaks HTTP/2. Its first frame is SETTINGS. */
export function isHttp2(received: Buffer): boolean {
  return received.length >= 9 && received.readUInt8(3) === 4 && received.readUInt32BE(5) === 0;
}

/** Exercise 3: like `open`, but rejects unless the server sends something within `ms` milliseconds. */
export async function openWithin(address: string, ms: number): Promise<Socket> {
  const socket = open(address);
  return new Promise((resolve, reject) => {
    const fail = (error: Error): void => {
      socket.destroy();
      reject(error);
    };
    const timer = setTimeout(() => fail(new Error(`${address} sent nothing within ${ms} ms`)), ms);
    socket.once('error', fail);
    socket.once('readable', () => {
      clearTimeout(timer);
      resolve(socket);
    });
  });
}
