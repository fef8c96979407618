import assert from 'node:assert/strict';
import {
  assertRejects,
  assertResult,
  checks,
  chunksOf,
  collected,
  hex,
  hexOf,
  observedServer,
  PROGRAM,
} from '../check.js';

type Chapter = typeof import('../../../course/02-frames.js') & typeof import('../../../course/answers/02-frames.js');

export const FRAMES = checks<Chapter>((check) => {
  check('encodeFrame', PROGRAM, 'encodes the nine bytes of a header', ({ encodeFrame }) => {
    const encoded = () => encodeFrame(1, 4, 5, Buffer.from('abc'));
    assertResult("encodeFrame(1, 4, 5, Buffer.from('abc'))", encoded, hex('000003 01 04 00000005 616263'));
  });
  check(
    'readFrames',
    PROGRAM,
    'reads frames that arrive byte by byte, and all at once',
    async ({ encodeFrame, readFrames }) => {
      const frames = [encodeFrame(0, 1, 3, Buffer.from('abc')), encodeFrame(4, 1, 0), encodeFrame(1, 5, 2 ** 31 - 1)];
      for (const size of [1, 10, 1_000]) {
        const read = await collected(readFrames(chunksOf(Buffer.concat(frames), size)));
        assert.deepEqual(
          read.map((frame) => hexOf(encodeFrame(frame.type, frame.flags, frame.stream, frame.payload))),
          frames.map(hexOf),
        );
      }
    },
  );
  check('describe', 1, 'describes frames in a line', ({ describe }) => {
    const payload = Buffer.alloc(8);
    const test = (type: number, stream: number, expected: string): void =>
      assertResult(`type ${type}, flags 1`, () => describe({ type, flags: 1, stream, payload }), expected);
    test(6, 0, 'PING ACK, stream 0, 8 bytes');
    test(0, 7, 'DATA, stream 7, 8 bytes');
  });
  check(
    'readLimitedFrames',
    2,
    'reads frames up to the limit, and rejects a longer frame before the whole frame arrives',
    async ({ readLimitedFrames }) => {
      const frames = readLimitedFrames(chunksOf(hex('000001 00 00 00000001 61 000002 00 00 00000001'), 1), 1);
      assert.equal((await frames.next()).value.payload.toString(), 'a');
      await assertRejects('the next frame, which is too long', frames.next());
    },
  );
  check('roundTripMs', 3, 'measures a time above 0', async ({ roundTripMs }, { address }) => {
    assert.ok((await roundTripMs(address)) > 0);
  });
  check(
    'roundTripMs',
    3,
    'measures until the answer to the PING, which this check delays by 200 ms',
    async ({ roundTripMs }) => {
      await using server = await observedServer((socket) => {
        // The server sends SETTINGS and a PING of its own, which are no answers.
        socket.write(hex('000000 04 00 00000000  000008 06 00 00000000 6120736572766572'));
        let received = Buffer.alloc(0);
        const receive = (bytes: Buffer): void => {
          received = Buffer.concat([received, bytes]);
          const start = received.indexOf(hex('000008 06 00 00000000'));
          if (start < 0 || received.length < start + 17) return;
          socket.off('data', receive).resume();
          const payload = received.subarray(start + 9, start + 17);
          setTimeout(() => socket.write(Buffer.concat([hex('000008 06 01 00000000'), payload])), 200);
        };
        socket.on('data', receive);
      });
      const ms = await roundTripMs(server.address);
      assert.ok(ms > 190, `got ${ms}, expected at least 200`);
    },
  );
});
