import type { Random } from './random.js';

/** The faults that concern the next call of a process. */
export const CALL_FAULTS = [
  'delay request',
  'delay response',
  'lose request',
  'late request',
  'lose response',
  'duplicate request',
  'refuse',
  'refuse after applying',
  'early copy',
  'copy of a refused request',
] as const;
/**
 * Copies whose effect no client can distinguish from the effect of its own request. Only workloads with
 * `toleratesCopies`, such as the locks, allow these copies.
 */
export const STRANGE_COPIES = ['early copy', 'copy of a refused request'] as const;
/** The faults that concern the connections of a process. */
const CONNECTION_FAULTS = [
  'cut',
  'cut with late requests',
  'close one direction',
  'forget connections',
  'announce the end of connections',
  'silence to server',
  'silence to client',
  'silence',
  'silence one connection',
  'refuse connections',
  'end streams',
] as const;
/** The faults that concern a process itself. */
export const PROCESS_FAULTS = [
  'stall',
  'stop in a step',
  'suspend',
  'suspend with a stopped wall clock',
  'suspend without a boot clock',
  'kill',
  'late timers',
  'wall clock jump',
] as const;
/** The faults after which the wall clock of a process may differ from the time that has passed. */
export const WALL_CLOCK_FAULTS = ['wall clock jump', 'suspend with a stopped wall clock'] as const;
/** The faults that concern the cluster. */
const CLUSTER_FAULTS = [
  'restart',
  'no leader',
  'overload',
  'slow cluster',
  'forget tokens',
  'isolate member',
  'isolate member for good',
  'stop member for good',
  'lag',
  'slow follower',
  'old leader',
  'compact',
  'restart cluster',
] as const;
/** The maximum delay of a timer by the fault `late timers`, in milliseconds. */
export const MAX_LATE_MS = 500;
/** The faults after which the store is not the same. Only some workloads allow them. */
export const STORE_FAULTS = ['restore a backup', 'another cluster'] as const;

export const FAULT_KINDS = [
  ...CALL_FAULTS,
  ...CONNECTION_FAULTS,
  ...PROCESS_FAULTS,
  ...CLUSTER_FAULTS,
  ...STORE_FAULTS,
] as const;
export type FaultKind = (typeof FAULT_KINDS)[number];

/** The states of a contender for a lock. */
const LOCK_STATES = ['idle', 'enqueuing', 'waiting', 'held', 'releasing', 'lost'] as const;
export type LockState = (typeof LOCK_STATES)[number];

/** When a fault strikes. */
type Trigger =
  | { readonly on: 'time'; readonly ms: number }
  /** When the fault's process makes a write after `nth` earlier writes. */
  | { readonly on: 'write'; readonly nth: number }
  /** When the fault's process enters the state after `nth` earlier entries. */
  | { readonly on: 'state'; readonly state: LockState; readonly nth: number }
  /** `ms` after the first fault of this kind has struck the same process. Some bugs need one fault during another. */
  | { readonly on: 'fault'; readonly kind: FaultKind; readonly ms: number };

/** A fault that a history contains. */
export interface Fault {
  readonly kind: FaultKind;
  readonly trigger: Trigger;
  /** Index of the process that the fault concerns. */
  readonly process: number;
  /** Index of the member that the fault concerns. */
  readonly member: number;
  /** How long the fault lasts, in milliseconds. */
  readonly ms: number;
  /** A number that decides between variants of the fault. */
  readonly variant: number;
}

/** The faults that a workload allows, and the numbers from which `drawFaults` draws. */
export interface FaultChoice {
  readonly processes: number;
  readonly members: number;
  /** The time in milliseconds from the start of the history during which faults may begin. */
  readonly activeMs: number;
  readonly kinds: readonly FaultKind[];
  /** Whether the workload reports the states of its contenders. */
  readonly hasStates: boolean;
}

/**
 * Draws the faults of a history. Each history prefers a few kinds, because some bugs need several faults of one kind.
 */
export function drawFaults(random: Random, { processes, members, activeMs, kinds, hasStates }: FaultChoice): Fault[] {
  const count = random.pick([0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 10]);
  const preferred = Array.from({ length: random.between(1, 3) }, () => random.pick(kinds));
  const faults: Fault[] = [];
  while (faults.length < count) {
    const fault: Fault = {
      kind: random.pick(random.chance(0.6) ? preferred : kinds),
      trigger: drawTrigger(random, activeMs, hasStates),
      process: random.below(processes),
      member: random.below(members),
      ms: random.chance(0.3) ? random.between(1_500, 5_500) : random.magnitude(5, 12_000),
      variant: random.below(64),
    };
    const cause = faults.length > 0 && random.chance(0.3) ? random.pick(faults) : undefined;
    faults.push(cause === undefined ? fault : afterFault(random, fault, cause));
  }
  return faults;
}

/** Makes a fault strike the process of another fault, during the other fault or after it. */
function afterFault(random: Random, fault: Fault, { kind, process, ms }: Fault): Fault {
  const delayMs = random.pick([0, random.magnitude(1, 1_000), Math.floor(random.fraction() * ms), ms]);
  return { ...fault, process, trigger: { on: 'fault', kind, ms: delayMs } };
}

function drawTrigger(random: Random, activeMs: number, hasStates: boolean): Trigger {
  const way = random.fraction();
  // All faults end after `activeMs`, so a fault that begins shortly before that time is short.
  if (way < 0.08) return { on: 'time', ms: Math.max(0, activeMs - random.magnitude(50, 4_000)) };
  if (way < 0.35) return { on: 'time', ms: Math.floor(random.fraction() ** 2 * activeMs) };
  if (way < 0.7 || !hasStates) return { on: 'write', nth: Math.floor(random.fraction() ** 2 * 16) };
  return { on: 'state', state: random.pick(LOCK_STATES), nth: Math.floor(random.fraction() ** 2 * 4) };
}
