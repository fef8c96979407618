import { environment } from '../../../src/base/environment.js';
import { EtcdError } from '../../../src/base/etcd-error.js';
import { op } from '../../../src/client/kv/txn.js';
import { type ScheduleOptions, schedule, type Tick } from '../../../src/extras/recipes/schedule.js';
import type { When } from '../../../src/extras/recipes/ticks.js';
import type { TrueEvent } from '../cluster.js';
import { WALL_CLOCK_FAULTS } from '../faults.js';
import type { ProcessPlan } from '../plan.js';
import { Random } from '../random.js';
import type { Context, Player, Workload } from '../workload.js';
import { START_WALL_MS } from '../world.js';

/** A time during which a process takes part in the schedule, and what its handler does. */
interface PartOp {
  readonly afterMs: number;
  readonly lastsMs: number;
  readonly handlerMs: number;
  readonly how: 'complete' | 'return' | 'throw' | 'stop';
  /** After this time, the process deletes the state of the schedule. */
  readonly deletesAfterMs?: number;
}

const NAME = 's';
const STATE = `${NAME}/tick`;
const QUEUE = `${NAME}/leader/`;
/** The effect of a tick is a key under this prefix. */
const DONE = 'done/';
const TTL_S = 2;
/** How long the processes go on after the faults have ended, in milliseconds. */
const SETTLE_MS = 30_000;
/** How late the last tick may be after `SETTLE_MS`, apart from the interval, in milliseconds. */
const MAX_LATE_MS = 20_000;

/** Processes that run a schedule while clocks jump. */
export const schedules = workload('schedule', ['last', 'last', 'skip'], {});
/**
 * Processes that run each tick of a schedule. There are no faults of the wall clock, because a wall clock that
 * jumps far ahead would cause thousands of runs.
 */
export const wholeSchedules = workload('schedule of all ticks', ['all'], { without: WALL_CLOCK_FAULTS });
/** Processes that run each tick of a schedule whose state is deleted, which begins the schedule again. */
export const deletedSchedules = workload('deleted schedule', ['all'], { without: WALL_CLOCK_FAULTS }, true);

function workload(
  name: string,
  missed: readonly NonNullable<ScheduleOptions['missed']>[],
  others: Partial<Workload<PartOp>>,
  isDeleted = false,
): Workload<PartOp> {
  return {
    name,
    weight: 1,
    toleratesCopies: true,
    sizeOf: () => 4,
    generate: (random) =>
      Array.from({ length: random.between(1, 3) }, () => ({
        ops: Array.from({ length: random.between(1, 3) }, () => ({
          afterMs: random.pick([0, 0, random.magnitude(1, 4_000)]),
          lastsMs: random.magnitude(100, 10_000),
          handlerMs: random.pick([0, 0, random.magnitude(1, 5_000)]),
          how: random.pick(['complete', 'complete', 'return', 'throw', 'stop'] as const),
          ...(isDeleted && random.chance(0.5) ? { deletesAfterMs: random.magnitude(1, 10_000) } : {}),
        })),
      })),
    begin: (context) => new Schedules(context, missed, isDeleted),
    ...others,
  };
}

/** The value of the state of a schedule, as the store has it. */
interface State {
  readonly time: string;
  readonly status: 'running' | 'done';
  readonly attempt: number;
  readonly token: string;
}

class Schedules implements Player<PartOp> {
  readonly #context: Context<PartOp>;
  readonly #intervalMs: number;
  readonly #when: When;
  readonly #options: Pick<ScheduleOptions, 'missed' | 'interrupted'>;
  /** The runs that have begun: tick and attempt. */
  readonly #runs = new Set<string>();
  /** The runs that have failed because they were asked to stop: tick, attempt and token. */
  readonly #cutShort = new Set<string>();
  /** The outcome of each call of `complete`, by the value that it puts. */
  readonly #completed = new Map<string, 'ok' | 'rejected' | 'unknown'>();
  readonly #everyClockIsSteady: boolean;
  readonly #isDeleted: boolean;

  constructor(context: Context<PartOp>, missed: readonly NonNullable<ScheduleOptions['missed']>[], isDeleted: boolean) {
    this.#context = context;
    this.#isDeleted = isDeleted;
    // The options come from the seed, because all processes must have the same options, also in a shortened plan.
    const random = new Random(context.plan.seed, 30);
    const intervalMs = random.pick([700, 1_000, 3_000]);
    const next = (after: Date): Date => new Date((Math.floor(after.getTime() / intervalMs) + 1) * intervalMs);
    this.#intervalMs = intervalMs;
    this.#when = random.chance(0.5) ? intervalMs : next;
    this.#options = { missed: random.pick(missed), interrupted: random.pick(['again', 'again', 'skip'] as const) };
    const jumps = new Set<string>(WALL_CLOCK_FAULTS);
    this.#everyClockIsSteady = context.plan.faults.every(({ kind }) => !jumps.has(kind));
  }

