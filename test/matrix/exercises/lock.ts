import assert from 'node:assert/strict';
import { type ExercisesOf, freshName } from '../exercise.js';

export const lock: ExercisesOf<'lock'> = {
  lock: {
    since: '3.2',
    run: async ({ etcd }) => {
      const [name, { id }] = [freshName('lock'), await etcd.lease.grant({ ttl: 60 })];
      const { key } = await etcd.lockService.lock(name, id, { timeoutMs: 10_000 });
      const found = await etcd.get(key);
      assert.deepEqual([found?.keyText(), found?.lease], [`${name}/${id.toString(16)}`, id]);
      await etcd.lease.revoke(id);
    },
  },
  unlock: {
    since: '3.2',
    run: async ({ etcd }) => {
      const [name, { id }] = [freshName('lock'), await etcd.lease.grant({ ttl: 60 })];
      const { key } = await etcd.lockService.lock(name, id, { timeoutMs: 10_000 });
      await etcd.lockService.unlock(key);
      assert.equal(await etcd.get(key), undefined);
      await etcd.lease.revoke(id);
    },
  },
};
