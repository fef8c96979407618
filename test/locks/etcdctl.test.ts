import { expect, inject, test } from 'vitest';
import { prefix } from '../../src/index.js';
import { Election, Mutex, Session } from '../../src/locks.js';
import { type Child, startChild } from '../support/child.js';
import { openClient, unique } from '../support/client.js';

const etcdctl = inject('etcdctl');

test('`etcdctl lock` waits while a Mutex holds the lock, and a Mutex waits while `etcdctl lock` holds the lock (S17)', async (context) => {
  if (etcdctl === undefined)
    return context.skip('the server in use, from ETCD_ENDPOINTS or Docker, comes without etcdctl');
  const [etcd, name] = [openClient(), unique('lock')];
  const mutex = new Mutex(await Session.open(etcd), name);
  const ours = await mutex.lock();

  const theirs = startEtcdctl('lock', name);
  await expect.poll(async () => (await etcd.range(prefix(`${name}/`))).count).toBe(2);
  expect((await etcd.range(prefix(`${name}/`), { sort: { target: 'createRevision', order: 'asc' } })).kvs[0]?.key).toBe(
    ours.key,
  );
  await ours.release();
  const theirKey = await theirs.line();
  expect(theirKey).toMatch(new RegExp(`^${name}/[0-9a-f]+$`));

  const waiting = mutex.lock();
  await expect.poll(async () => (await etcd.range(prefix(`${name}/`))).count).toBe(2);
  expect((await etcd.range(prefix(`${name}/`), { sort: { target: 'createRevision', order: 'asc' } })).kvs[0]?.key).toBe(
    theirKey,
  );
  theirs.process.kill('SIGINT');
  const again = await waiting;
  expect(again.valid()).toBe(true);
  await again.release();
});

test('`etcdctl elect` and an Election compete for one leadership, and `etcdctl elect --listen` prints the leaders of both', async (context) => {
  if (etcdctl === undefined)
    return context.skip('the server in use, from ETCD_ENDPOINTS or Docker, comes without etcdctl');
  const [etcd, name] = [openClient(), unique('election')];
  const election = new Election(await Session.open(etcd), name);
  const ours = await election.campaign('ours');
  const listening = startEtcdctl('elect', '--listen', name);
  expect([await listening.line(), await listening.line()]).toEqual([ours.key, 'ours']);

  const theirs = startEtcdctl('elect', name, 'theirs');
  await expect.poll(async () => (await etcd.range(prefix(`${name}/`))).count).toBe(2);
  await ours.resign();
  const theirKey = await theirs.line();
  expect(await theirs.line()).toBe('theirs');
  expect(await election.leader()).toMatchObject({ key: theirKey });
  expect([await listening.line(), await listening.line()]).toEqual([theirKey, 'theirs']);

  const waiting = election.campaign('ours again');
  await expect.poll(async () => (await etcd.range(prefix(`${name}/`))).count).toBe(2);
  theirs.process.kill('SIGINT');
  expect((await waiting).valid()).toBe(true);
  expect([await listening.line(), await listening.line()]).toEqual([ours.key, 'ours again']);
});

function startEtcdctl(...args: string[]): Child {
  return startChild(etcdctl as string, ['--endpoints', inject('endpoints').join(','), ...args]);
}
