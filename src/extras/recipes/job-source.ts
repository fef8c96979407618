import {
  backoffMs,
  checkedSignalOf,
  clientClosed,
  environment,
  monotonicMs,
  onAbort,
  pause,
  pauseUntil,
  randomId,
  textOf,
} from '../../base/index.js';
import { type CoreKeyspace, compare, type KeyValue, type Op, op, prefix, type Watch } from '../../client/index.js';
import {
  cleanedUp,
  Held,
  hold,
  isWatchInterrupted,
  REWATCH_MS,
  type Session,
  setOutcome,
  untilAnswered,
  untilDone,
  type Waiting,
} from '../../locks/index.js';
import type { CallOptions } from '../../rpc/index.js';
import { endOfClaim, Job, type JobKeys, type JobSettings, type JobState, parseState, stateText } from './job.js';

/** The maximum number of jobs that a worker claims at a time. */
const MAX_CLAIMS = 128;
/**
 * The limits of the number of jobs that a worker reads at a time. If a worker may start only one job and another worker
 * takes this job first, the worker tries the next of the jobs that it has read.
 */
const MIN_PAGE = 16;
const MAX_PAGE = 1_024;
/** The maximum of `#spread`. */
const MAX_SPREAD = 16;
/** Number of rounds in a row in which a worker looks for jobs without a pause. */
const EAGER_ROUNDS = 4;

/**
 * Takes jobs from a `WorkQueue`. One key shows the state of a job. Each change of the state is a transaction that
 * deletes this key and puts the key of the next state. The transaction has no effect if the state has changed before. A
 * claimed job has a second key, `running`, which is attached to the lease of its worker:
 *
 * ```text
 *   enqueue ─▶ delayed ──due──▶ ready ──claim──▶ claimed + running ──complete──▶ (gone)
 *                 ▲               ▲                 │      │     └──bury──▶ dead ──requeue──▶ ready
 *                 └────retry──────│─────────────────┘      │
 *                                 └──the worker has died, so `running` is gone: any other worker returns the job
 * ```
 */
export class JobSource<T> {
  readonly #client: CoreKeyspace;
  readonly #name: string;
  readonly #settings: JobSettings<T>;
  /** The times, on the monotonic clock, at which this worker first saw each of the delayed jobs that are due next. */
  #seen = new Map<string, number>();
  /**
   * How many jobs this worker considers for each job that it may take: the first ones of the queue. 1 if no other worker
   * competes. Grows while other workers claim most of the jobs first, so that workers choose different jobs.
   */
  #spread = 1;

  constructor(client: CoreKeyspace, name: string, settings: JobSettings<T>) {
    this.#client = client;
    this.#name = name;
    this.#settings = settings;
  }

  /** Waits for jobs, and takes from one to `count` of them. Watches the queue only if the first look finds no job. */
  async take(session: Session, waiting: Waiting, count: number, stop?: AbortSignal): Promise<readonly Job<T>[]> {
    const { signal } = waiting;
    const look = (): Promise<readonly Job<T>[] | number> => this.#lookForJobs(session, waiting, count, stop);
    for (;;) {
      const first = await look();
      if (typeof first !== 'number') return first;
      const watching = new AbortController();
      const offAbort = onAbort(signal, () => watching.abort(signal.reason));
      // `news` aborts when a watch shows that there may be a job, or when a watch fails.
      let news = new AbortController();
      let failure: unknown;
      const arrived = (): void => news.abort();
      const failed = (error: unknown): void => {
        failure ??= error;
        news.abort();
      };
      // If etcd deletes only `running/ID`, the worker's session has ended, or the worker has released the job without
      // settling it. The transactions that settle a job delete `claimed/ID`, too.
      const watches = [
        this.#client.watch(prefix(`${this.#name}/todo/`), { only: 'put', signal: watching.signal }),
        this.#client.watch(prefix(`${this.#name}/held/`), { only: 'delete', signal: watching.signal }),
      ] as const;
      const running = `${this.#name}/held/running/`;
      const following = [
        follow(watches[0], () => true, arrived).catch(failed),
        follow(watches[1], (keys) => keys.every((key) => key.startsWith(running)), arrived).catch(failed),
      ];
      try {
        await Promise.all(watches.map((watch) => watch.created()));
        for (;;) {
          const found = await look();
          if (typeof found !== 'number') return found;
          await pauseUntil(found, news.signal, watching.signal);
          watching.signal.throwIfAborted();
          if (failure !== undefined) throw failure;
          // News that arrives from here on may not be in the answer to the next look.
          news = new AbortController();
        }
      } catch (error) {
        if (signal.aborted || !isWatchInterrupted(error)) throw error;
      } finally {
        offAbort();
        watching.abort();
        await Promise.all(following);
      }
      await pause(REWATCH_MS, signal);
    }
  }

