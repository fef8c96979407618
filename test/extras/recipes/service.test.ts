import { expect, test } from 'vitest';
import { SelfHealingSession, Session } from '../../../src/locks.js';
import { Service, type ServiceEndpoint, type Update } from '../../../src/recipes.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { proxied } from '../../support/locks.js';
import { ownEtcd } from '../../support/own-etcd.js';
import { answerLost, puts, stagedTransport } from '../../support/transactions.js';

test('a service lists an endpoint until the registration or the session of the endpoint is closed', async () => {
  const [etcd, target] = [openClient(), unique('services/api')];
  const service = new Service(etcd, target);
  const [a, b] = [await Session.open(etcd), await Session.open(etcd)];
  await service.register(a, 'a', { address: '10.0.0.1:80', metadata: { zone: 'x', weights: [1, 2] } });
  const second = await service.register(b, '10.0.0.2:80', { address: '10.0.0.2:80' });
  expect(await service.list()).toEqual(
    new Map<string, ServiceEndpoint>([
      [`${target}/10.0.0.2:80`, { address: '10.0.0.2:80' }],
      [`${target}/a`, { address: '10.0.0.1:80', metadata: { zone: 'x', weights: [1, 2] } }],
    ]),
  );
  await second.close();
  await a.close();
  expect((await service.list()).size).toBe(0);
});

test("a service uses the same keys and values as Go's package naming/endpoints", async () => {
  const [etcd, target] = [openClient(), unique('services/api')];
  const service = new Service(etcd, target);
  await service.register(await Session.open(etcd), 'ts', { address: 'h:1', metadata: 'blue' });
  expect((await etcd.get(`${target}/ts`))?.text()).toBe('{"Op":0,"Addr":"h:1","Metadata":"blue"}');
  // Go writes values such as the first value. The other two values are not endpoints, so the list must leave them out.
  await etcd.put(`${target}/go`, '{"Op":0,"Addr":"h:2","Metadata":null}');
  await etcd.put(`${target}/other`, 'not JSON');
  await etcd.put(`${target}/list`, '[1]');
  expect([...(await service.list()).keys()]).toEqual([`${target}/go`, `${target}/ts`]);
  expect((await service.list()).get(`${target}/go`)).toEqual({ address: 'h:2' });
});

test('a watcher of a service receives all endpoints first, and then each change', async () => {
  const [etcd, target] = [openClient(), unique('services/api')];
  const service = new Service(etcd, target);
  const session = await Session.open(etcd);
  const first = await service.register(session, 'a', { address: 'h:1' });
  const updates = new Service(openClient(), target).watch();
  const next = async (): Promise<readonly Update[]> => (await updates.next()).value as readonly Update[];
  expect(await next()).toEqual([{ type: 'add', key: `${target}/a`, endpoint: { address: 'h:1' } }]);
  await service.register(session, 'b', { address: 'h:2' });
  expect(await next()).toEqual([{ type: 'add', key: `${target}/b`, endpoint: { address: 'h:2' } }]);
  await service.register(session, 'b', { address: 'h:3' });
  expect(await next()).toEqual([{ type: 'add', key: `${target}/b`, endpoint: { address: 'h:3' } }]);
  await first.close();
  expect(await next()).toEqual([{ type: 'delete', key: `${target}/a` }]);
  await etcd.put(`${target}/b`, 'no endpoint any more');
  expect(await next()).toEqual([{ type: 'delete', key: `${target}/b` }]);
  await updates.return();
});

test('a watcher of a service that missed changes because of a compaction receives the difference between the old and new endpoints', async () => {
  const { endpoints } = await ownEtcd();
  const { etcd, direct, proxy } = await proxied(endpoints);
  const service = new Service(direct, 'api');
  const session = await Session.open(direct);
  const [gone] = [await service.register(session, 'gone', { address: 'h:1' })];
  await service.register(session, 'stays', { address: 'h:2' });
  const updates = new Service(etcd, 'api').watch();
  expect((await updates.next()).value).toHaveLength(2);
  proxy.blackhole();
  await gone.close();
  await service.register(session, 'new', { address: 'h:3' });
  await direct.compact((await direct.put('other', 'x')).header.revision);
  const told = updates.next();
  proxy.heal();
  proxy.dropConnections();
  expect((await told).value).toEqual([
    { type: 'delete', key: 'api/gone' },
    { type: 'add', key: 'api/new', endpoint: { address: 'h:3' } },
  ]);
  await updates.return();
});

