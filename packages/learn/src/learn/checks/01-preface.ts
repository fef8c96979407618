import assert from 'node:assert/strict';
import { assertRejects, assertResult, checks, collected, hex, hexOf, observedServer, PROGRAM } from '../check.js';

type Chapter = typeof import('../../../course/01-preface.js') & typeof import('../../../course/answers/01-preface.js');

export const PREFACE = checks<Chapter>((check) => {
  check('open', PROGRAM, 'the server answers with a SETTINGS frame', async ({ open }, { address }) => {
    const socket = open(address);
    const [bytes] = await collected(socket as AsyncIterable<Buffer>, 1);
    assert.equal(bytes?.readUInt8(3), 4);
  });
  check('settings', 1, 'encodes two settings', ({ settings }) => {
    const entries = [[2, 0] as const, [4, 4_194_304] as const];
    const expected = hex('00000c 04 00 00000000 0002 00000000 0004 00400000');
    assertResult('settings([[2, 0], [4, 4194304]])', () => settings(entries), expected);
  });
  check('isHttp2', 2, 'tells SETTINGS from an HTTP/1 response and from too few bytes', ({ isHttp2 }) => {
    const settings = hex('000006 04 00 00000000 0005 00004000');
    const wrong = [...Array(9).keys()].map((length) => settings.subarray(0, length));
    wrong.push(Buffer.from('HTTP/1.1 400 Bad Request\r\n'), hex('000006 04 00 00000001 0005 00004000'));
    for (const bytes of [settings, ...wrong])
      assertResult(`isHttp2 of ${hexOf(bytes) || 'no bytes'}`, () => isHttp2(bytes), bytes === settings);
  });
  check(
    'openWithin',
    3,
    'rejects when a server is silent, and resolves otherwise',
    async ({ openWithin }, { address }) => {
      (await openWithin(address, 5_000)).destroy();
      await using silent = await observedServer();
      await assertRejects('openWithin at a silent server', openWithin(silent.address, 50));
      assert.equal(await silent.openInTheEnd(), 0, 'the socket is still open after openWithin has rejected');
    },
  );
  check('openWithin', 3, 'leaves the bytes of the server to the caller', async ({ openWithin }, { address }) => {
    const socket = await openWithin(address, 5_000);
    const bytes: Buffer | null = socket.read();
    socket.destroy();
    assert.ok(bytes !== null, 'the socket has no bytes, so openWithin has read them, and the caller cannot');
    const message = `the first bytes in the socket are ${hexOf(bytes.subarray(0, 9))}; expected SETTINGS without flags`;
    assert.deepEqual([...bytes.subarray(3, 5)], [4, 0], message);
  });
});
