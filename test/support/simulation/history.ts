import type { Balance } from '../../../src/channel/endpoint-pool.js';
import type { Client, ClientOptions } from '../../../src/client/client.js';
import { CLEANUP_WAIT_MS } from '../../../src/concurrency/waiting.js';
import { EtcdError } from '../../../src/errors/etcd-error.js';
import { GUARD_PREFIX } from '../../../src/kv/keys.js';
import type { Violation } from '../../../src/testing/checks/history.js';
import { ByteNetwork, type BytePlan, drawBytes } from './byte-network.js';
import { Calls } from './calls.js';
import { type ClientPlan, Clients, drawOptions } from './clients.js';
import { type ClusterTraits, PLAIN_CLUSTER, SimulatedCluster } from './cluster.js';
import {
  drawFaults,
  FAULT_KINDS,
  type Fault,
  type FaultKind,
  type LockState,
  MAX_LATE_MS,
  Nemesis,
  STORE_FAULTS,
  STRANGE_COPIES,
} from './faults.js';
import { type DelayName, Network } from './network.js';
import { Random } from './random.js';
import { Process, type TraceLine, World } from './world.js';

/** How long the waits of a history may last after the faults have ended, in simulated milliseconds. */
const PROGRESS_MS = 120_000;
/**
 * How much later than its cause an effect may be after the faults have ended, in simulated milliseconds: the time to
 * notice that a connection is dead, and a backoff.
 */
const MAX_LATENESS_MS = 10_000;
/** The kinds of faults that hold back requests or responses. */
const HOLDS_BACK: ReadonlySet<string> = new Set(['delay request', 'delay response', 'early copy', 'slow follower']);
/** The TTL of the lease of a client's guards, in seconds. */
const GUARDS_TTL_S = 600n;
/** How long a wait that has ended early may clean up, in simulated milliseconds. */
const MAX_CLEANUPS_MS = CLEANUP_WAIT_MS + 5;
/** Number of timers of a wait that may be late one after another. */
const MAX_LAGS = 2;
/** How long the world goes on after all clients are closed, until all leases have expired and all copies arrived. */
const AFTERMATH_MS = 30_000;
/** The slowest and the fastest clock. A lease with a TTL of up to 10 s is safe if their quotient is below 10/9. */
const MIN_RATE = 0.96;
const MAX_RATE = 1.06;
/** How long a timer that is due may still be pending, in simulated milliseconds. */
const MAX_TIMER_LAG_MS = 600;
/**
 * How often a member may refuse connections of one process within `REFUSALS_MS`. All calls share one attempt, after a
 * backoff of up to 2 s. Each stream makes attempts of its own.
 */
const MAX_REFUSALS = 60;
const REFUSALS_MS = 4_000;
/** Number of events after which a history counts as endless. */
const MAX_EVENTS = 60_000;

/** The column of the histories over byte streams in the table of coverage. */
const OVER_HTTP2 = 'over HTTP/2';

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

/** What a workload sees of its history. */
export interface Context<Op> {
  readonly world: World;
  readonly cluster: SimulatedCluster;
  readonly network: Network;
  readonly plan: Plan<Op>;
  /** Resolves, in each process, when all faults have ended. */
  healed(): Promise<void>;
  /**
   * Checks that an effect is not late: it happens now in the running process, and could have happened at `causeMs`.
   * Nothing is late while faults may happen.
   */
  checkLate(causeMs: number, what: string): void;
  /** Checks that a call that began at `startMs` and must end after `limitMs` ends now, in the running process. */
  checkEnd(startMs: number, limitMs: number, what: string): void;
  /** Returns a process by its index. */
  process(index: number): Process;
  /** Opens a client in the running process. It is closed at the end. */
  client(index: number, options?: Partial<ClientOptions>): Client;
  /** Reports the state of a contender of a process. */
  enters(contender: object, process: number, state: LockState): void;
  /** Counts something that happens in few histories, for the table of coverage. */
  count(what: string): void;
  /** Reports a broken rule. */
  violated(rule: string, detail: string): void;
  /** Says what a process is waiting for, for the report of a history that does not end. Undefined: nothing. */
  waits(process: number, what: string | undefined): void;
}

