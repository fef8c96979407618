import type { Exercise, Exercises } from './exercise.js';
import { auth } from './exercises/auth.js';
import { cluster } from './exercises/cluster.js';
import { election } from './exercises/election.js';
import { kv } from './exercises/kv.js';
import { lease } from './exercises/lease.js';
import { lock } from './exercises/lock.js';
import { maintenance } from './exercises/maintenance.js';
import { watch } from './exercises/watch.js';

/** One exercise for each RPC, grouped by service. An exercise calls one RPC and checks its result. */
export const exercises: Exercises = { kv, watch, lease, cluster, maintenance, auth, lock, election };

/** All exercises, with their names as "service.rpc". */
export const exerciseList: readonly (readonly [name: string, exercise: Exercise])[] = Object.entries(exercises).flatMap(
  ([service, table]) =>
    Object.entries(table as Readonly<Record<string, Exercise>>).map(
      ([rpc, exercise]) => [`${service}.${rpc}`, exercise] as const,
    ),
);
