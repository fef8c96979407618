import { parentPort } from 'node:worker_threads';
import { planOf } from '../../test/simulation/draw-plan.js';
import { runHistory } from '../../test/simulation/history.js';
import type { Plan } from '../../test/simulation/plan.js';
import { shrink } from '../../test/simulation/shrink.js';
import { workloadOf } from '../../test/simulation/workloads/all.js';
import type { Counted } from './coverage.js';

// Plays histories for scripts/simulate.ts, in a thread.

/** Maximum number of histories that the shrinker plays. */
const SHRINK_RUNS = 3_000;

/** What `scripts/simulate.ts` asks for. */
export type Task =
  | { readonly type: 'play'; readonly first: number; readonly count: number; readonly only: string | undefined }
  | { readonly type: 'replay'; readonly seed: number; readonly only: string | undefined; readonly shrinks: boolean }
  /** Asks which code has run. `covered-worker.ts` answers. */
  | { readonly type: 'coverage' };

/** A history that broke a rule. */
export interface Failure {
  readonly seed: number;
  readonly workload: string;
  readonly violations: readonly { readonly rule: string; readonly detail: string }[];
}

export type Answer =
  | {
      readonly type: 'played';
      readonly histories: number;
      readonly events: number;
      readonly virtualMs: number;
      readonly workloads: ReadonlyMap<string, number>;
      readonly coverage: ReadonlyMap<string, number>;
      readonly failures: readonly Failure[];
    }
  | { readonly type: 'replayed'; readonly text: string; readonly isFailure: boolean }
  | { readonly type: 'covered'; readonly functions: Counted };

async function play({ first, count, only }: Extract<Task, { type: 'play' }>): Promise<Answer> {
  let [histories, events, virtualMs] = [0, 0, 0];
  const workloads = new Map<string, number>();
  const coverage = new Map<string, number>();
  const failures: Failure[] = [];
  for (let seed = first; seed < first + count; seed += 1) {
    const workload = workloadOf(seed, only);
    const result = await runHistory(workload, planOf(workload, seed)).catch((cause: unknown) => {
      throw new Error(`the simulation itself failed: --only ${workload.name} --replay ${seed}`, { cause });
    });
    histories += 1;
    events += result.events;
    virtualMs += result.virtualMs;
    workloads.set(workload.name, (workloads.get(workload.name) ?? 0) + 1);
    for (const [what, times] of result.coverage) coverage.set(what, (coverage.get(what) ?? 0) + times);
    if (result.violations.length > 0) failures.push({ seed, workload: workload.name, violations: result.violations });
  }
  return { type: 'played', histories, events, virtualMs, workloads, coverage, failures };
}

async function replay({ seed, only, shrinks }: Extract<Task, { type: 'replay' }>): Promise<Answer> {
  const workload = workloadOf(seed, only);
  const drawn = planOf(workload, seed);
  const { violations } = await runHistory(workload, drawn);
  const kinds = new Set(violations.map(kindOf));
  const fails = async (plan: Plan): Promise<boolean> =>
    (await runHistory(workload, plan)).violations.some((violation) => kinds.has(kindOf(violation)));
  const { plan, runs } = shrinks && kinds.size > 0 ? await shrink(drawn, fails, SHRINK_RUNS) : { plan: drawn, runs: 0 };
  const result = await runHistory(workload, plan, { isTraced: true });
  const lines = result.trace.map(
    ({ ms, process, text }) => `${(ms / 1_000).toFixed(3).padStart(9)} s  ${process.padEnd(10)}  ${text}`,
  );
  const text = [
    `workload ${workload.name}, seed ${seed}${runs > 0 ? `, shrunk with ${runs} histories` : ''}`,
    describe(plan),
    ...lines,
    ...result.violations.map(({ rule, detail }) => `BROKEN RULE: ${rule}: ${detail}`),
    `hash ${result.hash.toString(16)}`,
  ].join('\n');
  return { type: 'replayed', text, isFailure: result.violations.length > 0 };
}

/**
 * Returns the rule and the reason of the error. The shrinker keeps both, because a smaller history may break the same
 * rule with another error, such as one for an invalid argument.
 */
function kindOf({ rule, detail }: Failure['violations'][number]): string {
  return `${rule} ${/: ([A-Z]\w+): /.exec(detail)?.[1] ?? ''}`;
}

function describe({
  rates,
  options,
  members,
  traits,
  delays,
  timerLagMs,
  bytes,
  activeMs,
  processes,
  faults,
}: Plan): string {
  const network = bytes === undefined ? 'whole messages' : `HTTP/2 over byte streams ${JSON.stringify(bytes)}`;
  return [
    `${members} members; network: ${network}; delays: ${delays}; timers up to ${timerLagMs} ms late; faults begin within ${activeMs} ms`,
    ...(rates === undefined ? [] : [`rates of the clocks of the server and of each process: ${rates.join(', ')}`]),
    ...(options === undefined ? [] : [`clients ${JSON.stringify(options)}`]),
    ...Object.entries(traits ?? {}).flatMap(([name, has]) => (has ? [`cluster ${name}`] : [])),
    ...processes.map(({ ops }, index) => `process ${index}: ${ops.map((op) => JSON.stringify(op)).join(' ')}`),
    ...faults.map((fault) => `fault ${JSON.stringify(fault)}`),
  ].join('\n');
}

parentPort?.on('message', async (task: Task) => {
  if (task.type === 'coverage') return;
  parentPort?.postMessage(task.type === 'play' ? await play(task) : await replay(task));
});
