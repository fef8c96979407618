import { encode, type Fields } from '../04-protobuf.js';

function readVarint(bytes: Buffer, start: number): { readonly value: bigint; readonly end: number } {
  for (let value = 0n, at = start; ; at += 1) {
    value |= BigInt(bytes.readUInt8(at) & 127) << BigInt(7 * (at - start));
    if (bytes.readUInt8(at) < 128) return { value, end: at + 1 };
  }
}

/** Exercise 1: lists the fields of a message without knowing its type, such as `1: 600` and `2: 3 bytes`. */
export function list(message: Buffer): string[] {
  const lines: string[] = [];
  for (let at = 0; at < message.length; ) {
    const tag = readVarint(message, at);
    const number = readVarint(message, tag.end);
    const isBytes = tag.value % 8n === 2n;
    lines.push(`${tag.value / 8n}: ${isBytes ? `${number.value} bytes` : number.value}`);
    at = number.end + (isBytes ? Number(number.value) : 0);
  }
  return lines;
}

/** Exercise 2: encodes a signed integer so that small negative numbers are short, as the type `sint64` does. */
export function zigzag(value: bigint): bigint {
  return value < 0n ? -2n * value - 1n : 2n * value;
}

/** Exercise 3: merges two messages. The values of `second` replace those of `first`. */
export function merge(first: Fields, second: Fields): Buffer {
  return Buffer.concat([encode(first), encode(second)]);
}
