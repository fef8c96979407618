import { expect } from 'vitest';
import { FaultyCluster } from '../load/cluster.js';
import { CONTENDERS, Contenders } from '../load/contenders.js';
import { pick } from '../load/rounds.js';
import { faultRow } from '../load/row.js';
import { WallClock } from '../load/wall-clock.js';

// The holder of a lock is suspended between its check of the lock and its write, and resumes after another contender
// has acquired the lock (rules S14 and S16 in docs/semantics.md). A resource that checks fencing tokens must reject the
// former holder's write.

const TTL = 2;
/**
 * TTL in seconds for the wall-clock test. It is longer than a busy machine may stall the test, because no session may
 * end for another reason in that test.
 */
const CLOCK_TTL = 5;
const HOUR_MS = 3_600_000;
/** How long the test blocks the event loop, as multiples of the TTL. */
const FACTORS = [0.5, 1.2, 3] as const;
/**
 * The offsets of the wall clock: the argument of `WallClock.set`, the same offset as a number of hours, and whether the
 * clock jumps forward.
 */
const OFFSETS = [
  ['+0', 0, false],
  ['+1h', 1, true],
  ['+0', 0, false],
] as const;

faultRow(
  'paused process of the holder',
  () => FaultyCluster.start(),
  async (fixture, { seed, random }) => {
    using contenders = await Contenders.start(fixture, { name: `g-${seed}`, ttl: TTL });
    const faults = pick([1, 2, 3], random);
    const stopped: bigint[] = [];
    while (stopped.length < faults) {
      const { by, fault, token } = await contenders.stopOne(random);
      await contenders.next('write', (write) => BigInt(write.token) > BigInt(token));
      const resumed = contenders.next('resumed', (message) => message.fault === fault);
      const staleWrite = contenders.next('write', (write) => write.token === token);
      by.kill('SIGCONT');
      expect(await resumed).toMatchObject({ valid: false, aborted: true });
      await staleWrite;
      stopped.push(BigInt(token));
    }
    expect(contenders.refusedTokens).toEqual(expect.arrayContaining(stopped));
    const writes = await contenders.verify();
    // The resource without fencing accepted the same stale writes. This shows that the faults did cause stale writes.
    expect(contenders.unfencedViolations).toBeGreaterThanOrEqual(faults);
    return { faults, puts: writes, further: { 'stale writes without fencing': contenders.unfencedViolations } };
  },
);

faultRow(
  'event loop blocked for 0.5, 1.2 or 3 times the TTL',
  () => FaultyCluster.start(),
  async (fixture, { seed }) => {
    using contenders = await Contenders.start(fixture, { name: `b-${seed}`, ttl: TTL });
    for (const factor of FACTORS) {
      await contenders.next('claim');
      // The contender may lose its lease even if its event loop is blocked for less than the TTL, because part of the
      // TTL has already passed since the last renewal.
      const { valid, aborted } = await contenders.block(factor * TTL * 1_000);
      expect(valid).toBe(!aborted);
      if (factor > 1) expect({ valid, aborted }).toEqual({ valid: false, aborted: true });
    }
    const writes = await contenders.verify();
    return {
      faults: FACTORS.length,
      puts: writes,
      further: { 'stale writes without fencing': contenders.unfencedViolations },
    };
  },
);

faultRow('wall clock that jumps by an hour', openWithClock, async ({ cluster, clock }, { seed }) => {
  clock.set('+0');
  const { environment } = clock;
  using contenders = await Contenders.start(cluster, { name: `c-${seed}`, ttl: CLOCK_TTL, environment });
  for (const [offset, hours, isForward] of OFFSETS) {
    const lostBefore = contenders.lostSessions.length;
    clock.set(offset);
    await contenders.next('held', ({ wallMs }) => Math.round((wallMs - Date.now()) / HOUR_MS) === hours);
    const jumpedAt = performance.now();
    while (performance.now() - jumpedAt < 1.2 * CLOCK_TTL * 1_000) await contenders.next('claim');
    // A machine that was suspended looks the same, so each contender loses its session once (rule S44).
    expect(contenders.lostSessions.length - lostBefore).toBe(isForward ? CONTENDERS : 0);
  }
  const writes = await contenders.verify();
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
