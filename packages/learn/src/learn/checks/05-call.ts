import assert from 'node:assert/strict';
import { encode, Message } from '../../../course/04-protobuf.js';
import type { Connection } from '../../../course/05-call.js';
import { startProxy } from '../../../course/cut-proxy.js';
import { checks, newName, PROGRAM } from '../check.js';

type Chapter = typeof import('../../../course/05-call.js') & typeof import('../../../course/answers/05-call.js');

export const CALL = checks<Chapter>((check) => {
  check('Connection', PROGRAM, 'makes 100 calls with responses of 1 kB', async ({ Connection }, { address, etcd }) => {
    const key = newName();
    await etcd.put(key, 'x'.repeat(1_000));
    const connection = new Connection(address);
    const get = (): Promise<number> =>
      new Promise((resolve, reject) => {
        let bytes = Buffer.alloc(0);
        const send = connection.start('/etcdserverpb.KV/Range', (frame) => {
          if (frame instanceof Error) return reject(frame);
          if (frame.type === 0) bytes = Buffer.concat([bytes, frame.payload]);
          else if ((frame.flags & 1) === 1)
            resolve(new Message(bytes.subarray(5)).messages(2)[0]?.bytes(5).length ?? 0);
        });
        send(encode({ 1: key }), true);
      });
    for (let round = 0; round < 100; round += 1) assert.equal(await get(), 1_000);
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
      await ended;
    },
  );
  check('put', 1, 'puts a key', async ({ put }, { connect, etcd }) => {
    const key = newName();
    await put(connect(), key, 'violet');
    assert.equal((await etcd.get(key))?.text(), 'violet');
  });
  check('getAll', 2, 'gets several keys at once', async ({ getAll }, { connect, etcd }) => {
    const keys = [newName(), newName(), newName()];
    await etcd.put(keys[0] ?? '', 'a');
    await etcd.put(keys[2] ?? '', 'c');
    assert.deepEqual(await getAll(connect(), keys), ['a', undefined, 'c']);
  });
  check('getAll', 2, 'sends all requests before the first answer arrives', async ({ getAll }, { connect }) => {
    const connection = connect();
    let [answers, late] = [0, 0];
    const start: Connection['start'] = (path, onFrame) => {
      late += answers > 0 ? 1 : 0;
      return connection.start(path, (frame) => {
        answers += 1;
        onFrame(frame);
      });
    };
    await getAll({ start, close: () => connection.close() } as Connection, [newName(), newName(), newName()]);
    assert.equal(
      late,
      0,
      `${late} calls started after a frame of another call had arrived, so the calls are not at once`,
    );
  });
  check('version', 3, "resolves with the server's version", async ({ version }, { address, connect, etcd }) => {
    assert.equal(await version(connect()), (await etcd.maintenance.status(`http://${address}`)).version);
  });
});
