import assert from 'node:assert/strict';
import { checks, collected, hex, PROGRAM, silentServer } from '../check.js';

type Chapter = typeof import('../../../docs/learn/01-preface.js') &
  typeof import('../../../docs/learn/answers/01-preface.js');

export const PREFACE = checks<Chapter>((check) => {
  check('open', PROGRAM, 'the server answers with a SETTINGS frame', async ({ open }, { address }) => {
    const socket = open(address);
    const [bytes] = await collected(socket as AsyncIterable<Buffer>, 1);
    assert.equal(bytes?.readUInt8(3), 4);
  });
  check('settings', 1, 'encodes two settings', ({ settings }) => {
    assert.deepEqual(
      settings([
        [2, 0],
        [4, 4194304],
      ]),
      hex('00000c 04 00 00000000 0002 00000000 0004 00400000'),
    );
  });
  check('isHttp2', 2, 'tells SETTINGS from an HTTP/1 response and from too few bytes', ({ isHttp2 }) => {
    assert.equal(isHttp2(hex('000006 04 00 00000000 0005 00004000')), true);
    assert.equal(isHttp2(Buffer.from('HTTP/1.1 400 Bad Request\r\n')), false);
    assert.equal(isHttp2(hex('0000')), false);
  });
  check(
    'openWithin',
    3,
    'rejects when a server is silent, and resolves otherwise',
    async ({ openWithin }, { address }) => {
      (await openWithin(address, 5_000)).destroy();
      await using silent = await silentServer();
      await assert.rejects(openWithin(silent.address, 50));
    },
  );
});
