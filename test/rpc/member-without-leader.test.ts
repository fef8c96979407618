import { expect, test } from 'vitest';
import { compare } from '../../src/client/kv/compare.js';
import { op } from '../../src/client/kv/txn.js';
import { stubOf } from '../../src/client/raw.js';
import { Client } from '../../src/extras/full/client.js';
import { methodList, methods } from '../../src/gen/methods.js';
import { Mutex, Session } from '../../src/locks.js';
import type { Interceptor } from '../../src/rpc/interceptors.js';
import { MemoryEtcd } from '../../src/testing/memory/memory-etcd.js';
import { memory } from '../../src/testing/memory/transport.js';
import type { Metadata } from '../../src/wire/transport.js';
import { errorOf } from '../support/errors.js';
import { FastCluster } from '../support/fast-cluster.js';

// A member without a leader cannot process a write or a linearizable read. If the call requires a leader, the member
// refuses it at once, and the refusal proves that the member has not processed it.

/** The unary methods that a member answers alone if their requests are empty. */
const LOCAL = ['Defragment', 'Hash', 'HashKV', 'LeaseLeases', 'MemberList', 'MoveLeader', 'Status', 'Txn'];

/** Returns a client, and the names of the methods and whether their latest calls required a leader. */
function observedClient(): { readonly etcd: Client; readonly required: ReadonlyMap<string, boolean> } {
  const required = new Map<string, boolean>();
  const etcd = new Client({
    transport: memory(new MemoryEtcd()),
    interceptors: [
      {
        unary: (call, next) => {
          required.set(call.method.path.replace(/^.*\//, ''), call.metadata?.hasleader === 'true');
          return next(call);
        },
      },
    ],
  });
  return { etcd, required };
}

test('a client requires a leader for each unary method except those that a member answers alone (S30)', async () => {
  const { etcd, required } = observedClient();
  const unary = methodList.filter(({ kind }) => kind === 'unary');
  for (const method of unary) {
    const call = stubOf(etcd.raw, method as never) as (request: object, options: object) => Promise<unknown>;
    await call({}, { timeoutMs: 1_000 }).catch(() => {});
  }
  const local = [...required].filter(([, isRequired]) => !isRequired).map(([name]) => name);
  expect(local.sort()).toEqual(LOCAL);
  expect(required.size).toBe(unary.length);
  await etcd.close();
});

test('a client requires a leader for linearizable reads only (S30)', async () => {
  const { etcd, required } = observedClient();
  for (const serializable of [true, false]) {
    await etcd.get('a', { serializable });
    expect(required.get('Range')).toBe(!serializable);
    await etcd.txn({ then: [op.get('a', { serializable })] });
    expect(required.get('Txn')).toBe(!serializable);
    await etcd.raw.cluster.memberList({ linearizable: !serializable });
    expect(required.get('MemberList')).toBe(!serializable);
  }
  await etcd.close();
});

test('a put that a member without a leader refuses has outcome `rejected` and is not applied (S30)', async () => {
  await using cluster = new FastCluster();
  const member = cluster.leader;
  await cutOff(cluster);
  const error = await errorOf(cluster.client(member).put('color', 'blue', { timeoutMs: 300 }));
  expect([error.reason, error.outcome]).toEqual(['DeadlineExceeded', 'rejected']);
  expect(error.message).toContain('no leader');
  member.heal();
  expect(await cluster.client().get('color')).toBeUndefined();
});

test('a release moves away from a member without a leader, so that the next contender holds the lock (S30)', async () => {
  await using cluster = new FastCluster();
  const etcd = cluster.client(cluster.server, { balance: 'in-order' });
  const [first] = etcd.endpoints;
  const member = cluster.server.members.find(({ endpoint }) => endpoint === first);
  const session = await Session.open(etcd, { ttl: 600 });
  const held = await new Mutex(session, 'lock').lock();
  await cutOff(cluster, member);
  await held.release();
  const other = await Session.open(cluster.client(cluster.leader), { ttl: 600 });
  expect((await new Mutex(other, 'lock').tryLock())?.token).toBeGreaterThan(held.token);
});

test('a client requires a leader for each stream except snapshots and serializable reads (S30)', async () => {
  const required: string[] = [];
  const noting: Interceptor = {
    stream: (call, handler, next) => {
      if ((call.metadata as Metadata | undefined)?.hasleader === 'true') required.push(call.method.path);
      return next(call, handler);
    },
  };
  const etcd = new Client({ transport: memory(new MemoryEtcd()), interceptors: [noting] });
  const streams = methodList.filter(({ kind }) => kind !== 'unary');
  for (const method of streams) {
    const open = stubOf(etcd.raw, method as never) as (first: object) => AsyncIterator<unknown>;
    await open({}).return?.();
  }
  const { kv, maintenance } = methods;
  const all: readonly string[] = streams.map(({ path }) => path);
  expect(required).toEqual(all.filter((path) => path !== maintenance.snapshot.path));
  required.length = 0;
  await etcd.raw.kv.rangeStream({ serializable: true }).return?.();
  expect(required).not.toContain(kv.rangeStream.path);
  await etcd.close();
});

test('a transaction that only compares does not compare with the data of a member without a leader', async () => {
  await using cluster = new FastCluster();
  const [etcd, member] = [cluster.client(), cluster.leader];
  await cutOff(cluster, member);
  await etcd.put('b', 'x');
  const txn = { if: [compare.exists('b')] };
  const error = await errorOf(cluster.client(member).txn(txn, { timeoutMs: 300 }));
  expect(error).toMatchObject({ reason: 'DeadlineExceeded' });
  expect(await etcd.txn(txn)).toMatchObject({ succeeded: true, responses: [] });
});

/** Cuts a member off from the others, and waits until they have another leader and this member has none. */
async function cutOff(cluster: FastCluster, member = cluster.leader): Promise<void> {
  member.cutOff();
  await expect.poll(() => member.raft?.leader).toBe(undefined);
  await cluster.untilLeader(member);
}
