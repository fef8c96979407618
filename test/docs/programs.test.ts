import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { type Client, prefix } from '../../src/index.js';
import { inspectLock, Mutex, Session } from '../../src/locks.js';
import { shardOwners, WorkQueue } from '../../src/recipes.js';
import { freePorts } from '../../src/testing/etcd/free-ports.js';
import type { EtcdMember } from '../../src/testing/index.js';
import { type Child, startChild, startScript } from '../support/child.js';
import { openClient, unique } from '../support/client.js';
import { compiledSource } from '../support/compiled.js';
import { proxied, queueLength } from '../support/locks.js';
import { ownEtcd } from '../support/own-etcd.js';
import { importingSources } from '../support/program.js';
import { temporaryFolder } from '../support/temporary-folder.js';

// Runs the programs of docs/examples against real servers, in processes of their own, and injects faults.

/** The maximum number of lines of each program. The programs show that common tasks need little code. */
const MAX_LINES = {
  cron: 14,
  configuration: 28,
  worker: 29,
  registry: 14,
  migration: 20,
  cache: 10,
  controller: 20,
  nightly: 14,
  shards: 15,
  settings: 12,
  identifiers: 20,
  function: 16,
} as const;
type Name = keyof typeof MAX_LINES;

function source(name: Name): string {
  return readFileSync(new URL(`../../docs/examples/${name}.ts`, import.meta.url), 'utf8');
}

interface Start {
  readonly endpoint: string;
  readonly args?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
}

function start(name: Name, { endpoint, args = [], environment = {} }: Start): Child {
  const file = compiledSource(importingSources(source(name)), unique(`example-${name}`));
  onTestFinished(() => rmSync(file, { force: true }));
  return startChild(process.execPath, [file, ...args], {
    environment: { ETCDCTL_ENDPOINTS: endpoint, ...environment },
  });
}

async function ended(...children: readonly Child[]): Promise<void> {
  for (const child of children) child.process.kill('SIGTERM');
  expect(await Promise.all(children.map((child) => child.exited))).toEqual(children.map(() => 0));
}

async function text(etcd: Client, key: string): Promise<string | undefined> {
  return (await etcd.get(key))?.text();
}

test.each(Object.entries(MAX_LINES))('docs/examples/%s.ts has at most %i lines', (name, maxLines) => {
  expect(
    source(name as Name)
      .trimEnd()
      .split('\n').length,
  ).toBeLessThanOrEqual(maxLines);
});

test('the scheduler makes reports in one process, and in another process when the first process is killed or asked to stop', async () => {
  const {
    endpoints: [endpoint = ''],
  } = await ownEtcd();
  const etcd = openClient({ endpoints: [endpoint] });
  const environment = { INTERVAL_MS: '20' };
  const author = async (): Promise<number> => Number((await text(etcd, 'reports/latest'))?.split(' ')[0]);
  const first = start('cron', { endpoint, environment });
  await expect.poll(author).toBe(first.process.pid);
  const second = start('cron', { endpoint, environment });
  await expect.poll(async () => (await inspectLock(etcd, 'cron')).waiters.length).toBe(1);
  first.process.kill('SIGKILL');
  // The lease of the killed process ends now instead of after its TTL.
  await etcd.lease.revoke((await inspectLock(etcd, 'cron')).holder?.leaseId ?? 0n);
  await expect.poll(author).toBe(second.process.pid);
  const third = start('cron', { endpoint, environment });
  await expect.poll(async () => (await inspectLock(etcd, 'cron')).waiters.length).toBe(1);
  await ended(second);
  await expect.poll(author).toBe(third.process.pid);
  // An operator deletes the queue key of the leader, which then leads again.
  const { holder } = await inspectLock(etcd, 'cron');
  await etcd.delete(holder?.kv.key ?? '');
  await expect
    .poll(async () => (await inspectLock(etcd, 'cron')).holder?.token ?? 0n)
    .toBeGreaterThan(holder?.token ?? 0n);
  await ended(third);
});

