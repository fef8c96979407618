import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import type { ClientOptions } from '../../../src/index.js';
import type { FaultyCluster } from './cluster.js';
import { Load } from './load.js';
import { LockLoad } from './lock-load.js';
import { between, branchOf, type Round } from './rounds.js';
import type { Figures } from './row.js';

/** Before the first fault, and after the last. */
const CALM_MS = [100, 500] as const;

/**
 * Makes faults while clients write, read, watch, and take a lock from each other; expects that no event was lost,
 * repeated, reordered or torn, each put applied at most once, no read older than what was seen before, and that no two
 * held the lock at a time (S2, S4, S5, S14, S27, S28).
 */
export async function underLoad(
  fixture: FaultyCluster,
  { seed, random }: Round,
  makeFaults: () => Promise<Pick<Figures, 'faults' | 'recoveryMs' | 'further'>>,
  client?: Partial<ClientOptions>,
): Promise<Figures> {
  // The faults alone draw from the generator of the round: what the load does between them is chance.
  const [loadRandom, locksRandom] = [branchOf(random), branchOf(random)];
  await using load = await Load.start(fixture, { name: `n-${seed}`, random: loadRandom, client });
  await using locks = await LockLoad.start(fixture, { name: `g-${seed}`, random: locksRandom, client });
  await pause(between(...CALM_MS, random));
  const figures = await makeFaults();
  await fixture.heal();
  await pause(between(...CALM_MS, random));
  await locks.heldAgain();
  const [{ violations, events, puts, succeeded, registers }, held] = [await load.judge(), await locks.judge()];
  expect([...violations, ...held.violations]).toEqual([]);
  expect(succeeded).toBeGreaterThan(0);
  const further = { ...figures.further, 'holds of a lock': held.holds, 'registers searched': registers };
  return { ...figures, events, puts, further };
}
