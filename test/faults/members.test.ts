import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import { EtcdError, prefix } from '../../src/index.js';
import { FaultyCluster } from '../load/cluster.js';
import { recoveryTime } from '../load/recovery.js';
import { pick } from '../load/rounds.js';
import { faultRow, underLoad } from '../load/row.js';
import { openClient } from '../support/client.js';

// In these tests, members of the cluster are stopped or killed, and start again (rules S2, S27, S28 and S30 in
// docs/semantics.md).

/** The maximum time in milliseconds until a call succeeds, once enough members run to elect a leader. */
const MAX_RECOVERY_MS = 7_000;

faultRow(
  'killed leader',
  () => FaultyCluster.start(),
  (fixture, round) =>
    underLoad(fixture, round, async () => {
      const leader = await fixture.cluster.leader();
      const etcd = openClient({ endpoints: fixture.endpointsFromMember(leader) });
      await etcd.get('probe');
      await leader.kill();
      const recoveryMs = await recoveryTime(etcd);
      expect(recoveryMs).toBeLessThan(MAX_RECOVERY_MS);
      await leader.start();
      return { faults: 1, recoveryMs: [recoveryMs] };
    }),
);

/** The number of leaders that a round kills, and the number of puts in flight at that time. */
const KILLS = 5;
const PUTS = 200;

// Rule S45: with `retryWrites`, a put never rejects merely because the leader is killed, and it is applied once.
faultRow(
  'leader killed under puts with retryWrites',
  () => FaultyCluster.start(),
  async (fixture, { seed, random }) => {
    const name = `retried-${seed}/`;
    for (let kill = 0; kill < KILLS; kill += 1) {
      const leader = await fixture.cluster.leader();
      // The leader is the first endpoint, so that it has received the puts when it is killed.
      const endpoints = fixture.endpointsFromMember(leader);
      const etcd = openClient({ endpoints, balance: 'in-order', retryWrites: true, timeoutMs: 60_000 });
      await etcd.put(`${name}first`, '');
      const putting = Promise.all(
        Array.from({ length: PUTS }, (_, index) => etcd.put(`${name}${index}`, String(kill))),
      );
      putting.catch(() => {});
      await pause(10 * random());
      await leader.kill();
      for (const { header } of await putting) expect(header.revision).toBeGreaterThan(0n);
      await leader.start();
    }
    const { kvs } = await openClient({ endpoints: fixture.endpoints }).range(prefix(name));
    expect(kvs.map(({ version }) => version)).toEqual(Array(PUTS + 1).fill(BigInt(KILLS)));
    return { faults: KILLS, puts: KILLS * PUTS };
  },
);

faultRow(
  'quorum lost for 1 to 10 s',
  () => FaultyCluster.start(),
  (fixture, round) =>
    underLoad(fixture, round, async () => {
      const { members } = fixture;
      const survivor = pick(members, round.random);
      const others = members.filter((member) => member !== survivor);
      const etcd = openClient({ endpoints: fixture.endpointsFromMember(survivor) });
      await Promise.all(others.map((member) => member.kill()));
      const lostAt = performance.now();
      const lostMs = 1_000 * 10 ** round.random();
      // Each put must reject soon after its own time limit of 300 ms.
      while (performance.now() - lostAt < lostMs) {
        const outcome = await Promise.race([
          etcd.put('probe', '', { timeoutMs: 300 }).catch((error: unknown) => error),
          pause(5_000, 'did not end'),
        ]);
        expect(outcome).toBeInstanceOf(EtcdError);
      }
      const started = Promise.all(others.map((member) => member.start()));
      const recoveryMs = await recoveryTime(etcd);
      expect(recoveryMs).toBeLessThan(MAX_RECOVERY_MS);
      await started;
      return { faults: 2, recoveryMs: [recoveryMs] };
    }),
);

faultRow(
  'rolling restart of the members',
  () => FaultyCluster.start(),
  (fixture, round) =>
    underLoad(fixture, round, async () => {
      const recoveryMs: number[] = [];
      for (const member of fixture.members) {
        const etcd = openClient({ endpoints: fixture.endpointsFromMember(member) });
        await etcd.get('probe');
        await member.stop();
        recoveryMs.push(await recoveryTime(etcd));
        await member.start();
      }
      expect(Math.max(...recoveryMs)).toBeLessThan(MAX_RECOVERY_MS);
      return { faults: recoveryMs.length, recoveryMs };
    }),
);