test('the nightly job writes one report for each tick although its process is killed in the middle of a run and the server restarts', async () => {
  const server = await ownEtcd();
  const { direct, proxy } = await proxied(server.endpoints);
  const environment = { CRON: '* * * * * *' };
  const state = async (): Promise<{ readonly time?: string; readonly status?: string; readonly attempt?: number }> =>
    Object((await direct.get('nightly/tick'))?.json());
  const reports = async () => (await direct.range(prefix('reports/'))).kvs;
  const revokeAll = async (): Promise<void> => {
    for (const id of (await direct.lease.list()).ids) await direct.lease.revoke(id);
  };
  // The claim of a tick reaches the server at once, but its answer reaches the process later.
  proxy.delay(100);
  const killed = start('nightly', { endpoint: proxy.endpoint, environment });
  await using claims = direct.watch('nightly/tick');
  for await (const event of claims) if (event.type === 'put' && event.kv.text().includes('running')) break;
  killed.process.kill('SIGKILL');
  const cutShort = await state();
  expect(cutShort).toMatchObject({ status: 'running', attempt: 1 });
  expect(await reports()).toEqual([]);
  const [endpoint = ''] = server.endpoints;
  const others = [start('nightly', { endpoint, environment }), start('nightly', { endpoint, environment })];
  await revokeAll();
  await expect.poll(async () => (await reports()).length).toBeGreaterThan(1);
  const [first, second] = await reports();
  expect(first?.key).toBe(`reports/${cutShort.time}`);
  expect(first?.text()).toBe('0 orders, run 2');
  await direct.compact(second?.modRevision ?? 0n);
  await server.members[0]?.kill();
  await server.members[0]?.start();
  const before = (await reports()).length;
  await expect.poll(async () => (await reports()).length).toBeGreaterThan(before + 1);
  const all = await reports();
  expect(all.every(({ version }) => version === 1n)).toBe(true);
  expect(all.map((kv) => kv.createRevision)).toEqual(
    all.map((kv) => kv.createRevision).toSorted((a, b) => Number(a - b)),
  );
  await ended(...others);
});

test('the web server applies new settings, keeps the current settings if a value is wrong, and catches up after an outage', async () => {
  const { endpoints } = await ownEtcd();
  const { direct, proxy } = await proxied(endpoints);
  const [port] = await freePorts(1);
  const child = start('configuration', { endpoint: proxy.endpoint, environment: { PORT: `${port}` } });
  const served = async (): Promise<unknown> =>
    fetch(`http://127.0.0.1:${port}`).then(
      (response) => response.json(),
      () => undefined,
    );
  await expect.poll(served).toEqual({ greeting: 'hello', limit: 10 });
  const put = (settings: object) => direct.put('settings/web', JSON.stringify(settings));
  await put({ greeting: 'hi', limit: 20 });
  await expect.poll(served).toEqual({ greeting: 'hi', limit: 20 });
  await put({ greeting: 'hi', limit: -1 });
  await put({ greeting: 'hi', limit: 30 });
  await expect.poll(served).toEqual({ greeting: 'hi', limit: 30 });
  proxy.blackhole();
  await put({ greeting: 'lost', limit: 1 });
  const { header } = await put({ greeting: 'found', limit: 40 });
  await direct.compact(header.revision);
  proxy.heal();
  proxy.dropConnections();
  await expect.poll(served).toEqual({ greeting: 'found', limit: 40 });
  await ended(child);
});

