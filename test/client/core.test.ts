import { afterAll, expect, inject, test } from 'vitest';
import { CoreClient, op, prefix } from '../../src/core.js';
import { Client } from '../../src/index.js';
import { Election, Mutex, Session, withLock } from '../../src/locks.js';
import { Service } from '../../src/recipes.js';
import { errorOf } from '../support/errors.js';

const ROOT = `core/${process.pid}/`;
const etcd = new CoreClient({ endpoints: inject('endpoints') });
afterAll(async () => {
  await etcd.delete(prefix(ROOT));
  await etcd.close();
});

test('Client of etcdwire extends CoreClient', async () => {
  await using full = new Client({ endpoints: inject('endpoints') });
  expect(full).toBeInstanceOf(CoreClient);
});

test('CoreClient reads, writes and watches keys, and attaches them to leases', async () => {
  await using watch = etcd.watch(prefix(`${ROOT}keys/`));
  await watch.created();
  const lease = await etcd.lease.grant({ ttl: 60 });
  await etcd.put(`${ROOT}keys/a`, '1', { lease });
  await etcd.txn({ then: [op.put(`${ROOT}keys/b`, '2'), op.delete(`${ROOT}keys/a`)] });
  const seen: string[] = [];
  for await (const event of watch) if (seen.push(`${event.type} ${event.key.slice(-1)}`) === 3) break;
  expect(seen).toEqual(['put a', 'put b', 'delete a']);
  expect((await etcd.get(`${ROOT}keys/b`))?.text()).toBe('2');
  await etcd.lease.revoke(lease.id);
});

test('CoreClient and a Client of etcdwire exclude each other from a lock', async () => {
  await using full = new Client({ endpoints: inject('endpoints') });
  await withLock(etcd, `${ROOT}lock`, async () => {
    expect(await new Mutex(await Session.open(full, { ttl: 10 }), `${ROOT}lock`).tryLock()).toBeUndefined();
  });
});

test('a namespace of CoreClient has locks, elections that can be observed, and services', async () => {
  const namespace = etcd.namespace(ROOT);
  await using session = await Session.open(namespace, { ttl: 10 });
  const election = new Election(session, 'election');
  await election.campaign('host-1');
  for await (const leader of election.observe()) {
    expect(leader.text()).toBe('host-1');
    break;
  }
  const service = new Service(namespace, 'service');
  await service.register(session, 'web-1', { address: '10.0.0.1:80' });
  for await (const updates of service.watch()) {
    expect(updates).toMatchObject([{ type: 'add', endpoint: { address: '10.0.0.1:80' } }]);
    break;
  }
});

test('CoreClient ends its watches and sessions when it closes', async () => {
  const own = new CoreClient({ endpoints: inject('endpoints') });
  const session = await Session.open(own, { ttl: 10 });
  const watch = own.watch('a');
  const end = watch[Symbol.asyncIterator]().next();
  await own.close();
  expect(session.signal.reason).toMatchObject({ reason: 'ClientClosed' });
  expect(await end).toMatchObject({ done: true });
  expect(await etcd.lease.timeToLive(session.leaseId)).toMatchObject({ grantedTtl: undefined });
});

test.each(['orderedReads', 'autoSyncIntervalMs', 'allowEndpoint'])(
  'CoreClient refuses the option %s and names the client that has it',
  async (name) => {
    const options = { endpoints: ['http://127.0.0.1:1'], [name]: 1 };
    const error = await errorOf(() => new CoreClient(options));
    expect(error.message).toContain('only the Client of etcdwire has this option');
  },
);
