import { type Profiler, Session } from 'node:inspector';
import { parentPort, workerData } from 'node:worker_threads';
import type { Answer, Task } from './worker.js';

// Loads the program whose URL is the data of this thread, and measures which parts of its code run. V8 must count from
// the start, so this file loads the program after the measurement has begun.

const session = new Session();
session.connect();
session.post('Profiler.enable');
session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true });
await import(workerData as string);
parentPort?.on('message', (task: Task) => {
  if (task.type !== 'coverage') return;
  session.post('Profiler.takePreciseCoverage', (error, taken) => {
    if (error !== null) throw error;
    parentPort?.postMessage({ type: 'covered', functions: functionsOf(taken) } satisfies Answer);
  });
});

function functionsOf({ result }: Profiler.TakePreciseCoverageReturnType): readonly Profiler.FunctionCoverage[] {
  return result.find(({ url }) => url === workerData)?.functions ?? [];
}
