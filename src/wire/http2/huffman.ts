import { ConnectionError, ErrorCode } from './frame.js';

/**
 * The length in bits of each octet's code: RFC 7541, appendix B. The codes follow from the lengths, because the Huffman
 * code is canonical: shorter codes come first, and octets with codes of the same length are in ascending order. The EOS
 * symbol has the last code (30 bits) and must not occur in a string.
 */
// biome-ignore format: sixteen octets in each line
const CODE_BITS: readonly number[] = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
  28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
  6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
  5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
  13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
  7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
  15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
  6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
  20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
  24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
  22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
  21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
  26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
  19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
  20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
  26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];
const MAX_BITS = 30;
/** Maximum number of padding bits, which are the first bits of EOS, all ones: RFC 7541, section 5.2. */
const MAX_PADDING_BITS = 7;

/** For each code length in bits, the octets whose codes have that length. */
const octetsByBits: readonly (readonly number[])[] = Array.from({ length: MAX_BITS + 1 }, (_, bits) =>
  CODE_BITS.flatMap((length, octet) => (length === bits ? [octet] : [])),
);

/**
 * Decodes the Huffman-coded string in `bytes` from `start` to `end`.
 *
 * @throws ConnectionError if the string contains an invalid code or ends with invalid padding.
 */
export function decodeHuffman(bytes: Uint8Array, start: number, end: number): string {
  let text = '';
  let code = 0;
  let bits = 0;
  /** The first code that has `bits` bits. */
  let first = 0;
  for (let at = start; at < end; at += 1) {
    const byte = bytes[at] as number;
    for (let bit = 7; bit >= 0; bit -= 1) {
      code = (code << 1) | ((byte >>> bit) & 1);
      bits += 1;
      first <<= 1;
      const octets = octetsByBits[bits] as readonly number[];
      const octet = octets[code - first];
      if (octet !== undefined) {
        text += String.fromCharCode(octet);
        code = 0;
        bits = 0;
        first = 0;
      } else if (bits === MAX_BITS) throw invalid('EOS within a string');
      else first += octets.length;
    }
  }
  if (bits > MAX_PADDING_BITS) throw invalid('padding of more than 7 bits');
  if (code !== (1 << bits) - 1) throw invalid('padding that contains a 0 bit');
  return text;
}

function invalid(problem: string): ConnectionError {
  return new ConnectionError(ErrorCode.COMPRESSION_ERROR, `Huffman code: ${problem}`);
}
