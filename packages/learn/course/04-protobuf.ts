type Value = bigint | number | string | Buffer | Fields;
/** A message to encode: the values by field number. A nested message is `Fields`, and a repeated field is an array. */
export type Fields = { readonly [field: number]: Value | readonly Value[] };

/** Encodes an integer in groups of seven bits, the least significant group first. Every byte but the last is >= 128. */
function encodeVarint(value: bigint): number[] {
  const rest = BigInt.asUintN(64, value);
  return rest < 128n ? [Number(rest)] : [Number(rest & 127n) + 128, ...encodeVarint(rest >> 7n)];
}

function encodeField(field: number, value: Value): Buffer {
  const tag = (wireType: number): number[] => encodeVarint(BigInt(field * 8 + wireType));
  if (typeof value === 'number' || typeof value === 'bigint')
    return Buffer.from([...tag(0), ...encodeVarint(BigInt(value))]);
  const bytes = typeof value === 'string' || Buffer.isBuffer(value) ? Buffer.from(value) : encode(value);
  return Buffer.from([...tag(2), ...encodeVarint(BigInt(bytes.length)), ...bytes]);
}

export function encode(fields: Fields): Buffer {
  const all = Object.entries(fields) as [string, Value | Value[]][];
  return Buffer.concat(all.flatMap(([field, value]) => [value].flat().map((each) => encodeField(Number(field), each))));
}

/** A decoded message. A field that the sender left out has its default value: 0, or no bytes. */
export class Message {
  readonly #fields = new Map<number, (bigint | Buffer)[]>();

  constructor(bytes: Buffer) {
    let at = 0;
    const varint = (): bigint => {
      for (let value = 0n, shift = 0n; ; shift += 7n) {
        const byte = bytes.readUInt8(at++);
        value |= BigInt(byte & 127) << shift;
        if (byte < 128) return BigInt.asIntN(64, value);
      }
    };
    while (at < bytes.length) {
      const tag = Number(varint());
      const number = varint();
      if (tag % 8 === 2) at += Number(number);
      const value = tag % 8 === 2 ? bytes.subarray(at - Number(number), at) : number;
      this.#fields.set(tag >> 3, [...(this.#fields.get(tag >> 3) ?? []), value]);
    }
  }

  int(field: number): bigint {
    return (this.#fields.get(field)?.at(-1) ?? 0n) as bigint;
  }

  bytes(field: number): Buffer {
    return (this.#fields.get(field)?.at(-1) ?? Buffer.alloc(0)) as Buffer;
  }

  /** The nested messages of a field: none, one or, for a repeated field, several. */
  messages(field: number): readonly Message[] {
    return (this.#fields.get(field) ?? []).map((bytes) => new Message(bytes as Buffer));
  }
}