/** One kind of history. */
export interface Workload<Op> {
  readonly name: string;
  /** How often the workload is drawn. */
  readonly weight: number;
  /** The faults that its checks allow. Default: all. */
  readonly without?: readonly FaultKind[];
  readonly hasStates?: boolean;
  /** Whether the workload allows copies before the original, and of requests that were refused. */
  readonly toleratesCopies?: boolean;
  /** Whether the clients make only unary calls, so that a server may limit the streams of a connection. */
  readonly isUnary?: boolean;
  /** Whether the workload allows that the store is replaced. */
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

/** What a history has shown. */
export interface HistoryResult {
  readonly violations: readonly Violation[];
  /** A hash of everything that happened. */
  readonly hash: number;
  readonly events: number;
  readonly virtualMs: number;
  readonly coverage: ReadonlyMap<string, number>;
  readonly trace: readonly TraceLine[];
}

/** Draws the plan of the history with this seed. */
export function planOf<Op>(workload: Workload<Op>, seed: number): Plan<Op> {
  const random = new Random(seed);
  const members = random.pick([1, 1, 2, 3]);
  const processes = workload.generate(random);
  const activeMs = random.pick([500, 3_000, 10_000, 20_000]);
  const { without = [], hasStates = false, isRestored = false, isUnary = false, toleratesCopies = false } = workload;
  const unwanted: readonly FaultKind[] = toleratesCopies ? without : [...without, ...STRANGE_COPIES];
  const kinds: FaultKind[] = FAULT_KINDS.filter((kind) => !unwanted.includes(kind));
  if (!isRestored) kinds.splice(-STORE_FAULTS.length);
  // These faults are the point of such a workload.
  else kinds.push(...STORE_FAULTS, ...STORE_FAULTS, ...STORE_FAULTS, ...STORE_FAULTS);
  return {
    workload: workload.name,
    seed,
    members,
    delays: random.pick(['none', 'short', 'short', 'long', 'uneven'] as const),
    timerLagMs: random.pick([0, 0, 2, 40]),
    rates: workload.hasOneRate ? undefined : drawRates(new Random(seed, 12), processes.length),
    bytes: drawBytes(new Random(seed, 9), isUnary),
    maxInFlight: new Random(seed, 10).pick([undefined, undefined, undefined, 1, 2]),
    balance: new Random(seed, 11).pick(['in-order', 'sticky', 'round-robin'] as const),
    options: drawOptions(new Random(seed, 13)),
    activeMs,
    processes,
    faults: drawFaults(random, { processes: processes.length, members, activeMs, kinds, hasStates }),
    // A store that is replaced has other users, too.
    traits: isRestored ? PLAIN_CLUSTER : drawTraits(random, members),
  };
}

/** Draws rates of clocks that differ by less than the margin of a lease allows (S14). */
function drawRates(random: Random, processes: number): readonly number[] | undefined {
  if (random.chance(0.4)) return undefined;
  return Array.from({ length: 1 + processes }, () => {
    if (random.chance(0.3)) return random.pick([MIN_RATE, MAX_RATE]);
    return MIN_RATE + random.fraction() * (MAX_RATE - MIN_RATE);
  });
}

function drawTraits(random: Random, members: number): ClusterTraits {
  const isProxy = random.chance(0.12);
  return {
    isProxy,
    progressOvertakes: !isProxy && random.chance(0.12),
    splitsEvents: !isProxy && random.chance(0.3),
    hasLearner: members > 1 && random.chance(0.12),
    hasAuth: random.chance(0.12),
  };
}

/** Plays one history. */
export async function runHistory<Op>(
  workload: Workload<Op>,
  plan: Plan<Op>,
  options: { readonly isTraced?: boolean } = {},
): Promise<HistoryResult> {
  const world = new World(new Random(plan.seed, 1 + (plan.schedule ?? 0)), options);
  const restore = world.install();
  const { stackTraceLimit } = Error;
  // The errors of a history are many, and their stacks take more time than all its events.
  if (!options.isTraced) Error.stackTraceLimit = 0;
  try {
    return await new Play(world, workload, plan).run();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
    restore();
  }
}

class Play<Op> {
  readonly #world: World;
  readonly #cluster: SimulatedCluster;
  readonly #network: Network;
  readonly #bytes: ByteNetwork | undefined;
  readonly #nemesis: Nemesis;
  readonly #plan: Plan<Op>;
  readonly #player: Player<Op>;
  readonly #processes: readonly Process[];
  readonly #clients: Clients;
  readonly #violations: Violation[] = [];
  /** The latest times at which a member has refused a connection of a process, by both names. */
  readonly #refusals = new Map<string, number[]>();
  readonly #waits = new Map<number, string>();
  readonly #healed: (() => void)[] = [];
  readonly #calls: Calls;
  /** Number of operations of all processes. */
  readonly #operations: number;
  /** How late a timer may be, in milliseconds. */
  readonly #maxTimerLagMs: number;
  /** When the faults have ended. */
  #healedMs: number | undefined;

