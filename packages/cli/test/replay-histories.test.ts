import { join } from 'node:path';
import { expect, inject, test } from 'vitest';
import { type Client, compare, op, prefix } from '../../../src/index.js';
import { withLock } from '../../../src/locks.js';
import { randomNumbers } from '../../../test/load/rounds.js';
import { startChild } from '../../../test/support/child.js';
import { type CliResult, cli } from '../../../test/support/cli.js';
import { openClient, unique } from '../../../test/support/client.js';
import { ownEtcd } from '../../../test/support/own-etcd.js';
import { recorded, runAt } from '../../../test/support/recordings.js';

const NO_DIFFERENCES = /steps: \d+, steps whose answers differ: 0\n$/;

/** Replays a recording in memory, and expects no difference. */
async function replays(file: string): Promise<CliResult> {
  const result = await cli(['replay', file]);
  expect(result.stdout.split('\n').filter((line) => line.includes('differs'))).toEqual([]);
  expect(result).toMatchObject({ code: 0, stderr: expect.stringMatching(NO_DIFFERENCES) });
  return result;
}

test.for([1, 2, 3])(
  'the random calls of three clients replay in the order of their revisions (seed %i)',
  async (seed) => {
    const random = randomNumbers(seed);
    const { endpoints } = await ownEtcd();
    const direct = openClient({ endpoints });
    const key = (): string => `k${Math.floor(random() * 6)}`;
    for (let index = 0; index < 10; index += 1) await direct.put(key(), `before ${index}`);
    const kinds: readonly ((client: Client, index: number) => Promise<unknown>)[] = [
      (client, index) => client.put(key(), `v${index}`),
      (client) => Promise.all([client.put(key(), 'a'), client.put(key(), 'b'), client.get(key())]),
      (client) => client.range(prefix('k')),
      (client) => client.delete(key()),
      (client) => client.put(key(), 'p', { prevKv: true }),
      (client) => client.get(key(), { revision: 5n }),
      async (client) => {
        const k = key();
        const { modRevision = 0n } = (await client.get(k)) ?? {};
        await client.txn({
          if: [compare.modRevision(k, '==', modRevision)],
          then: [op.put(k, 't')],
          else: [op.get(k)],
        });
      },
      async (client, index) => {
        const lease = await client.lease.grant({ ttl: 60 });
        await client.put(key(), 'leased', { lease });
        if (index % 3 > 0) await client.lease.revoke(lease);
      },
      (client) => withLock(client, 'lock', async () => void (await client.put('held', ''))),
      () => direct.put(key(), 'of another client'),
      (_, index) => direct.put(`unseen ${index}`, ''),
    ];
    const file = await recorded(
      async (url) => {
        const clients = Array.from({ length: 3 }, () => openClient({ endpoints: [url] }));
        const watches = clients.map((client, index) =>
          client.watch(prefix('k'), { startRevision: [0n, 4n, 8n][index], prevKv: index === 1 }),
        );
        for (const watch of watches) await watch.created();
        const seen = watches.map(async (watch) => {
          for await (const event of watch) if (event.key === 'k-end') break;
        });
        await Promise.all(
          clients.map(async (client) => {
            for (let index = 0; index < 40; index += 1)
              await kinds[Math.floor(random() * kinds.length)]?.(client, index);
          }),
        );
        await clients[0]?.put('k-end', '');
        await Promise.all(seen);
        for (const client of clients) await client.close();
      },
      { ETCDCTL_ENDPOINTS: endpoints.join() },
    );
    const { stderr } = await replays(file);
    expect(stderr).toContain('the recording begins at revision 11');
  },
);

