import { type Profiler, Session } from 'node:inspector';
import { parentPort, workerData } from 'node:worker_threads';
import type { Answer, Task } from './worker.js';

// Loads the program whose path is the data of this thread, and measures which of its code runs. V8 must count from the
// start, so the program is loaded after the measurement has begun.

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
