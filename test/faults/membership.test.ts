import { expect } from 'vitest';
import { type Client, prefix } from '../../src/index.js';
import { Session } from '../../src/locks.js';
import type { EtcdMember } from '../../src/testing/index.js';
import { FaultyCluster } from '../load/cluster.js';
import { putUntilSuccess } from '../load/recovery.js';
import { pick } from '../load/rounds.js';
import { faultRow } from '../load/row.js';
import { openClient } from '../support/client.js';
import { valueText } from '../support/watch-events.js';

/** The interval, in milliseconds, between two reads of the member list by the client (syncs). */
const SYNC_INTERVAL_MS = 500;
/**
 * The number of milliseconds after the sync interval within which the client must learn of a change. Syncs fail during
 * an election, so the client may learn of a change late.
 */
const GRACE_MS = 3_000;

faultRow(
  'members added and removed, and a promoted learner',
  () => FaultyCluster.start(),
  async ({ cluster }, { seed, random }) => {
    const [first] = cluster.members as [EtcdMember];
    const etcd = openClient({ endpoints: [first.endpoint], autoSyncIntervalMs: SYNC_INTERVAL_MS });
    const admin = openClient({ endpoints: cluster.endpoints });
    const watch = etcd.watch(prefix(`m-${seed}/`));
    await watch.created();
    await using session = await Session.open(etcd, { ttl: 5 });
    const recoveryMs: number[] = [];
    const follows = async (endpoints: readonly string[]): Promise<void> => {
      const changedAt = performance.now();
      await expect.poll(() => etcd.endpoints.toSorted(), { interval: 10 }).toEqual(endpoints.toSorted());
      recoveryMs.push(performance.now() - changedAt);
    };
    await follows(cluster.endpoints);
    const learner = await cluster.join({ learner: true });
    const voters = cluster.endpoints.filter((endpoint) => endpoint !== learner.endpoint);
    expect((await etcd.sync()).toSorted()).toEqual(voters.toSorted());
    await promote(admin, learner);
    await follows(cluster.endpoints);
    // The removed member may be the one that the watch and the session use.
    await cluster.remove(
      pick(
        cluster.members.filter((member) => member !== learner),
        random,
      ),
    );
    await follows(cluster.endpoints);
    expect(Math.max(...recoveryMs)).toBeLessThan(SYNC_INTERVAL_MS + GRACE_MS);
    // If the leader was removed, the first put may fail, because the server waits only a few seconds for the election
    // of the next leader.
    await putUntilSuccess(etcd, `m-${seed}`);
    const values = Array.from({ length: 20 }, (_, index) => `${index}`);
    for (const value of values) await etcd.put(`m-${seed}/${value}`, value);
    const seen: string[] = [];
    for await (const event of watch) if (seen.push(valueText(event)) === values.length) break;
    expect(seen).toEqual(values);
    expect(session.valid()).toBe(true);
    return { faults: 3, events: seen.length, puts: values.length, recoveryMs };
  },
);

async function promote({ cluster }: Client, learner: EtcdMember): Promise<void> {
  const { members } = await cluster.memberList();
  const { id } = members.find(({ clientUrls }) => clientUrls.includes(learner.endpoint)) as { id: bigint };
  const isPromoted = async (): Promise<boolean> =>
    cluster.memberPromote(id).then(
      () => true,
      () => false,
    );
  await expect.poll(isPromoted).toBe(true);
}