test('waiting and canceled calls of Lock and Campaign replay in memory and at another etcd', async () => {
  // The answers of these calls do not say at which revision they have entered the queue, so no other client may write.
  const { endpoints: own } = await ownEtcd();
  const calls = async (url: string): Promise<void> => {
    const client = openClient({ endpoints: [url] });
    const { lock, election } = client.raw;
    const name = Buffer.from(unique());
    const keys = (count: number, prefixText: string) =>
      expect.poll(async () => (await client.range(prefix(prefixText))).kvs.length).toBe(count);
    const first = await lock.lock({ name });
    const { id } = await client.lease.grant({ ttl: 20 });
    const giveUp = new AbortController();
    const second = lock.lock({ name, lease: id }, { signal: giveUp.signal, timeoutMs: 20_000 }).catch(() => {});
    await keys(2, `${name}/`);
    const third = lock.lock({ name }, { timeoutMs: 20_000 });
    await keys(3, `${name}/`);
    giveUp.abort();
    await second;
    await keys(2, `${name}/`);
    await lock.unlock({ key: first.key });
    await lock.unlock({ key: (await third).key });
    const leader = await election.campaign({ name, value: Buffer.from('a') });
    const next = election.campaign({ name, value: Buffer.from('b') }, { timeoutMs: 20_000 });
    await keys(2, `${name}/`);
    const observed = election.observe({ name });
    await observed.next();
    await election.proclaim({ leader: leader.leader, value: Buffer.from('c') });
    await observed.next();
    await election.resign({ leader: leader.leader });
    await observed.next();
    await election.resign({ leader: (await next).leader });
    await observed.return?.();
    await client.close();
  };
  const file = await recorded(calls, { ETCDCTL_ENDPOINTS: own.join() });
  await replays(file);
  const { endpoints } = await ownEtcd();
  const atServer = await cli(['replay', file, '--against-server', '--endpoints', endpoints.join(), '--quiet']);
  expect(atServer).toMatchObject({ code: 0, stdout: '' });
});

test('keys from before, writes of other clients and compactions are part of the replay', async () => {
  const { endpoints } = await ownEtcd();
  const direct = openClient({ endpoints });
  await direct.put('config/a', 'old');
  await direct.put('config/b', 'x');
  await direct.put('known/deleted', '1');
  await direct.put('known/taken', '1');
  await direct.put('config/leased', 'v', { lease: await direct.lease.grant({ ttl: 100 }) });
  const file = await recorded(
    async (url) => {
      const client = openClient({ endpoints: [url] });
      const watch = client.watch(prefix('config/'), { prevKv: true });
      await watch.created();
      await direct.put('config/other', '1');
      await client.put('config/a', 'x'.repeat(1_000_000));
      await client.range(prefix('config/'));
      expect((await client.delete('known/deleted')).deleted).toBe(1);
      const isNew = compare.createRevision('known/taken', '==', 0n);
      expect((await client.txn({ if: [isNew], then: [op.put('known/taken', '2')] })).succeeded).toBe(false);
      await direct.put('unseen', '1');
      await direct.delete('config/b');
      await client.put('config/last', '');
      for await (const event of watch) if (event.key === 'config/last') break;
      await direct.compact((await direct.put('unseen', '2')).header.revision);
      await expect(client.get('config/a', { revision: 3n })).rejects.toMatchObject({ reason: 'Compacted' });
      await expect(client.watch('config/a', { startRevision: 2n }).batches().next()).rejects.toMatchObject({
        reason: 'Compacted',
      });
      await client.close();
    },
    { ETCDCTL_ENDPOINTS: endpoints.join() },
  );
  const { stdout, stderr } = await replays(file);
  expect(stderr).toContain('revisions of other clients of which the recording shows no key: 2');
  expect(stdout).toContain('* another client: put config/other = 1');
  expect(stdout).toContain('* another client: delete config/b');
  expect(stdout).toMatch(/\* another client compacts the history to revision \d+/);
});

test('a lease expires in the replay when it has expired in the recording, also while others write', async () => {
  const { endpoints } = await ownEtcd();
  const direct = openClient({ endpoints });
  const calls = async (url: string): Promise<void> => {
    const name = unique();
    const script = join(import.meta.dirname, '../../../test/support/etcd3-holder.ts');
    const holder = startChild(process.execPath, ['--import', 'tsx', script, url, name, '2']);
    expect(await holder.line()).toBe('held');
    const client = openClient({ endpoints: [url] });
    const watch = client.watch(name);
    await watch.created();
    holder.process.kill('SIGKILL');
    // The recording shows only that the revision has risen.
    for (let index = 0; index < 3; index += 1) await direct.put('unseen', String(index));
    for await (const event of watch) if (event.type === 'delete') break;
    const lease = await client.lease.grant({ ttl: 2 });
    await client.put(`${name}/leased`, '', { lease });
    await expect.poll(async () => (await client.get(`${name}/leased`)) === undefined, { interval: 300 }).toBe(true);
    await client.close();
  };
  const { stdout } = await replays(await recorded(calls, { ETCDCTL_ENDPOINTS: endpoints.join() }));
  expect(stdout).toMatch(/\* lease [0-9a-f]+ expires\n.* < k-\w+ was deleted /);
  expect(stdout.match(/\* lease [0-9a-f]+ expires/g)).toHaveLength(2);
});

