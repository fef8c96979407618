/** Encodes the fields of a request. They are few and short, so this encoder needs neither tables nor Huffman codes. */
export function encodeHeaders(fields: Readonly<Record<string, string>>): Buffer {
  const text = (value: string): Buffer => Buffer.from([value.length, ...Buffer.from(value)]);
  return Buffer.concat(Object.entries(fields).flatMap(([name, value]) => [Buffer.of(0), text(name), text(value)]));
}

/** The entries of the static table that etcd uses, by their numbers (RFC 7541, appendix A). */
const STATIC: Readonly<Record<number, readonly string[]>> = { 8: [':status', '200'], 31: ['content-type'] };

/** The characters by the number of bits of their Huffman codes (RFC 7541, appendix B). */
export const CODES = [
  '',
  '',
  '',
  '',
  '',
  '012aceiost',
  ' %-./3456789=A_bdfghlmnpru',
  ':BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz',
].concat(['&*,;XZ', '', '!"()?', "'+|", '#>', '\0$@[]~', '^}', '<`{']);

function decodeHuffman(bytes: Buffer): string {
  let [text, code, first, count] = ['', 0, 0, 0]; // `first` is the lowest code of `count` bits.
  for (const bit of [...bytes].flatMap((byte) => [...byte.toString(2).padStart(8, '0')])) {
    [code, first, count] = [code * 2 + Number(bit), first * 2, count + 1];
    const character = CODES[count]?.[code - first];
    if (character === undefined) first += CODES[count]?.length ?? 0;
    else [text, code, first, count] = [text + character, 0, 0, 0];
  }
  return text;
}

/** Decodes the fields from a server that uses no dynamic table. */
export function decodeHeaders(block: Buffer): Map<string, string> {
  const fields = new Map<string, string>();
  let at = 0;
  const integer = (bits: number): number => {
    const max = 2 ** bits - 1;
    let value = block.readUInt8(at++) & max;
    for (let shift = 0, byte = value < max ? 0 : 128; byte >= 128; shift += 7) {
      byte = block.readUInt8(at++);
      value += (byte & 127) << shift;
    }
    return value;
  };
  const text = (): string => {
    const decode = block.readUInt8(at) < 128 ? String : decodeHuffman;
    const length = integer(7);
    at += length;
    return decode(block.subarray(at - length, at));
  };
  while (at < block.length) {
    const kind = block.readUInt8(at);
    const index = integer(kind >= 128 ? 7 : kind >= 64 ? 6 : kind >= 32 ? 5 : 4);
    if (kind >= 32 && kind < 64) continue; // This is the new size of the dynamic table, 0.
    const [name, value] = index === 0 ? [text()] : (STATIC[index] ?? [`entry ${index}`]);
    fields.set(`${name}`, kind >= 128 ? `${value}` : text());
  }
  return fields;
}
