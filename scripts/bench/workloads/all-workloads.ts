import type { Settings } from '../settings.js';
import { callWorkloads } from './calls.js';
import { coldStartWorkloads } from './cold-start.js';
import { handOffWorkloads } from './hand-offs.js';
import { hookWorkloads } from './hooks.js';
import { leaseAndLockWorkloads } from './leases-and-locks.js';
import { liveEventWorkloads } from './live-events.js';
import { manyKeysWorkloads } from './many-keys.js';
import { memoryWorkloads } from './memory.js';
import type { Workload } from './workload.js';

/** In the order in which they run: those that need a store that is small before those that fill it. */
export function allWorkloads(settings: Settings): Workload[] {
  return [
    ...coldStartWorkloads(settings),
    ...callWorkloads(settings),
    ...hookWorkloads(settings),
    ...leaseAndLockWorkloads(settings),
    ...handOffWorkloads(settings),
    ...liveEventWorkloads(settings),
    ...manyKeysWorkloads(settings),
    ...memoryWorkloads(settings),
  ];
}
