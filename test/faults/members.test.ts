import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import { EtcdError } from '../../src/index.js';
import { openClient } from '../support/client.js';
import { FaultyCluster } from '../support/faults/cluster.js';
import { untilGreen } from '../support/faults/green.js';
import { pick } from '../support/faults/rounds.js';
import { faultRow } from '../support/faults/row.js';
import { underLoad } from '../support/faults/under-load.js';

// Members that end and come back (S2, S27, S28, S30).

/** From when there can be a leader again. */
const GREEN_MS = 7_000;

faultRow(
  'leader killed',
  () => FaultyCluster.start(),
  (fixture, round) =>
    underLoad(fixture, round, async () => {
      const leader = await fixture.cluster.leader();
      const etcd = openClient({ endpoints: fixture.endpointsFromMember(leader) });
      await etcd.get('green');
      await leader.kill();
      const recoveryMs = await untilGreen(etcd);
      expect(recoveryMs).toBeLessThan(GREEN_MS);
      await leader.start();
      return { faults: 1, recoveryMs: [recoveryMs] };
    }),
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
      // Bounded errors: each of these ends by itself, and long before its own limit and a second are over.
      while (performance.now() - lostAt < lostMs) {
        const outcome = await Promise.race([
          etcd.put('green', '', { timeoutMs: 300 }).catch((error: unknown) => error),
          pause(5_000, 'hangs'),
        ]);
        expect(outcome).toBeInstanceOf(EtcdError);
      }
      const started = Promise.all(others.map((member) => member.start()));
      const recoveryMs = await untilGreen(etcd);
      expect(recoveryMs).toBeLessThan(GREEN_MS);
      await started;
      return { faults: 2, recoveryMs: [recoveryMs] };
    }),
);

faultRow(
  'rolling restart',
  () => FaultyCluster.start(),
  (fixture, round) =>
    underLoad(fixture, round, async () => {
      const recoveryMs: number[] = [];
      for (const member of fixture.members) {
        const etcd = openClient({ endpoints: fixture.endpointsFromMember(member) });
        await etcd.get('green');
        await member.stop();
        recoveryMs.push(await untilGreen(etcd));
        await member.start();
      }
      expect(Math.max(...recoveryMs)).toBeLessThan(GREEN_MS);
      return { faults: recoveryMs.length, recoveryMs };
    }),
);