test('the settings program keeps its settings through outages of the server, kills of the program and compactions', async () => {
  const {
    endpoints: [endpoint = ''],
    members: [member],
  } = await ownEtcd();
  const etcd = openClient({ endpoints: [endpoint] });
  const environment = { COPY: join(temporaryFolder(), 'settings.copy') };
  const next = async (child: Child): Promise<readonly string[]> => (await child.line()).split(' ');
  await etcd.put('settings/color', 'red');
  let child = start('settings', { endpoint, environment });
  expect(await next(child)).toEqual(['settings/color', 'red', 'current']);
  for (const color of ['green', 'blue']) {
    await etcd.put('settings/color', color);
    expect(await next(child)).toEqual(['settings/color', color, 'current']);
    child.process.kill('SIGKILL');
    await child.exited;
    // The program starts while etcd is down, and goes on when etcd is back.
    await member?.kill();
    child = start('settings', { endpoint, environment });
    expect(await next(child)).toEqual(['settings/color', color, 'stored']);
    await member?.start();
    await etcd.put('settings/color', `dark-${color}`);
    expect(await next(child)).toEqual(['settings/color', `dark-${color}`, 'current']);
  }
  child.process.kill('SIGKILL');
  await child.exited;
  const { header } = await etcd.put('settings/color', 'white');
  await etcd.compact(header.revision);
  child = start('settings', { endpoint, environment });
  expect((await next(child))[1]).toMatch(/^(dark-blue|white)$/);
  await etcd.put('settings/size', '10');
  const seen = new Set<string | undefined>();
  while (!seen.has('10')) seen.add((await next(child))[1]);
  expect(seen).toContain('white');
  await ended(child);
});

test('the workers make every thumbnail once although one of them is killed, and keep broken images as dead jobs', async () => {
  const {
    endpoints: [endpoint = ''],
  } = await ownEtcd();
  const etcd = openClient({ endpoints: [endpoint] });
  const ids = Array.from({ length: 40 }, (_, index) => `image-${index}`);
  const adding = start('worker', { endpoint, args: ['add', ...ids, 'broken-1'] });
  expect(await adding.exited).toBe(0);
  const [killed, other] = [start('worker', { endpoint }), start('worker', { endpoint })];
  await expect.poll(async () => (await etcd.range(prefix('done/'))).count).toBeGreaterThan(0);
  killed.process.kill('SIGKILL');
  for (const id of (await etcd.lease.list()).ids) await etcd.lease.revoke(id);
  const queue = new WorkQueue(etcd, 'thumbnails');
  await expect.poll(() => queue.counts()).toEqual({ ready: 0, delayed: 0, running: 0, dead: 1 });
  const { kvs } = await etcd.range(prefix('done/'));
  expect(kvs.map((kv) => kv.text()).toSorted()).toEqual(ids.map((id) => `thumbnail of ${id}`).toSorted());
  expect(kvs.every((kv) => kv.version === 1n)).toBe(true);
  expect(await start('worker', { endpoint, args: ['dead'] }).rest()).toEqual(['broken-1 3 not an image']);
  await ended(other);
});

test('the instances of a service find each other, and forget an instance that is killed', async () => {
  const {
    endpoints: [endpoint = ''],
  } = await ownEtcd();
  const etcd = openClient({ endpoints: [endpoint] });
  const ports = await freePorts(2);
  const children = ports.map((port) => start('registry', { endpoint, environment: { PORT: `${port}` } }));
  const [first, second] = children as [Child, Child];
  const addresses = ports.map((port) => `127.0.0.1:${port}`);
  const asked = async (times: number): Promise<readonly string[]> => {
    const picked = new Set<string>();
    for (let time = 0; time < times; time += 1)
      picked.add(
        await fetch(`http://${addresses[1]}`).then(
          (response) => response.text(),
          () => '',
        ),
      );
    return [...picked].toSorted();
  };
  await expect.poll(() => asked(2)).toEqual(addresses.toSorted());
  first.process.kill('SIGKILL');
  // The leases of both instances end. The session of the living instance gets a new lease and registers it again.
  for (const id of (await etcd.lease.list()).ids) await etcd.lease.revoke(id);
  await expect
    .poll(async () => (await etcd.range(prefix('services/web/'))).kvs.map((kv) => kv.key))
    .toEqual([`services/web/${addresses[1]}`]);
  await expect.poll(() => asked(2)).toEqual([addresses[1]]);
  await ended(second);
});

test('the program that was migrated from etcd3 counts its starts under a lock, and ends its lease', async () => {
  const {
    endpoints: [endpoint = ''],
  } = await ownEtcd();
  const etcd = openClient({ endpoints: [endpoint] });
  const children = [1, 2, 3].map(() => start('migration', { endpoint }));
  const lines = await Promise.all(children.map((child) => child.line()));
  expect(lines.toSorted()).toEqual(['start 1', 'start 2', 'start 3']);
  await ended(...children);
  expect((await etcd.range(prefix('status/'))).count).toBe(0);
});

