export const [DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE] = [0, 1, 3, 4, 6, 7, 8];
export const [ACK, END_STREAM, END_HEADERS] = [1, 1, 4];

/** A frame: nine bytes of header, and the payload. Stream 0 is the connection itself. */
export interface Frame {
  readonly type: number;
  readonly flags: number;
  readonly stream: number;
  readonly payload: Buffer;
}

export function encodeFrame(type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const header = Buffer.alloc(9);
  header.writeUIntBE(payload.length, 0, 3);
  header.set([type, flags], 3);
  header.writeUInt32BE(stream, 5);
  return Buffer.concat([header, payload]);
}

/** Cuts the received bytes into frames. A chunk of bytes may contain several frames, or end in the middle of one. */
export async function* readFrames(chunks: AsyncIterable<Buffer>): AsyncGenerator<Frame> {
  let rest = Buffer.alloc(0);
  for await (const chunk of chunks) {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= 9 && rest.length >= 9 + rest.readUIntBE(0, 3)) {
      const end = 9 + rest.readUIntBE(0, 3);
      const [type, flags, stream] = [rest.readUInt8(3), rest.readUInt8(4), rest.readUInt32BE(5) & 0x7fffffff];
      yield { type, flags, stream, payload: rest.subarray(9, end) };
      rest = rest.subarray(end);
    }
  }
}
