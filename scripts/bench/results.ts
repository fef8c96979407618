import type { Settings } from './settings.js';
import type { Outcome } from './workloads/workload.js';

/** What a run measured, and on what. */
export interface Results {
  /** Version; undefined for a server that ETCD_ENDPOINTS names. */
  readonly etcd: string | undefined;
  readonly node: string;
  /** Model of the machine's processors. */
  readonly cpu: string | undefined;
  readonly cpus: number;
  /** When the run began. */
  readonly date: string;
  readonly settings: Settings;
  readonly outcomes: readonly Outcome[];
}
