import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { findEtcd } from '../../../scripts/etcd.js';
import { type Client, prefix } from '../../../src/index.js';
import { Election, Mutex, Session } from '../../../src/locks.js';
import { localVersions } from '../../../src/testing/etcd/find.js';
import { type Listener, listen, MemoryEtcd, type MemoryEtcdOptions } from '../../../src/testing/index.js';
import type { MemoryVersion } from '../../../src/testing/memory/settings.js';
import { openClient } from '../../support/client.js';
import { queueLength } from '../../support/locks.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { testedVersions } from '../../support/thorough.js';
import { lines, type Site, startEtcdctl, transcript } from '../../support/transcripts.js';

// These tests use a `MemoryEtcd` at a port with commands of etcdctl that run for a while, or together with this client.

const available = process.env.ETCD_ENDPOINTS ? [] : await (inject('thorough') ? localVersions() : testedVersions());
const versions = available.filter((version): version is MemoryVersion => version !== '3.4');

interface Served {
  readonly server: MemoryEtcd;
  readonly listener: Listener;
  readonly site: Site;
  readonly etcd: Client;
}

/** Starts a `MemoryEtcd` for one test, and finds the etcdctl of the same version. */
async function served(version: MemoryVersion, options: MemoryEtcdOptions = {}): Promise<Served> {
  const found = await findEtcd({ version, download: false });
  const etcdctl = (found.kind === 'binary' ? found.etcdctl : undefined) ?? 'etcdctl';
  const server = new MemoryEtcd({ version, ...options });
  const listener = await listen(server);
  onTestFinished(() => listener.close());
  const { endpoint } = listener;
  return { server, listener, site: { etcdctl, endpoint }, etcd: openClient({ endpoints: [endpoint] }) };
}

if (versions.length === 0) {
  test('etcdctl shares locks and elections with this client on a MemoryEtcd', (context) =>
    context.skip('the version of etcdctl that belongs to ETCD_ENDPOINTS is not known'));
}

