import assert from 'node:assert/strict';
import { op } from '../../../../../src/index.js';
import { encode } from '../../../course/04-protobuf.js';
import { startProxy } from '../../../course/cut-proxy.js';
import { assertRejects, checks, grpcServer, newName, PROGRAM } from '../check.js';

type Chapter = typeof import('../../../course/07-watch.js') & typeof import('../../../course/answers/07-watch.js');

export const WATCH = checks<Chapter>((check) => {
  check(
    'watch',
    PROGRAM,
    'yields each change once, in order, although connections are lost',
    async ({ watch }, { address, etcd }) => {
      const proxy = await startProxy(address);
      const key = newName();
      const { header } = await etcd.put(key, '0');
      const values: string[] = [];
      const writing = (async () => {
        for (let value = 1; value < 30; value += 1) {
          await etcd.put(key, `${value}`);
          if (value % 10 === 0) proxy.cut();
        }
        await etcd.delete(key);
      })();
      for await (const event of watch(proxy.address, key, header.revision)) {
        if (event.type === 'delete') break;
        values.push(event.value);
      }
      await writing;
      proxy.close();
      assert.deepEqual(
        values,
        Array.from({ length: 30 }, (_, value) => `${value}`),
      );
    },
  );
  check(
    'watchPrefix',
    1,
    'yields the changes of a transaction together',
    async ({ watchPrefix }, { address, etcd }) => {
      const name = newName();
      const { header } = await etcd.txn({ then: [op.put(`${name}/a`, '1'), op.put(`${name}/b`, '2')] });
      await etcd.put(`${name}/c`, '3');
      const batches: { readonly key: string; readonly value: string }[][] = [];
      for await (const batch of watchPrefix(address, `${name}/`, header.revision))
        if (batches.push(batch) && batches.flat().length === 3) break;
      const changes = batches.map((batch) => batch.map(({ key, value }) => `${key.slice(name.length)}=${value}`));
      assert.deepEqual(changes.flat(), ['/a=1', '/b=2', '/c=3']);
      assert.ok((changes[0]?.length ?? 0) >= 2, 'the first array does not contain both changes of the transaction');
    },
  );
  check('watchPrefix', 2, 'yields the values before the changes', async ({ watchPrefix }, { address, etcd }) => {
    const name = newName();
    const { header } = await etcd.put(`${name}/a`, '1');
    await etcd.put(`${name}/a`, '2');
    await etcd.delete(`${name}/a`);
    const events = watchPrefix(address, `${name}/`, header.revision + 1n);
    const seen: string[] = [];
    for await (const batch of events) {
      seen.push(...batch.map(({ type, previous }) => `${type} after ${previous}`));
      if (seen.length === 2) break;
    }
    assert.deepEqual(seen, ['put after 1', 'delete after 2']);
  });
  check('watchPrefix', 3, 'rejects with the revision of the compaction', async ({ watchPrefix }, { address, etcd }) => {
    const name = newName();
    const { header } = await etcd.put(`${name}/a`, '1');
    await etcd.put(`${name}/a`, '2');
    await etcd.compact(header.revision + 1n);
    const next = watchPrefix(address, `${name}/`, header.revision).next();
    await assertRejects('a watch of compacted revisions', next, { compactRevision: header.revision + 1n });
  });
  check('watchPrefix', 3, 'also rejects when etcd cancels the watch for another reason', async ({ watchPrefix }) => {
    // Fields 3 and 4: the watch is created, and canceled at once.
    const response = encode({ 3: 1, 4: 1, 6: 'permission denied' });
    await using server = await grpcServer((stream) => {
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' });
      stream.write(Buffer.concat([Buffer.of(0, 0, 0, 0, response.length), response]));
    });
    await assertRejects('a canceled watch', watchPrefix(server.address, 'learn/', 1n).next());
  });
});
