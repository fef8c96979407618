import type { Balance } from '../../../src/channel/endpoint-pool.js';
import type { BytePlan } from './bytes/network.js';
import type { ClientPlan } from './clients.js';
import type { ClusterTraits } from './cluster.js';
import type { Fault } from './faults.js';
import type { DelayName } from './network.js';

/** What one process does, and what the checks of its workload need to know. */
export interface ProcessPlan<Op> {
  readonly ops: readonly Op[];
  readonly orderedReads?: boolean;
}

/** Everything that decides a history: the same plan gives the same history. */
export interface Plan<Op = unknown> {
  readonly workload: string;
  readonly seed: number;
  /** Selects another order of events for the same plan. Default: 0. */
  readonly schedule?: number;
  readonly members: number;
  /** Default: nothing special. */
  readonly traits?: ClusterTraits;
  readonly delays: DelayName;
  readonly timerLagMs: number;
  /**
   * How fast the clock of the server runs, and then the clock of each process. Default: as fast as that of the world.
   */
  readonly rates?: readonly number[] | undefined;
  /** How the history uses HTTP/2 over byte streams. Undefined: the network carries whole messages. */
  readonly bytes?: BytePlan | undefined;
  /** The option `balance` of all clients. */
  readonly balance: Balance;
  /** The option `maxInFlight` of all clients. Undefined: the default, which these few calls never reach. */
  readonly maxInFlight?: number | undefined;
  /** Options of all clients that change how they make calls. Default: none. */
  readonly options?: ClientPlan | undefined;
  /** How long faults may begin, in milliseconds. */
  readonly activeMs: number;
  readonly processes: readonly ProcessPlan<Op>[];
  readonly faults: readonly Fault[];
}
