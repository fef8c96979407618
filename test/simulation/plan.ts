import type { Balance } from '../../src/rpc/endpoint-pool.js';
import type { BytePlan } from './bytes/network.js';
import type { ClientPlan } from './clients.js';
import type { Fault } from './faults.js';
import type { DelayName } from './network.js';
import type { ClusterTraits } from './traits.js';

/** The operations of one process. */
export interface ProcessPlan<Op> {
  readonly ops: readonly Op[];
  readonly orderedReads?: boolean;
}

/** Everything that decides a history: the same plan gives the same history. */
export interface Plan<Op = unknown> {
  readonly workload: string;
  readonly seed: number;
  /** Plans that differ only in this number have the same operations and faults, but another order of events. Default: 0. */
  readonly schedule?: number;
  readonly members: number;
  /** Default: `PLAIN_CLUSTER`. */
  readonly traits?: ClusterTraits;
  readonly delays: DelayName;
  readonly timerLagMs: number;
  /**
   * The rate of the server's clock, followed by the rate of each process's clock. Default: the rate of the world's
   * clock.
   */
  readonly rates?: readonly number[] | undefined;
  /** How the history uses HTTP/2 over byte streams. Undefined if the network carries whole messages. */
  readonly bytes?: BytePlan | undefined;
  /** The option `balance` of all clients. */
  readonly balance: Balance;
  /**
   * The option `maxInFlight` of all clients. Undefined for the default, which the few calls of a history never reach.
   */
  readonly maxInFlight?: number | undefined;
  /** Options of all clients that change how they make calls. Default: none. */
  readonly options?: ClientPlan | undefined;
  /** The time in milliseconds from the start of the history during which faults may begin. */
  readonly activeMs: number;
  readonly processes: readonly ProcessPlan<Op>[];
  readonly faults: readonly Fault[];
}
