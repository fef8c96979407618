import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import { Mutex, Session } from '../../src/concurrency/index.js';
import { type ClientOptions, op } from '../../src/index.js';
import type { EtcdCluster } from '../../src/testing/index.js';
import { openClient } from '../support/client.js';
import { FaultyCluster } from '../support/faults/cluster.js';
import { moveLeader, pauseLeader, replaceMember, restartEach } from '../support/faults/cluster-faults.js';
import { Crowd } from '../support/faults/crowd.js';
import { between, branchOf, type Round, variant } from '../support/faults/rounds.js';
import { type Figures, faultRow } from '../support/faults/row.js';

// Clusters that change under 50 locks and 50 watches (S2, S4, S13, S14, S16).

/** Seconds: far above an election and a restart, so that no lock may be lost. */
const LONG_TTL = 10;
/** Seconds: so short that a round in which a leader is paused for longer takes no minute. */
const SHORT_TTL = 3;
const SYNC_INTERVAL_MS = 500;
/** Of the rounds in which a lease is revoked: from the grant to the revocation. The holder's own watch begins at 100 ms. */
const REVOKED_AFTER_MS = 300;
const REVOCATIONS = 10;

faultRow(
  'members restarted one by one, under 50 locks and 50 watches',
  () => FaultyCluster.start(),
  (fixture, round) => underCrowd(fixture, round, restartEach),
);

faultRow(
  'leader moved, under 50 locks and 50 watches',
  () => FaultyCluster.start(),
  (fixture, round) => underCrowd(fixture, round, moveLeader),
);

faultRow(
  'member added and another removed, under 50 locks and 50 watches',
  () => FaultyCluster.start(),
  (fixture, round) => {
    const leaves = variant(['leader', 'follower'] as const, round);
    const client = { autoSyncIntervalMs: SYNC_INTERVAL_MS };
    return underCrowd(fixture, round, (cluster) => replaceMember(cluster, leaves), client);
  },
);

// A leader that is resumed revokes leases that another has renewed since: docs/faults.md says why. Which locks etcd takes,
// and whether at once or 7 s later, is chance.
faultRow(
  'leader paused for longer than the TTL, under 50 locks and 50 watches',
  () => FaultyCluster.start(),
  async (fixture, { seed, random }) => {
    const options = { name: `c-${seed}`, random: branchOf(random), ttl: SHORT_TTL };
    await using crowd = await Crowd.start(fixture, options);
    const faults = await pauseLeader(fixture.cluster, between(1.2, 1.8, random) * SHORT_TTL * 1_000);
    const { violations, events, puts, ...figures } = await crowd.judge();
    expect(violations).toEqual([]);
    return { faults, events, puts, further: furtherOf(figures) };
  },
);

// What the resumed leader does, done on purpose: at any time after the grant, before and after the holder's own watch
// begins, so that the next holder hears of it before the holder itself, and after.
faultRow(
  'lease revoked under its holder while the next one waits',
  () => FaultyCluster.start({ members: 1 }),
  async ({ endpoints }, { seed, random }) => {
    const [ours, others, admin] = [openClient({ endpoints }), openClient({ endpoints }), openClient({ endpoints })];
    let unheard = 0;
    for (let index = 0; index < REVOCATIONS; index += 1) {
      const [name, guarded] = [`r-${seed}/lock/${index}`, `r-${seed}/value/${index}`];
      const [session, next] = [await Session.open(ours), await Session.open(others)];
      const held = await new Mutex(session, name).lock();
      const waiting = new Mutex(next, name).lock();
      await pause(between(0, REVOKED_AFTER_MS, random));
      await admin.lease.revoke(session.leaseId);
      const newer = await waiting;
      if (held.valid()) unheard += 1;
      const [stale, fresh] = [`${held.token}`, `${newer.token}`];
      await newer.txn({ then: [op.put(guarded, fresh)] });
      await expect(held.txn({ then: [op.put(guarded, stale)] })).rejects.toMatchObject({
        reason: 'LockLost',
        outcome: 'rejected',
      });
      expect([held.valid(), held.signal.aborted, newer.valid()]).toEqual([false, true, true]);
      expect((await admin.get(guarded))?.text()).toBe(fresh);
      expect((await admin.get(guarded))?.version).toBe(1n);
      await newer.release();
    }
    return { faults: REVOCATIONS, puts: 2 * REVOCATIONS, further: { 'holders that had not heard of it': unheard } };
  },
);

/** Expects that no lock is lost, no event of any watch is lost, repeated, reordered or torn, and no put done twice. */
async function underCrowd(
  fixture: FaultyCluster,
  { seed, random }: Round,
  makeFaults: (cluster: EtcdCluster) => Promise<number>,
  client?: Partial<ClientOptions>,
): Promise<Figures> {
  const options = { name: `c-${seed}`, random: branchOf(random), ttl: LONG_TTL, client };
  await using crowd = await Crowd.start(fixture, options);
  const faults = await makeFaults(fixture.cluster);
  const { violations, events, puts, ...figures } = await crowd.judge();
  expect(violations).toEqual([]);
  expect(figures.taken).toBe(0);
  return { faults, events, puts, further: furtherOf(figures) };
}

function furtherOf({ holds, taken, overlapMs }: { holds: number; taken: number; overlapMs: number }) {
  return {
    'holds of 50 locks': holds,
    'locks that etcd took': taken,
    'ms that two were valid': Math.max(0, overlapMs),
  };
}
