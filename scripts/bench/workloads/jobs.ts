import type { Settings } from '../settings.js';
import type { Workload } from '../workload.js';

export const JOBS_GROUP = 'jobs of a WorkQueue';

const JOBS = 10_000;
/** A quick run has fewer jobs by this factor. */
const QUICK_FACTOR = 10;
const CONCURRENCY = 100;
const HANDLER_MS = 5;

/** Returns the workloads in which workers share the jobs of a queue. */
export function jobWorkloads({ quick, rounds }: Settings): Workload[] {
  const jobs = JOBS / (quick ? QUICK_FACTOR : 1);
  return [1, 2, 4].map((workers) => ({
    group: JOBS_GROUP,
    variant: `${jobs.toLocaleString('en')} jobs of ${HANDLER_MS} ms, ${workers} × ${CONCURRENCY} at a time`,
    competitors: ['etcdwire'],
    rounds,
    measure: (bench) =>
      bench.performInNewProcess('etcdwire', {
        kind: 'jobs',
        jobs: { jobs, workers, concurrency: CONCURRENCY, handlerMs: HANDLER_MS },
      }),
  }));
}
