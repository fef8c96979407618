import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import { type ClientOptions, op } from '../../src/index.js';
import { Mutex, Session } from '../../src/locks.js';
import type { EtcdCluster } from '../../src/testing/index.js';
import { FaultyCluster } from '../load/cluster.js';
import { moveLeader, pauseLeader, replaceMember, restartEach } from '../load/cluster-faults.js';
import { Crowd } from '../load/crowd.js';
import { between, branchOf, type Round, variant } from '../load/rounds.js';
import { type Figures, faultRow } from '../load/row.js';
import { openClient } from '../support/client.js';

// A cluster changes while 50 locks and 50 watches are open (rules S2, S4, S13, S14 and S16 in docs/semantics.md).

/** TTL of the locks' leases in seconds. It is much longer than an election or a restart, so no lock may be lost. */
const LONG_TTL = 10;
/** TTL in seconds for the test that pauses the leader for longer than the TTL. It is small to keep the test short. */
const SHORT_TTL = 3;
const SYNC_INTERVAL_MS = 500;
/**
 * The maximum time in milliseconds from the acquisition of a lock to the revocation of its lease. The holder begins to
 * watch its own key after 10 ms, so some revocations happen before the watch starts and some after.
 */
const MAX_REVOKED_AFTER_MS = 300;
/** The number of leases that one run of the test revokes. */
const REVOCATIONS = 10;

faultRow(
  'restart of each member under 50 locks and 50 watches',
  () => FaultyCluster.start(),
  (fixture, round) => underCrowd(fixture, round, restartEach),
);

faultRow(
  'move of the leader under 50 locks and 50 watches',
  () => FaultyCluster.start(),
  (fixture, round) => underCrowd(fixture, round, moveLeader),
);

faultRow(
  'replacement of a member under 50 locks and 50 watches',
  () => FaultyCluster.start(),
  (fixture, round) => {
    const removes = variant(['leader', 'follower'] as const, round);
    const client = { autoSyncIntervalMs: SYNC_INTERVAL_MS };
    return underCrowd(fixture, round, (cluster) => replaceMember(cluster, removes), client);
  },
);

// A leader that resumes after a pause revokes leases that the new leader has renewed in the meantime (see
// docs/faults.md). So etcd may delete the queue key of any holder, at once or 7 s later, and the test does not count
// such a loss of a lock as a violation. The code of these functions is the same in etcd 3.5.33, 3.6.14 and 3.7.1:
//
// - `EtcdServer.revokeExpiredLeases` (server/etcdserver/server.go) calls `ensureLeadership`, which asks the quorum only
//   if raft's last tick is older than three tick intervals. A resumed process ticks at once, so it does not ask.
// - The server proposes up to 16 revocations (`maxPendingRevokes`) at a time. Those that raft accepts while the member
//   still acts as the leader are lost, and end after 7 s. Those that it proposes after it has stepped down are forwarded
//   to the new leader, which commits them. Whether the lessor or raft wakes up first is a matter of chance, so in most
//   runs with 50 leases, etcd revokes nearly all of them at once, or 34 after 7 s, or none.
// - A resumed leader also answers renewals that waited in its sockets, with the term from before the pause. The client
//   cannot recognize such an answer by its term: a follower fills in the header before it forwards a renewal
//   (`leaseKeepAlive` in server/etcdserver/api/v3rpc/lease.go), and terms start over after a restore. The next renewal
//   corrects the deadline.
faultRow(
  'leader paused for longer than the TTL under 50 locks and 50 watches',
  () => FaultyCluster.start(),
  async (fixture, { seed, random }) => {
    const options = { name: `c-${seed}`, random: branchOf(random), ttl: SHORT_TTL };
    await using crowd = await Crowd.start(fixture, options);
    const faults = await pauseLeader(fixture.cluster, between(1.2, 1.8, random) * SHORT_TTL * 1_000);
    const { violations, events, puts, ...figures } = await crowd.verify();
    expect(violations).toEqual([]);
    return { faults, events, puts, further: furtherOf(figures) };
  },
);

// Revokes a holder's lease, as a leader that resumes after a pause does, before or after the holder begins to watch its
// own key. Therefore either the next holder or the former holder may be the first to learn of the revocation.
faultRow(
  'lease of the holder revoked while another contender waits',
  () => FaultyCluster.start({ members: 1 }),
  async ({ endpoints }, { seed, random }) => {
    const [ours, others, admin] = [openClient({ endpoints }), openClient({ endpoints }), openClient({ endpoints })];
    let stillValid = 0;
    for (let index = 0; index < REVOCATIONS; index += 1) {
      const [name, guarded] = [`r-${seed}/lock/${index}`, `r-${seed}/value/${index}`];
      const [session, next] = [await Session.open(ours), await Session.open(others)];
      const held = await new Mutex(session, name).lock();
      const waiting = new Mutex(next, name).lock();
      await pause(between(0, MAX_REVOKED_AFTER_MS, random));
      await admin.lease.revoke(session.leaseId);
      const newer = await waiting;
      if (held.valid()) stillValid += 1;
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
    return {
      faults: REVOCATIONS,
      puts: 2 * REVOCATIONS,
      further: { 'former holders that still found their lock valid': stillValid },
    };
  },
);

/**
 * Injects faults while 50 locks are held and 50 watches are open. Expects that no lock is lost, that no watch loses,
 * repeats or reorders an event or delivers the events of one revision in two batches, and that etcd applies no put
 * twice.
 */
async function underCrowd(
  fixture: FaultyCluster,
  { seed, random }: Round,
  injectFaults: (cluster: EtcdCluster) => Promise<number>,
  client?: Partial<ClientOptions>,
): Promise<Figures> {
  const options = { name: `c-${seed}`, random: branchOf(random), ttl: LONG_TTL, client };
  await using crowd = await Crowd.start(fixture, options);
  const faults = await injectFaults(fixture.cluster);
  const { violations, events, puts, ...figures } = await crowd.verify();
  expect(violations).toEqual([]);
  expect(figures.taken).toBe(0);
  return { faults, events, puts, further: furtherOf(figures) };
}

function furtherOf({ holds, taken, overlapMs }: { holds: number; taken: number; overlapMs: number }) {
  return {
    'holds of 50 locks': holds,
    'locks that etcd took': taken,
    'ms with two valid locks': Math.max(0, overlapMs),
  };
}