  constructor(world: World, workload: Workload<Op>, plan: Plan<Op>) {
    this.#world = world;
    this.#plan = plan;
    this.#cluster = new SimulatedCluster(world, plan.members, plan.traits);
    this.#network = new Network(world, this.#cluster);
    this.#network.delays = plan.delays;
    // With a retry policy, each call has its own backoff. If no message takes time, or timers are late, calls that wait
    // until the same time cannot share one attempt.
    const sharesAttempts =
      !plan.options?.hasRetryPolicy &&
      plan.delays !== 'none' &&
      plan.timerLagMs === 0 &&
      plan.faults.every(({ kind }) => kind !== 'late timers');
    if (sharesAttempts)
      this.#network.onRefused = (process, member) => this.#refused(process, `${process.name} ${member.url}`);
    const violated = (rule: string, detail: string): void => this.#violated(rule, detail);
    this.#bytes = plan.bytes && new ByteNetwork(this.#network, plan.bytes, violated);
    this.#network.onAuthenticatedTwice = ({ name }) =>
      this.#violated('authenticates twice', `${name}, although another call of its client authenticates`);
    world.timerLagMs = plan.timerLagMs;
    this.#processes = plan.processes.map((_, index) => new Process(`process ${index}`));
    const [serverRate = 1, ...rates] = plan.rates ?? [];
    world.outside.rate = serverRate;
    for (const [index, process] of this.#processes.entries()) process.rate = rates[index] ?? 1;
    const lagsMore = plan.faults.some(({ kind }) => kind === 'late timers');
    this.#maxTimerLagMs = lagsMore ? MAX_LATE_MS : plan.timerLagMs;
    this.#calls = new Calls(world, {
      maxTimerLagMs: this.#maxTimerLagMs,
      isRestored: workload.isRestored ?? false,
      endpoints: this.#cluster.members.map(({ url }) => url),
      violated,
    });
    this.#cluster.calls = this.#calls;
    const { sizeOf = () => 1 } = workload;
    this.#operations = plan.processes.flatMap(({ ops }) => ops).reduce((sum, op) => sum + sizeOf(op), 0);
    this.#clients = new Clients(world, this.#cluster, {
      calls: this.#calls,
      plan: plan.options,
      maxInFlight: plan.maxInFlight,
      balance: plan.balance,
      transportOf: (process) => (this.#bytes ?? this.#network).transportOf(process),
    });
    this.#nemesis = new Nemesis(world, this.#network, this.#processes, plan.faults);
    this.#player = workload.begin({
      world,
      cluster: this.#cluster,
      network: this.#network,
      plan,
      healed: () => this.#untilHealed(),
      checkLate: (causeMs, what) => this.#checkLate(causeMs, what),
      checkEnd: (beganMs, limitMs, what) => this.#checkEnd(beganMs, limitMs, what),
      process: (index) => this.#processes[index] as Process,
      client: (index, clientOptions = {}) =>
        this.#clients.open(this.#processes[index] as Process, index % plan.members, clientOptions),
      enters: (contender, process, state) => this.#nemesis.enters(contender, process, state),
      count: (what) => this.#nemesis.count(what),
      violated,
      waits: (process, what) => {
        if (what === undefined) this.#waits.delete(process);
        else this.#waits.set(process, what);
      },
    });
  }

  async run(): Promise<HistoryResult> {
    const stopRecording = this.#clients.record();
    try {
      return await this.#play();
    } finally {
      stopRecording();
    }
  }

  async #play(): Promise<HistoryResult> {
    const world = this.#world;
    const startMs = world.now;
    const playing = this.#inEach('starts', (index) =>
      this.#player.play(index, this.#plan.processes[index] as ProcessPlan<Op>),
    );
    const isDone = (): boolean => playing.size === 0 || world.events > MAX_EVENTS;
    await world.run(isDone, startMs + this.#plan.activeMs);
    this.#heal();
    await world.run(() => this.#isOver(playing) || isDone(), world.now + PROGRESS_MS);
    if (!this.#isOver(playing)) {
      const after = world.events > MAX_EVENTS ? `${MAX_EVENTS} events` : `${PROGRESS_MS} ms without faults`;
      this.#stuck(playing, `after ${after}`);
    } else await this.#end();
    for (const error of world.unhandled) this.#violated('unhandled', textOf(error));
    return {
      violations: this.#violations,
      hash: world.hash,
      events: world.events,
      virtualMs: world.now - startMs,
      coverage: this.#coverage(),
      trace: world.trace ?? [],
    };
  }

  /** Counts the faults of a history over byte streams a second time, in a column of their own. */
  #coverage(): ReadonlyMap<string, number> {
    const { coverage } = this.#nemesis;
    if (this.#bytes === undefined) return coverage;
    const all = new Map([...coverage, ...this.#bytes.coverage]);
    for (const [what, times] of [...all])
      if (!what.startsWith('state ') && !what.includes(', ')) all.set(`${OVER_HTTP2}, ${what}`, times);
    return all.set(`state ${OVER_HTTP2}`, 1);
  }

  /** Closes the clients, and checks what is left. */
  async #end(): Promise<void> {
    const world = this.#world;
    const closing = this.#inEach('closes its clients', (_, process) => this.#clients.close(process));
    await world.run(() => this.#isOver(closing), world.now + PROGRESS_MS);
    if (!this.#isOver(closing)) return this.#stuck(closing, 'while its clients close');
    await world.run(() => false, world.now + MAX_TIMER_LAG_MS);
    for (const process of this.#processes) {
      // A timer starts late if the process is stopped between the computation of the delay and the start of the timer.
      if (process.isKilled || process.wasStopped || process.foreground.size === 0) continue;
      const stacks = [...process.foreground].map(({ stack = '' }) => stack);
      this.#violated('timer left', `${stacks.length} timers of ${process.name}${stacks.join('\n')}`);
    }
    this.#network.onCopy = () => this.#nemesis.count('copy after the end of all clients');
    await world.run(() => false, Math.max(world.now, this.#network.lastCopyMs) + AFTERMATH_MS);
    this.#bytes?.checkLeft();
    const { member } = this.#cluster.server;
    for (const lease of member.leases.ids) {
      // A client that could not revoke the lease of its guards leaves it, until it expires.
      const isOfGuards = member.leases.timeToLive(lease)?.granted === GUARDS_TTL_S;
      if (!isOfGuards && !this.#player.mayLeasesStay?.()) this.#violated('lease left', lease.toString(16));
    }
    const left = new Set<string>();
    for (const { type, key } of this.#cluster.truth) {
      if (type === 'put') left.add(key);
      else left.delete(key);
    }
    for (const key of left)
      if (!key.startsWith(GUARD_PREFIX) && !this.#player.mayStay(key)) this.#violated('key left', key);
    this.#player.check();
    this.#calls.check();
    // Allow each process the calls for all operations, because a process also watches the keys and handles the jobs of
    // others.
    for (const process of this.#processes) this.#calls.checkCost(process, this.#operations);
    this.#clients.checkLeft((rule, detail) => this.#violated(rule, detail));
  }

  #heal(): void {
    this.#world.note('all faults end');
    if (this.#plan.delays === 'uneven') this.#network.delays = 'short';
    this.#nemesis.heal();
    if (this.#bytes !== undefined) this.#bytes.isHealed = true;
    this.#healedMs = this.#world.now;
    for (const resolve of this.#healed.splice(0)) resolve();
  }

  #checkLate(causeMs: number, what: string): void {
    if (this.#healedMs === undefined) return;
    const { time, current } = this.#world;
    const lateMs = time - Math.max(causeMs, this.#healedMs, current.stalledUntil);
    // These faults may still hold back a request or a response when the faults end.
    const heldBackMs = this.#plan.faults.map(({ kind, ms }) => (HOLDS_BACK.has(kind) ? ms : 0));
    if (lateMs > MAX_LATENESS_MS + Math.max(0, ...heldBackMs))
      this.#violated('late effect', `${what} of ${current.name}: ${lateMs} ms`);
  }

  #checkEnd(startMs: number, limitMs: number, what: string): void {
    const { time, current } = this.#world;
    const dueMs = startMs + limitMs / MIN_RATE + current.suspendedSince(startMs);
    const lateMs = time - Math.max(dueMs, current.stalledUntil);
    if (lateMs > MAX_CLEANUPS_MS / MIN_RATE + MAX_LAGS * this.#maxTimerLagMs)
      this.#violated('late end', `${what} of ${current.name}: ${lateMs} ms after its limit of ${limitMs} ms`);
  }

  #untilHealed(): Promise<void> {
    if (this.#healedMs !== undefined) return Promise.resolve();
    const { current } = this.#world;
    return new Promise((resolve) => this.#healed.push(() => this.#world.soon(current, 'learns of the end', resolve)));
  }

  /** Calls `act` in each process. Returns the processes whose promise has not resolved yet. */
  #inEach(kind: string, act: (index: number, process: Process) => Promise<void>): Set<Process> {
    const open = new Set(this.#processes.filter(({ isKilled }) => !isKilled));
    for (const process of open)
      this.#world.soon(process, kind, () => {
        act(this.#processes.indexOf(process), process).then(
          () => open.delete(process),
          (error: unknown) => {
            open.delete(process);
            this.#violated('unexpected error', `${process.name}: ${textOf(error)}`);
          },
        );
      });
    return open;
  }

  #isOver(open: ReadonlySet<Process>): boolean {
    for (const process of open) if (!process.isKilled) return false;
    return true;
  }

  /** Checks that a process does not try too often to connect to a member that refuses connections. */
  #refused({ name }: Process, path: string): void {
    const { now } = this.#world;
    const times = [...(this.#refusals.get(path) ?? []), now].slice(-MAX_REFUSALS);
    this.#refusals.set(path, times);
    if (times.length === MAX_REFUSALS && now - (times[0] as number) < REFUSALS_MS)
      this.#violated('too many connections', `${name} has tried ${MAX_REFUSALS} times within ${REFUSALS_MS} ms`);
  }

  #stuck(open: ReadonlySet<Process>, when: string): void {
    for (const process of open) {
      if (process.isKilled) continue;
      const what = this.#waits.get(this.#processes.indexOf(process)) ?? 'its end';
      this.#violated('no progress', `${process.name} waits for ${what} ${when}`);
    }
  }

  #violated(rule: string, detail: string): void {
    this.#violations.push({ rule, detail });
  }
}

function textOf(error: unknown): string {
  if (error instanceof EtcdError) return `${error.reason}: ${error.message}\n${error.stack ?? ''}`;
  return error instanceof Error ? (error.stack ?? error.message) : String(error);
}
