import { expect, inject, test } from 'vitest';
import { planOf } from './draw-plan.js';
import { runHistory } from './history.js';
import { WORKLOADS } from './workloads/all.js';

/** The number of files that call `testHistories`. */
const PARTS = 4;
/**
 * The number of histories in one test. A test of this size takes less than a tenth of its time limit when the machine
 * is idle.
 */
const HISTORIES = 60;
/**
 * The seeds of the first histories of the tests of one workload. `npm run test:simulation` plays histories with other
 * seeds, which begin at 2^24.
 */
const FIRST_SEEDS = Array.from({ length: inject('thorough') ? 3 : 1 }, (_, index) => 1 + index * HISTORIES);

/**
 * Defines the tests of the workloads `part`, `part + PARTS` and so on. The tests of each part are in a file of their own,
 * because a simulated world needs a process for itself, and the parts run at the same time.
 */
export function testHistories(part: number): void {
  const workloads = WORKLOADS.filter((_, index) => index % PARTS === part);

  test.for(workloads.flatMap((workload) => FIRST_SEEDS.map((seed) => [workload.name, seed, workload] as const)))(
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

  test.for(workloads.map((workload) => [workload.name, workload] as const))(
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
}
