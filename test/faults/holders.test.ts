import { expect } from 'vitest';
import { FaultyCluster } from '../support/faults/cluster.js';
import { Contenders } from '../support/faults/contenders.js';
import { pick } from '../support/faults/rounds.js';
import { faultRow } from '../support/faults/row.js';
import { WallClock } from '../support/faults/wall-clock.js';

// The holder of a lock is stopped between its look at the lock and its write, and goes on when another holds it (S14,
// S16): what it still does, nobody may take from it.

const TTL = 2;
/** Seconds: so long that no stall of a busy machine loses a session, for there nothing else may lose one. */
const CLOCK_TTL = 5;
const HOUR_MS = 3_600_000;
/** Of the TTL. */
const FACTORS = [0.5, 1.2, 3] as const;
const OFFSETS = [
  ['+1h', 1],
  ['+0', 0],
  ['-1h', -1],
] as const;

faultRow(
  'process of the holder paused',
  () => FaultyCluster.start(),
  async (fixture, { seed, random }) => {
    using contenders = await Contenders.start(fixture, { name: `g-${seed}`, ttl: TTL });
    const faults = pick([1, 2, 3], random);
    const stopped: bigint[] = [];
    while (stopped.length < faults) {
      const { by, token } = await contenders.stopOne(random);
      await contenders.next('write', (write) => BigInt(write.token) > BigInt(token));
      const woken = contenders.next('woken', (each) => each.token === token);
      const stale = contenders.next('write', (write) => write.token === token);
      by.kill('SIGCONT');
      expect(await woken).toMatchObject({ valid: false, aborted: true });
      await stale;
      stopped.push(BigInt(token));
    }
    expect(contenders.refusedTokens).toEqual(expect.arrayContaining(stopped));
    const writes = await contenders.judge();
    // Without fencing the same writes do harm: else nothing here was tried.
    expect(contenders.unfencedViolations).toBeGreaterThanOrEqual(faults);
    return { faults, puts: writes, further: { 'stale writes without fencing': contenders.unfencedViolations } };
  },
);

faultRow(
  'event loop blocked for 0.5, 1.2 or 3 x TTL',
  () => FaultyCluster.start(),
  async (fixture, { seed }) => {
    using contenders = await Contenders.start(fixture, { name: `b-${seed}`, ttl: TTL });
    for (const factor of FACTORS) {
      await contenders.next('claim');
      const woken = contenders.next('woken');
      contenders.block(factor * TTL * 1_000);
      // Shorter than the TTL may still be too long, where the last renewal was a while ago.
      const { valid, aborted } = await woken;
      expect(valid).toBe(!aborted);
      if (factor > 1) expect({ valid, aborted }).toEqual({ valid: false, aborted: true });
    }
    const writes = await contenders.judge();
    return {
      faults: FACTORS.length,
      puts: writes,
      further: { 'stale writes without fencing': contenders.unfencedViolations },
    };
  },
);

faultRow('wall clock jumps by an hour', openWithClock, async ({ cluster, clock }, { seed }) => {
  clock.set('+0');
  const { environment } = clock;
  using contenders = await Contenders.start(cluster, { name: `c-${seed}`, ttl: CLOCK_TTL, environment });
  for (const [offset, hours] of OFFSETS) {
    clock.set(offset);
    await contenders.next('held', ({ wallMs }) => Math.round((wallMs - Date.now()) / HOUR_MS) === hours);
    const jumpedAt = performance.now();
    while (performance.now() - jumpedAt < 1.2 * CLOCK_TTL * 1_000) await contenders.next('claim');
  }
  const writes = await contenders.judge();
  expect(contenders.lostSessions).toEqual([]);
  return { faults: OFFSETS.length, puts: writes };
});

async function openWithClock() {
  const clock = await WallClock.open();
  const cluster = clock && (await FaultyCluster.start({ members: 1 }));
  if (clock === undefined || cluster === undefined) return undefined;
  return {
    cluster,
    clock,
    heal: () => cluster.heal(),
    [Symbol.asyncDispose]: async () => {
      clock[Symbol.dispose]();
      await cluster.close();
    },
  };
}