test('a self-healing session registers a service endpoint again after the loss of the lease', async () => {
  const [etcd, target] = [openClient(), unique('services/api')];
  const service = new Service(etcd, target);
  const session = await SelfHealingSession.open(etcd, { ttl: 2 });
  const registration = await service.register(session, 'a', { address: 'h:1' });
  await openClient().lease.revoke(session.leaseId);
  for await (const gap of session.gaps()) if (gap.type === 'healed') break;
  expect((await service.list()).size).toBe(1);
  await registration.close();
  expect((await service.list()).size).toBe(0);
  await session.close();
});

test('`close` of a service registration does not delete an endpoint that another session has replaced', async () => {
  const [etcd, target] = [openClient(), unique('services/api')];
  const service = new Service(etcd, target);
  const old = await service.register(await Session.open(etcd), 'a', { address: 'h:1' });
  await service.register(await Session.open(etcd), 'a', { address: 'h:2' });
  await old.close();
  expect([...(await service.list()).values()]).toEqual([{ address: 'h:2' }]);
});

for (const [what, open] of [
  ['a session', Session.open],
  ['a self-healing session', SelfHealingSession.open],
] as const) {
  for (const address of ['h:1', 'h:2']) {
    test(`closing a registration keeps a later registration of the same ID in ${what}, with ${address === 'h:1' ? 'the same' : 'another'} address`, async () => {
      const [etcd, target] = [openClient(), unique('services/api')];
      const service = new Service(etcd, target);
      await using session = await open(etcd);
      const former = await service.register(session, 'a', { address: 'h:1' });
      const newer = await service.register(session, 'a', { address });
      await former.close();
      expect([...(await service.list()).values()]).toEqual([{ address }]);
      await newer.close();
      expect((await service.list()).size).toBe(0);
    });
  }
}

test('a registration can be closed after a later registration of the same ID is closed', async () => {
  const [etcd, target] = [openClient(), unique('services/api')];
  const service = new Service(etcd, target);
  for (const open of [Session.open, SelfHealingSession.open]) {
    await using session = await open(etcd);
    const former = await service.register(session, 'a', { address: 'h:1' });
    const newer = await service.register(session, 'a', { address: 'h:1' });
    await newer.close();
    await former.close();
    expect((await service.list()).size).toBe(0);
  }
});

test('closing a registration keeps a later registration of the same ID and address when the first answer to the later registration is lost', async () => {
  const [target, direct] = [unique('services/api'), openClient()];
  let lost = 0;
  const transport = stagedTransport({
    onTransaction: async (ops, send) => {
      const sent = await send();
      if (!puts(ops, `${target}/a`) || lost > 1) return sent;
      lost += 1;
      throw answerLost();
    },
  });
  const etcd = openClient({ transport });
  await using session = await Session.open(etcd);
  const service = new Service(etcd, target);
  const former = await service.register(session, 'a', { address: 'h:1' });
  await service.register(session, 'a', { address: 'h:1' });
  await former.close();
  expect((await new Service(direct, target).list()).size).toBe(1);
});

test('a service refuses invalid names and endpoints', async () => {
  const etcd = openClient();
  for (const target of ['', 'a/', 5 as never]) {
    expect(await errorOf(() => new Service(etcd, target))).toMatchObject({ reason: 'InvalidInput' });
  }
  const [service, session] = [new Service(etcd, 'a'), await Session.open(etcd)];
  expect(await errorOf(service.register(session, '', { address: 'h:1' }))).toMatchObject({ reason: 'InvalidInput' });
  for (const endpoint of [{ address: '' }, null, { address: 'h', metadata: 5n }, { address: 'h', metadata: () => 1 }]) {
    expect(await errorOf(service.register(session, 'a', endpoint as ServiceEndpoint))).toMatchObject({
      reason: 'InvalidInput',
    });
  }
});
