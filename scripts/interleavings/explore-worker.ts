import { parentPort } from 'node:worker_threads';
import { explore, type Limits } from '../../test/interleavings/explorer.js';
import { SCENARIOS } from '../../test/interleavings/scenarios.js';

// Explores scenarios for scripts/interleavings.ts, in a thread. The answer to a task is the result of `explore`.

export interface Task extends Limits {
  readonly scenario: string;
}

// Most errors are expected, and their stacks cost 5 % of the time. `--replay` shows the stack of a failure.
Error.stackTraceLimit = 0;

parentPort?.on('message', async ({ scenario, ...limits }: Task) => {
  const wanted = SCENARIOS.find(({ name }) => name === scenario);
  if (wanted === undefined) throw new Error(`no scenario has the name ${scenario}`);
  parentPort?.postMessage(await explore(wanted, limits));
});