test('the cache writes all keys although a process is killed and the server restarts, and the keys expire', async () => {
  const { endpoints, members } = await ownEtcd();
  const [endpoint = ''] = endpoints;
  const etcd = openClient({ endpoints });
  const environment = { KEYS: '3000' };
  const count = async (): Promise<number> => (await etcd.range(prefix('cache/'), { countOnly: true })).count;
  const killed = start('cache', { endpoint, environment });
  await expect.poll(count, { interval: 1 }).toBeGreaterThan(0);
  killed.process.kill('SIGKILL');
  // Another process fills the cache, while the server is killed and starts again.
  const filling = start('cache', { endpoint, environment: { ...environment, KEYS: '6000' } });
  await expect.poll(async () => (await etcd.get('cache/3000'))?.text(), { interval: 1 }).toBe('entry 3000');
  await members[0]?.kill();
  await members[0]?.start();
  const { header, kvs } = await etcd.range(prefix('cache/'), { keysOnly: true });
  expect(kvs.every(({ lease }) => lease !== 0n)).toBe(true);
  // A slow program needs more leases, because each serves the keys that expire at about the same time.
  expect(new Set(kvs.map(({ lease }) => lease)).size).toBeLessThan(kvs.length / 10);
  await etcd.compact(header.revision);
  await expect.poll(async () => (await etcd.get('cache/5999'))?.text(), { interval: 1 }).toBe('entry 5999');
  expect(await filling.exited).toBe(0);
  await expect.poll(count, { timeout: 45_000 }).toBe(0);
});

test('the controllers keep the wanted number of pods although the leader is killed, and etcd restarts and compacts', async () => {
  const { endpoints, members } = await ownEtcd();
  const [member] = members as readonly [EtcdMember];
  const { direct, proxy } = await proxied(endpoints);
  const pods = async (): Promise<Record<string, number>> => {
    const { kvs } = await direct.range(prefix('pods/'));
    const owners = kvs.map((kv) => kv.key.split('/')[1] ?? '');
    return Object.fromEntries(owners.map((owner) => [owner, owners.filter((other) => other === owner).length]));
  };
  await direct.put('deployments/web', '3');
  const first = start('controller', { endpoint: proxy.endpoint });
  await expect.poll(pods).toEqual({ web: 3 });
  const second = start('controller', { endpoint: proxy.endpoint });
  await expect.poll(async () => (await inspectLock(direct, 'leaders/replicas')).waiters.length).toBe(1);
  await direct.delete('pods/web/1');
  await direct.put('deployments/api', '2');
  await direct.put('deployments/broken', 'many');
  await expect.poll(pods).toEqual({ web: 3, api: 2 });
  first.process.kill('SIGKILL');
  // No process leads while these keys change. The lease of the killed process ends now instead of after its TTL.
  await direct.delete('deployments/web');
  await direct.put('deployments/api', '1');
  await direct.lease.revoke((await inspectLock(direct, 'leaders/replicas')).holder?.leaseId ?? 0n);
  await expect.poll(pods).toEqual({ api: 1 });
  // The controller misses these changes, and etcd compacts them.
  proxy.blackhole();
  await direct.put('deployments/api', '4');
  await direct.put('deployments/web', '2');
  await direct.compact((await direct.put('deployments/batch', '1')).header.revision);
  proxy.heal();
  proxy.dropConnections();
  await expect.poll(pods).toEqual({ api: 4, web: 2, batch: 1 });
  await member.kill();
  await member.start();
  await direct.put('deployments/web', '1');
  await direct.delete('deployments/batch');
  await expect.poll(pods).toEqual({ api: 4, web: 1 });
  await ended(second);
});

