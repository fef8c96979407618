import { expect, inject, test } from 'vitest';
import { planOf } from './draw-plan.js';
import { runHistory } from './history.js';
import type { Plan } from './plan.js';
import { shrink } from './shrink.js';
import { WORKLOADS } from './workloads/all.js';

/**
 * The number of histories in one test. A test of this size takes less than a tenth of its time limit when the machine
 * is idle.
 */
const HISTORIES = 60;
/**
 * The seeds of the first histories of the tests of one workload. `npm run test:simulation` plays histories with other
 * seeds, which begin at 2^24.
 */
const FIRST_SEEDS = Array.from({ length: inject('thorough') ? 5 : 1 }, (_, index) => 1 + index * HISTORIES);

test.for(WORKLOADS.flatMap((workload) => FIRST_SEEDS.map((seed) => [workload.name, seed, workload] as const)))(
  'simulated histories of the workload "%s" from seed %i on break no rule',
  async ([name, firstSeed, workload], { signal }) => {
    const failures: string[] = [];
    for (let seed = firstSeed; seed < firstSeed + HISTORIES; seed += 1) {
      // The histories of the next test wait only for the one that is being played after this test has timed out.
      signal.throwIfAborted();
      const { violations } = await runHistory(workload, planOf(workload, seed));
      for (const { rule, detail } of violations)
        failures.push(`npm run test:simulation -- --only '${name}' --replay ${seed}: ${rule}: ${detail}`);
    }
    expect(failures).toEqual([]);
  },
);

test.for(WORKLOADS.map((workload) => [workload.name, workload] as const))(
  'a simulated history of the workload "%s" is the same each time it is played',
  async ([, workload], { signal }) => {
    for (let seed = 1; seed <= 10; seed += 1) {
      signal.throwIfAborted();
      const plan = planOf(workload, seed);
      const first = await runHistory(workload, plan);
      const second = await runHistory(workload, planOf(workload, seed), { isTraced: true });
      expect([second.hash, second.events]).toEqual([first.hash, first.events]);
      const third = await runHistory(workload, { ...plan, schedule: 1 });
      if (first.events > 20) expect(third.hash).not.toBe(first.hash);
    }
  },
);

test('`shrink` reduces a plan to the only fault and the only operation that matter', async () => {
  const fault = { trigger: { on: 'time', ms: 5 }, process: 0, member: 0, ms: 500, variant: 0 } as const;
  const plan: Plan = {
    workload: 'none',
    seed: 1,
    members: 3,
    delays: 'uneven',
    timerLagMs: 40,
    balance: 'sticky',
    activeMs: 1_000,
    processes: [{ ops: [{ afterMs: 10 }, { afterMs: 7, isBad: true }] }, { ops: [{ afterMs: 3 }] }],
    faults: [
      { ...fault, kind: 'cut' },
      { ...fault, kind: 'stall' },
      { ...fault, kind: 'lag' },
    ],
  };
  const fails = async ({ faults, processes }: Plan): Promise<boolean> =>
    faults.some(({ kind }) => kind === 'stall') && processes.some(({ ops }) => JSON.stringify(ops).includes('isBad'));
  const { plan: smallest } = await shrink(plan, fails, 10_000);
  expect(smallest.faults.map(({ kind, ms }) => ({ kind, ms }))).toEqual([{ kind: 'stall', ms: 0 }]);
  expect(smallest.processes.map(({ ops }) => ops)).toEqual([[{ afterMs: 0, isBad: false }], []]);
  expect([smallest.members, smallest.delays, smallest.timerLagMs]).toEqual([1, 'none', 0]);
});
