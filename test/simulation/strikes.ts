import type { SimulatedCluster } from './cluster.js';
import { type Fault, type FaultKind, MAX_LATE_MS, WALL_CLOCK_FAULTS } from './faults.js';
import type { SimulatedMember } from './member.js';
import type { Network } from './network.js';
import type { OtherClock, Process } from './process.js';
import type { World } from './world.js';

/** The numbers of events that a process may still run after the fault `kill` has struck. */
const EVENTS_BEFORE_KILL = [0, 0, 0, 0, 1, 2, 3, 4, 5, 7, 10, 14, 20, 30, 50] as const;
/** The time in milliseconds after which a server closes a connection that the network has forgotten. */
const FORGOTTEN_MS = 20_000;
/** How long a leader that is cut off from its followers considers itself the leader: etcd's election timeout. */
const OLD_LEADER_MS = 1_000;

/** Performs the faults of processes, connections and the cluster, and ends their effects. */
export class Strikes {
  readonly #world: World;
  readonly #cluster: SimulatedCluster;
  readonly #network: Network;
  /** All faults of the history. */
  readonly #faults: readonly Fault[];
  readonly #undos = new Set<() => void>();
  /** The member that a fault has stopped or isolated for the rest of the history. Undefined if no fault has done so. */
  #lost: SimulatedMember | undefined;
  /** Whether the process of the lost member has stopped. Otherwise, this member is cut off from the other members. */
  #isLostStopped = false;

  constructor(world: World, network: Network, faults: readonly Fault[]) {
    this.#world = world;
    this.#cluster = network.cluster;
    this.#network = network;
    this.#faults = faults;
  }

  /** Undoes the effects of all faults. */
  undoAll(): void {
    for (const undo of [...this.#undos]) undo();
  }

  /** Performs a fault that does not concern a call. `member` is the member that the fault concerns. */
  perform(fault: Fault, process: Process, named: SimulatedMember): void {
    const { kind, member } = this.#cluster.adapt(fault, named);
    const { ms, variant } = fault;
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
        // The network behaves like a NAT that has forgotten the connections. Connections that the process opens
        // afterwards work.
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
        // A process that was stopped in the middle of an event has already read its clocks for the time `reached`.
        if (variant % 2 === 0) process.leapedAt = Math.max(world.now, process.reached);
        return;
      case 'restart':
        if (member.isDown) return;
        this.#cluster.stop(member);
        this.#cutConnections(member);
        return this.#undoAfter(ms, () => {
          if (!this.#isStopped(member)) this.#cluster.start(member);
        });
      case 'no leader':
        if (this.#cluster.isWithoutLeader) return;
        this.#cluster.loseLeader();
        return this.#undoAfter(Math.min(ms, 3_000), () => this.#cluster.regainLeader());
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
        for (const each of this.#cluster.members) each.endStreams();
        return;
      case 'forget tokens':
        for (const { state } of this.#cluster.server.members) state.auth.tokens.reset();
        return;
      case 'isolate member for good':
      case 'stop member for good':
        return this.#loseForGood(kind, member);
      case 'isolate member':
        if (member.isIsolated) return;
        this.#cluster.isolate(member);
        return this.#undoAfter(ms, () => this.#rejoin(member));
      case 'lag':
        member.freeze(this.#cluster.revision);
        return this.#undoAfter(ms, () => {
          if (!member.isIsolated) member.thaw();
        });
      case 'slow follower':
        // The answers to writes wait until the member has applied them. The member answers linearizable reads with an
        // error.
        if (member.isIsolated || member.answersAt > world.now) return;
        member.answersAt = until;
        member.freeze(this.#cluster.revision);
        return this.#undoAfter(ms, () => {
          member.answersAt = 0;
          for (const give of [...member.unapplied]) give();
          if (!member.isIsolated) member.thaw();
        });
      case 'old leader':
        // The member has not noticed yet that it is no longer the leader, so it keeps its streams, and calls time out.
        if (member.isIsolated || this.#cluster.members.length < 3) return;
        member.isIsolated = true;
        member.isOldLeader = true;
        member.freeze(this.#cluster.revision);
        this.#undoAfter(Math.min(ms, OLD_LEADER_MS), () => {
          member.isOldLeader = false;
          if (member.isIsolated) member.endLeaderStreams();
        });
        return this.#undoAfter(ms, () => this.#rejoin(member));
      case 'restart cluster': {
        const { server, members } = this.#cluster;
        if (!server.running) return;
        this.#cluster.stopAll();
        this.#cutConnections();
        return this.#undoAfter(ms, () => this.#cluster.startAll(members.filter((each) => !this.#isStopped(each))));
      }
      case 'restore a backup': {
        const restore = this.#cluster.backup();
        return this.#undoAfter(ms, () => {
          restore();
          this.#cutConnections();
        });
      }
      case 'another cluster':
        // The first member is never replaced, so that the clients have an endpoint that works.
        if (member === this.#cluster.members[0]) return;
        this.#cluster.replace(member);
        this.#cutConnections(member);
        return;
      case 'compact':
        return this.#cluster.compact(BigInt(variant % 4));
      default:
        return;
    }
    for (const connection of own) connection.watchSilence();
  }

  /** Calls `undo` once: after `ms` milliseconds, or when `undoAll` ends all faults earlier. */
  #undoAfter(ms: number, undo: () => void): void {
    const once = (): void => {
      if (this.#undos.delete(once)) undo();
    };
    this.#undos.add(once);
    this.#world.at(this.#world.now + ms, this.#world.outside, 'fault ends', '', once);
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
    // A client notices a suspension only if one clock shows it. The wall clock does not show the suspension if it is
    // also set back.
    const isWallRight = this.#faults.every((fault) => !(WALL_CLOCK_FAULTS as readonly string[]).includes(fault.kind));
    return kind === 'suspend without a boot clock' && isWallRight ? 'boot' : undefined;
  }

  /** Suspends the machine of a process at once, or in the middle of one of its next steps. */
  #suspend(process: Process, ms: number, variant: number, alsoStops: OtherClock | undefined): void {
    if (variant % 2 === 0) this.#world.suspend(process, ms, alsoStops);
    else process.stop = { reads: 1 + (variant % 12), ms, suspends: { alsoStops } };
  }

  /**
   * Stops one member, or cuts it off from the other members, until the end of the history. The other members are a
   * majority, so the clients must make progress without this member.
   */
  #loseForGood(kind: 'isolate member for good' | 'stop member for good', member: SimulatedMember): void {
    if (this.#lost !== undefined || this.#cluster.members.length < 3 || member.isLearner) return;
    this.#lost = member;
    if (kind === 'isolate member for good') return this.#cluster.isolate(member);
    this.#isLostStopped = true;
    this.#cluster.stop(member);
    this.#cutConnections(member);
  }

  /** Connects an isolated member with the other members, unless it stays isolated until the end of the history. */
  #rejoin(member: SimulatedMember): void {
    if (this.#lost !== member) this.#cluster.rejoin(member);
  }

  /** Cuts the connections to a member. Default: to all members. */
  #cutConnections(member?: SimulatedMember): void {
    for (const connection of [...this.#network.connections])
      if (member === undefined || connection.member === member) connection.cut(false, this.#network.delayMs());
  }

  #isStopped(member: SimulatedMember): boolean {
    return this.#isLostStopped && this.#lost === member;
  }
}
