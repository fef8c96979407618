import { CODES } from '../03-headers.js';

/** Exercise 1: encodes an integer with a prefix of `bits` bits (RFC 7541, section 5.1). */
export function encodeInteger(value: number, bits: number): Buffer {
  const max = 2 ** bits - 1;
  if (value < max) return Buffer.of(value);
  const bytes = [max];
  let rest = value - max;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes.push((rest % 128) + 128);
  return Buffer.from([...bytes, rest]);
}

/** Exercise 2: encodes a text with Huffman codes, and fills the last byte with ones. */
export function encodeHuffman(text: string): Buffer {
  const codes = new Map<string, string>();
  let code = 0;
  for (const [count, characters] of CODES.entries()) {
    code *= 2;
    for (const character of characters) codes.set(character, (code++).toString(2).padStart(count, '0'));
  }
  const bits = [...text].map((character) => codes.get(character) ?? '').join('');
  const bytes = bits.padEnd(Math.ceil(bits.length / 8) * 8, '1').match(/.{8}/g) ?? [];
  return Buffer.from(bytes.map((byte) => Number.parseInt(byte, 2)));
}

/** Exercise 3: encodes the first two fields of a request as entries 3 and 6 of the static table. */
export function encodePostOverHttp(): Buffer {
  return Buffer.of(0x83, 0x86);
}
