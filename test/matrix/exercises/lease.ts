import assert from 'node:assert/strict';
import { type ExercisesOf, eventually, freshName } from '../exercise.js';

export const lease: ExercisesOf<'lease'> = {
  leaseGrant: {
    since: '3.0',
    run: async ({ etcd }) => {
      const { id, ttl } = await etcd.lease.grant({ ttl: 60 });
      assert.equal(ttl, 60);
      const key = freshName();
      await etcd.put(key, 'x', { lease: id });
      assert.equal((await etcd.get(key))?.lease, id);
      await etcd.lease.revoke(id);
    },
  },
  leaseRevoke: {
    since: '3.0',
    run: async ({ etcd }) => {
      const { id } = await etcd.lease.grant({ ttl: 60 });
      const key = freshName();
      await etcd.put(key, 'x', { lease: id });
      await etcd.lease.revoke(id);
      assert.equal(await etcd.get(key), undefined);
    },
  },
  leaseKeepAlive: {
    since: '3.0',
    run: async ({ etcd }) => {
      const { id } = await etcd.lease.grant({ ttl: 60 });
      const kept = etcd.lease.keepAlive(id);
      // A keepalive that is given only a lease ID is valid only after its first renewal.
      await eventually(() => assert.ok(kept.valid(), 'no renewal was acknowledged'));
      assert.equal(kept.ttl, 60);
      await kept.close();
      await etcd.lease.revoke(id);
    },
  },
  leaseTimeToLive: {
    since: '3.1',
    run: async ({ etcd }) => {
      const { id } = await etcd.lease.grant({ ttl: 60 });
      const key = freshName();
      await etcd.put(key, 'x', { lease: id });
      const { grantedTtl, remainingTtl = 0, keys } = await etcd.lease.timeToLive(id, { keys: true });
      assert.ok(remainingTtl > 0 && remainingTtl <= 60, `remaining ${remainingTtl}`);
      assert.deepEqual([grantedTtl, keys], [60, [key]]);
      await etcd.lease.revoke(id);
      assert.equal((await etcd.lease.timeToLive(id)).remainingTtl, undefined);
    },
  },
  leaseLeases: {
    since: '3.3',
    run: async ({ etcd }) => {
      const { id } = await etcd.lease.grant({ ttl: 60 });
      assert.ok((await etcd.lease.list()).ids.includes(id));
      await etcd.lease.revoke(id);
      assert.ok(!(await etcd.lease.list()).ids.includes(id));
    },
  },
};