test('the program that was migrated from etcd3 waits for a process that holds the lock with etcd3, even when the server restarts and compacts its history', async () => {
  const { endpoints, members } = await ownEtcd();
  const [endpoint = ''] = endpoints;
  const etcd = openClient({ endpoints });
  const holder = startScript(new URL('../support/etcd3-holder.ts', import.meta.url), [endpoint, 'locks/starts', '2']);
  expect(await holder.line()).toBe('held');
  const killed = start('migration', { endpoint });
  await queueLength(etcd, 'locks/starts', 1);
  const child = start('migration', { endpoint });
  await queueLength(etcd, 'locks/starts', 2);
  await etcd.compact((await etcd.put('other', 'x')).header.revision);
  await members[0]?.kill();
  await members[0]?.start();
  expect((await etcd.get('locks/starts'))?.version).toBe(1n);
  // The first waiter is killed, and its lease ends now instead of after its TTL.
  killed.process.kill('SIGKILL');
  await etcd.lease.revoke((await inspectLock(etcd, 'locks/starts')).holder?.leaseId ?? 0n);
  expect(await text(etcd, 'starts')).toBeUndefined();
  holder.process.kill('SIGKILL');
  expect(await child.line()).toBe('start 1');
  const next = startScript(new URL('../support/etcd3-holder.ts', import.meta.url), [endpoint, 'locks/starts', '2']);
  expect(await next.line()).toBe('held');
  await ended(child);
});

test('each of 64 shards is consumed by one process, although a process is killed and the server restarts and compacts', async () => {
  const {
    endpoints: [endpoint = ''],
    members: [member],
  } = await ownEtcd();
  const etcd = openClient({ endpoints: [endpoint] });
  const owned = async (): Promise<readonly number[]> =>
    (await shardOwners(etcd, 'consumer')).workers.map((worker) => worker.owned).toSorted((a, b) => a - b);
  let items = 0;
  const send = async (): Promise<void> => {
    items += 1;
    const numbers = Array.from({ length: 64 }, (_, number) => number);
    await Promise.all(numbers.map((number) => etcd.put(`inbox/${number}/item-${items}`, 'x', { retryWrites: true })));
  };
  const consumed = (): Promise<number> => etcd.range(prefix('done/'), { countOnly: true }).then(({ count }) => count);
  await send();
  const children = [1, 2, 3].map(() => start('shards', { endpoint }));
  await expect.poll(owned).toEqual([21, 21, 22]);
  await send();
  const [killed, ...others] = children as [Child, ...Child[]];
  killed.process.kill('SIGKILL');
  await send();
  const { workers } = await shardOwners(etcd, 'consumer');
  const dead = workers.find(({ worker }) => worker === `process ${killed.process.pid}`);
  // The lease of the killed process ends now instead of after its TTL.
  await etcd.lease.revoke(dead?.leaseId ?? 0n);
  await expect.poll(owned).toEqual([32, 32]);
  await member?.kill();
  await member?.start();
  await send();
  await etcd.compact((await etcd.range('done/')).header.revision);
  await send();
  await expect.poll(consumed).toBe(64 * items);
  const { kvs } = await etcd.range(prefix('done/'));
  // Each item was consumed once, and the last items by the present owners.
  expect(kvs.every(({ version }) => version === 1n)).toBe(true);
  const { shards } = await shardOwners(etcd, 'consumer');
  for (const { number, owner } of shards)
    expect(await text(etcd, `done/inbox/${number}/item-${items}`)).toBe(`token ${owner?.token}`);
  expect((await etcd.range(prefix('inbox/'))).count).toBe(0);
  await ended(...others);
  expect((await etcd.range(prefix('consumer/'))).count).toBe(0);
});

