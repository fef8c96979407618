import assert from 'node:assert/strict';
import { checks, chunksOf, collected, hex, PROGRAM } from '../check.js';

type Chapter = typeof import('../../../docs/learn/02-frames.js') &
  typeof import('../../../docs/learn/answers/02-frames.js');

export const FRAMES = checks<Chapter>((check) => {
  check('encodeFrame', PROGRAM, 'encodes the nine bytes of a header', ({ encodeFrame }) => {
    assert.deepEqual(encodeFrame(1, 4, 5, Buffer.from('abc')), hex('000003 01 04 00000005 616263'));
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
          read.map((frame) => encodeFrame(frame.type, frame.flags, frame.stream, frame.payload)),
          frames,
        );
      }
    },
  );
  check('describe', 1, 'describes frames in a line', ({ describe }) => {
    const payload = Buffer.alloc(8);
    assert.equal(describe({ type: 6, flags: 1, stream: 0, payload }), 'PING ACK, stream 0, 8 bytes');
    assert.equal(describe({ type: 0, flags: 1, stream: 7, payload }), 'DATA, stream 7, 8 bytes');
  });
  check(
    'readLimitedFrames',
    2,
    'reads frames up to the limit, and rejects a longer frame before the whole frame arrives',
    async ({ readLimitedFrames }) => {
      const frames = readLimitedFrames(chunksOf(hex('000001 00 00 00000001 61 000002 00 00 00000001'), 1), 1);
      assert.equal((await frames.next()).value.payload.toString(), 'a');
      await assert.rejects(frames.next());
    },
  );
  check('roundTripMs', 3, 'measures a time above 0', async ({ roundTripMs }, { address }) => {
    assert.ok((await roundTripMs(address)) > 0);
  });
});
