import { expect, test } from 'vitest';
import { type Client, type CoreKeyspace, op } from '../../../src/index.js';
import { type HistoryEntry, type HistoryOptions, history } from '../../../src/recipes.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { proxied } from '../../support/locks.js';
import { ownEtcd } from '../../support/own-etcd.js';
import { restorableEtcd } from '../../support/restorable-etcd.js';

async function read(etcd: CoreKeyspace, key: string, options?: HistoryOptions): Promise<HistoryEntry[]> {
  const entries: HistoryEntry[] = [];
  for await (const entry of history(etcd, key, options)) entries.push(entry);
  return entries;
}

function shown(entries: readonly HistoryEntry[]): string[] {
  return entries.map((entry) => {
    if (entry.type === 'put') return `${entry.kv.text()} at ${entry.revision}`;
    return entry.type === 'delete' ? `deleted at ${entry.revision}` : `${entry.reason} after ${entry.revision}`;
  });
}

/** Creates and deletes a key three times. Returns the entries of its history from the newest to the oldest. */
async function threeLives(etcd: Client, key: string): Promise<string[]> {
  const expected: string[] = [];
  for (const values of [['a', 'b'], ['c'], ['d', 'e', 'f']]) {
    for (const value of values) expected.unshift(`${value} at ${(await etcd.put(key, value)).header.revision}`);
    await etcd.put(`${key}x`, 'another key');
    expected.unshift(`deleted at ${(await etcd.delete(key)).header.revision}`);
  }
  return expected;
}

test('`history` yields all versions and deletions of a key from the newest to the oldest, and then the beginning', async () => {
  const etcd = openClient({ endpoints: (await ownEtcd()).endpoints });
  const lives = await threeLives(etcd, 'k');
  expect(shown(await read(etcd, 'k'))).toEqual([...lives, 'beginning after 0']);
  const { header } = await etcd.put('k', 'g');
  expect(shown(await read(etcd, 'k'))).toEqual([`g at ${header.revision}`, ...lives, 'beginning after 0']);
  expect(shown(await read(etcd, 'k', { limit: 3 }))).toEqual([`g at ${header.revision}`, ...lives.slice(0, 2)]);
  expect(shown(await read(etcd, 'none'))).toEqual(['beginning after 0']);
});

test('`history` shows the lease and the version of each put, and a deletion by the end of a lease', async () => {
  const [etcd, key] = [openClient(), unique()];
  const { id: lease } = await etcd.lease.grant({ ttl: 60 });
  await etcd.put(key, 'one');
  await etcd.put(key, 'two', { lease });
  await etcd.lease.revoke(lease);
  const [deleted, two, one] = await read(etcd, key, { limit: 3 });
  expect([deleted?.type, two?.type, one?.type]).toEqual(['delete', 'put', 'put']);
  expect(two).toMatchObject({ kv: { version: 2n, lease } });
  expect(one).toMatchObject({ kv: { version: 1n, lease: 0n } });
});

test('`history` works in a namespace', async () => {
  const [etcd, name] = [openClient(), unique()];
  await etcd.put(`${name}/k`, 'a');
  const [newest] = await read(etcd.namespace(`${name}/`), 'k', { limit: 1 });
  expect(newest).toMatchObject({ type: 'put', kv: { key: 'k' } });
});

test.each([1, 2, 4, 5, 9])(
  '`history` ends at the compaction, without a gap, when etcd has compacted up to entry %i',
  async (index) => {
    const etcd = openClient({ endpoints: (await ownEtcd()).endpoints });
    const lives = await threeLives(etcd, 'k');
    const revisionOf = (text: string | undefined): bigint => BigInt(text?.split(' ').at(-1) as string);
    const revision = revisionOf(lives[index - 1]);
    await etcd.compact(revision, { physical: true });
    const entries = await read(etcd, 'k');
    const versions = shown(entries.slice(0, -1));
    // The version that exists at the compacted revision remains. A deletion at this revision may be missing.
    const least = lives.filter((text) => revisionOf(text) > revision);
    expect(versions.length).toBeGreaterThanOrEqual(least.length);
    expect(versions).toEqual(lives.slice(0, versions.length));
    const end = entries.at(-1);
    expect(end).toMatchObject({ type: 'end', reason: 'compacted' });
    expect(end?.revision).toBeLessThanOrEqual(revision);
  },
);