test('the identifiers are unique and limited for each user although a process is killed, suspended or asked to stop', async () => {
  const { endpoints, members } = await ownEtcd();
  const [endpoint = ''] = endpoints;
  const [member] = members as readonly [EtcdMember];
  const etcd = openClient({ endpoints });
  const ports = await freePorts(3);
  const launch = (index: number): Child => start('identifiers', { endpoint, environment: { PORT: `${ports[index]}` } });
  const seen: string[] = [];
  const ask = async (index: number, user: string): Promise<number> => {
    const response = await fetch(`http://127.0.0.1:${ports[index]}/${user}`).catch(() => undefined);
    if (response?.status === 200) seen.push(await response.text());
    return response?.status ?? 0;
  };
  const [killed, stopped] = [launch(0), launch(1)];
  for (const index of [0, 1]) await expect.poll(() => ask(index, `first-${index}`)).toBe(200);
  const many = await Promise.all(Array.from({ length: 60 }, (_, index) => ask(index % 2, 'eager')));
  expect(many.filter((status) => status === 200).length).toBeLessThan(60);
  expect(many).toContain(429);
  expect(await ask(0, 'patient')).toBe(200);
  killed.process.kill('SIGKILL');
  await member.kill();
  await member.start();
  await expect.poll(() => ask(1, 'after-restart'), { timeout: 20_000 }).toBe(200);
  // The process stands still until its lease has ended, and must not make identifiers with its number any more.
  stopped.process.kill('SIGSTOP');
  for (const id of (await etcd.lease.list()).ids) await etcd.lease.revoke(id);
  const third = launch(2);
  await expect.poll(() => ask(2, 'third')).toBe(200);
  stopped.process.kill('SIGCONT');
  expect(await stopped.exited).toBe(1);
  await ended(third);
  // The number of a process that was asked to stop stays taken until its lease ends.
  expect((await etcd.range(prefix('identifiers/'), { countOnly: true })).count).toBeGreaterThan(0);
  expect(new Set(seen).size).toBe(seen.length);
});

test('the function bills each order once although its instances are frozen and killed', async () => {
  const { endpoints } = await ownEtcd();
  const etcd = openClient({ endpoints });
  const file = compiledSource(importingSources(source('function')), unique('example-function'));
  onTestFinished(() => rmSync(file, { force: true }));
  /** An instance of the function, which handles one invocation for each line that it reads. */
  const instance = (): Child => {
    const code = `
      import { createInterface } from 'node:readline';
      import { handler } from ${JSON.stringify(file)};
      for await (const order of createInterface({ input: process.stdin }))
        console.log(await handler({ order }).catch((error) => error.reason));
      process.exit();`;
    const environment = { ETCDCTL_ENDPOINTS: endpoints.join() };
    return startChild(process.execPath, ['--input-type=module', '--eval', code], { environment, stdin: 'pipe' });
  };
  const [first, second] = [instance(), instance()];
  const invoke = async (child: Child, order: string): Promise<string> => {
    child.process.stdin?.write(`${order}\n`);
    return child.line();
  };
  expect(await invoke(first, '1')).toMatch(/^billed at /);
  expect(await invoke(second, '1')).toMatch(/^billed before/);
  // The instance is frozen while it waits for the lock, and the other instance bills the order.
  await using session = await Session.open(etcd);
  const held = await new Mutex(session, 'orders/2/lock').lock();
  const frozen = invoke(first, '2');
  await expect.poll(async () => (await inspectLock(etcd, 'orders/2/lock')).waiters.length).toBe(1);
  first.process.kill('SIGSTOP');
  await held.release();
  for (const { kv } of [(await inspectLock(etcd, 'orders/2/lock')).holder ?? []].flat()) await etcd.delete(kv.key);
  expect(await invoke(second, '2')).toMatch(/^billed at /);
  first.process.kill('SIGCONT');
  expect(await frozen).toMatch(/^(billed before|LockLost|DeadlineExceeded)/);
  expect((await etcd.get('orders/2/billed'))?.version).toBe(1n);
  // An instance that is killed in the middle leaves no lock for longer than its TTL.
  const again = await new Mutex(session, 'orders/3/lock').lock();
  void invoke(second, '3').catch(() => {});
  await expect.poll(async () => (await inspectLock(etcd, 'orders/3/lock')).waiters.length).toBe(1);
  second.process.kill('SIGKILL');
  await second.exited;
  await again.release();
  const { holder } = await inspectLock(etcd, 'orders/3/lock');
  await etcd.lease.revoke(holder?.leaseId ?? 0n);
  expect(await invoke(first, '3')).toMatch(/^billed at /);
  first.process.kill('SIGKILL');
  await first.exited;
});
