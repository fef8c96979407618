import { op } from '../../../../../src/index.js';
import { DATA, END_HEADERS, encodeFrame, HEADERS } from '../../../course/02-frames.js';
import { encodeHeaders } from '../../../course/03-headers.js';
import { encode } from '../../../course/04-protobuf.js';
import { startProxy } from '../../../course/cut-proxy.js';
import { assertRejects, assertResult, checks, collected, grpcServer, newName, PROGRAM } from '../check.js';

type Chapter = typeof import('../../../course/07-watch.js') & typeof import('../../../course/answers/07-watch.js');

type Batches = AsyncIterable<readonly { readonly type: string; readonly key: string; readonly value: string }[]>;

/** Reads `count` changes. Resolves with a text such as `/a=1 /b=2 | /c=3`, in which `|` separates the arrays. */
async function changesOf(batches: Batches, name: string, count: number): Promise<string> {
  const texts: string[] = [];
  let left = count;
  for await (const batch of batches) {
    texts.push(batch.map(({ key, value }) => `${key.slice(name.length)}=${value}`).join(' '));
    left -= batch.length;
    if (left <= 0) break;
  }
  return texts.join(' | ');
}

export const WATCH = checks<Chapter>((check) => {
  check(
    'watch',
    PROGRAM,
    'yields each change once, in order, although connections are lost',
    async ({ watch }, { address, etcd }) => {
      const proxy = await startProxy(address);
      const key = newName();
      const { header } = await etcd.put(key, '0');
      // Each put waits for the event of the one before, so the watch is in the middle of the changes when it is cut.
      const values = async () => {
        const got: string[] = [];
        for await (const { value } of watch(proxy.address, key, header.revision)) {
          got.push(value);
          if (got.length === 30) break;
          if (got.length % 10 === 0) proxy.cut();
          await etcd.put(key, `${got.length}`);
        }
        return got.join(' ');
      };
      const expected = Array.from({ length: 30 }, (_, value) => `${value}`).join(' ');
      await assertResult('the values of 30 puts, with two lost connections', values, expected);
      proxy.close();
    },
  );
  check('watch', PROGRAM, 'tells a deletion from a put', async ({ watch }, { address, etcd }) => {
    const key = newName();
    const { header } = await etcd.put(key, '0');
    await etcd.delete(key);
    const types = async () => (await collected(watch(address, key, header.revision), 2)).map(({ type }) => type);
    await assertResult('the types of the events of a put and a deletion', types, ['put', 'delete']);
  });
  check(
    'watchPrefix',
    1,
    'yields the changes of a transaction together',
    async ({ watchPrefix }, { address, etcd }) => {
      const name = newName();
      const { header } = await etcd.txn({ then: [op.put(`${name}/a`, '1'), op.put(`${name}/b`, '2')] });
      const changes = () => changesOf(watchPrefix(address, `${name}/`, header.revision), name, 2);
      await assertResult('the arrays of a transaction with two puts ("|" separates arrays)', changes, '/a=1 /b=2');
    },
  );
  check(
    'watchPrefix',
    1,
    'yields the changes of all keys with the prefix, and of no other key',
    async ({ watchPrefix }, server) => {
      const { address, etcd } = server;
      const name = newName();
      const { header } = await etcd.put(`${name}-a`, '1');
      await etcd.put(`${name}.b`, '2');
      await etcd.put(`${name}-\u00e9`, '3');
      const changes = async () => {
        const text = await changesOf(watchPrefix(address, `${name}-`, header.revision), name, 2);
        return text.replace(' | ', ' ');
      };
      const what =
        "the changes of the keys with a prefix that ends with '-' ('-', '.' and '0' are in this order in ASCII)";
      await assertResult(what, changes, '-a=1 -\u00e9=3');
    },
  );
  check(
    'watchPrefix',
    1,
    'yields each change once, although the connection is lost',
    async ({ watchPrefix }, server) => {
      const { address, etcd } = server;
      const name = newName();
      const proxy = await startProxy(address);
      const { header } = await etcd.put(`${name}/a`, '1');
      const batches = watchPrefix(proxy.address, `${name}/`, header.revision);
      const withCuts = (async function* () {
        for await (const batch of batches) {
          yield batch;
          proxy.cut();
          await etcd.put(`${name}/a`, `${Number(batch.at(-1)?.value) + 1}`);
        }
      })();
      await assertResult(
        'the changes of three puts, with a lost connection after each',
        () => changesOf(withCuts, name, 3),
        '/a=1 | /a=2 | /a=3',
      );
      proxy.close();
    },
  );
  check('watchPrefix', 2, 'yields the values before the changes', async ({ watchPrefix }, { address, etcd }) => {
    const name = newName();
    const { header } = await etcd.put(`${name}/a`, '1');
    await etcd.put(`${name}/a`, '2');
    await etcd.delete(`${name}/a`);
    const seen = async () => {
      const all: string[] = [];
      for await (const batch of watchPrefix(address, `${name}/`, header.revision)) {
        all.push(...batch.map(({ type, previous }) => `${type}, previous ${JSON.stringify(previous)}`));
        if (all.length >= 3) break;
      }
      return all;
    };
    const expected = ['put, previous ""', 'put, previous "1"', 'delete, previous "2"'];
    await assertResult('the events of two puts and a deletion', seen, expected);
  });
  check('watchPrefix', 3, 'rejects with the revision of the compaction', async ({ watchPrefix }, { address, etcd }) => {
    const name = newName();
    const { header } = await etcd.put(`${name}/a`, '1');
    await etcd.put(`${name}/a`, '2');
    await etcd.compact(header.revision + 1n);
    const next = () => watchPrefix(address, `${name}/`, header.revision).next();
    await assertRejects('watchPrefix from a compacted revision', next, { compactRevision: header.revision + 1n });
  });
  check('watchPrefix', 3, 'also rejects when etcd cancels the watch for another reason', async ({ watchPrefix }) => {
    // Fields 3 and 4: the watch is created, and canceled at once.
    const response = encode({ 3: 1, 4: 1, 6: 'permission denied' });
    await using server = await grpcServer((stream) => [
      encodeFrame(HEADERS, END_HEADERS, stream, encodeHeaders({ ':status': '200' })),
      encodeFrame(DATA, 0, stream, Buffer.concat([Buffer.of(0, 0, 0, 0, response.length), response])),
    ]);
    const next = () => watchPrefix(server.address, 'learn/', 1n).next();
    await assertRejects('watchPrefix, whose watch the server cancels with "permission denied"', next);
  });
});