  async play(index: number, { ops }: ProcessPlan<PartOp>): Promise<void> {
    const { world, waits, healed } = this.#context;
    for (const part of ops) {
      if (part.afterMs > 0) await world.sleep(part.afterMs);
      await this.#takePart(index, part, () => world.sleep(part.lastsMs));
    }
    await this.#takePart(index, { afterMs: 0, lastsMs: 0, handlerMs: 0, how: 'complete' }, async () => {
      waits(index, 'the end of the faults');
      await healed();
      await world.sleep(SETTLE_MS);
      this.#checkProgress();
    });
  }

  async #takePart(index: number, part: PartOp, until: () => Promise<void>): Promise<void> {
    const { waits, violated, world } = this.#context;
    const client = this.#context.client(index);
    const stop = new AbortController();
    let running = 0;
    const handler = async (tick: Tick): Promise<void> => {
      running += 1;
      if (running > 1) violated('two runs', `at once in process ${index}`);
      await this.#run(index, tick, part, () => stop.abort()).finally(() => {
        running -= 1;
      });
    };
    const options = { ttl: TTL_S, signal: stop.signal, onFailure: () => {}, ...this.#options };
    const ended = schedule(client, NAME, this.#when, options, handler);
    ended.catch(() => {});
    const { deletesAfterMs } = part;
    const deleting =
      deletesAfterMs === undefined
        ? undefined
        : world.sleep(deletesAfterMs).then(() => client.delete(STATE).catch(() => {}));
    await Promise.race([until(), ended]);
    stop.abort();
    waits(index, 'the end of its schedule');
    await ended;
    await deleting;
    await client.close();
  }

  async #run(index: number, tick: Tick, { handlerMs, how }: PartOp, stop: () => void): Promise<void> {
    const { world, violated } = this.#context;
    // After a deletion, a leader whose clock is behind may run a tick that an earlier leader has run.
    const term = this.#isDeleted ? ` ${tick.held.token}` : '';
    const run = `${tick.time.getTime()} ${tick.attempt}${term}`;
    if (this.#runs.has(run)) violated('same run twice', `${run} in process ${index}`);
    this.#runs.add(run);
    if (tick.attempt === 1 && this.#everyClockIsSteady && environment.Date.now() < tick.time.getTime())
      violated('early tick', `${run} in process ${index}`);
    if (how === 'stop') stop();
    if (handlerMs > 0) await world.sleep(handlerMs);
    if (how === 'throw' || (how === 'stop' && tick.attempt === 1)) {
      if (tick.signal.aborted) this.#cutShort.add(`${run} ${tick.held.token}`);
      throw new Error('the run fails');
    }
    if (how === 'return') return;
    const value = `${tick.attempt} ${index} ${this.#completed.size}`;
    this.#completed.set(value, 'unknown');
    try {
      await tick.complete([op.put(`${DONE}${tick.time.getTime()}`, value)]);
      this.#completed.set(value, 'ok');
    } catch (error) {
      if (!(error instanceof EtcdError) || error.reason === 'InvalidInput') throw error;
      this.#completed.set(value, error.outcome === 'unknown' ? 'unknown' : 'rejected');
      throw error;
    }
  }

  /** Checks that the ticks have kept up with the slowest clock, because any process may lead. */
  #checkProgress(): void {
    const { cluster, plan, process, world, violated } = this.#context;
    const alive = plan.processes.map((_, index) => process(index)).filter(({ isKilled }) => !isKilled);
    const clocks = alive.map((each) => each.clockAt(world.time) + each.wallOffsetMs);
    const behindMs = world.current.clockAt(world.time) + world.current.wallOffsetMs - Math.min(...clocks);
    const nowMs = environment.Date.now() - behindMs;
    const last = cluster.truth.findLast(({ type, key }) => type === 'put' && key === STATE);
    const lastMs = last === undefined ? 0 : Date.parse(stateOf(last).time);
    if (lastMs < nowMs - this.#intervalMs - MAX_LATE_MS)
      violated('no ticks', `since ${lastMs}, although the slowest clock shows ${nowMs}`);
  }

  check(): void {
    const { cluster, violated } = this.#context;
    let before: State | undefined;
    let deleted: { readonly token: string | undefined; readonly ms: number } | undefined;
    const queue = new Map<string, bigint>();
    const effects = new Map<string, TrueEvent>();
    const written = new Set<string>();
    for (const event of cluster.truth) {
      const { type, key, value, revision, createRevision } = event;
      if (key.startsWith(QUEUE)) {
        if (type === 'put') queue.set(key, createRevision);
        else queue.delete(key);
      } else if (key === STATE) {
        if (type === 'delete') {
          if (!this.#isDeleted) violated('state deleted', `at revision ${revision}`);
          deleted = { token: before?.token, ms: event.ms };
          before = undefined;
          continue;
        }
        const state = stateOf(event);
        const leader = [...queue.values()].reduce((a, b) => (a < b ? a : b), 2n ** 63n);
        if (leader !== BigInt(state.token)) violated('not the leader', `${value} at revision ${revision}`);
        this.#checkChange(before, state, revision);
        if (before === undefined && deleted?.token === state.token) this.#checkBeginning(state, deleted.ms);
        before = state;
      } else if (key.startsWith(DONE)) {
        if (effects.has(key) && !this.#isDeleted)
          violated('two effects', `${key}: ${effects.get(key)?.value} and ${value}`);
        effects.set(key, event);
        written.add(value);
        const outcome = this.#completed.get(value);
        if (outcome === undefined || outcome === 'rejected') violated('effect of a failed call', `${key}: ${value}`);
      }
    }
    for (const [value, outcome] of this.#completed)
      if (outcome === 'ok' && !written.has(value)) violated('lost effect', value);
    for (const { key, revision } of effects.values()) {
      const state = cluster.truth.find((event) => event.key === STATE && event.revision === revision);
      const { time, status } = state === undefined ? { time: '', status: '' } : stateOf(state);
      if (status !== 'done' || key !== `${DONE}${Date.parse(time)}`)
        violated('effect without its tick', `${key} at revision ${revision}`);
    }
  }

  /** Checks that a leader that begins the schedule again after a deletion loses no tick that was due after it. */
  #checkBeginning({ time }: State, deletedMs: number): void {
    const { plan, process, violated } = this.#context;
    const clocks = plan.processes
      .map((_, index) => process(index))
      .map((each) => START_WALL_MS + each.clockAt(deletedMs) + each.wallOffsetMs);
    const [first, last] = [Date.parse(time), Math.max(...clocks)];
    if (first > last) violated('lost tick', `the schedule was deleted by ${last}, and begins again at ${first}`);
  }

  #checkChange(before: State | undefined, state: State, revision: bigint): void {
    const { violated } = this.#context;
    const wrong = (rule: string): void =>
      violated(rule, `${JSON.stringify(before)} to ${JSON.stringify(state)} at revision ${revision}`);
    const [fromMs, ms] = [Date.parse(before?.time ?? ''), Date.parse(state.time)];
    if (before === undefined) {
      if (state.status !== 'done' || state.attempt !== 0) wrong('wrong beginning');
      return;
    }
    if (before.status === 'running') {
      if (ms !== fromMs) wrong('tick left');
      if (state.status === 'done') {
        if (state.attempt !== before.attempt) wrong('wrong attempt');
        if (this.#cutShort.has(`${ms} ${state.attempt} ${state.token}`)) wrong('cut short, but done');
        return;
      }
      if (this.#options.interrupted === 'skip') wrong('run again');
      if (state.attempt !== before.attempt + 1) wrong('wrong attempt');
      // A tick is claimed again only by another leader, because its run was cut short.
      if (BigInt(state.token) <= BigInt(before.token)) wrong('claimed twice');
      return;
    }
    if (ms <= fromMs) wrong('ticks go back');
    if (ms % this.#intervalMs !== 0) wrong('no tick of the schedule');
    const isSkipped = state.status === 'done';
    if (state.attempt !== (isSkipped ? 0 : 1)) wrong('wrong attempt');
    if (isSkipped && this.#options.missed !== 'skip') wrong('skipped');
    const nextMs = (Math.floor(fromMs / this.#intervalMs) + 1) * this.#intervalMs;
    if (this.#options.missed === 'all' && ms !== nextMs) wrong('lost tick');
  }

  mayStay(key: string): boolean {
    return key === STATE || key.startsWith(DONE);
  }
}

function stateOf({ value }: TrueEvent): State {
  return JSON.parse(value) as State;
}
