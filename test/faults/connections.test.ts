import { setTimeout as pause } from 'node:timers/promises';
import { FaultyCluster } from '../load/cluster.js';
import { recoveryTime } from '../load/recovery.js';
import { between, pick } from '../load/rounds.js';
import { faultRow, underLoad } from '../load/row.js';
import { openClient } from '../support/client.js';

// In these tests, connections break, deliver data in small pieces, or deliver data late (rules S2, S4, S5, S27 and S28
// in docs/semantics.md).

const BREAKS = 30;
const RESET_INTERVAL_MS = 5;
/** The time in milliseconds for which the test keeps resetting connections. */
const RESETS_MS = 1_500;

faultRow(
  'connections that drop, reset or go silent',
  () => FaultyCluster.start(),
  (fixture, round) =>
    underLoad(fixture, round, async () => {
      const { random } = round;
      for (let made = 0; made < BREAKS; made += 1) {
        const proxy = pick(fixture.proxies, random);
        const verb = pick(['dropConnections', 'reset', 'to-server', 'to-client', 'blackhole'] as const, random);
        if (verb === 'to-server' || verb === 'to-client') proxy.oneWay(verb);
        else proxy[verb]();
        await pause(between(0, 100, random));
        proxy.heal();
      }
      const recoveryMs = await recoveryTime(openClient({ endpoints: fixture.proxied }));
      return { faults: BREAKS, recoveryMs: [recoveryMs] };
    }),
);

faultRow(
  'connection resets every 5 ms',
  () => FaultyCluster.start(),
  (fixture, round) =>
    underLoad(fixture, round, async () => {
      const endAt = performance.now() + RESETS_MS;
      let faults = 0;
      for (; performance.now() < endAt; faults += 1) {
        for (const proxy of fixture.proxies) proxy.reset();
        await pause(RESET_INTERVAL_MS);
      }
      const recoveryMs = await recoveryTime(openClient({ endpoints: fixture.proxied }));
      return { faults, recoveryMs: [recoveryMs] };
    }),
);

faultRow(
  'data in pieces of one byte',
  () => FaultyCluster.start(),
  (fixture, round) =>
    underLoad(fixture, round, async () => {
      for (const proxy of fixture.proxies) proxy.slice(1);
      await pause(between(500, 1_500, round.random));
      return { faults: fixture.proxies.length };
    }),
);

faultRow(
  'data delayed by up to 100 ms',
  () => FaultyCluster.start(),
  (fixture, round) =>
    underLoad(fixture, round, async () => {
      const { random } = round;
      for (const proxy of fixture.proxies) proxy.delay(between(0, 100, random));
      await pause(between(500, 1_500, random));
      return { faults: fixture.proxies.length };
    }),
);
