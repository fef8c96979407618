import {
  type ActionLast,
  actionLast,
  amended,
  checkFunction,
  checkOptions,
  checkSignal,
  EtcdError,
  environment,
  oneOf,
  pause,
  untilSoonAfter,
} from '../../base/index.js';
import { type CoreKeyspace, checkOps, type Op } from '../../client/index.js';
import {
  checkNameOutside,
  DEFAULT_TTL_S,
  Ending,
  LEASE_OPTIONS,
  type Leadership,
  type LeadOptions,
  lead,
  lockLost,
  RELEASE_TIMEOUT_MS,
  type Term,
} from '../../locks/index.js';
import { TickKey, type TickState } from './tick-state.js';
import { latestTick, type NextTick, nextTickOf, type When } from './ticks.js';

/**
 * The interval, in milliseconds, at which a waiting leader reads its wall clock. A single timer until the next tick
 * would fire at a wrong time if the clock jumps or the machine is suspended.
 */
const CLOCK_CHECK_MS = 5_000;
const INTERRUPTED = { again: true, skip: true } as const;
const MISSED = { skip: true, last: true, all: true } as const;

/** Options of `schedule`. All processes should pass the same options, because each leader follows its own options. */
export interface ScheduleOptions extends Omit<LeadOptions, 'maxHoldMs' | 'value'> {
  /**
   * What happens with a tick whose run was cut short because its process died, lost the leadership, or was asked to
   * stop. `again` (the default) runs the tick again, with the next `attempt`. `skip` counts it as done.
   */
  readonly interrupted?: 'again' | 'skip' | undefined;
  /**
   * What happens with ticks whose time has passed before the leader could run them, because no process was alive or an
   * earlier run took too long. `last` (the default) runs only the latest of them. `all` runs each of them, in order.
   * `skip` runs the latest of them unless it is late by more than `2 * ttl` seconds, which leaves time for a change of
   * leaders.
   */
  readonly missed?: 'skip' | 'last' | 'all' | undefined;
  /**
   * Called when the handler throws while this process leads. The tick counts as done. Not called if the run was cut
   * short. If this function throws, `schedule` rejects with its error. Default: `schedule` rejects with the error of
   * the handler.
   */
  readonly onFailure?: ((error: unknown, tick: Tick) => void) | undefined;
}

const SCHEDULE_OPTIONS = {
  interrupted: oneOf(INTERRUPTED),
  missed: oneOf(MISSED),
  onFailure: checkFunction,
  signal: checkSignal,
  ...LEASE_OPTIONS,
} as const;

/**
 * One run of a tick of a schedule.
 *
 * @example
 * const stop = new AbortController();
 * const report = async (tick: Tick): Promise<void> => {
 *   await tick.complete([op.put('reports/latest', tick.time.toISOString())]);
 *   stop.abort();
 * };
 * await schedule(etcd, 'reports', 100, { signal: stop.signal }, report);
 */
export class Tick {
  /** The time for which the run was scheduled. The run begins at this time or later. */
  readonly time: Date;
  /** The number of the run of this tick: 1, or more if earlier runs were cut short. */
  readonly attempt: number;
  /**
   * Aborts when this process is no longer the leader, or when the signal in the options aborts. The handler should then
   * stop. Reading `aborted` compares the lease's deadline with the clocks of the machine.
   */
  readonly signal: AbortSignal;
  /**
   * The leadership. `held.txn` makes writes that have no effect after another process may have begun the tick again.
   */
  readonly held: Leadership;
  readonly #key: TickKey;
  readonly #claimed: TickState;
  #completing: Promise<void> | undefined;

  /** @internal */
  constructor(key: TickKey, claimed: TickState, { signal, held }: Term) {
    this.time = new Date(claimed.timeMs);
    this.attempt = claimed.attempt;
    this.signal = signal;
    this.held = held;
    this.#key = key;
    this.#claimed = claimed;
  }

