import { expect, test } from 'vitest';
import { type Client, type CoreKeyspace, prefix } from '../../src/index.js';
import { SelfHealingSession, Session, withLock } from '../../src/locks.js';
import { PriorityQueue, Queue, Service, WorkQueue } from '../../src/recipes.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';

/**
 * Calls of the methods that take a session, on objects made with a client. A session of this client must be accepted.
 */
const USES: Readonly<Record<string, (etcd: CoreKeyspace, session: Session, name: string) => Promise<unknown>>> = {
  'Service.register': (etcd, session, name) => new Service(etcd, name).register(session, 'a', { address: 'h:1' }),
  'Queue.dequeue': async (etcd, session, name) => {
    const queue = new Queue(etcd, name);
    await queue.enqueue('item');
    await queue.dequeue(session);
  },
  'PriorityQueue.dequeue': async (etcd, session, name) => {
    const queue = new PriorityQueue(etcd, name);
    await queue.enqueue('item', 1);
    await queue.dequeue(session);
  },
  'WorkQueue.take': async (etcd, session, name) => {
    const queue = new WorkQueue(etcd, name);
    await queue.enqueue('job');
    await (await queue.take(session)).complete();
  },
};

/** Pairs of keyspaces with different keys. Both contain the keys that begin with the name. */
function strangers(etcd: Client, name: string): readonly (readonly [CoreKeyspace, CoreKeyspace])[] {
  const inner = etcd.namespace(`${name}/`);
  return [
    [etcd, inner],
    [inner, etcd],
    [inner, etcd.namespace(`${name}/other/`)],
    [inner.namespace('a'), inner],
    [etcd, openClient()],
  ];
}

test.for(Object.entries(USES))(
  '`%s` refuses a session of another client or namespace, and writes nothing for it',
  async ([what, use]) => {
    const [etcd, name] = [openClient(), unique('keyspaces')];
    for (const [own, other] of strangers(etcd, name)) {
      await using session = await Session.open(own);
      const error = await errorOf(() => use(other, session, name));
      expect(error).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
      expect(error.message).toContain(what.slice(0, what.indexOf('.')));
      expect((await session.client.lease.timeToLive(session.leaseId, { keys: true })).keys).toEqual([]);
    }
  },
);

test.for(Object.entries(USES))('`%s` accepts a session of another object for the same namespace', async ([, use]) => {
  const [etcd, name] = [openClient(), unique('keyspaces')];
  await using session = await Session.open(etcd.namespace(`${name}/`).namespace('in/'));
  await use(etcd.namespace(`${name}/in/`), session, 'name');
});

test('`Service.register` refuses a self-healing session of another namespace', async () => {
  const etcd = openClient();
  await using session = await SelfHealingSession.open(etcd);
  const service = new Service(etcd.namespace('app/'), unique());
  expect(await errorOf(service.register(session, 'a', { address: 'h:1' }))).toMatchObject({ reason: 'InvalidInput' });
});

test('sessions of two namespaces can use one lease, and each deletes only its own registration', async () => {
  const [etcd, name] = [openClient(), unique('keyspaces')];
  const inner = etcd.namespace(`${name}/in/`);
  const session = await Session.open(etcd);
  const innerSession = await Session.open(inner, { lease: session.leaseId });
  await new Service(etcd, name).register(session, 'id', { address: 'outer:1' });
  const registration = await new Service(inner, name).register(innerSession, 'id', { address: 'inner:1' });
  expect((await etcd.get(`${name}/in/${name}/id`))?.lease).toBe(session.leaseId);
  await registration.close();
  const left = (await etcd.range(prefix(name))).kvs.map((kv) => kv.key);
  expect(left.filter((key) => !key.includes('etcdwire/guards/'))).toEqual([`${name}/id`]);
  await innerSession.orphan();
  expect(session.valid()).toBe(true);
  await session.close();
  expect((await etcd.range(prefix(name))).count).toBe(0);
});

test('`withLock` refuses a nested call for the same lock through another object for the same namespace', async () => {
  const [etcd, name] = [openClient(), unique('keyspaces')];
  const nested = await withLock(etcd.namespace(name), 'lock', () =>
    errorOf(withLock(etcd.namespace(name), 'lock', () => 'never')),
  );
  expect(nested).toMatchObject({ reason: 'InvalidInput' });
});
