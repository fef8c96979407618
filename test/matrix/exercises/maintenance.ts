import assert from 'node:assert/strict';
import { type ExercisesOf, eventually, freshName } from '../exercise.js';

const DIGEST_BYTES = 32;
const SECTOR_BYTES = 512;

export const maintenance: ExercisesOf<'maintenance'> = {
  alarm: {
    since: '3.0',
    run: async ({ etcd }) => {
      assert.deepEqual((await etcd.maintenance.alarms()).alarms, []);
      const { header } = await etcd.cluster.memberList();
      const disarmed = await etcd.maintenance.disarm({ memberId: header.memberId, alarm: 'noSpace' });
      assert.deepEqual(disarmed.alarms, []);
    },
  },
  status: {
    since: '3.0',
    run: async ({ etcd, endpoints, version, open }) => {
      const all = open({ endpoints });
      const statuses = await Promise.all(endpoints.map((endpoint) => all.maintenance.status(endpoint)));
      const { members } = await etcd.cluster.memberList();
      assert.equal(new Set(statuses.map(({ header }) => header.memberId)).size, endpoints.length);
      for (const status of statuses) {
        assert.equal(status.version, version);
        assert.ok(status.dbSize > 0n);
        assert.ok(members.some(({ id }) => id === status.leader));
      }
    },
  },
  defragment: {
    since: '3.0',
    run: async ({ etcd }) => {
      const [endpoint] = etcd.endpoints as [string];
      await etcd.maintenance.defragment(endpoint);
      const { dbSize, dbSizeInUse } = await etcd.maintenance.status(endpoint);
      assert.ok(dbSizeInUse > 0n && dbSizeInUse <= dbSize);
    },
  },
  hash: {
    since: '3.0',
    run: async ({ etcd }) => {
      const [endpoint] = etcd.endpoints as [string];
      const { hash } = await etcd.maintenance.hash(endpoint);
      assert.ok(Number.isInteger(hash) && hash > 0);
    },
  },
  hashKv: {
    since: '3.3',
    run: async ({ etcd, endpoints, open }) => {
      const all = open({ endpoints });
      const { revision } = (await etcd.put(freshName(), 'x')).header;
      const hashes = await Promise.all(
        // A member that lags behind rejects a revision that it does not have yet. The call is then retried.
        endpoints.map((endpoint) => eventually(() => all.maintenance.hashKV(endpoint, revision))),
      );
      const comparable = hashes.map(({ hash, compactRevision }) => `${hash} since ${compactRevision}`);
      assert.equal(new Set(comparable).size, 1, comparable.join(', '));
    },
  },
  snapshot: {
    since: '3.3',
    run: async ({ etcd }) => {
      const [endpoint] = etcd.endpoints as [string];
      let bytes = 0;
      const size = await etcd.maintenance.snapshot(endpoint).writeTo({
        write: (chunk) => {
          bytes += chunk.length;
        },
      });
      assert.deepEqual([bytes, size % SECTOR_BYTES], [size, DIGEST_BYTES]);
    },
  },
  moveLeader: {
    since: '3.3',
    run: async ({ endpoints, open }) => {
      const all = open({ endpoints });
      const [first] = endpoints as [string];
      const { leader } = await all.maintenance.status(first);
      const { members } = await all.cluster.memberList();
      // The only member of a cluster can transfer leadership only to itself.
      const target = members.find(({ id, isLearner }) => id !== leader && !isLearner)?.id ?? leader;
      await eventually(() => all.maintenance.moveLeader(target));
      for (const endpoint of endpoints) {
        await eventually(async () => assert.equal((await all.maintenance.status(endpoint)).leader, target));
      }
    },
  },
  downgrade: {
    since: '3.5',
    run: async ({ etcd, version }) => {
      const [major = 0, minor = 0] = version.split('.').map(Number);
      const target = `${major}.${minor - 1}`;
      // A new cluster rejects the call until its members have agreed on the cluster version. The call is then retried.
      const answer = await eventually(() => etcd.maintenance.downgrade('validate', target));
      assert.equal(answer.version.split('.').slice(0, 2).join('.'), `${major}.${minor}`);
    },
  },
};
