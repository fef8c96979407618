import assert from 'node:assert/strict';
import { type ExercisesOf, freshName, utf8 } from '../exercise.js';

export const lock: ExercisesOf<'lock'> = {
  lock: {
    since: '3.2',
    run: async ({ etcd }) => {
      const [name, { id }] = [freshName('lock'), await etcd.lease.grant({ ttl: 60 })];
      const { key } = await etcd.raw.lock.lock({ name: utf8(name), lease: id }, { timeoutMs: 10_000 });
      const found = await etcd.get(key);
      assert.deepEqual([found?.key, found?.lease], [`${name}/${id.toString(16)}`, id]);
      await etcd.lease.revoke(id);
    },
  },
  unlock: {
    since: '3.2',
    run: async ({ etcd }) => {
      const [name, { id }] = [freshName('lock'), await etcd.lease.grant({ ttl: 60 })];
      const { key } = await etcd.raw.lock.lock({ name: utf8(name), lease: id }, { timeoutMs: 10_000 });
      await etcd.raw.lock.unlock({ key });
      assert.equal(await etcd.get(key), undefined);
      await etcd.lease.revoke(id);
    },
  },
};
