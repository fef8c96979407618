/** The Castagnoli polynomial, with the bits reversed. */
const POLYNOMIAL = 0x82f63b78;
const ALL_ONES = 0xffffffff;

/** The CRC of each byte. */
const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit += 1) crc = (crc & 1) === 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
  return crc;
});

/** CRC-32C (RFC 3720, section 12.1) of data that arrives in pieces. */
export class Crc32c {
  #crc = ALL_ONES;

  update(bytes: Uint8Array): this {
    for (const byte of bytes) this.#crc = (TABLE[(this.#crc ^ byte) & 0xff] as number) ^ (this.#crc >>> 8);
    return this;
  }

  digest(): number {
    return (this.#crc ^ ALL_ONES) >>> 0;
  }
}