  /**
   * Marks the tick as done. The operations, for example the puts of the results, take effect in the same transaction,
   * so they take effect exactly once for each tick. `ops` may contain at most 126 operations, because the client adds
   * two, and a server allows 128 operations in a transaction by default.
   *
   * @throws EtcdError with reason `LockLost` if this process is no longer the leader. With outcome `rejected`, the
   * operations have no effect. With outcome `unknown`, the leadership was lost before the server answered, or an
   * answer was lost and another client has changed the key of the schedule, so the tick may be done. Reason
   * `LockReleased` means that the tick was done before, or that this process has resigned. If the server refuses the
   * transaction, for example because an operation needs a key that does not exist, the tick is not done.
   */
  async complete(ops: readonly Op[] = []): Promise<void> {
    const own = checkOps(ops, 'ops');
    const lostBy = this.held.lostBy();
    if (lostBy !== undefined) throw lost(NO_LEADER, lostBy, 'rejected');
    if (this.#completing !== undefined) throw doneBefore();
    const completing = this.#tryComplete(own);
    this.#completing = completing;
    try {
      await completing;
    } catch (error) {
      this.#completing = undefined;
      throw error;
    }
  }

  /**
   * @internal Waits for a call of `complete` that is in progress. Then marks the tick as done, unless `complete` has
   * done so.
   */
  async end(): Promise<void> {
    await this.#completing?.catch(() => {});
    if (this.#completing !== undefined) return;
    // From now on, `complete` rejects.
    this.#completing = Promise.resolve();
    if (!this.#isClaimed) return;
    const ending = this.#key.change({ ...this.#claimed, status: 'done' }, this.held.signal);
    await untilSoonAfter(this.signal, RELEASE_TIMEOUT_MS, ending);
  }

  /** Whether the key contains the claim of this run, as far as this client knows. */
  get #isClaimed(): boolean {
    return this.#key.state === this.#claimed;
  }

  async #tryComplete(ops: readonly Op[]): Promise<void> {
    const { held } = this;
    let isUnknown = false;
    const onUnknown = (): void => {
      isUnknown = true;
    };
    const done: TickState = { ...this.#claimed, status: 'done' };
    try {
      if (this.#isClaimed && (await this.#key.change(done, held.signal, { ops, onUnknown }))) return;
    } catch (error) {
      const lostBy = held.lostBy();
      if (lostBy !== undefined) throw lost(NO_LEADER, lostBy, isUnknown ? 'unknown' : 'rejected');
      throw isUnknown && error instanceof EtcdError ? amended(error, { outcome: 'unknown' }) : error;
    }
    const { state } = this.#key;
    // An earlier call, whose outcome was unknown, has marked the tick as done.
    if (state?.status === 'done' && state.timeMs === done.timeMs) throw doneBefore();
    throw lost('another client has changed the key of the schedule', undefined, isUnknown ? 'unknown' : 'rejected');
  }
}

function doneBefore(): EtcdError {
  const problem = 'the tick was marked as done before; nothing was written';
  return new EtcdError(problem, { code: 'Aborted', reason: 'LockReleased', outcome: 'rejected' });
}

const NO_LEADER = 'this process no longer leads';

function lost(why: string, lostBy: EtcdError | undefined, outcome: 'rejected' | 'unknown'): EtcdError {
  const rest = outcome === 'rejected' ? 'nothing was written' : 'the tick may be done';
  return lockLost(`${why}; ${rest}`, lostBy, outcome);
}

/**
 * Runs `handler` at each tick of a schedule, in one of several processes that all call `schedule` with the same name.
 * Only the leader among these processes runs ticks, one after the other. The leader claims each tick in etcd before the
 * run, and marks the tick as done afterwards. If the leader dies, another process continues after the lease of the
 * leader has ended. The option `interrupted` says whether a tick that was cut short then runs again or is skipped. The
 * operations that a handler passes to `tick.complete` take effect exactly once.
 *
 * The schedule begins when a process becomes the leader for the first time with this name: earlier ticks do not run. A
 * tick is due when the wall clock of the leader reaches its time. No leader runs a tick that is not later than the last
 * claimed one, except to repeat a run that was cut short. So if a leader whose clock is wrong has claimed a tick in the
 * future, no tick runs until then. Delete the key `NAME/tick` to begin again from now: a waiting leader notices the
 * deletion within 5 s, and ticks that were due since then count as missed. After a restore of the cluster from a backup,
 * the ticks since the backup count as missed, so their effects may happen again.
 *
 * Resolves when the option `signal` has aborted or the client closes, after the handler has ended, or when `when` returns
 * null. Each key of the
 * schedule begins with its name and `/`. No slash-separated part of the name may be `leader` or `tick`.
 *
 * @throws EtcdError as `lead` does, with reason `InvalidInput` if `when` returns a date that is not later, and with
 * reason `InvalidJson` if the state of the schedule in etcd is malformed. Rejects with the error of the handler if
 * there is no `onFailure`. While no server answers, `schedule` waits.
 *
 * @example
 * const stop = new AbortController();
 * process.once('SIGTERM', () => stop.abort());
 * await schedule(etcd, 'cleanup', 100, { signal: stop.signal }, async ({ time, signal }) => {
 *   console.log('clean up at', time.toISOString()); // …
 *   if (!signal.aborted) stop.abort();
 * });
 */
export async function schedule(
  client: CoreKeyspace,
  name: string,
  when: When,
  ...last: ActionLast<ScheduleOptions, (tick: Tick) => Promise<void> | void>
): Promise<void> {
  const [options, handler] = actionLast(last, 'handler');
  checkNameOutside(['leader', 'tick'], name);
  const next = nextTickOf(when);
  checkOptions(options, SCHEDULE_OPTIONS, 'schedule');
  const { interrupted, missed, onFailure, ...leading } = options;
  const rules: Rules = {
    runsAgain: interrupted !== 'skip',
    runsAll: missed === 'all',
    maxLateMs: missed === 'skip' ? 2_000 * (options.ttl ?? DEFAULT_TTL_S) : Number.POSITIVE_INFINITY,
  };
  const ending = new Ending(leading.signal);
  const run = async (tick: Tick): Promise<void> => {
    try {
      await handler(tick);
    } catch (error) {
      // Another process, or the next term, decides what happens with a tick that was cut short.
      if (tick.signal.aborted) return;
      await tick.end();
      try {
        if (onFailure === undefined) throw error;
        await onFailure(error, tick);
      } catch (fatal) {
        ending.crash(fatal);
      }
    }
    await tick.end();
  };
  const runTerm = (term: Term): Promise<void> =>
    runTicks(new TickKey(client, `${name}/tick`, term.held), term, next, rules, run);
  await lead(client, `${name}/leader`, { ...leading, signal: ending.signal }, runTerm).finally(() => ending.close());
  ending.throwIfFailed();
}

interface Rules {
  readonly runsAgain: boolean;
  readonly runsAll: boolean;
  /** If more than this time has passed since a tick, in milliseconds, the leader skips the tick. */
  readonly maxLateMs: number;
}

/** Runs ticks until the term ends, or there is no further tick. */
async function runTicks(
  key: TickKey,
  term: Term,
  next: NextTick,
  { runsAgain, runsAll, maxLateMs }: Rules,
  run: (tick: Tick) => Promise<void>,
): Promise<void> {
  const runTick = async (timeMs: number, attempt: number): Promise<void> => {
    const claimed: TickState = { timeMs, status: 'running', attempt };
    if ((await key.change(claimed, term.signal)) && !term.signal.aborted) await run(new Tick(key, claimed, term));
  };
  await key.read(term.signal);
  while (!term.signal.aborted) {
    const { state } = key;
    const nowMs = environment.Date.now();
    if (state === undefined) await key.begin(term.signal);
    else if (state.status === 'running') {
      if (runsAgain) await runTick(state.timeMs, state.attempt + 1);
      else await key.change({ ...state, status: 'done' }, term.signal);
    } else {
      const dueMs = next(state.timeMs);
      if (dueMs === Number.POSITIVE_INFINITY) return;
      if (nowMs < dueMs) {
        await pause(Math.min(dueMs - nowMs, CLOCK_CHECK_MS), term.signal);
        // The clock is behind the clock of an earlier leader, so the wait may be long. An operator may delete the key
        // to end it.
        if (nowMs < state.timeMs) await key.read(term.signal);
        continue;
      }
      const timeMs = runsAll ? dueMs : latestTick(next, dueMs, nowMs);
      if (nowMs - timeMs > maxLateMs) await key.change({ timeMs, status: 'done', attempt: 0 }, term.signal);
      else await runTick(timeMs, 1);
    }
  }
}