  /**
   * The worker reads the queue, and claims up to `count` ready jobs. Resolves with the claimed jobs. If the queue has
   * no ready job, resolves with the time, on the monotonic clock, at which the next delayed job is due. The worker also
   * makes the delayed jobs ready that are due, and calls `#returnOrphans`.
   */
  async #lookForJobs(
    session: Session,
    waiting: Waiting,
    count: number,
    stop?: AbortSignal,
  ): Promise<readonly Job<T>[] | number> {
    const name = this.#name;
    const most = Math.min(count, MAX_CLAIMS);
    const countOnly = { countOnly: true } as const;
    for (let rounds = 0; ; rounds += 1) {
      // One round usually suffices. Another one follows if this worker has moved jobs, or other workers were faster.
      if (rounds >= EAGER_ROUNDS) await pause(backoffMs(rounds - EAGER_ROUNDS), waiting.signal);
      const page = { limit: Math.min(Math.max(most * this.#spread, MIN_PAGE), MAX_PAGE) } as const;
      const { responses } = await untilAnswered(waiting, (call) =>
        this.#client.txn(
          {
            then: [
              op.range(prefix(`${name}/todo/ready/`), page),
              op.range(prefix(`${name}/todo/delayed/`), { limit: Math.max(most, MIN_PAGE) }),
              op.range(prefix(`${name}/held/claimed/`), countOnly),
              op.range(prefix(`${name}/held/running/`), countOnly),
            ],
          },
          call,
        ),
      );
      const [ready, delayed, claimed, running] = responses;
      const now = monotonicMs();
      const times = this.#dueTimes(delayed.kvs);
      const due = delayed.kvs.filter((_, index) => (times[index] as number) <= now);
      const moved = await Promise.all(due.map((kv) => this.#makeReady(kv, parseState(kv), waiting)));
      const returned = claimed.count !== running.count && (await this.#returnOrphans(waiting));
      if (returned || moved.some(Boolean)) continue;
      // If other workers take all of these jobs first, this worker tries the next ones.
      const candidates = this.#spread === 1 ? ready.kvs : shuffled(ready.kvs);
      for (let from = 0; from < candidates.length; from += most) {
        let failed: unknown;
        const claims = candidates.slice(from, from + most).map((kv) =>
          this.#claim(session, kv, waiting, stop).catch((error: unknown) => {
            failed = error;
          }),
        );
        const jobs = (await Promise.all(claims)).filter((job) => job instanceof Job);
        const lost = claims.length - jobs.length;
        if (lost > jobs.length) this.#spread = Math.min(this.#spread * 2, MAX_SPREAD);
        else if (lost === 0) this.#spread = Math.max(this.#spread / 2, 1);
        // An error of one claim must not lose the jobs that this worker has claimed. If the error persists, the next
        // look finds it.
        if (jobs.length > 0) return jobs;
        if (failed !== undefined) throw failed;
      }
      if (ready.kvs.length > 0 || due.length > 0) continue;
      return Math.min(...times);
    }
  }

  /**
   * Returns the times, on the monotonic clock, at which the delayed jobs are due. A job is due when the wall clock
   * reaches the time in its key, but at the latest when its delay has passed since this worker first read it. Without
   * this limit, a job could be late by hours if the wall clock was set back, or if it differs from the clock of the
   * process that delayed the job.
   */
  #dueTimes(delayed: readonly KeyValue[]): readonly number[] {
    // If the process is stopped between the two reads, this order makes jobs due later, never earlier.
    const wallMs = environment.Date.now();
    const now = monotonicMs();
    const seen = this.#seen;
    this.#seen = new Map();
    return delayed.map((kv) => {
      const { attempts, delayMs } = parseState(kv);
      const id = `${jobIdOf(kv)} ${attempts}`;
      const seenAt = seen.get(id) ?? now;
      this.#seen.set(id, seenAt);
      return Math.min(now + dueOf(kv) - wallMs, seenAt + delayMs);
    });
  }

  #makeReady(kv: KeyValue, state: JobState, waiting: Waiting): Promise<boolean> {
    return this.#move(kv, [op.put(this.#keys(kv).ready(state), stateText(state))], waiting);
  }

  /** Makes the jobs of dead workers ready, or dead after their last try. Resolves with true if it moved a job. */
  async #returnOrphans(waiting: Waiting): Promise<boolean> {
    const all = { claimed: prefix(`${this.#name}/held/claimed/`), running: prefix(`${this.#name}/held/running/`) };
    const { responses } = await untilAnswered(waiting, (call) =>
      this.#client.txn({ then: [op.range(all.claimed), op.range(all.running, { keysOnly: true })] }, call),
    );
    const [claimed, running] = responses;
    const alive = new Set(running.kvs.map(jobIdOf));
    const orphans = claimed.kvs.filter((kv) => !alive.has(jobIdOf(kv)));
    const returned = orphans.map((kv) => {
      const [keys, state] = [this.#keys(kv), parseState(kv)];
      const to = state.attempts < this.#settings.maxAttempts ? keys.ready(state) : keys.dead;
      return this.#move(kv, [op.put(to, stateText(state))], waiting, keys.running);
    });
    // Only an operator can leave a `running` key without a `claimed` key. While this key exists, the counts of both
    // kinds of keys can be equal although there is an orphan.
    const claims = new Set(claimed.kvs.map(jobIdOf));
    const leftovers = running.kvs.filter((kv) => !claims.has(jobIdOf(kv)));
    await Promise.all(leftovers.map((kv) => this.#move(kv, [], waiting, this.#keys(kv).claimed)));
    return (await Promise.all(returned)).some(Boolean);
  }

  #keys(kv: KeyValue): JobKeys {
    return keysOf(this.#name, jobIdOf(kv));
  }

  /** Does the same as `moveState`, and repeats it until a server answers. */
  #move(kv: KeyValue, ops: readonly Op[], waiting: Waiting, unless?: string): Promise<boolean> {
    return untilAnswered(waiting, (call) => moveState(this.#client, kv, ops, call, unless));
  }

  /**
   * Makes sure that a claim without an answer has no effect. Changes the key of the ready job, so that the claim fails
   * if it arrives later. If the claim has taken effect, returns the job to the queue. The try does not count.
   */
  async #undoClaim(session: Session, kv: KeyValue, keys: JobKeys, nonce: string): Promise<void> {
    const isUnclaimed = [compare.modRevision(kv.keyBytes, '==', kv.modRevision)];
    // The lease of a closing client may live on for its locks.
    const waiting = { signal: session.leaseSignal };
    const result = await untilDone(waiting, (call) =>
      this.#client.txn({ if: isUnclaimed, then: [op.put(kv.keyBytes, kv.value)], else: [op.get(keys.running)] }, call),
    );
    const running = result.succeeded ? undefined : result.responses[0];
    if (running?.text() !== nonce) return;
    const txn = endOfClaim(keys, running.createRevision, [op.put(kv.keyBytes, kv.value)]);
    await untilDone(waiting, (call) => this.#client.txn(txn, call));
  }

  /** Returns undefined if another worker was faster, or if the job's value is gone. */
  async #claim(session: Session, kv: KeyValue, waiting: Waiting, stop?: AbortSignal): Promise<Job<T> | undefined> {
    const keys = this.#keys(kv);
    const state = parseState(kv);
    const next = { ...state, attempts: state.attempts + 1 };
    /** Distinguishes this call from other calls of the same session. */
    const nonce = randomId().toString(16);
    const claim = {
      if: [compare.modRevision(kv.keyBytes, '==', kv.modRevision), compare.exists(keys.job)],
      then: [
        op.delete(kv.keyBytes),
        op.put(keys.claimed, stateText(next)),
        op.put(keys.running, nonce, { lease: session }),
        op.get(keys.job),
      ],
      else: [op.get(keys.running), op.get(keys.job)],
    } as const;
    let isUnknown = false;
    const noteUnknown = (): void => {
      isUnknown = true;
    };
    const claiming = untilAnswered(waiting, (call) => this.#client.txn(claim, call), noteUnknown);
    const result = await claiming.catch(async (error: unknown) => {
      session.losesWith(error);
      // Wait only a short time until the claim is undone. The cleanup then continues in the background.
      const undone = isUnknown ? this.#undoClaim(session, kv, keys, nonce) : Promise.resolve();
      if (!(await cleanedUp(undone))) setOutcome(waiting, 'unknown');
      throw error;
    });
    const [running, job] = result.succeeded ? [undefined, result.responses[3]] : result.responses;
    // After a lost answer, an earlier attempt of this call may have taken the job.
    const isOwn = result.succeeded || running?.text() === nonce;
    if (!isOwn || job === undefined) {
      // If another client has deleted the job's value, also delete the job's state.
      if (job === undefined) await this.#move(kv, [], waiting);
      return undefined;
    }
    const createRevision = running?.createRevision ?? result.header.revision;
    const own = { key: keys.running, createRevision, seenAt: result.header.revision };
    const held = hold(Held, session, jobIdOf(kv), own, () => {});
    return new Job({
      client: this.#client,
      lifetime: session,
      keys,
      held,
      state: next,
      value: job.value,
      signal: stop === undefined ? held.signal : checkedSignalOf(held.signal, [stop]),
      stop,
      ...this.#settings,
    });
  }
}

/**
 * Calls `arrived` for each batch of a watch for whose keys `isNews` returns true.
 *
 * @throws EtcdError with which the watch ends.
 */
async function follow(watch: Watch, isNews: (keys: readonly string[]) => boolean, arrived: () => void): Promise<never> {
  for await (const { events } of watch.batches()) if (isNews(events.map(({ keyBytes }) => textOf(keyBytes)))) arrived();
  // A watch ends without an error only when its client or namespace is closed.
  throw clientClosed('rejected');
}

/** Returns the elements in random order. */
function shuffled<T>(elements: readonly T[]): readonly T[] {
  const placed = elements.map((element) => ({ element, place: environment.Math.random() }));
  return placed.sort((a, b) => a.place - b.place).map(({ element }) => element);
}

function digits(number: number, length: number): string {
  return String(number).padStart(length, '0');
}

/** Returns the ID, which is the last part of each key of a job. */
export function jobIdOf(kv: KeyValue): string {
  const key = textOf(kv.keyBytes);
  return key.slice(key.lastIndexOf('/') + 1);
}

/** Returns the time at which a delayed job is due, in milliseconds since 1970. 0 if the key of the job has no time. */
function dueOf(kv: KeyValue): number {
  const dueMs = Number(textOf(kv.keyBytes).split('/').at(-2));
  return Number.isFinite(dueMs) ? dueMs : 0;
}

export function keysOf(name: string, id: string): JobKeys {
  return {
    job: `${name}/jobs/${id}`,
    ready: ({ priority, enqueuedAt, enqueuedBefore }) =>
      `${name}/todo/ready/${digits(priority, 5)}/${digits(enqueuedAt, 15)}${digits(enqueuedBefore, 6)}/${id}`,
    delayed: (dueMs) => `${name}/todo/delayed/${digits(dueMs, 15)}/${id}`,
    claimed: `${name}/held/claimed/${id}`,
    running: `${name}/held/running/${id}`,
    dead: `${name}/dead/${id}`,
    done: `${name}/done/${id}`,
  };
}

/**
 * Deletes the key that contains a job's state, and does the other operations, unless the state has changed or the key
 * `unless` exists. A copy of the request that arrives late has no effect, because the key has gone.
 */
export async function moveState(
  client: CoreKeyspace,
  kv: KeyValue,
  ops: readonly Op[],
  options: CallOptions | undefined,
  unless?: string,
): Promise<boolean> {
  const isUnchanged = [compare.modRevision(kv.keyBytes, '==', kv.modRevision)];
  if (unless !== undefined) isUnchanged.push(compare.missing(unless));
  const { succeeded } = await client.txn({ if: isUnchanged, then: [op.delete(kv.keyBytes), ...ops] }, options);
  return succeeded;
}
