import { EtcdError } from '../../src/base/etcd-error.js';
import { GUARD_PREFIX } from '../../src/client/kv/keys.js';
import { CLEANUP_WAIT_MS } from '../../src/locks/waiting.js';
import type { Violation } from '../../src/testing/checks/history.js';
import { byteTransport } from './bytes/connection.js';
import { ByteNetwork } from './bytes/network.js';
import { Calls } from './calls.js';
import { Clients } from './clients.js';
import { SimulatedCluster } from './cluster.js';
import { MIN_RATE } from './draw-plan.js';
import { MAX_LATE_MS } from './faults.js';
import { messageTransport } from './messages/transport.js';
import { Nemesis } from './nemesis.js';
import { Network } from './network.js';
import type { Plan, ProcessPlan } from './plan.js';
import { Process } from './process.js';
import { SimulatedRaftCluster } from './raft-cluster.js';
import { Random } from './random.js';
import type { Player, Workload } from './workload.js';
import { type TraceLine, World } from './world.js';

/** How long the waits of a history may last after the faults have ended, in simulated milliseconds. */
const PROGRESS_MS = 120_000;
/**
 * How much later than its cause an effect may be after the faults have ended, in simulated milliseconds: the time to
 * notice that a connection is dead, and a backoff.
 */
const MAX_LATENESS_MS = 10_000;
/**
 * How much later an effect may be if a member is a learner. A client whose only other member has failed asks the
 * learner, which refuses, until it connects to the other member again: the call then waits for a second backoff.
 */
const LEARNER_LATENESS_MS = 2_000;
/**
 * How much later an effect may be if a member stays cut off from the other members. It answers a call only after the
 * limit of the server, and pings at once, so a client leaves it after this call.
 */
const ISOLATED_LATENESS_MS = 7_000;
/** The kinds of faults that hold back requests or responses. */
const HOLDS_BACK: ReadonlySet<string> = new Set(['delay request', 'delay response', 'early copy', 'slow follower']);
/** The TTL of the lease of a client's guards, in seconds. */
const GUARDS_TTL_S = 600n;
/** How long a wait may clean up after its limit, in simulated milliseconds. */
const MAX_CLEANUPS_MS = CLEANUP_WAIT_MS + 5;
/** Number of timers of a wait that may be late one after another. */
const MAX_LAGS = 2;
/**
 * How long the world goes on after all clients are closed and the last known copy has arrived. In this time, the leases
 * of the sessions expire.
 */
const AFTERMATH_MS = 30_000;
/** How long a timer that is due may still be pending, in simulated milliseconds. */
const MAX_TIMER_LAG_MS = 600;
/**
 * The process violates the rule `too many connections` if one member refuses this number of its connections within
 * `REFUSALS_MS`. All calls share one attempt to connect, after a backoff of up to 2 s. Each stream makes its own
 * attempts.
 */
const MAX_REFUSALS = 60;
const REFUSALS_MS = 4_000;
/** Number of events after which a history counts as endless. */
const MAX_EVENTS = 60_000;

/** The column of the histories over byte streams in the table of coverage. */
const OVER_HTTP2 = 'over HTTP/2';

/** The result of a history. */
export interface HistoryResult {
  readonly violations: readonly Violation[];
  /** A hash of everything that happened. */
  readonly hash: number;
  readonly events: number;
  readonly virtualMs: number;
  readonly coverage: ReadonlyMap<string, number>;
  readonly trace: readonly TraceLine[];
}

/** The history that is being played. */
let playing: Promise<unknown> = Promise.resolve();

/**
 * Plays one history, after all histories that began before it, because all worlds replace the same clocks and timers.
 * A test that has timed out may still play a history when the next test begins.
 */
export function runHistory<Op>(
  workload: Workload<Op>,
  plan: Plan<Op>,
  options: { readonly isTraced?: boolean } = {},
): Promise<HistoryResult> {
  const result = playing.then(() => playHistory(workload, plan, options));
  playing = result.catch(() => {});
  return result;
}

