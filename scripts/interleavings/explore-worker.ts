import { parentPort } from 'node:worker_threads';
import { type Checkpoint, type Explored, explore } from '../../test/interleavings/explorer.js';
import { SCENARIOS } from '../../test/interleavings/scenarios.js';

// Explores one scenario after the other for scripts/interleavings.ts, in a thread.

const PROGRESS_MS = 5_000;

export interface Task {
  readonly scenario: string;
  readonly faults: number;
  readonly maxMs: number;
  readonly from: Checkpoint | undefined;
}

/** The last answer to a task has `explored`. */
export interface Answer {
  readonly soFar?: Checkpoint;
  readonly explored?: Explored;
}

parentPort?.on('message', async ({ scenario, ...limits }: Task) => {
  let answeredMs = performance.now();
  const onHistory = (soFar: Checkpoint): void => {
    if (!soFar.isComplete && performance.now() < answeredMs + PROGRESS_MS) return;
    answeredMs = performance.now();
    parentPort?.postMessage({ soFar } satisfies Answer);
  };
  const wanted = SCENARIOS.find(({ name }) => name === scenario);
  if (wanted === undefined) throw new Error(`no scenario has the name ${scenario}`);
  parentPort?.postMessage({ explored: await explore(wanted, { ...limits, onHistory }) } satisfies Answer);
});
