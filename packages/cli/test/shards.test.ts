import { expect, it } from 'vitest';
import { pause } from '../../../src/base/timers.js';
import { Mutex, Session } from '../../../src/locks.js';
import { shardOwners, shards } from '../../../src/recipes.js';
import { cli, cliJson } from '../../../test/support/cli.js';
import { openClient, unique } from '../../../test/support/client.js';

it('`shards` prints who owns which shard, as rows for people and as one object for programs', async () => {
  const [etcd, name] = [openClient(), unique('shards')];
  const locked = await new Mutex(await Session.open(etcd), `${name}/shards/1`).lock();
  const stop = new AbortController();
  const working = shards(
    etcd,
    name,
    {
      count: 3,
      worker: 'host\n1',
      signal: stop.signal,
    },
    ({ signal }) => pause(Number.POSITIVE_INFINITY, signal),
  );
  await expect.poll(async () => (await shardOwners(etcd, name)).workers[0]?.owned).toBe(2);
  const { workers, shards: all } = await shardOwners(etcd, name);
  const leaseId = workers[0]?.leaseId ?? 0n;
  const hex = leaseId.toString(16).padStart(16, '0');
  const tokens = all.map(({ owner }) => `${owner?.token}`);
  const { stdout } = await cli(['-w', 'simple', 'shards', name]);
  expect(stdout.split('\n')).toEqual([
    `0, host\\u000a1, ${hex}, ${tokens[0]}`,
    `1, , ${all[1]?.owner?.leaseId.toString(16).padStart(16, '0')}, ${locked.token}`,
    `2, host\\u000a1, ${hex}, ${tokens[2]}`,
    '',
  ]);
  expect((await cli(['-w', 'table', 'shards', name, '--workers'])).stdout).toMatch(
    new RegExp(`^WORKER +LEASE +WEIGHT  QUOTA  OWNED\nhost\\\\u000a1 +${hex} +1 +3 +2\n$`),
  );
  await locked.release();
  await expect.poll(async () => (await shardOwners(etcd, name)).workers[0]?.owned).toBe(3);
  expect(await cliJson(['shards', name])).toMatchObject({
    revision: expect.stringMatching(/^\d+$/),
    workers: [{ worker: 'host\n1', weight: 1, quota: 3, owned: 3, leaseId: `${leaseId}` }],
    shards: [{ number: 0, owner: { worker: 'host\n1', leaseId: `${leaseId}`, token: tokens[0] } }, {}, {}],
  });
  stop.abort();
  await working;
  expect(await cliJson(['shards', name])).toMatchObject({ workers: [], shards: [] });
});

it('`shards` exits with exit code 64 for a name that shards cannot have', async () => {
  expect(await cli(['shards', 'a/shards'])).toMatchObject({ code: 64, stderr: expect.stringContaining('name') });
});
