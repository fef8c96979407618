import type { Figures } from '../../test/support/faults/row.js';

/** One round of one row over one transport. */
export interface RoundResult {
  readonly row: string;
  readonly transport: string;
  readonly round: string;
  readonly state: 'passed' | 'failed' | 'skipped';
  /** With what was started for it alone. */
  readonly ms: number;
  readonly figures: Figures | undefined;
}

/** Rounds on the same servers. */
export interface FaultsRun {
  /** Which, and from where. */
  readonly etcd: string;
  readonly results: readonly RoundResult[];
}
