import { expect, it } from 'vitest';
import { op } from '../../../src/index.js';
import { containing } from '../../../src/testing/index.js';
import { cli } from '../../../test/support/cli.js';
import { openClient, unique } from '../../../test/support/client.js';
import { proxied } from '../../../test/support/locks.js';
import { ownEtcd } from '../../../test/support/own-etcd.js';

const base64 = (text: string): string => Buffer.from(text).toString('base64');

it('etcdwire history prints each version as a line of JSON, and then where the history ends', async () => {
  const { endpoints } = await ownEtcd();
  const etcd = openClient({ endpoints });
  const environment = { ETCDCTL_ENDPOINTS: endpoints.join() };
  const { id: lease } = await etcd.lease.grant({ ttl: 600, id: 0xabcn });
  const { header: one } = await etcd.put('k', 'one', { lease });
  const { header: gone } = await etcd.delete('k');
  const { header: two } = await etcd.put('k', 'two\u001b');
  const lines = async (...args: string[]): Promise<unknown[]> =>
    (await cli(['history', 'k', ...args], { environment })).stdout
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line));
  expect(await lines()).toMatchObject([
    {
      type: 'PUT',
      kv: { key: base64('k'), value: base64('two\u001b'), mod_revision: `${two.revision}`, version: '1' },
    },
    { type: 'DELETE', kv: { key: base64('k'), mod_revision: `${gone.revision}` } },
    { type: 'PUT', kv: { value: base64('one'), mod_revision: `${one.revision}`, lease: String(0xabcn) } },
    { type: 'END', reason: 'beginning', revision: '0' },
  ]);
  const notShown = String(two.revision - 1n);
  expect(await lines('--limit', '1')).toMatchObject([
    { type: 'PUT' },
    { type: 'END', reason: 'limit', revision: notShown },
  ]);
  expect(await lines('--limit', '4')).toMatchObject([{}, {}, {}, { type: 'END', reason: 'beginning' }]);
  const shown = (format: string, ...args: string[]) => cli(['history', 'k', '-w', format, ...args], { environment });
  expect((await shown('table', '--limit', '1')).stdout).toMatch(
    new RegExp(`^changes up to revision ${notShown} are not shown, because of --limit\n$`, 'm'),
  );
  expect((await shown('simple', '--limit', '1')).stdout).toMatch(new RegExp(`^end, limit, ${notShown}\n$`, 'm'));
  expect((await shown('simple')).stdout).toBe(
    `${two.revision}, put, 1, , two\\u001b\n${gone.revision}, delete, , , \n` +
      `${one.revision}, put, 1, 0000000000000abc, one\nend, beginning, 0\n`,
  );
  await etcd.compact(two.revision);
  const { code, stdout } = await shown('table');
  expect({ code, stdout }).toEqual({
    code: 0,
    stdout:
      'REVISION  CHANGE  VERSION  LEASE             VALUE\n' +
      `${String(two.revision).padStart(8)}  put           1                    two\\u001b\n` +
      `the changes up to revision ${two.revision - 1n} are compacted, so they are not shown\n`,
  });
});

it('etcdwire history --restore puts an earlier value again, keeps the lease, and refuses a revision without the key', async () => {
  const [etcd, key] = [openClient(), unique()];
  const { id: lease } = await etcd.lease.grant({ ttl: 600 });
  const { header: before } = await etcd.put(`${key}-other`, '');
  const value = Uint8Array.of(0, 255, 10);
  const { header: first } = await etcd.put(key, value);
  const { header: second } = await etcd.put(key, 'two', { lease });
  const restore = (revision: bigint | string, ...args: string[]) =>
    cli(['history', key, '--restore', `${revision}`, ...args]);
  expect(await restore(second.revision)).toMatchObject({
    code: 0,
    stdout: `{"restored":false,"mod_revision":"${second.revision}"}\n`,
  });
  expect((await restore(second.revision, '-w', 'simple')).stdout).toBe(
    `the key has not been changed since revision ${second.revision}; nothing was written\n`,
  );
  const { code, stdout } = await restore(first.revision);
  expect(code).toBe(0);
  const restored = await etcd.get(key);
  expect(JSON.parse(stdout)).toEqual({
    restored: true,
    mod_revision: `${first.revision}`,
    revision: `${restored?.modRevision}`,
  });
  expect(restored).toMatchObject({ value, lease, version: 3n });
  expect(await restore(before.revision)).toMatchObject({
    code: 1,
    stderr: `etcdwire: the key did not exist at revision ${before.revision}; nothing was written (etcdwire del deletes a key)\n`,
  });
  await etcd.delete(key);
  expect((await restore(second.revision)).code).toBe(0);
  expect(await etcd.get(key)).toMatchObject({ lease: 0n, version: 1n });
  expect(await restore(2n ** 62n)).toMatchObject({ code: 1 });
  expect(await restore('0')).toMatchObject({ code: 64 });
  expect(await restore('5', '--limit', '1')).toMatchObject({ code: 64 });
});

it('etcdwire history --restore does not overwrite a change that another client makes at the same time', async () => {
  const { direct, proxy } = await proxied();
  const [key, old] = [unique(), unique('old')];
  const { header } = await direct.put(key, old);
  await direct.put(key, 'present');
  const holding = proxy.holdNextRequest(containing(old));
  const restoring = cli(['history', key, '--restore', `${header.revision}`], {
    environment: { ETCDCTL_ENDPOINTS: proxy.endpoint },
  });
  const forward = await holding;
  expect(await restoring).toMatchObject({ code: 74 });
  await direct.put(key, 'changed');
  forward();
  // While the server answers this transaction, the delayed transaction reaches the server, too.
  await direct.txn({ then: [op.put(`${key}-other`, '')] });
  expect((await direct.get(key))?.text()).toBe('changed');
});
