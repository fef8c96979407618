import assert from 'node:assert/strict';
import { startProxy } from '../../../docs/learn/cut-proxy.js';
import { checks, newName, PROGRAM, silentServer } from '../check.js';

type Chapter = typeof import('../../../docs/learn/06-status.js') &
  typeof import('../../../docs/learn/answers/06-status.js');

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
      const error = await call(connect(), '/etcdserverpb.Lease/LeaseRevoke', { 1: 12_345 }).catch((thrown) => thrown);
      assert.ok(error instanceof CallError);
      assert.deepEqual([error.status, error.message], [5, 'etcdserver: requested lease not found']);
    },
  );
  check('call', PROGRAM, 'throws status 14 when the connection is lost', async ({ call }, { address, connect }) => {
    const proxy = await startProxy(address);
    const connection = connect(proxy.address);
    await call(connection, '/etcdserverpb.KV/Range', { 1: 'x' });
    proxy.close();
    await assert.rejects(call(connection, '/etcdserverpb.KV/Range', { 1: 'x' }), { status: 14 });
    await assert.rejects(call(connection, '/etcdserverpb.KV/Range', { 1: 'x' }), { status: 14 });
  });
  check(
    'isOutcomeUnknown',
    1,
    'tells which statuses leave the outcome unknown',
    async ({ isOutcomeUnknown, CallError }) => {
      const of = (status: number): boolean => isOutcomeUnknown(Object.assign(new CallError(''), { status }));
      for (const status of [1, 2, 4, 13, 14]) assert.equal(of(status), true, `status ${status}: expected true`);
      for (const status of [3, 5, 7, 12]) assert.equal(of(status), false, `status ${status}: expected false`);
    },
  );
  check(
    'callWithin',
    2,
    'throws status 4 when the server does not answer',
    async ({ callWithin }, { connect, etcd }) => {
      await using silent = await silentServer();
      const late = callWithin(connect(silent.address), '/etcdserverpb.KV/Range', { 1: 'x' }, 50);
      await assert.rejects(late, { status: 4 });
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
      await assert.rejects(read(proxy.address, '/etcdserverpb.KV/Range', { 1: key }, 3), { status: 14 });
      await assert.rejects(read(address, '/etcdserverpb.KV/Nothing', {}, 3), { status: 12 });
    },
  );
});