test('logins replay, also when authentication was turned on before the recording', async ({ skip }) => {
  const path = inject('etcdctl') as string | undefined;
  if (path === undefined) return skip('etcdctl is missing on this machine');
  const { endpoints } = await ownEtcd();
  const environment = { ETCDCTL_ENDPOINTS: endpoints.join() };
  const calls = async (run: (...args: string[]) => Promise<unknown>): Promise<void> => {
    await run('--user', 'root:secret', 'put', 'k', '1');
    await run('--user', 'app:other', 'get', 'k');
    await run('--user', 'app:other', 'put', 'k', '2');
    await run('--user', 'app:wrong', 'get', 'k');
    await run('get', 'k');
  };
  const recordedCalls = (all: (run: (...args: string[]) => Promise<unknown>) => Promise<void>): Promise<string> =>
    recorded((url) => all((...args) => runAt(url, path, ...args).catch(() => {})), environment);
  const whole = await recordedCalls(async (run) => {
    for (const user of ['root:secret', 'app:other']) await run('user', 'add', user);
    for (const role of ['root', 'reader']) await run('role', 'add', role);
    await run('role', 'grant-permission', 'reader', 'read', 'k', '--prefix');
    await run('user', 'grant-role', 'root', 'root');
    await run('user', 'grant-role', 'app', 'reader');
    await run('auth', 'enable');
    await calls(run);
  });
  expect((await replays(whole)).stdout).toContain('> put k = 2  · KV/Put · user app');
  const later = await recordedCalls(calls);
  const { stderr } = await replays(later);
  expect(stderr).toContain('passwords and permissions of root, app');
  expect(stderr).toContain('requests left out because a permission was missing: 1');
  const flags = ['--against-server', '--user', 'root:secret', '--plaintext-auth', ...['--endpoints', endpoints.join()]];
  const atServer = await cli(['replay', later, ...flags]);
  expect(atServer.stderr).toContain('left out: logins');
  // The key exists already at this server.
  expect(atServer.stdout.match(/differs: .*/g)).toEqual([expect.stringContaining('kvs[0].version')]);
});

/** Records the calls at one new etcd, and replays them at another one, whose endpoints the result contains. */
async function replayedElsewhere(calls: (client: Client) => Promise<unknown>, ...flags: string[]) {
  const { endpoints: first } = await ownEtcd();
  const file = await recorded(
    async (url) => {
      await using client = openClient({ endpoints: [url] });
      await calls(client);
    },
    { ETCDCTL_ENDPOINTS: first.join() },
  );
  const { endpoints } = await ownEtcd();
  const result = await cli(['replay', file, '--against-server', '--endpoints', endpoints.join(), ...flags]);
  return { result, endpoints };
}

test('replay --against-server adds a recorded user without a password, so later calls about the user do not differ', async () => {
  const { result } = await replayedElsewhere(async ({ auth }) => {
    await auth.userAdd('anne', { password: 'secret' });
    await auth.roleAdd('reader');
    await auth.userGrantRole('anne', 'reader');
    await auth.userGet('anne');
    await auth.userList();
  }, '--quiet');
  expect(result).toMatchObject({
    code: 0,
    stdout: '',
    stderr: expect.stringContaining('adds users without passwords'),
  });
});

test('replay --against-server does not add root, because etcd would let no user log in as root without a password', async () => {
  const { result, endpoints } = await replayedElsewhere(({ auth }) => auth.userAdd('root', { password: 'secret' }));
  expect(result).toMatchObject({ code: 0, stderr: expect.stringContaining('left out: logins') });
  expect(await openClient({ endpoints }).auth.userList()).toMatchObject({ users: [] });
});

test('requests of the JSON gateway replay, and other requests of HTTP are left out', async ({ skip }) => {
  const { endpoints } = await ownEtcd();
  const file = await recorded(
    async (url) => {
      const post = (path: string, body: object) =>
        fetch(`${url}/v3/${path}`, { method: 'POST', body: JSON.stringify(body) }).then((answer) => answer.text());
      await post('kv/put', { key: btoa('a'), value: btoa('1') });
      await post('kv/put', {});
      await post('kv/range', { key: btoa('a') });
      await post('maintenance/status', {});
      await (await fetch(`${url}/health`)).text();
    },
    { ETCDCTL_ENDPOINTS: endpoints.join() },
  ).catch((error: Error) => skip(error.message));
  const { stderr, stdout } = await replays(file);
  expect(stderr).toContain('left out: 1 HTTP requests that are no calls');
  expect(stdout).toContain('> put a = 1  · KV/Put');
});
