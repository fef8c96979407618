import type { Socket } from 'node:net';
import {
  assertRejects,
  assertResult,
  assertThat,
  checks,
  collected,
  hex,
  hexOf,
  observedServer,
  PROGRAM,
  resultOf,
} from '../check.js';

type Chapter = typeof import('../../../course/01-preface.js') & typeof import('../../../course/answers/01-preface.js');

/** The SETTINGS frame of the chapter's table. */
const SETTINGS = hex('000006 04 00 00000000 0001 00000000');

export const PREFACE = checks<Chapter>((check) => {
  check('open', PROGRAM, 'the server answers with a SETTINGS frame', async ({ open }, { address }) => {
    const first = async () => (await collected(open(address) as AsyncIterable<Buffer>, 1))[0];
    const bytes = await resultOf('the first bytes of the server after open', first, 'a SETTINGS frame');
    const closed = 'the server closed the connection without an answer; compare the preface with the text byte by byte';
    assertThat(bytes !== undefined, closed);
    assertThat(bytes.readUInt8(3) === 4, `the server answered with ${hexOf(bytes)}, expected SETTINGS, type 4`);
  });
  check('open', PROGRAM, 'sends the preface and the 15 bytes of SETTINGS', async ({ open }) => {
    let onEnd = (_: Buffer[]): void => {};
    const received = new Promise<Buffer[]>((resolve) => (onEnd = resolve));
    await using server = await observedServer((socket) => {
      collected(socket as AsyncIterable<Buffer>).then(onEnd, () => {});
    });
    const expected = Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), SETTINGS]);
    const sent = async () => {
      open(server.address).end();
      return Buffer.concat(await received).subarray(0, expected.length);
    };
    await assertResult('the first bytes that open sends', sent, expected);
  });
  check('settings', 1, 'encodes settings', async ({ settings }) => {
    await assertResult('settings([[1, 0]])', () => settings([[1, 0]]), SETTINGS);
    const entries = [[2, 0] as const, [4, 4_194_304] as const];
    const expected = hex('00000c 04 00 00000000 0002 00000000 0004 00400000');
    await assertResult('settings([[2, 0], [4, 4194304]])', () => settings(entries), expected);
  });
  check('isHttp2', 2, 'tells SETTINGS from an HTTP/1 response and from too few bytes', async ({ isHttp2 }) => {
    const settings = hex('000006 04 00 00000000 0005 00004000');
    const test = (what: string, bytes: Buffer, expected: boolean) =>
      assertResult(`isHttp2 of ${what}, ${hexOf(bytes) || 'no bytes'}`, () => isHttp2(bytes), expected);
    await test('a SETTINGS frame', settings, true);
    await test('an HTTP/1 response', Buffer.from('HTTP/1.1 400 Bad Request\r\n'), false);
    await test('a frame on stream 1', hex('000006 04 00 00000001 0005 00004000'), false);
    for (const length of [8, 4, 0]) await test('less than a header', settings.subarray(0, length), false);
  });
  check(
    'openWithin',
    3,
    'rejects when a server is silent, and resolves otherwise',
    async ({ openWithin }, { address }) => {
      const socket = await resultOf('openWithin at etcd', () => openWithin(address, 5_000), 'a socket');
      socket.destroy();
      await using silent = await observedServer();
      await assertRejects('openWithin at a silent server, with ms = 50', () => openWithin(silent.address, 50));
      const open = await silent.openInTheEnd();
      assertThat(
        open === 0,
        'openWithin has rejected, but its socket is still open; expected that it closes the socket',
      );
    },
  );
  check('openWithin', 3, 'leaves the bytes of the server to the caller', async ({ openWithin }, { address }) => {
    const socket: Socket = await resultOf('openWithin at etcd', () => openWithin(address, 5_000), 'a socket');
    const bytes: Buffer | null = socket.read();
    socket.destroy();
    const missing = 'openWithin has read the bytes of the server; expected that they are still in the socket';
    assertThat(bytes !== null && bytes.readUInt8(3) === 4 && bytes.readUInt8(4) === 0, missing);
  });
});
