import { open } from '../01-preface.js';
import { ACK, encodeFrame, type Frame, PING, readFrames, SETTINGS } from '../02-frames.js';

/** Exercise 1: describes a frame in a line. */
export function describe({ type, flags, stream, payload }: Frame): string {
  const names = ['DATA', 'HEADERS', 'PRIORITY', 'RST_STREAM', 'SETTINGS', 'PUSH_PROMISE', 'PING', 'GOAWAY'];
  const name = [...names, 'WINDOW_UPDATE', 'CONTINUATION'][type] ?? `type ${type}`;
  const ack = (type === SETTINGS || type === PING) && flags === ACK ? ' ACK' : '';
  return `${name}${ack}, stream ${stream}, ${payload.length} bytes`;
}

/** Exercise 2: like `readFrames`, but throws when a header announces a payload of more than `maxLength` bytes. */
export async function* readLimitedFrames(chunks: AsyncIterable<Buffer>, maxLength: number): AsyncGenerator<Frame> {
  let rest = Buffer.alloc(0);
  for await (const chunk of chunks) {
    rest = Buffer.concat([rest, chunk]);
    while (rest.length >= 3) {
      const length = rest.readUIntBE(0, 3);
      if (length > maxLength) throw new Error(`a frame has ${length} bytes; at most ${maxLength} are allowed`);
      if (rest.length < 9 + length) break;
      const [type, flags, stream] = [rest.readUInt8(3), rest.readUInt8(4), rest.readUInt32BE(5) & 0x7fffffff];
      yield { type, flags, stream, payload: rest.subarray(9, 9 + length) };
      rest = rest.subarray(9 + length);
    }
  }
}

/** Exercise 3: measures the round-trip time to a server in milliseconds. */
export async function roundTripMs(address: string): Promise<number> {
  const socket = open(address);
  const startMs = performance.now();
  socket.write(encodeFrame(PING, 0, 0, Buffer.from('measured')));
  for await (const { type, flags, payload } of readFrames(socket))
    if (type === PING && flags === ACK && payload.equals(Buffer.from('measured'))) return performance.now() - startMs;
  throw new Error(`${address} closed the connection`);
}
