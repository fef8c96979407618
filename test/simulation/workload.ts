import type { Client, ClientOptions } from '../../src/extras/full/client.js';
import type { SimulatedCluster } from './cluster.js';
import type { FaultKind, LockState } from './faults.js';
import type { Network } from './network.js';
import type { Plan, ProcessPlan } from './plan.js';
import type { Process } from './process.js';
import type { Random } from './random.js';
import type { World } from './world.js';

/** The parts of a history that its workload uses. */
export interface Context<Op> {
  readonly world: World;
  readonly cluster: SimulatedCluster;
  readonly network: Network;
  readonly plan: Plan<Op>;
  /** Resolves in the running process when all faults have ended. */
  healed(): Promise<void>;
  /**
   * Checks that an effect is not late. The effect happens now in the running process, and could have happened at
   * `causeMs`. Nothing counts as late while faults may happen.
   */
  checkLate(causeMs: number, what: string): void;
  /**
   * Checks that a call that began at `startMs`, and that ends now in the running process, does not end late. The call
   * must end within `limitMs`.
   */
  checkEnd(startMs: number, limitMs: number, what: string): void;
  /** Returns a process by its index. */
  process(index: number): Process;
  /** Opens a client in the running process. The history closes the client at its end. */
  client(index: number, options?: Partial<ClientOptions>): Client;
  /** Reports the state of a contender of a process. */
  enters(contender: object, process: number, state: LockState): void;
  /** Counts something that happens in few histories, for the table of coverage. */
  count(what: string): void;
  /** Reports a broken rule. */
  violated(rule: string, detail: string): void;
  /**
   * Records what a process is waiting for, for the report of a history that does not end. `what` is undefined if the
   * process waits for nothing.
   */
  waits(process: number, what: string | undefined): void;
}

/** One kind of history. */
export interface Workload<Op> {
  readonly name: string;
  /** The relative probability that a seed selects this workload. */
  readonly weight: number;
  /** The faults that the checks of the workload do not allow. Default: none. */
  readonly without?: readonly FaultKind[];
  readonly hasStates?: boolean;
  /** Whether the workload allows copies that arrive before the original, and copies of refused requests. */
  readonly toleratesCopies?: boolean;
  /** Whether the clients make only unary calls, so that a server may limit the streams of a connection. */
  readonly isUnary?: boolean;
  /** Whether the server is a cluster of three members that agree by raft. */
  readonly hasRaft?: boolean;
  /** Whether faults may replace the store, for example by a backup. */
  readonly isRestored?: boolean;
  /** Returns how many operations an item of a plan stands for. Default: 1. */
  readonly sizeOf?: (op: Op) => number;
  /** Whether all clocks run at the same rate, because the processes compare their wall clocks. */
  readonly hasOneRate?: boolean;
  generate(random: Random): readonly ProcessPlan<Op>[];
  begin(context: Context<Op>): Player<Op>;
}

/** Plays one history of a workload. */
export interface Player<Op> {
  /** Plays the part of one process. */
  play(index: number, plan: ProcessPlan<Op>): Promise<void>;
  /** Checks the history after its end. */
  check(): void;
  /** Whether a key may be left at the end. */
  mayStay(key: string): boolean;
  /** Whether leases may be left at the end. Default: no. */
  mayLeasesStay?(): boolean;
}
