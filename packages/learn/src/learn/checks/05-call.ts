import { ACK, encodeFrame, PING, SETTINGS } from '../../../course/02-frames.js';
import { encode, Message } from '../../../course/04-protobuf.js';
import type { Connection } from '../../../course/05-call.js';
import { startProxy } from '../../../course/cut-proxy.js';
import { assertResult, assertThat, checks, frameServer, newName, PROGRAM, resultOf } from '../check.js';

type Chapter = typeof import('../../../course/05-call.js') & typeof import('../../../course/answers/05-call.js');

/** Resolves with the number of bytes in the value of a key. */
function lengthOf(connection: Connection, key: string): Promise<number> {
  return new Promise((resolve, reject) => {
    let bytes = Buffer.alloc(0);
    const send = connection.start('/etcdserverpb.KV/Range', (frame) => {
      if (frame instanceof Error) return reject(frame);
      if (frame.type === 0) bytes = Buffer.concat([bytes, frame.payload]);
      else if ((frame.flags & 1) === 1) resolve(new Message(bytes.subarray(5)).messages(2)[0]?.bytes(5).length ?? 0);
    });
    send(encode({ 1: key }), true);
  });
}

/** Passes calls on to a connection, and counts those that have begun and ended. */
function counted(connection: Connection) {
  const counts = { started: 0, ended: 0, startedLate: 0 };
  const start: Connection['start'] = (path, onFrame) => {
    counts.started += 1;
    if (counts.ended > 0) counts.startedLate += 1;
    return connection.start(path, (frame) => {
      if (frame instanceof Error || (frame.type === 1 && (frame.flags & 1) === 1)) counts.ended += 1;
      onFrame(frame);
    });
  };
  return { counts, connection: { start, close: () => connection.close() } as Connection };
}

export const CALL = checks<Chapter>((check) => {
  check('Connection', PROGRAM, 'makes 100 calls with responses of 1 kB', async ({ Connection }, { address, etcd }) => {
    const key = newName();
    await etcd.put(key, 'x'.repeat(1_000));
    const connection = new Connection(address);
    for (let round = 1; round <= 100; round += 1)
      await assertResult(`the bytes in the response to call ${round}`, () => lengthOf(connection, key), 1_000);
    connection.close();
  });
  check(
    'Connection',
    PROGRAM,
    'tells each stream that the connection has ended',
    async ({ Connection }, { address }) => {
      const proxy = await startProxy(address);
      const connection = new Connection(proxy.address);
      const ended = new Promise<void>((resolve) => {
        connection.start('/etcdserverpb.Watch/Watch', (frame) => frame instanceof Error && resolve());
      });
      proxy.close();
      await resultOf('a stream whose connection has ended', () => ended, 'a call of onFrame with an error');
    },
  );
  check('Connection', PROGRAM, 'answers SETTINGS and PING, but no ACK', async ({ Connection }) => {
    const payload = Buffer.from('measured');
    const first = [encodeFrame(SETTINGS, 0, 0), encodeFrame(SETTINGS, ACK, 0), encodeFrame(PING, 0, 0, payload)];
    let onAnswers = (_: string[]): void => {};
    const received = new Promise<string[]>((resolve) => (onAnswers = resolve));
    const answers: string[] = [];
    await using server = await frameServer(first, ({ type, flags, payload }) => {
      if (flags !== ACK) return;
      answers.push(type === PING ? `PING ACK ${payload}` : `type ${type} ACK`);
      if (type === PING) onAnswers(answers);
    });
    const connection = new Connection(server.address);
    const expected = [`type ${SETTINGS} ACK`, 'PING ACK measured'];
    const what = 'the answers to SETTINGS, to SETTINGS with ACK, and to a PING with the payload "measured"';
    await assertResult(what, () => received, expected);
    connection.close();
  });
  check('put', 1, 'puts a key, and waits for the response', async ({ put }, { connect, etcd }) => {
    const key = newName();
    const { counts, connection } = counted(connect());
    await resultOf(`put(connection, '${key}', 'violet')`, () => put(connection, key, 'violet'));
    assertThat(
      counts.ended === 1,
      'put resolved before the response had ended; expected that it waits for the trailers',
    );
    await assertResult('the value of the key after put', async () => (await etcd.get(key))?.text(), 'violet');
  });
  check('getAll', 2, 'gets several keys at once', async ({ getAll }, { connect, etcd }) => {
    const keys = [newName(), newName(), newName()];
    await etcd.put(keys[0] ?? '', 'a');
    await etcd.put(keys[2] ?? '', 'c');
    await assertResult('getAll of three keys, without the second', () => getAll(connect(), keys), [
      'a',
      undefined,
      'c',
    ]);
  });
  check('getAll', 2, 'sends all requests before the first answer arrives', async ({ getAll }, { connect }) => {
    const { counts, connection } = counted(connect());
    await resultOf('getAll of three keys', () => getAll(connection, [newName(), newName(), newName()]));
    const { startedLate } = counts;
    assertThat(
      startedLate === 0,
      `getAll started ${startedLate} calls after the end of another call, expected all at once`,
    );
  });
  check('version', 3, "resolves with the server's version", async ({ version }, { address, connect, etcd }) => {
    const { version: expected } = await etcd.maintenance.status(`http://${address}`);
    await assertResult('version(connection)', () => version(connect()), expected);
  });
});