async function playHistory<Op>(
  workload: Workload<Op>,
  plan: Plan<Op>,
  options: { readonly isTraced?: boolean },
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
  /**
   * The latest times at which a member has refused a connection of a process, by the names of the process and the
   * member.
   */
  readonly #refusals = new Map<string, number[]>();
  readonly #waits = new Map<number, string>();
  readonly #healed: (() => void)[] = [];
  readonly #calls: Calls;
  /** Number of operations of all processes. */
  readonly #operations: number;
  /** How late a timer may be, in milliseconds. */
  readonly #maxTimerLagMs: number;
  /** When the faults ended. Undefined while faults may happen. */
  #healedMs: number | undefined;

  constructor(world: World, workload: Workload<Op>, plan: Plan<Op>) {
    this.#world = world;
    this.#plan = plan;
    this.#cluster = workload.hasRaft
      ? new SimulatedRaftCluster(world)
      : new SimulatedCluster(world, plan.members, plan.traits);
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
      transportOf: (process) =>
        this.#bytes === undefined ? messageTransport(this.#network, process) : byteTransport(this.#bytes, process),
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

  /** Counts the faults of a history over byte streams a second time, in a separate column. */
  #coverage(): ReadonlyMap<string, number> {
    const { coverage } = this.#nemesis;
    if (this.#bytes === undefined) return coverage;
    const all = new Map([...coverage, ...this.#bytes.coverage]);
    for (const [what, times] of [...all])
      if (!what.startsWith('state ') && !what.includes(', ')) all.set(`${OVER_HTTP2}, ${what}`, times);
    return all.set(`state ${OVER_HTTP2}`, 1);
  }

  /** Closes the clients, and checks the timers, leases, keys and calls that are left. */
  async #end(): Promise<void> {
    const world = this.#world;
    const closing = this.#inEach('closes its clients', (_, process) => this.#clients.close(process));
    await world.run(() => this.#isOver(closing), world.now + PROGRESS_MS);
    if (!this.#isOver(closing)) return this.#stuck(closing, 'while its clients close');
    await world.run(() => false, world.now + MAX_TIMER_LAG_MS);
    for (const process of this.#processes) {
      // A timer starts late if the process is stopped between the computation of the delay and the start of the timer.
      if (process.isKilled || process.lastStop !== undefined || process.foreground.size === 0) continue;
      const stacks = [...process.foreground].map(({ stack = '' }) => stack);
      this.#violated('timer left', `${stacks.length} timers of ${process.name}${stacks.join('\n')}`);
    }
    this.#network.onCopy = () => this.#nemesis.count('copy after the end of all clients');
    await world.run(() => false, Math.max(world.now, this.#network.lastCopyMs) + AFTERMATH_MS);
    this.#bytes?.checkLeft();
    const { member } = this.#cluster.server;
    for (const lease of member.leases.ids) {
      // If a client could not revoke the lease of its guards, the lease stays until it expires.
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
    // Allows each process the calls for all operations, because a process also watches the keys and handles the jobs of
    // other processes.
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
    const learnerMs = this.#cluster.members.some(({ isLearner }) => isLearner) ? LEARNER_LATENESS_MS : 0;
    const isolatedMs = this.#plan.faults.some(({ kind }) => kind === 'isolate member for good')
      ? ISOLATED_LATENESS_MS
      : 0;
    if (lateMs > MAX_LATENESS_MS + learnerMs + isolatedMs + Math.max(0, ...heldBackMs))
      this.#violated('late effect', `${what} of ${current.name}: ${lateMs} ms`);
  }

  #checkEnd(startMs: number, limitMs: number, what: string): void {
    const { time, current } = this.#world;
    const { lastStop } = current;
    // A process that was stopped in the event in which the wait began may have read its clock only afterwards.
    const beganMs = lastStop?.fromMs === startMs ? lastStop.untilMs : startMs;
    const dueMs = beganMs + limitMs / MIN_RATE + current.suspendedSince(startMs);
    const lateMs = time - Math.max(dueMs, current.stalledUntil);
    if (lateMs > MAX_CLEANUPS_MS / MIN_RATE + MAX_LAGS * this.#maxTimerLagMs)
      this.#violated('late end', `${what} of ${current.name}: ${lateMs} ms after its limit of ${limitMs} ms`);
  }

  #untilHealed(): Promise<void> {
    if (this.#healedMs !== undefined) return Promise.resolve();
    const { current } = this.#world;
    return new Promise((resolve) => this.#healed.push(() => this.#world.soon(current, 'learns of the end', resolve)));
  }

  /** Calls `act` in each process that was not killed. Returns the processes whose promise has not settled yet. */
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
