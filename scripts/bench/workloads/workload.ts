import type { Bench } from '../bench.js';
import type { Sample } from '../sample.js';

/** Something to measure, with everybody who takes part in it. */
export interface Workload<Contender extends string = string> {
  /** The table it stands in. */
  readonly group: string;
  /** What tells it from the others of its group. */
  readonly variant: string;
  readonly contenders: readonly Contender[];
  readonly rounds: number;
  /** All contenders of a round at a time: they do not disturb what is measured. Default: one after the other. */
  readonly atOnce?: boolean;
  /** Makes data ready and warms everybody up. */
  prepare?(bench: Bench): Promise<unknown>;
  measure(bench: Bench, contender: Contender): Promise<Sample>;
  afterRound?(bench: Bench): Promise<unknown>;
  finish?(bench: Bench): Promise<unknown>;
  /** Adds what follows from the samples of all rounds together. */
  conclude?(outcomes: readonly Outcome[]): Outcome[];
}

/** What one contender did in one workload. */
export interface Outcome extends Pick<Workload, 'group' | 'variant'> {
  readonly contender: string;
  /** One a round, in their order. */
  readonly samples: readonly Sample[];
  /** Why there are fewer of them. */
  readonly failure?: string;
}

export function nameOf({ group, variant }: Pick<Workload, 'group' | 'variant'>): string {
  return `${group}, ${variant}`;
}
