import type { Method } from '../../../src/protobuf/schema.js';
import type { SimulatedCluster, SimulatedMember } from './cluster.js';
import { type CallFault, type Network, REFUSALS, UNCERTAIN_REFUSALS, WRITES } from './network.js';
import type { Random } from './random.js';
import type { OtherClock, Process, World } from './world.js';

/** The faults that concern the next call of a process. */
const CALL_FAULTS = [
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
 * Copies whose effect no client can distinguish from that of its own request. Only workloads whose keys and values name
 * their writer, such as locks, allow these copies.
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
const PROCESS_FAULTS = [
  'stall',
  'stop in a step',
  'suspend',
  'suspend with a stopped wall clock',
  'suspend without a boot clock',
  'kill',
  'late timers',
  'wall clock jump',
] as const;
/** The faults after which the wall clock of a process is behind the time that has passed. */
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
/** How late the fault `late timers` makes a timer at most, in milliseconds. */
export const MAX_LATE_MS = 500;
/** The numbers of events that a process may still run after the fault `kill` has struck. */
const EVENTS_BEFORE_KILL = [0, 0, 0, 0, 1, 2, 3, 4, 5, 7, 10, 14, 20, 30, 50] as const;
/** How many times later than usual some copies of requests arrive. */
const LATE_FACTOR = 30;
/** After how long a server closes a connection that the network has forgotten, in milliseconds. */
const FORGOTTEN_MS = 20_000;
/** How long a leader that is cut off from its followers believes that it leads: etcd's election timeout. */
const OLD_LEADER_MS = 1_000;
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
  /** At the write with this number of the fault's process. */
  | { readonly on: 'write'; readonly nth: number }
  /** When the fault's process enters the state for the time with this number. */
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

/** What a workload allows. */
export interface FaultChoice {
  readonly processes: number;
  readonly members: number;
  /** How long faults may begin, in milliseconds. */
  readonly activeMs: number;
  readonly kinds: readonly FaultKind[];
  /** Whether the workload reports the states of its contenders. */
  readonly hasStates: boolean;
}

/** Draws the faults of a history. Each history prefers a few kinds, because some bugs need several faults of one kind. */
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

/** Makes the faults of a history strike. */
export class Nemesis {
  /** How often each kind of fault has struck, also for each state of a contender: `kind` and `state, kind`. */
  readonly coverage = new Map<string, number>();
  readonly #world: World;
  readonly #cluster: SimulatedCluster;
  readonly #network: Network;
  readonly #processes: readonly Process[];
  readonly #faults: readonly Fault[];
  /** The faults that wait for the next call of each process. */
  readonly #armed = new Map<Process, Fault[]>();
  readonly #writes = new Map<Process, number>();
  readonly #entered = new Map<string, number>();
  /** The states of the contenders of each process, by contender. */
  readonly #states = new Map<object, { readonly process: number; state: LockState }>();
  readonly #undos = new Set<() => void>();
  /** The member that never comes back. */
  #lost: SimulatedMember | undefined;
  /** Whether the process of that member has stopped. Otherwise, the member is cut off from the others. */
  #isLostStopped = false;
  /** The kinds of faults that have struck, by process. */
  readonly #kinds = new Map<number, Set<FaultKind>>();
  #isHealed = false;

  constructor(world: World, network: Network, processes: readonly Process[], faults: readonly Fault[]) {
    this.#world = world;
    this.#cluster = network.cluster;
    this.#network = network;
    this.#processes = processes;
    this.#faults = faults;
    network.faultOf = (process, method) => this.#faultOf(process, method);
    for (const fault of faults) {
      const { trigger } = fault;
      if (trigger.on !== 'time') continue;
      world.at(world.now + trigger.ms, world.outside, 'fault:', fault.kind, () => this.#strike(fault));
    }
  }

  /** Records that a contender of a process has entered a state. Faults may strike. */
  enters(contender: object, process: number, state: LockState): void {
    const before = this.#states.get(contender);
    if (before?.state === state) return;
    this.#states.set(contender, { process, state });
    const id = `${process} ${state}`;
    const times = this.#entered.get(id) ?? 0;
    this.#entered.set(id, times + 1);
    this.count(`state ${state}`);
    for (const fault of this.#faults) {
      const { trigger } = fault;
      if (trigger.on !== 'state' || fault.process !== process || trigger.state !== state || trigger.nth !== times)
        continue;
      this.#world.note(`fault: ${fault.kind} because process ${process} is ${state}`);
      this.#strike(fault);
    }
  }

  /** Ends all faults. */
  heal(): void {
    this.#isHealed = true;
    for (const undo of [...this.#undos]) undo();
    this.#armed.clear();
    this.#network.heal();
    this.#network.slowMs = 0;
    this.#world.timerLagMs = 0;
    // A process that is stalled goes on at its time, because its timers have been postponed until then.
    for (const process of this.#processes) {
      process.stop = undefined;
      process.end = undefined;
    }
  }

  /** Counts something for the table of coverage. */
  count(what: string): void {
    this.coverage.set(what, (this.coverage.get(what) ?? 0) + 1);
  }

  /** Undoes a fault after its time, or when all faults end. */
  #undoAfter(ms: number, undo: () => void): void {
    const once = (): void => {
      if (this.#undos.delete(once)) undo();
    };
    this.#undos.add(once);
    this.#world.at(this.#world.now + ms, this.#world.outside, 'fault ends', '', once);
  }

  #strike(fault: Fault): void {
    if (this.#isHealed) return;
    const process = this.#processes[fault.process] as Process;
    if (process.isKilled) return;
    if ((CALL_FAULTS as readonly string[]).includes(fault.kind)) {
      this.#armed.set(process, [...(this.#armed.get(process) ?? []), fault]);
      return;
    }
    this.#struck(fault);
    const member = this.#cluster.members[fault.member % this.#cluster.members.length] as SimulatedMember;
    this.#perform(fault, process, member);
  }

  #struck({ kind, process }: Fault): void {
    const before = this.#kinds.get(process) ?? new Set();
    this.#kinds.set(process, before);
    if (!before.has(kind)) {
      const world = this.#world;
      for (const fault of this.#faults) {
        const { trigger } = fault;
        if (trigger.on !== 'fault' || trigger.kind !== kind || fault.process !== process) continue;
        world.at(world.now + trigger.ms, world.outside, 'fault:', fault.kind, () => this.#strike(fault));
      }
    }
    before.add(kind);
    this.count(kind);
    for (const { state } of this.#states.values()) this.count(`${state}, ${kind}`);
  }

  #perform({ kind, ms, variant }: Fault, process: Process, member: SimulatedMember): void {
    const world = this.#world;
    const until = world.now + ms;
    const path = this.#network.path(process, member);
    const own = [...this.#network.connections].filter((connection) => connection.process === process);
    switch (kind) {
      case 'cut':
      case 'cut with late requests':
        for (const connection of own) connection.cut(kind !== 'cut', this.#network.delayMs());
        return;
      case 'close one direction':
        for (const connection of own) {
          if (variant % 2 === 0) connection.cut(true, this.#network.delayMs(), ms);
          else connection.vanish(variant % 4 === 1 ? Number.POSITIVE_INFINITY : ms);
        }
        return;
      case 'forget connections':
        // As a NAT that has forgotten the connections. Connections that the process opens afterwards work.
        for (const connection of own) connection.vanish(Number.POSITIVE_INFINITY, FORGOTTEN_MS);
        return;
      case 'announce the end of connections':
        for (const connection of own) {
          world.at(world.now + this.#network.delayMs(), process, 'receives', 'GOAWAY', () => connection.onLeaving());
          world.at(until, world.outside, 'closes a connection of', process.name, () => connection.cut(true));
        }
        return;
      case 'silence to server':
        path.silence.begin(until, 'to-server');
        break;
      case 'silence to client':
        path.silence.begin(until, 'to-client');
        break;
      case 'silence':
        for (const each of this.#cluster.members)
          this.#network.path(process, each).silence.begin(until, 'to-server', 'to-client');
        break;
      case 'silence one connection': {
        const connection = own[variant % Math.max(1, own.length)];
        if (connection === undefined) return;
        if (variant % 3 !== 1) connection.silence.begin(until, 'to-server');
        if (variant % 3 !== 2) connection.silence.begin(until, 'to-client');
        break;
      }
      case 'refuse connections':
        path.refusedUntil = until;
        for (const connection of own) if (connection.member === member) connection.cut(variant % 2 === 0);
        return;
      case 'stall':
        process.stalledUntil = Math.max(process.stalledUntil, until);
        return;
      case 'stop in a step':
        process.stop = { reads: 1 + (variant % 12), ms };
        return;
      case 'suspend':
      case 'suspend with a stopped wall clock':
      case 'suspend without a boot clock':
        return this.#suspend(process, ms, variant, this.#stoppedBy(kind));
      case 'kill': {
        const events = EVENTS_BEFORE_KILL[(variant >> 2) % EVENTS_BEFORE_KILL.length] as number;
        const kill = (): void => this.#kill(process, variant % 2 === 0, variant % 4 === 3 ? ms : undefined);
        if (events === 0) kill();
        else process.end ??= { events, kill };
        return;
      }
      case 'late timers':
        world.timerLagMs = Math.min(ms, MAX_LATE_MS);
        return this.#undoAfter(ms, () => {
          world.timerLagMs = 0;
        });
      case 'wall clock jump':
        process.wallOffsetMs += (variant % 2 === 0 ? 1 : -1) * ms * 100;
        if (variant % 2 === 0) process.leapedAt = world.now;
        return;
      case 'restart':
        if (member.isDown) return;
        member.isDown = true;
        for (const connection of [...this.#network.connections])
          if (connection.member === member) connection.cut(false, this.#network.delayMs());
        return this.#undoAfter(ms, () => {
          member.isDown = this.#isStopped(member);
        });
      case 'no leader':
        if (this.#cluster.isWithoutLeader) return;
        this.#cluster.isWithoutLeader = true;
        for (const each of this.#cluster.members) this.#cluster.endLeaderStreams(each);
        return this.#undoAfter(Math.min(ms, 3_000), () => {
          this.#cluster.isWithoutLeader = false;
        });
      case 'overload':
        this.#cluster.isOverloaded = true;
        return this.#undoAfter(Math.min(ms, 3_000), () => {
          this.#cluster.isOverloaded = false;
        });
      case 'slow cluster':
        this.#network.slowMs = Math.min(ms, 400);
        return this.#undoAfter(ms, () => {
          this.#network.slowMs = 0;
        });
      case 'end streams':
        for (const each of this.#cluster.members) this.#cluster.endStreams(each);
        return;
      case 'forget tokens':
        return this.#cluster.server.member.auth.tokens.reset();
      case 'isolate member for good':
      case 'stop member for good':
        return this.#loseForGood(kind, member);
      case 'isolate member':
        if (member.isIsolated) return;
        member.isIsolated = true;
        this.#cluster.freeze(member);
        this.#cluster.endLeaderStreams(member);
        return this.#undoAfter(ms, () => {
          if (this.#lost === member) return;
          member.isIsolated = false;
          this.#cluster.catchUp(member, this.#cluster.revision, true);
        });
      case 'lag':
        this.#cluster.freeze(member);
        return this.#undoAfter(ms, () => {
          if (!member.isIsolated) this.#cluster.catchUp(member, this.#cluster.revision, true);
        });
      case 'slow follower':
        // The answers to writes wait until the member has applied them. It answers linearizable reads with an error.
        if (member.isIsolated || member.answersAt > world.now) return;
        member.answersAt = until;
        this.#cluster.freeze(member);
        return this.#undoAfter(ms, () => {
          member.answersAt = 0;
          for (const give of [...member.unapplied]) give();
          if (!member.isIsolated) this.#cluster.catchUp(member, this.#cluster.revision, true);
        });
      case 'old leader':
        // The member does not know yet that it is no longer the leader, so it keeps its streams, and calls time out.
        if (member.isIsolated || this.#cluster.members.length < 3) return;
        member.isIsolated = true;
        member.isOldLeader = true;
        this.#cluster.freeze(member);
        this.#undoAfter(Math.min(ms, OLD_LEADER_MS), () => {
          member.isOldLeader = false;
          if (member.isIsolated) this.#cluster.endLeaderStreams(member);
        });
        return this.#undoAfter(ms, () => {
          if (this.#lost === member) return;
          member.isIsolated = false;
          this.#cluster.catchUp(member, this.#cluster.revision, true);
        });
      case 'restart cluster': {
        const { server } = this.#cluster;
        if (!server.running) return;
        server.stop();
        for (const each of this.#cluster.members) each.isDown = true;
        for (const connection of [...this.#network.connections]) connection.cut(false, this.#network.delayMs());
        return this.#undoAfter(ms, () => {
          server.start();
          for (const each of this.#cluster.members) each.isDown = this.#isStopped(each);
        });
      }
      case 'restore a backup': {
        const backup = this.#cluster.server.snapshot();
        return this.#undoAfter(ms, () => {
          for (const each of this.#cluster.members) this.#cluster.catchUp(each, this.#cluster.revision, true);
          this.#cluster.server.restore(backup);
          world.note(`the store goes back to revision ${this.#cluster.revision}`);
          for (const connection of [...this.#network.connections]) connection.cut(false, this.#network.delayMs());
        });
      }
      case 'another cluster':
        // The first member stays, so that the clients have an endpoint that works.
        if (member === this.#cluster.members[0]) return;
        this.#cluster.replace(member);
        for (const connection of [...this.#network.connections])
          if (connection.member === member) connection.cut(false, this.#network.delayMs());
        return;
      case 'compact':
        return this.#cluster.compact(BigInt(variant % 4));
      default:
        return;
    }
    for (const connection of own) connection.watchSilence();
  }

  /**
   * Kills a process. `deliversLate`: its requests that are on their way still arrive. The servers notice the end of its
   * connections after `serverNoticeMs`, soon by default.
   */
  #kill(process: Process, deliversLate: boolean, serverNoticeMs: number | undefined): void {
    process.isKilled = true;
    this.#world.note(`${process.name} is killed`);
    for (const connection of [...this.#network.connections]) {
      if (connection.process !== process) continue;
      connection.isLost = true;
      connection.cut(deliversLate, 0, serverNoticeMs);
    }
  }

  /** Returns which clock a suspension stops in addition to the monotonic clock. */
  #stoppedBy(kind: FaultKind): OtherClock | undefined {
    if (kind === 'suspend with a stopped wall clock') return 'wall';
    // A client notices a suspension only if one clock shows it. The wall clock shows none if it is also set back.
    const isWallRight = this.#faults.every((fault) => !(WALL_CLOCK_FAULTS as readonly string[]).includes(fault.kind));
    return kind === 'suspend without a boot clock' && isWallRight ? 'boot' : undefined;
  }

  /** Suspends the machine of a process at once, or in the middle of one of its next steps. */
  #suspend(process: Process, ms: number, variant: number, alsoStops: OtherClock | undefined): void {
    if (variant % 2 === 0) this.#world.suspend(process, ms, alsoStops);
    else process.stop = { reads: 1 + (variant % 12), ms, suspends: { alsoStops } };
  }

  /**
   * Stops one member, or cuts it off from the others, until the end of the history. The others are a majority, so the
   * clients must make progress without this member.
   */
  #loseForGood(kind: 'isolate member for good' | 'stop member for good', member: SimulatedMember): void {
    if (this.#lost !== undefined || this.#cluster.members.length < 3 || member.isLearner) return;
    this.#lost = member;
    if (kind === 'isolate member for good') {
      member.isIsolated = true;
      this.#cluster.freeze(member);
      this.#cluster.endLeaderStreams(member);
      return;
    }
    this.#isLostStopped = true;
    member.isDown = true;
    for (const connection of [...this.#network.connections])
      if (connection.member === member) connection.cut(false, this.#network.delayMs());
  }

  #isStopped(member: SimulatedMember): boolean {
    return this.#isLostStopped && this.#lost === member;
  }

  /** Returns what happens to a call of the process. */
  #faultOf(process: Process, { path }: Method<unknown, unknown>): CallFault | undefined {
    const isWrite = WRITES.has(path);
    if (isWrite) {
      const nth = this.#writes.get(process) ?? 0;
      this.#writes.set(process, nth + 1);
      for (const fault of this.#faults) {
        const { trigger } = fault;
        if (trigger.on === 'write' && trigger.nth === nth && this.#processes[fault.process] === process)
          this.#strike(fault);
      }
    }
    const fault = this.#armed.get(process)?.shift();
    if (fault === undefined) return undefined;
    this.#struck(fault);
    this.#world.note(`fault: ${fault.kind} of ${path}`);
    return callFaultOf(fault);
  }
}

function callFaultOf({ kind, ms, variant }: Fault): CallFault {
  // Some copies arrive after minutes, when the client has released the lock, ended its session or closed itself.
  const lateMs = variant >= 40 ? ms * LATE_FACTOR : ms;
  switch (kind) {
    case 'delay request':
    case 'delay response':
    case 'early copy':
      return { type: kind, ms };
    case 'late request':
      return { type: 'lose request', ms: lateMs };
    case 'lose request':
      return { type: 'lose request', ms: undefined };
    case 'duplicate request':
      return { type: 'duplicate request', ms: lateMs };
    case 'refuse':
    case 'copy of a refused request':
      return {
        type: 'refuse',
        reason: REFUSALS[variant % REFUSALS.length] as never,
        isApplied: false,
        resetsStream: false,
        copyMs: kind === 'refuse' ? undefined : lateMs,
      };
    case 'refuse after applying':
      return {
        type: 'refuse',
        reason: UNCERTAIN_REFUSALS[variant % UNCERTAIN_REFUSALS.length] as never,
        isApplied: true,
        resetsStream: variant >= 32,
      };
    default:
      return { type: 'lose response' };
  }
}
