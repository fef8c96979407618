import assert from 'node:assert/strict';
import { compare, EtcdError, op, prefix } from '../../../src/index.js';
import { type ExercisesOf, freshName, utf8 } from '../exercise.js';

export const kv: ExercisesOf<'kv'> = {
  range: {
    since: '3.0',
    run: async ({ etcd }) => {
      const name = freshName();
      await etcd.put(`${name}/a`, '1');
      await etcd.put(`${name}/b`, '2');
      const { kvs, count, more } = await etcd.range(prefix(`${name}/`), { limit: 1 });
      assert.deepEqual([kvs.map((found) => found.text()), count, more], [['1'], 2, true]);
    },
  },
  rangeStream: {
    since: '3.7',
    run: async ({ etcd }) => {
      const name = freshName();
      await etcd.put(`${name}/a`, '1');
      await etcd.put(`${name}/b`, '2');
      const range = { key: utf8(`${name}/`), rangeEnd: utf8(`${name}0`) };
      const values: Uint8Array[] = [];
      for await (const { rangeResponse } of etcd.raw.kv.rangeStream(range)) {
        values.push(...(rangeResponse?.kvs ?? []).map(({ value }) => value));
      }
      assert.deepEqual(values, [utf8('1'), utf8('2')]);
    },
  },
  put: {
    since: '3.0',
    run: async ({ etcd }) => {
      const key = freshName();
      const first = await etcd.put(key, '1');
      const { header, prevKv } = await etcd.put(key, '2', { prevKv: true });
      assert.equal(prevKv?.text(), '1');
      assert.ok(header.revision > first.header.revision);
      assert.equal((await etcd.get(key))?.text(), '2');
    },
  },
  deleteRange: {
    since: '3.0',
    run: async ({ etcd }) => {
      const name = freshName();
      await etcd.put(`${name}/a`, '1');
      await etcd.put(`${name}/b`, '2');
      const { deleted, prevKvs } = await etcd.delete(prefix(`${name}/`), { prevKv: true });
      assert.deepEqual([deleted, prevKvs.map((found) => found.text())], [2, ['1', '2']]);
      assert.equal((await etcd.range(prefix(`${name}/`))).count, 0);
    },
  },
  txn: {
    since: '3.0',
    run: async ({ etcd }) => {
      const key = freshName();
      const txn = {
        if: [compare.createRevision(key, '==', 0n)],
        then: [op.put(key, '1')],
        else: [op.get(key)],
      } as const;
      assert.equal((await etcd.txn(txn)).succeeded, true);
      const again = await etcd.txn(txn);
      assert.ok(!again.succeeded);
      assert.equal(again.responses[0]?.text(), '1');
    },
  },
  compact: {
    since: '3.0',
    run: async ({ etcd }) => {
      const key = freshName();
      const before = (await etcd.put(key, '1')).header.revision;
      const { header } = await etcd.put(key, '2');
      await etcd.compact(header.revision, { physical: true });
      assert.equal((await etcd.get(key, { revision: header.revision }))?.text(), '2');
      await assert.rejects(
        etcd.get(key, { revision: before }),
        (error) => error instanceof EtcdError && error.reason === 'Compacted',
      );
    },
  },
};
