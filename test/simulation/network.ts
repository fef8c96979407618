import type { Method } from '../../src/wire/protobuf/schema.js';
import type { CallFault } from './call-faults.js';
import type { SimulatedCluster } from './cluster.js';
import type { SimulatedMember } from './member.js';
import type { Process } from './process.js';
import { type Direction, Silence } from './silence.js';
import type { World } from './world.js';

/** The longest delay of a message on a fast network, in milliseconds. */
const SHORT_DELAY_MS = 2;
/** The longest delay of a message, in milliseconds. */
const MAX_DELAY_MS = 3_000;

/** The distributions of the delays of messages. A history uses one of them. */
export const DELAYS = {
  /** Every message arrives at once, so only the order of events is random. */
  none: () => 0,
  /** Messages take up to 2 ms. */
  short: (random) => random.fraction() * SHORT_DELAY_MS,
  /** Messages take up to 200 ms. */
  long: (random) => random.fraction() * 200,
  /** Most messages take up to 2 ms, and some take up to 3 s. */
  uneven: (random) => (random.chance(0.9) ? random.fraction() * SHORT_DELAY_MS : random.magnitude(10, MAX_DELAY_MS)),
} as const satisfies Record<string, (random: World['random']) => number>;

export type DelayName = keyof typeof DELAYS;

/** The network between one process and one member. */
export class Path {
  readonly silence = new Silence();
  /** The member refuses connections until this time. */
  refusedUntil = 0;
}

/**
 * The messages of a connection that take longer than `SHORT_DELAY_MS`. When all faults end, these messages arrive soon.
 */
export class SlowMessages {
  readonly #network: Network;
  /** The functions that let the messages arrive earlier. */
  readonly #slow = new Set<() => void>();

  constructor(network: Network) {
    this.#network = network;
  }

  /** Schedules the arrival of a message. */
  deliver(due: number, owner: Process, kind: string, detail: string, arrive: () => void): void {
    const { world } = this.#network;
    // A process that was stopped in the middle of an event sends its message later than `now`.
    const sentAt = world.time;
    if (due - sentAt <= SHORT_DELAY_MS) return void world.at(due, owner, kind, detail, arrive);
    const hasten = (): void => {
      cancel();
      this.#slow.delete(hasten);
      const soon = Math.max(world.now, sentAt) + this.#network.delayMs();
      world.at(Math.min(due, soon), owner, kind, detail, arrive);
    };
    const cancel = world.at(due, owner, kind, detail, () => {
      this.#slow.delete(hasten);
      arrive();
    });
    this.#slow.add(hasten);
  }

  /** Lets all messages arrive soon. */
  hasten(): void {
    for (const hasten of [...this.#slow]) hasten();
  }
}

/** The part of a connection between a client and a member that the faults use. */
export interface Link {
  readonly process: Process;
  readonly member: SimulatedMember;
  readonly silence: Silence;
  /** Whether the client no longer uses the connection. */
  isLost: boolean;
  /** The server announces that it closes the connection. Runs in the process of the client. */
  onLeaving(): void;
  /** Makes the client notice, after some time, that the connection is silent. */
  watchSilence(): void;
  /**
   * Cuts the connection. `deliversLate`: requests that are on their way still arrive. The client notices the cut after
   * `noticeMs`, 0 by default, and the server after `serverNoticeMs`, soon by default.
   */
  cut(deliversLate?: boolean, noticeMs?: number, serverNoticeMs?: number): void;
  /**
   * Stops all deliveries. The client learns of the end after `ms`, as if a firewall dropped the packets that report the
   * end until then. The client may learn of the end earlier through its pings. The server closes its end after
   * `serverNoticeMs`, soon by default.
   */
  vanish(ms: number, serverNoticeMs?: number): void;
  /** Ends all faults. */
  heal(): void;
}

/** The simulated network. It decides whether and when each message arrives. */
export class Network {
  readonly world: World;
  readonly cluster: SimulatedCluster;
  /** The open connections. */
  readonly connections = new Set<Link>();
  /** Each request takes up to this many milliseconds longer, because the cluster is slow. */
  slowMs = 0;
  /** Called when a process authenticates a second time before the first answer. */
  onAuthenticatedTwice: (process: Process) => void = () => {};
  /** The number of unanswered calls with which each process authenticates. */
  readonly authenticating = new Map<Process, number>();
  /** Called when a member refuses a connection of a process. */
  onRefused: (process: Process, member: SimulatedMember) => void = () => {};
  /** The latest known time at which a copy of a request arrives. */
  lastCopyMs = 0;
  /** Called when a copy of a request, or a late request, arrives. */
  onCopy: () => void = () => {};
  /** Returns the fault of the next unary call of this process, or undefined. */
  faultOf: (process: Process, method: Method<unknown, unknown>) => CallFault | undefined = () => undefined;
  #delay: (typeof DELAYS)[DelayName] = DELAYS.none;
  /** The packets that tell clients of the end of a connection. */
  readonly #ends = new SlowMessages(this);
  readonly #paths = new Map<string, Path>();

  constructor(world: World, cluster: SimulatedCluster) {
    this.world = world;
    this.cluster = cluster;
  }

  /** Lets a copy of a request, or a late request, arrive after `ms`, also if all clients are closed by then. */
  arriveLate(ms: number, kind: string, detail: string, arrive: () => void): void {
    const { world } = this;
    const due = world.time + ms;
    this.lastCopyMs = Math.max(this.lastCopyMs, due);
    world.at(due, world.outside, kind, detail, () => {
      this.onCopy();
      arrive();
    });
  }

  set delays(name: DelayName) {
    this.#delay = DELAYS[name];
  }

  delayMs(): number {
    return this.#delay(this.world.random);
  }

  /** Returns how much longer a message takes because the cluster is slow. */
  slownessMs(direction: Direction): number {
    return direction === 'to-server' && this.slowMs > 0 ? this.world.random.fraction() * this.slowMs : 0;
  }

  /**
   * Makes a client notice the end, or the refusal, of a connection after `ms`. If `ms` is at most `MAX_DELAY_MS`, the
   * packet that tells the client counts as delayed: it arrives soon when all faults end.
   */
  notice(process: Process, ms: number, kind: string, detail: string, action: () => void): void {
    const due = this.world.time + ms;
    if (ms <= MAX_DELAY_MS) this.#ends.deliver(due, process, kind, detail, action);
    else this.world.at(due, process, kind, detail, action);
  }

  path(process: Process, member: SimulatedMember): Path {
    const id = `${process.name} ${member.url}`;
    const path = this.#paths.get(id) ?? new Path();
    this.#paths.set(id, path);
    return path;
  }

  /** Ends all faults. */
  heal(): void {
    this.faultOf = () => undefined;
    const { now } = this.world;
    for (const path of this.#paths.values()) {
      path.silence.end(now);
      path.refusedUntil = Math.min(path.refusedUntil, now);
    }
    for (const connection of this.connections) connection.heal();
    this.cluster.heal();
    this.#ends.hasten();
  }
}