describe.each(versions)('etcdctl %s', (version) => {
  test('waits for a lock that another etcdctl or a Mutex holds, and a Mutex waits for etcdctl', async () => {
    const { site, etcd } = await served(version);
    const first = startEtcdctl(site, 'lock', 'name');
    const [firstKey] = await lines(first, 2);
    const second = startEtcdctl(site, 'lock', 'name');
    await queueLength(etcd, 'name', 2);
    const waiting = new Mutex(await Session.open(etcd), 'name').lock();
    await queueLength(etcd, 'name', 3);
    first.process.kill('SIGINT');
    expect(await first.exited).toBe(0);
    const [secondKey] = await lines(second, 2);
    expect(secondKey).not.toBe(firstKey);
    await queueLength(etcd, 'name', 2);
    const third = startEtcdctl(site, 'lock', 'name', 'echo', 'held');
    await queueLength(etcd, 'name', 3);
    second.process.kill('SIGINT');
    const ours = await waiting;
    await queueLength(etcd, 'name', 2);
    await ours.release();
    expect(await third.rest()).toEqual(['held']);
    expect(await third.exited).toBe(0);
    await queueLength(etcd, 'name', 0);
  });

  test('loses its lock when the lease expires', async () => {
    const { server, site, etcd } = await served(version);
    const holder = startEtcdctl(site, 'lock', 'name', '--ttl=2');
    const [key = ''] = await lines(holder, 2);
    const waiting = new Mutex(await Session.open(etcd), 'name').lock();
    await queueLength(etcd, 'name', 2);
    server.expireLease((await etcd.get(key))?.lease ?? 0n);
    expect((await waiting).valid()).toBe(true);
    expect(await holder.exited).toBe(1);
  });

  test('competes in an election with another etcdctl and an Election, and lists the leaders', async () => {
    const { site, etcd } = await served(version);
    const listening = startEtcdctl(site, 'elect', '--listen', 'name');
    const first = startEtcdctl(site, 'elect', 'name', 'first');
    const [firstKey] = await lines(first, 2);
    const leaders = await lines(listening, 2);
    const second = startEtcdctl(site, 'elect', 'name', 'second');
    await queueLength(etcd, 'name', 2);
    const ours = new Election(await Session.open(etcd), 'name').campaign('ours');
    await queueLength(etcd, 'name', 3);
    first.process.kill('SIGINT');
    const [secondKey] = await lines(second, 2);
    leaders.push(...(await lines(listening, 2)));
    second.process.kill('SIGINT');
    const { key } = await ours;
    leaders.push(...(await lines(listening, 2)));
    expect(leaders).toEqual([firstKey, 'first', secondKey, 'second', key, 'ours']);
  });

  test('prints progress notifications of a watch', async () => {
    const { site } = await served(version, { progressIntervalMs: 50 });
    const watching = startEtcdctl(site, 'watch', 'key', '--progress-notify');
    expect(await lines(watching, 2)).toEqual(['progress notify: 1', 'progress notify: 1']);
  });

  test('continues a watch and keeps a lease alive when the server restarts', async () => {
    const { server, site, etcd } = await served(version);
    const { id } = await etcd.lease.grant({ ttl: 2 });
    const renewing = startEtcdctl(site, 'lease', 'keep-alive', id.toString(16));
    const watching = startEtcdctl(site, 'watch', 'key', '--rev=1');
    await etcd.put('key', 'before', { lease: id });
    expect(await lines(watching, 3)).toEqual(['PUT', 'key', 'before']);
    const renewed = await renewing.line();
    server.stop();
    server.start();
    // A put of the same client could fail, because the client may not know yet that its connection is closed.
    await openClient({ endpoints: [site.endpoint] }).put('key', 'after', { lease: id });
    expect(await lines(watching, 3)).toEqual(['PUT', 'key', 'after']);
    expect(await lines(renewing, 2)).toEqual([renewed, renewed]);
  });

  test('copies keys to another MemoryEtcd and keeps the copy up to date', async () => {
    const [{ site, etcd }, { etcd: copy, listener }] = [await served(version), await served(version)];
    const contents = async (): Promise<Record<string, string>> =>
      Object.fromEntries((await copy.range(prefix(''))).kvs.map((kv) => [kv.key, kv.text()]));
    for (let index = 0; index < 300; index += 1) await etcd.put(`old/${index}`, 'v'.repeat(index));
    await etcd.put('other', '');
    startEtcdctl(site, 'make-mirror', listener.endpoint, '--prefix=old/', '--dest-prefix=new/');
    await expect.poll(async () => Object.keys(await contents()).length).toBe(300);
    await etcd.delete(prefix('old/2'));
    await etcd.put('old/1', 'one');
    await etcd.put('old/last', 'end');
    await expect.poll(contents).toMatchObject({ 'new/last': 'end' });
    const copied = await contents();
    expect(Object.keys(copied)).toHaveLength(300 - 111 + 1);
    expect(copied).toMatchObject({ 'new/1': 'one', 'new/30': 'v'.repeat(30) });
  });

  test('downloads a snapshot from which a MemoryEtcd restores its data', async () => {
    const { server, site, etcd } = await served(version);
    for (let index = 0; index < 30; index += 1) await etcd.put(`key/${index}`, 'v'.repeat(5_000));
    const folder = temporaryFolder();
    const [printed] = await transcript({ ...site, folder }, [['snapshot', 'save', 'backup.db']]);
    expect(printed).toContain('Snapshot saved at backup.db');
    const revision = server.revision;
    await etcd.delete(prefix('key/'));
    server.restore(readFileSync(join(folder, 'backup.db')));
    expect(server.revision).toBe(revision);
    expect((await etcd.range(prefix('key/'))).count).toBe(30);
  });
});
