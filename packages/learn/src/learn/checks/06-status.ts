import assert from 'node:assert/strict';
import { startProxy } from '../../../course/cut-proxy.js';
import {
  assertRejects,
  assertResult,
  checks,
  grpcServer,
  newName,
  type ObservedServer,
  observedServer,
  PROGRAM,
} from '../check.js';

type Chapter = typeof import('../../../course/06-status.js') & typeof import('../../../course/answers/06-status.js');

export const STATUS = checks<Chapter>((check) => {
  check('call', PROGRAM, 'resolves with a response of 200 kB', async ({ call }, { connect, etcd }) => {
    const key = newName();
    await etcd.put(key, 'x'.repeat(200_000));
    const response = await call(connect(), '/etcdserverpb.KV/Range', { 1: key });
    assert.equal(response.messages(2)[0]?.bytes(5).length, 200_000);
  });
  check(
    'call',
    PROGRAM,
    'throws the status and the message of the server',
    async ({ call, CallError }, { connect }) => {
      const revoking = call(connect(), '/etcdserverpb.Lease/LeaseRevoke', { 1: 12_345 });
      await assertRejects('call', revoking, { status: 5, message: 'etcdserver: requested lease not found' });
      await assert.rejects(revoking, CallError);
    },
  );
  check('call', PROGRAM, 'throws status 14 when the connection is lost', async ({ call }, { address, connect }) => {
    const proxy = await startProxy(address);
    const connection = connect(proxy.address);
    await call(connection, '/etcdserverpb.KV/Range', { 1: 'x' });
    proxy.close();
    for (const what of ['a call', 'a second call'])
      await assertRejects(what, call(connection, '/etcdserverpb.KV/Range', { 1: 'x' }), { status: 14 });
  });
  check(
    'isOutcomeUnknown',
    1,
    'tells which statuses leave the outcome unknown',
    async ({ isOutcomeUnknown, CallError }) => {
      const of = (status: number): boolean => isOutcomeUnknown(Object.assign(new CallError(''), { status }));
      for (const status of [1, 2, 4, 8, 13, 14, 15]) assertResult(`status ${status}`, () => of(status), true);
      for (const status of [3, 5, 7, 12]) assertResult(`status ${status}`, () => of(status), false);
    },
  );
  check(
    'callWithin',
    2,
    'throws status 4 when the server does not answer',
    async ({ callWithin }, { connect, etcd }) => {
      await using silent = await observedServer();
      const late = callWithin(connect(silent.address), '/etcdserverpb.KV/Range', { 1: 'x' }, 50);
      await assertRejects('callWithin at a silent server', late, { status: 4 });
      const key = newName();
      await etcd.put(key, 'x');
      assert.equal((await callWithin(connect(), '/etcdserverpb.KV/Range', { 1: key }, 5_000)).messages(2).length, 1);
    },
  );
  check(
    'read',
    3,
    'reads again after the connection was lost, but not after a refusal',
    async ({ read }, { address, etcd }) => {
      const key = newName();
      await etcd.put(key, 'x');
      const proxy = await startProxy(address);
      const reading = read(proxy.address, '/etcdserverpb.KV/Range', { 1: key }, 50);
      proxy.cut();
      assert.equal((await reading).messages(2).length, 1);
      proxy.close();
      const refused = read(proxy.address, '/etcdserverpb.KV/Range', { 1: key }, 3);
      await assertRejects('a read without a server', refused, { status: 14 });
      const unknown = read(address, '/etcdserverpb.KV/Nothing', {}, 3);
      await assertRejects('a read with an unknown method', unknown, { status: 12 });
    },
  );
  check('read', 3, 'makes as many attempts as it may, and one if the server refuses the call', async ({ read }) => {
    const attemptsAt = async (server: ObservedServer, status: number): Promise<number> => {
      await assertRejects('read', read(server.address, '/etcdserverpb.KV/Range', { 1: 'x' }, 3), { status });
      return server.accepted();
    };
    await using closing = await observedServer((socket) => socket.destroy());
    assert.equal(
      await attemptsAt(closing, 14),
      3,
      'attempts at a server that closes each connection, with attempts = 3',
    );
    for (const status of [5, 13]) {
      await using refusing = await grpcServer((stream) =>
        stream.respond({ ':status': 200, 'grpc-status': `${status}` }, { endStream: true }),
      );
      assert.equal(await attemptsAt(refusing, status), 1, `attempts at a server that answers with status ${status}`);
    }
  });
});
