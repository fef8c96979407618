import type { Bench } from './bench.js';
import type { Progress } from './progress.js';
import type { Sample } from './sample.js';
import { nameOf, type Outcome, type Workload } from './workloads/workload.js';

/** Measures of all rounds together. */
export function stepsOf(workloads: readonly Workload[]): number {
  return workloads.reduce((sum, { contenders, rounds }) => sum + contenders.length * rounds, 0);
}

/**
 * Runs workloads one after the other, each in rounds in which the contenders take turns; who begins changes with the
 * round. A contender that fails drops out of the workload, and the rest goes on.
 */
export async function runWorkloads(
  bench: Bench,
  workloads: readonly Workload[],
  progress: Progress,
): Promise<Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const workload of workloads) outcomes.push(...(await runWorkload(bench, workload, progress)));
  return outcomes;
}

async function runWorkload(bench: Bench, workload: Workload, progress: Progress): Promise<Outcome[]> {
  const { group, variant, contenders, rounds, atOnce = false, conclude = (outcomes) => [...outcomes] } = workload;
  const name = nameOf(workload);
  const samples = new Map<string, Sample[]>(contenders.map((contender) => [contender, []]));
  const failures = new Map<string, string>();
  const measure = async (contender: string, round: number): Promise<void> => {
    if (!failures.has(contender)) {
      progress.at(name, round, rounds, atOnce ? undefined : contender);
      try {
        samples.get(contender)?.push(await workload.measure(bench, contender));
      } catch (error) {
        failures.set(contender, messageOf(error));
      }
    }
    progress.step();
  };
  progress.at(name, 0, rounds, undefined);
  try {
    await workload.prepare?.(bench);
  } catch (error) {
    for (const contender of contenders) failures.set(contender, messageOf(error));
  }
  for (let round = 1; round <= rounds; round += 1) {
    const order = rotated(contenders, round - 1);
    if (atOnce) await Promise.all(order.map((contender) => measure(contender, round)));
    else for (const contender of order) await measure(contender, round);
    await workload.afterRound?.(bench);
  }
  await workload.finish?.(bench);
  return conclude(
    contenders.map((contender) => {
      const failure = failures.get(contender);
      const outcome = { group, variant, contender, samples: samples.get(contender) ?? [] };
      return failure === undefined ? outcome : { ...outcome, failure };
    }),
  );
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

function rotated<T>(items: readonly T[], by: number): T[] {
  const first = by % items.length;
  return [...items.slice(first), ...items.slice(0, first)];
}
