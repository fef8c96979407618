import { describe, expect, test } from 'vitest';
import type { Client } from '../../../src/index.js';
import { openClient } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { ownEtcd } from '../../support/own-etcd.js';

describe('`moveLeader`', () => {
  test('finds the leader whatever the order of the endpoints, even if one endpoint is down', async () => {
    const { endpoints } = await ownEtcd({ members: 3 });
    const dead = 'http://127.0.0.1:1';
    for (let turn = 0; turn < endpoints.length; turn += 1) {
      const rotated = [...endpoints.slice(turn), ...endpoints.slice(0, turn)];
      const etcd = openClient({ endpoints: [dead, ...rotated] });
      const { leader, follower } = await roles(etcd, endpoints);
      await etcd.maintenance.moveLeader(follower.id);
      for (const endpoint of endpoints) {
        await expect.poll(async () => (await etcd.maintenance.status(endpoint)).leader).toBe(follower.id);
      }
      expect(follower.id).not.toBe(leader.id);
    }
  });

  test('rejects with NotLeader when the client has no endpoint of the leader, or when the call names the endpoint of a follower', async () => {
    const { endpoints } = await ownEtcd({ members: 3 });
    const all = openClient({ endpoints });
    const { leader, follower } = await roles(all, endpoints);
    const followers = openClient({ endpoints: endpoints.filter((endpoint) => endpoint !== leader.endpoint) });
    const error = await errorOf(followers.maintenance.moveLeader(follower.id));
    expect(error).toMatchObject({ reason: 'NotLeader', code: 'FailedPrecondition', outcome: 'not-sent' });
    expect(error.message).toContain(follower.endpoint);
    expect(await errorOf(all.maintenance.moveLeader(leader.id, { endpoint: follower.endpoint }))).toMatchObject({
      reason: 'NotLeader',
      outcome: 'rejected',
    });
    expect((await all.maintenance.status(follower.endpoint)).leader).toBe(leader.id);
  });

  test('rejects a target that is not a member', async () => {
    const { endpoints } = await ownEtcd();
    const { maintenance } = openClient({ endpoints });
    expect(await errorOf(maintenance.moveLeader(1n))).toMatchObject({
      reason: 'BadLeaderTransferee',
      outcome: 'rejected',
    });
    expect(await errorOf(maintenance.moveLeader(-1n))).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  });
});

interface Known {
  readonly id: bigint;
  readonly endpoint: string;
}

/** Returns the leader and one of the followers. */
async function roles(etcd: Client, endpoints: readonly string[]): Promise<{ leader: Known; follower: Known }> {
  const known = await Promise.all(
    endpoints.map(async (endpoint) => {
      const { header, leader } = await etcd.maintenance.status(endpoint);
      return { id: header.memberId, endpoint, leads: header.memberId === leader };
    }),
  );
  const [leader, follower] = [known.find(({ leads }) => leads), known.find(({ leads }) => !leads)];
  if (leader === undefined || follower === undefined) throw new Error('the cluster has no leader or no follower');
  return { leader, follower };
}
