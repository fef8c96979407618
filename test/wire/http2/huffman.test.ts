import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { ConnectionError } from '../../../src/wire/http2/frame.js';
import { decodeHuffman } from '../../../src/wire/http2/huffman.js';

// These tests check Huffman coding: RFC 7541, section 5.2 and appendix B. hpack-node.test.ts checks printable octets
// against node:http2.

const SEED = 7_541;

describe('a Huffman-coded example of RFC 7541, appendix C, is decoded to', () => {
  test.each([
    ['www.example.com', 'f1e3c2e5f23a6ba0ab90f4ff'],
    ['no-cache', 'a8eb10649cbf'],
    ['custom-key', '25a849e95ba97d7f'],
    ['custom-value', '25a849e95bb8e8b4bf'],
    ['302', '6402'],
    ['private', 'aec3771a4b'],
    ['Mon, 21 Oct 2013 20:13:21 GMT', 'd07abe941054d444a8200595040b8166e082a62d1bff'],
    ['https://www.example.com', '9d29ad171863c78f0b97c8e9ae82ae43d3'],
    ['gzip', '9bd9ab'],
    ['', ''],
  ])('%j', (text, hex) => {
    expect(decode(hex)).toBe(text);
  });
});

/** The codes of the control characters, from RFC 7541, appendix B. */
const CONTROL_CODES: readonly (readonly [octet: number, code: number, bits: number])[] = [
  [0x00, 0x1ff8, 13],
  [0x01, 0x7fffd8, 23],
  ...[0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08].map((octet, index) => [octet, 0xfffffe2 + index, 28] as const),
  [0x09, 0xffffea, 24],
  [0x0a, 0x3ffffffc, 30],
  ...[0x0b, 0x0c].map((octet, index) => [octet, 0xfffffe9 + index, 28] as const),
  [0x0d, 0x3ffffffd, 30],
  ...[0x0e, 0x0f, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15].map((octet, index) => [octet, 0xfffffeb + index, 28] as const),
  [0x16, 0x3ffffffe, 30],
  ...Array.from({ length: 9 }, (_, index) => [0x17 + index, 0xffffff3 + index, 28] as const),
  [0x7f, 0xffffffc, 28],
];

test('the Huffman decoder decodes the codes of control characters in RFC 7541, appendix B', () => {
  for (const [octet, code, bits] of CONTROL_CODES) {
    expect(decodeBits(code.toString(2).padStart(bits, '0'))).toBe(String.fromCharCode(octet));
  }
});

describe('as RFC 7541, 5.2, requires, the Huffman decoder refuses', () => {
  test.each([
    ['the EOS symbol at the start of a string', '1'.repeat(30)],
    ['the EOS symbol after a character', `${'00011'}${'1'.repeat(30)}`],
    ['padding of 11 bits', `${'00011'}${'1'.repeat(11)}`],
    ['a string that consists of 8 bits of padding', '1'.repeat(8)],
    ['padding that contains a zero', `${'00011'}${'110'}`],
    ['padding of zeros', `${'101000'}${'00'}`],
    ['a truncated code', `${'1'.repeat(15)}0`],
  ])('%s', (_, bits) => {
    expect(() => decodeBits(bits)).toThrow(ConnectionError);
  });
});

test('the Huffman decoder ignores ones that pad a string to a whole octet', () => {
  // Characters of 5 to 8 bits, followed by ones up to the end of the octet.
  for (const [text, bits] of [
    ['aa', '0001100011'],
    ['a', '00011'],
    ['A', '100001'],
    [':', '1011100'],
    ['&', '11111000'],
    ['a:', '000111011100'],
  ] as const) {
    expect(decodeBits(bits)).toBe(text);
  }
});

test('the Huffman decoder decodes any bytes to a string of a plausible length, or refuses the bytes', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 64 }), (bytes) => {
      try {
        const text = decodeHuffman(bytes, 0, bytes.length);
        // Huffman codes are 5 to 30 bits long.
        expect(text.length).toBeLessThanOrEqual(Math.floor((bytes.length * 8) / 5));
        expect(text.length).toBeGreaterThanOrEqual(Math.floor((bytes.length * 8 - 7) / 30));
      } catch (error) {
        if (!(error instanceof ConnectionError)) throw error;
        expect(error.code).toBe(9);
      }
    }),
    { seed: SEED, numRuns: 1_000 },
  );
});

function decode(hex: string): string {
  const bytes = Buffer.from(`ff${hex}ff`, 'hex');
  return decodeHuffman(bytes, 1, bytes.length - 1);
}

/** Pads the bits with ones to whole octets, and decodes them. */
function decodeBits(bits: string): string {
  const whole = bits.padEnd(Math.ceil(bits.length / 8) * 8, '1');
  const bytes = Buffer.from((whole.match(/.{8}/g) ?? []).map((octet) => Number.parseInt(octet, 2)));
  return decodeHuffman(bytes, 0, bytes.length);
}
