import type { Socket } from 'node:net';
import {
  assertRejects,
  assertResult,
  assertThat,
  checks,
  chunksOf,
  collected,
  hex,
  hexOf,
  observedServer,
  PROGRAM,
  resultOf,
} from '../check.js';

type Chapter = typeof import('../../../course/02-frames.js') & typeof import('../../../course/answers/02-frames.js');

/** How long the server of a check delays its answer to a PING. */
const DELAY_MS = 200;

/**
 * Sends SETTINGS and PINGs, which are no answers, and answers the first PING of the client after a while. Two of the
 * other PINGs have only one part of the answer: ACK with other bytes, and the bytes of the client without ACK.
 */
function answerLate(socket: Socket): void {
  const ofServer = '6120736572766572';
  socket.write(hex(`000000 04 00 00000000  000008 06 00 00000000 ${ofServer}  000008 06 01 00000000 ${ofServer}`));
  let received = Buffer.alloc(0);
  const receive = (bytes: Buffer): void => {
    received = Buffer.concat([received, bytes]);
    const start = received.indexOf(hex('000008 06 00 00000000'));
    if (start < 0 || received.length < start + 17) return;
    socket.off('data', receive).resume();
    const ofClient = received.subarray(start + 9, start + 17);
    socket.write(Buffer.concat([hex('000008 06 00 00000000'), ofClient]));
    const answer = Buffer.concat([hex('000008 06 01 00000000'), ofClient]);
    setTimeout(() => socket.write(answer), DELAY_MS);
  };
  socket.on('data', receive);
}

export const FRAMES = checks<Chapter>((check) => {
  check('encodeFrame', PROGRAM, 'encodes the nine bytes of a header', async ({ encodeFrame }) => {
    const encoded = () => encodeFrame(1, 4, 5, Buffer.from('abc'));
    await assertResult("encodeFrame(1, 4, 5, Buffer.from('abc'))", encoded, hex('000003 01 04 00000005 616263'));
  });
  check('readFrames', PROGRAM, 'reads frames that arrive byte by byte, and all at once', async ({ readFrames }) => {
    const frames = ['000003 00 01 00000003 616263', '000000 04 01 00000000', '000000 01 05 ffffffff'];
    const expected = [
      { type: 0, flags: 1, stream: 3, payload: '616263' },
      { type: 4, flags: 1, stream: 0, payload: '' },
      { type: 1, flags: 5, stream: 2 ** 31 - 1, payload: '' },
    ];
    for (const size of [1, 10, 1_000]) {
      const read = async () => {
        const all = await collected(readFrames(chunksOf(hex(frames.join('')), size)));
        return all.map(({ type, flags, stream, payload }) => ({ type, flags, stream, payload: hexOf(payload) }));
      };
      await assertResult(`readFrames of three frames, cut into pieces of length ${size}`, read, expected);
    }
  });
  check('describe', 1, 'describes frames in a line', async ({ describe }) => {
    const test = (type: number, flags: number, stream: number, length: number, expected: string) => {
      const frame = { type, flags, stream, payload: Buffer.alloc(length) };
      return assertResult(`describe of type ${type}, flags ${flags}`, () => describe(frame), expected);
    };
    await test(6, 1, 0, 8, 'PING ACK, stream 0, 8 bytes');
    await test(6, 0, 0, 8, 'PING, stream 0, 8 bytes');
    await test(4, 1, 0, 0, 'SETTINGS ACK, stream 0, 0 bytes');
    await test(0, 1, 7, 8, 'DATA, stream 7, 8 bytes');
    await test(1, 5, 7, 20, 'HEADERS, stream 7, 20 bytes');
    await test(3, 0, 7, 4, 'RST_STREAM, stream 7, 4 bytes');
    await test(7, 0, 0, 8, 'GOAWAY, stream 0, 8 bytes');
    await test(8, 0, 0, 4, 'WINDOW_UPDATE, stream 0, 4 bytes');
  });
  check(
    'readLimitedFrames',
    2,
    'reads frames up to the limit, and rejects a longer frame before the whole frame arrives',
    async ({ readLimitedFrames }) => {
      const frames = readLimitedFrames(chunksOf(hex('000001 00 00 00000001 61 000002 00 00 00000001'), 1), 1);
      const first = async () => `${(await frames.next()).value?.payload}`;
      await assertResult('readLimitedFrames with maxLength = 1, at a frame with the payload "a"', first, 'a');
      await assertRejects(
        'readLimitedFrames with maxLength = 1, after the header of a frame with 2 bytes',
        async () => {
          const { done, value } = await frames.next();
          return done ? 'the end, without an error' : value;
        },
      );
    },
  );
  check('roundTripMs', 3, 'measures a time', async ({ roundTripMs }, { address }) => {
    const ms = await resultOf('roundTripMs at etcd', () => roundTripMs(address), 'a time');
    assertThat(ms >= 0, `roundTripMs at etcd: got ${ms}, expected a number of milliseconds`);
  });
  check(
    'roundTripMs',
    3,
    `measures until the answer to the PING, which comes after ${DELAY_MS} ms`,
    async ({ roundTripMs }) => {
      await using server = await observedServer(answerLate);
      const what = `roundTripMs at a server that first sends SETTINGS and PINGs, and answers after ${DELAY_MS} ms`;
      const ms = await resultOf(what, () => roundTripMs(server.address), 'a time');
      assertThat(ms > DELAY_MS - 10, `${what}: got ${Math.round(ms)} ms, so another frame was taken for the answer`);
    },
  );
});
