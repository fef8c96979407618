import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import type { ClientOptions } from '../../../src/index.js';
import type { FaultyCluster } from './cluster.js';
import { Load } from './load.js';
import { between, type Round } from './rounds.js';
import type { Figures } from './row.js';

/** Before the first fault, and after the last. */
const CALM_MS = [100, 500] as const;

/**
 * Makes faults while clients write, read and watch, and expects that no event was lost, repeated, reordered or torn,
 * each put applied at most once, and no read older than what was seen before (S2, S4, S5, S27, S28).
 */
export async function underLoad(
  fixture: FaultyCluster,
  { seed, random }: Round,
  makeFaults: () => Promise<Pick<Figures, 'faults' | 'recoveryMs' | 'further'>>,
  client?: Partial<ClientOptions>,
): Promise<Figures> {
  await using load = await Load.start(fixture, { name: `n-${seed}`, random, client });
  await pause(between(...CALM_MS, random));
  const figures = await makeFaults();
  await fixture.heal();
  await pause(between(...CALM_MS, random));
  const { violations, events, puts, succeeded } = await load.judge();
  expect(violations).toEqual([]);
  expect(succeeded).toBeGreaterThan(0);
  return { ...figures, events, puts };
}