test('`history` ends with `compacted`, and without an error, when etcd compacts during the iteration', async () => {
  const etcd = openClient({ endpoints: (await ownEtcd()).endpoints });
  const lives = await threeLives(etcd, 'k');
  const entries: HistoryEntry[] = [];
  for await (const entry of history(etcd, 'k')) {
    entries.push(entry);
    if (entries.length !== 3) continue;
    await etcd.compact((await etcd.put('other', 'x')).header.revision);
  }
  expect(shown(entries)).toEqual([...lives.slice(0, 3), `compacted after ${(entries[2]?.revision as bigint) - 1n}`]);
});

test('`history` finds deletions while a compaction has ended another watch of the client', async () => {
  const etcd = openClient({ endpoints: (await ownEtcd()).endpoints });
  const lives = await threeLives(etcd, 'k');
  await etcd.compact(2n);
  await using other = etcd.watch('other');
  await other.created();
  expect(await errorOf(etcd.watch('k', { startRevision: 1n }).batches().next())).toMatchObject({ reason: 'Compacted' });
  expect(shown(await read(etcd, 'k'))).toEqual([...lives, 'compacted after 1']);
});

test('`history` reads thousands of versions with deletions between them', async () => {
  const etcd = openClient({ endpoints: (await ownEtcd()).endpoints });
  for (let part = 0; part < 30; part += 1) {
    await Promise.all(Array.from({ length: 100 }, (_, index) => etcd.put('k', `${part} ${index}`)));
    if (part % 10 === 9) await etcd.delete('k');
  }
  const [entry] = await read(etcd, 'k', { limit: 1 });
  expect(entry?.type).toBe('delete');
  const all = await read(etcd, 'k');
  expect(all.filter(({ type }) => type === 'put')).toHaveLength(3_000);
  expect(all.filter(({ type }) => type === 'delete')).toHaveLength(3);
  const revisions = all.map(({ revision }) => revision);
  expect(revisions).toEqual(revisions.toSorted((a, b) => Number(b - a)));
});

test('`history` rejects with `ClusterChanged` when the server is restored during the iteration', async () => {
  const server = await restorableEtcd();
  const etcd = openClient({ endpoints: server.endpoints });
  await etcd.put('k', 'old');
  await server.backup();
  for (const value of ['a', 'b', 'c', 'd']) await etcd.put('k', value);
  const entries = history(etcd, 'k', { timeoutMs: 20_000 });
  await entries.next();
  await server.restore();
  expect(await errorOf(entries.next())).toMatchObject({ reason: 'ClusterChanged' });
});

test('`history` ends when its signal aborts and when its time limit passes while no server answers', async () => {
  const { endpoints } = await ownEtcd();
  const { etcd, direct, proxy } = await proxied(endpoints);
  await direct.txn({ then: [op.put('k', 'a')] });
  const stop = new AbortController();
  const [canceled, late] = [history(etcd, 'k', { signal: stop.signal }), history(etcd, 'k', { timeoutMs: 200 })];
  await Promise.all([canceled.next(), late.next()]);
  proxy.blackhole();
  const [first, second] = [errorOf(canceled.next()), errorOf(late.next())];
  stop.abort();
  expect(await first).toMatchObject({ reason: 'Canceled' });
  expect(await second).toMatchObject({ reason: 'DeadlineExceeded' });
  expect(await errorOf(history(etcd, 'k', { signal: stop.signal }).next())).toMatchObject({ reason: 'Canceled' });
});
