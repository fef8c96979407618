import { type CallOptions, checkCallOptions } from '../channel/rpc.js';
import { EtcdError, invalidInput, type Reason } from '../errors/etcd-error.js';
import { type CoreKeyspace, checkClient, keyspaceClientOf, type Watch } from '../keyspace.js';
import type { KeyValue } from '../kv/key-value.js';
import { prefix } from '../kv/keys.js';
import { compare, type Op, op } from '../kv/txn.js';
import { checkCount, checkFunction, checkOptions, checkSignal, show } from '../runtime/arguments.js';
import { type BytesLike, randomId, textOf, toBytes } from '../runtime/bytes.js';
import { environment } from '../runtime/environment.js';
import { checkedSignalOf, onAbort } from '../runtime/signals.js';
import { backoffMs, monotonicMs, pause } from '../runtime/timers.js';

import { checkDelay, type IdLease, Job, type JobKeys, type JobState, parseState, stateText } from './job.js';
import { Held, hold } from './lock.js';
import { checkName } from './lock-queue.js';
import { AGAIN, checkSession, type Session, withSession } from './session.js';
import { isWatchInterrupted, REWATCH_MS, untilAnswered, type WaitOptions, withinLimit } from './waiting.js';

const MAX_PRIORITY = 65_535;
const DEFAULT_PRIORITY = 100;
const DEFAULT_MAX_ATTEMPTS = 5;
/** How long the queue remembers the ID of a completed job by default, in seconds. */
const DEFAULT_ID_TTL_S = 3_600;
/** The default delays before a job is tried again: they start here and double each time, in milliseconds. */
const RETRY_BASE_MS = 1_000;
const RETRY_MAX_MS = 60_000;
/** How many jobs a worker reads at a time. If another worker takes one of them first, it tries the next. */
const PAGE = 16;
/** The reasons of errors that mean that the job does not belong to the worker any more. */
const NOT_HELD: ReadonlySet<Reason> = new Set(['LockLost', 'LockReleased']);
/** A worker whose sessions last longer than this time, in milliseconds, opens the next one without a backoff. */
const STABLE_MS = 10_000;

/** Options of a `WorkQueue`. All workers of a queue should have the same. */
export interface WorkQueueOptions {
  /** How many times a job is tried before it becomes a dead job. A worker that dies counts as a try. Default 5. */
  readonly maxAttempts?: number | undefined;
  /**
   * Returns the milliseconds before a job that has failed `attempt` times is tried again. Default: 1 s after the first
   * failure, and twice as long after each further one, up to 60 s.
   */
  readonly retryDelayMs?: ((attempt: number) => number) | undefined;
  /**
   * How long the queue at least remembers the ID of a completed job, in seconds, if the caller of `enqueue` chose the
   * ID. Default 3,600.
   */
  readonly idTtl?: number | undefined;
}

/** Options of `WorkQueue.enqueue`. */
export interface EnqueueOptions extends Pick<CallOptions, 'signal' | 'timeoutMs'> {
  /**
   * An ID of the caller's own, without `/`: an idempotency token. If the queue contains a job with this ID, or has
   * completed one within `idTtl`, nothing is added. Default: a random ID.
   */
  readonly id?: string | undefined;
  /** A whole number from 0 to 65,535. Jobs with smaller numbers come first. Default 100. */
  readonly priority?: number | undefined;
  /**
   * Milliseconds before the job may be taken. If the clocks of this process and of the workers differ, workers may take it
   * earlier, and at the latest when they have seen it for so long. Default 0.
   */
  readonly delayMs?: number | undefined;
}

/** Options of `WorkQueue.work`. */
export interface WorkOptions {
  /** How many jobs this process works on at the same time. Default 1. */
  readonly concurrency?: number | undefined;
  /** TTL of the worker's lease in seconds. If the process dies, its jobs return to the queue after this time. Default 10. */
  readonly ttl?: number | undefined;
  /** Ends the work when it aborts: the worker takes no more jobs, and waits for those it works on. */
  readonly signal?: AbortSignal | undefined;
  /** Called when the handler of a job has thrown. It must not throw. */
  readonly onFailure?: ((error: unknown, job: Job) => void) | undefined;
}

/** The number of jobs in each state. */
export interface WorkQueueCounts {
  /** Jobs that a worker may take now. */
  readonly ready: number;
  /** Jobs that wait for their time: delayed jobs, and jobs that have failed and will be tried again. */
  readonly delayed: number;
  /** Jobs that a worker has taken. */
  readonly running: number;
  /** Jobs that have failed too often. */
  readonly dead: number;
}

/** A job that has failed `maxAttempts` times, or that its worker has buried. */
export interface DeadJob {
  readonly id: string;
  readonly value: Uint8Array;
  /** How many times the job was tried. */
  readonly attempts: number;
  /** The message of the last error. Undefined if the last worker died. */
  readonly error: string | undefined;
}

const WORK_QUEUE_OPTIONS = { maxAttempts: true, retryDelayMs: true, idTtl: true } as const;
const ENQUEUE_OPTIONS = { id: true, priority: true, delayMs: true, signal: true, timeoutMs: true } as const;
const WORK_OPTIONS = { concurrency: true, ttl: true, signal: true, onFailure: true } as const;

/**
 * A queue of jobs for a fleet of workers. Each job runs at least once: it leaves the queue only when a worker has
 * completed it. If the worker dies, the job returns to the queue when the worker's lease ends. A job that fails is
 * tried again after a delay, and becomes a dead job after `maxAttempts`.
 *
 * Jobs with a smaller priority number come first, and jobs of the same priority come in the order of `enqueue`, by the
 * clocks of the processes that called it. Each key of the queue begins with its name and `/`. `Queue` has the layout of
 * Go's recipes, and delivers each item at most once.
 *
 * @example
 * const emails = new WorkQueue(etcd, 'emails');
 * await emails.enqueue('to: ada@example.com', { id: 'welcome-ada' });
 * const stop = new AbortController();
 * await emails.work((job) => {
 *   console.log(job.id, job.text());
 *   stop.abort();
 * }, { signal: stop.signal });
 */
export class WorkQueue {
  readonly name: string;
  readonly #client: CoreKeyspace;
  readonly #maxAttempts: number;
  readonly #retryDelayMs: (attempt: number) => number;
  readonly #idLease: IdLease;
  /** When this worker has first seen each of the delayed jobs that are due next, on the monotonic clock. */
  #seen = new Map<string, number>();

  /** @throws EtcdError with reason `InvalidInput` if an argument is invalid. */
  constructor(client: CoreKeyspace, name: string, options: WorkQueueOptions = {}) {
    this.#client = checkClient(client);
    this.name = checkName(name);
    checkOptions(options, WORK_QUEUE_OPTIONS, 'WorkQueue');
    const {
      maxAttempts = DEFAULT_MAX_ATTEMPTS,
      retryDelayMs = defaultRetryDelayMs,
      idTtl = DEFAULT_ID_TTL_S,
    } = options;
    checkFunction(retryDelayMs, 'retryDelayMs');
    this.#maxAttempts = checkCount(maxAttempts, 'maxAttempts', 1);
    this.#retryDelayMs = retryDelayMs;
    this.#idLease = new SharedIdLease(client, checkCount(idTtl, 'idTtl', 1));
  }

  /**
   * Adds a job and returns its ID. `added` is false if the queue knew the ID already. The client repeats the call while
   * its outcome is unknown, because a repetition cannot add the job a second time while the queue knows its ID.
   *
   * @throws EtcdError as `txn` does. If its outcome is `unknown`, the job may be in the queue; calling `enqueue` again
   * with the same `id` is safe.
   */
  async enqueue(
    value: BytesLike,
    options: EnqueueOptions = {},
  ): Promise<{ readonly id: string; readonly added: boolean }> {
    checkOptions(options, ENQUEUE_OPTIONS, 'WorkQueue.enqueue');
    const { id = randomId().toString(16).padStart(16, '0'), priority = DEFAULT_PRIORITY, delayMs = 0 } = options;
    checkId(id);
    if (!Number.isInteger(priority) || priority < 0 || priority > MAX_PRIORITY)
      throw invalidInput('priority', show(priority), `a whole number from 0 to ${MAX_PRIORITY}`);
    const wholeDelayMs = checkDelay(delayMs);
    const bytes = toBytes(value, 'value');
    const now = environment.Date.now();
    const state: JobState = {
      priority,
      enqueuedAt: now,
      attempts: 0,
      delayMs: wholeDelayMs,
      keepsId: options.id !== undefined,
    };
    const keys = this.#keys(id);
    const todo = wholeDelayMs === 0 ? keys.ready(state) : keys.delayed(now + wholeDelayMs);
    const { signal, timeoutMs } = keyspaceClientOf(this.#client).leaseClient.withDefaultTimeout(options);
    const add = {
      if: [compare.missing(keys.job), compare.missing(keys.done)],
      then: [op.put(keys.job, bytes), op.put(todo, stateText(state))],
    };
    let isUnknown = false;
    return withinLimit(
      'WorkQueue.enqueue',
      { signal, maxWaitMs: timeoutMs },
      undefined,
      async (limit) => {
        const { succeeded } = await untilAnswered(
          limit.signal,
          (call) => this.#client.txn(add, call),
          () => {
            isUnknown = true;
            limit.settle('unknown');
          },
        );
        // After a lost answer, the job of this call is the one that the queue has, unless the caller chose the ID.
        return { id, added: succeeded || (isUnknown && options.id === undefined) };
      },
      'timeoutMs',
    );
  }

  /**
   * Takes jobs and calls `handler` for each of them, until the signal in the options aborts. Opens a session for the
   * worker, and another one if it is lost. If `handler` returns, the job is completed, and if it throws, the job is
   * tried again later. The handler may call `job.complete`, `job.retry` or `job.bury` itself instead.
   *
   * `job.signal` aborts when the job no longer belongs to this worker, or when the signal in the options aborts. A handler
   * that throws after that does not fail: the job returns to the queue, and the try does not count.
   *
   * @throws EtcdError with reason `InvalidInput`, `ClientClosed` or `PermissionDenied`, or with another reason for which
   * the server refuses a call. While no server answers, `work` waits.
   *
   * @example
   * const stop = new AbortController();
   * process.once('SIGTERM', () => stop.abort());
   * await new WorkQueue(etcd, 'thumbnails').work(async (job) => {
   *   await job.complete([op.put(`thumbnails-done/${job.id}`, job.value)]);
   *   stop.abort();
   * }, { concurrency: 4, signal: stop.signal });
   */
  async work(handler: (job: Job) => Promise<void> | void, options: WorkOptions = {}): Promise<void> {
    checkFunction(handler, 'handler');
    checkOptions(options, WORK_OPTIONS, 'WorkQueue.work');
    checkSignal(options.signal);
    const { signal: stop = new AbortController().signal, concurrency = 1, ttl, onFailure = () => {} } = options;
    checkCount(concurrency, 'concurrency', 1);
    checkFunction(onFailure, 'onFailure');
    for (let failures = 0; !stop.aborted; ) {
      const startedAt = monotonicMs();
      await withSession(this.#client, ttl, stop, async (session) => {
        const running = new Set<Promise<void>>();
        const failed = new AbortController();
        try {
          const ending = session.signalWith(stop, failed.signal);
          while (!ending.aborted) {
            const job = await this.#take(session, ending, stop);
            const run = this.#run(job, handler, stop, onFailure)
              .catch((error: unknown) => failed.abort(error))
              .finally(() => running.delete(run));
            running.add(run);
            while (running.size >= concurrency) await Promise.race(running);
          }
        } catch (error) {
          if (!failed.signal.aborted && !isSessionOver(error, session, stop)) failed.abort(error);
        }
        await Promise.all(running);
        if (failed.signal.aborted && !isSessionOver(failed.signal.reason, session, stop)) throw failed.signal.reason;
        return AGAIN;
      });
      failures = monotonicMs() - startedAt > STABLE_MS ? 0 : failures + 1;
      if (!stop.aborted) await pause(backoffMs(failures), stop);
    }
  }

  /**
   * Waits for a job and takes it. The job belongs to the session until `complete`, `retry` or `bury`, and returns to the
   * queue when the session ends.
   *
   * @throws EtcdError, see `WaitOptions`.
   *
   * @example
   * const emails = new WorkQueue(etcd, 'emails');
   * await emails.enqueue('to: bob@example.com');
   * await using session = await Session.open(etcd);
   * const job = await emails.take(session);
   * await job.complete();
   */
  take(session: Session, options: WaitOptions = {}): Promise<Job> {
    if (checkSession(session).client !== this.#client)
      throw invalidInput(
        'session',
        'a session of another client or namespace',
        'a session of the client or namespace that the WorkQueue was created with',
      );
    return withinLimit('WorkQueue.take', options, session.signal, ({ signal }) => this.#take(session, signal));
  }

  /** Counts the jobs in each state, at one revision. */
  async counts(options?: CallOptions): Promise<WorkQueueCounts> {
    checkCallOptions(options, 'WorkQueue.counts');
    const count = (folder: string) => op.range(prefix(`${this.name}/${folder}/`), { countOnly: true });
    const { responses } = await this.#client.txn(
      { then: [count('todo/ready'), count('todo/delayed'), count('held/claimed'), count('dead')] },
      options,
    );
    const [ready, delayed, running, dead] = responses;
    return { ready: ready.count, delayed: delayed.count, running: running.count, dead: dead.count };
  }

  /** Returns all dead jobs. Call `requeue` or `discard` for each of them. */
  async dead(options?: CallOptions): Promise<readonly DeadJob[]> {
    checkCallOptions(options, 'WorkQueue.dead');
    const { kvs } = await this.#client.range(prefix(`${this.name}/dead/`), options);
    const jobs: DeadJob[] = [];
    for (const kv of kvs) {
      const { attempts, error } = parseState(kv);
      const id = lastPart(kv);
      const job = await this.#client.get(this.#keys(id).job, options);
      // Undefined if another process has completed or discarded the job in the meantime.
      if (job !== undefined) jobs.push({ id, value: job.value, attempts, error });
    }
    return jobs;
  }

  /** Lets workers try a dead job again, as if it had never been tried. Returns false if there is no such dead job. */
  async requeue(id: string, options?: CallOptions): Promise<boolean> {
    checkCallOptions(options, 'WorkQueue.requeue');
    const keys = this.#keys(checkId(id));
    return this.#fromDead(keys, options, ({ error: _, ...state }) => [
      op.put(keys.ready(state), stateText({ ...state, attempts: 0 })),
    ]);
  }

  /** Removes a dead job for good, and remembers its ID like that of a completed job. Returns false if there is no such dead job. */
  async discard(id: string, options?: CallOptions): Promise<boolean> {
    checkCallOptions(options, 'WorkQueue.discard');
    const keys = this.#keys(checkId(id));
    return this.#fromDead(keys, options, async ({ keepsId }) => {
      // Without the marker, a late copy of the enqueue call could add the job again.
      const marker = keepsId ? [op.put(keys.done, '', { lease: await this.#idLease.get() })] : [];
      return [op.delete(keys.job), ...marker];
    });
  }

  async #fromDead(
    keys: JobKeys,
    options: CallOptions | undefined,
    next: (state: JobState) => Promise<readonly Op[]> | readonly Op[],
  ): Promise<boolean> {
    const kv = await this.#client.get(keys.dead, options);
    if (kv === undefined) return false;
    return this.#move(kv, await next(parseState(kv)), options);
  }

  /**
   * Deletes the key that holds a job's state, and does the other operations, unless the state has changed. A late copy
   * of the request has no effect, because the key has gone.
   */
  async #move(kv: KeyValue, ops: readonly Op[], options: CallOptions | undefined): Promise<boolean> {
    const isUnchanged = [compare.modRevision(kv.key, '==', kv.modRevision)];
    const { succeeded } = await this.#client.txn({ if: isUnchanged, then: [op.delete(kv.key), ...ops] }, options);
    return succeeded;
  }

  #keys(id: string): JobKeys {
    const { name } = this;
    return {
      job: `${name}/jobs/${id}`,
      ready: ({ priority, enqueuedAt }) => `${name}/todo/ready/${digits(priority, 5)}/${digits(enqueuedAt, 15)}/${id}`,
      delayed: (dueMs) => `${name}/todo/delayed/${digits(dueMs, 15)}/${id}`,
      claimed: `${name}/held/claimed/${id}`,
      running: `${name}/held/running/${id}`,
      dead: `${name}/dead/${id}`,
      done: `${name}/done/${id}`,
    };
  }

  /** Calls the handler, and then settles the job unless the handler has done so. Never rejects because of the handler. */
  async #run(
    job: Job,
    handler: (job: Job) => Promise<void> | void,
    stop: AbortSignal,
    onFailure: (error: unknown, job: Job) => void,
  ): Promise<void> {
    try {
      try {
        await handler(job);
      } catch (error) {
        if (job.isSettled) return;
        if (stop.aborted) return await job.giveBack();
        onFailure(error, job);
        return await job.retry({ error });
      }
      if (!job.isSettled) await job.complete();
    } catch (error) {
      // The job was lost, or the handler has released the claim. In both cases, the job returns to the queue.
      if (!(error instanceof EtcdError) || !NOT_HELD.has(error.reason)) throw error;
    }
  }

  /** Waits for a job and takes it. Watches the queue only after it has found no job. */
  async #take(session: Session, signal: AbortSignal, stop?: AbortSignal): Promise<Job> {
    for (;;) {
      const job = await this.#look(session, signal, stop);
      if (job instanceof Job) return job;
      const watching = new AbortController();
      const offAbort = onAbort(signal, () => watching.abort(signal.reason));
      const news = new News(watching.signal);
      // A worker's end deletes `running/ID` alone. All other deletions under `held/` delete `claimed/ID` too.
      const watches = [
        this.#client.watch(prefix(`${this.name}/todo/`), { only: 'put', signal: watching.signal }),
        this.#client.watch(prefix(`${this.name}/held/`), { only: 'delete', signal: watching.signal }),
      ] as const;
      const running = `${this.name}/held/running/`;
      const following = [
        follow(watches[0], () => true, news),
        follow(watches[1], (keys) => keys.every((key) => key.startsWith(running)), news),
      ];
      try {
        await Promise.all(watches.map((watch) => watch.created()));
        for (let found = await this.#look(session, signal, stop); ; found = await this.#look(session, signal, stop)) {
          if (found instanceof Job) return found;
          await news.next(found.dueMs);
        }
      } catch (error) {
        if (signal.aborted || !isWatchInterrupted(error)) throw error;
      } finally {
        offAbort();
        watching.abort();
        await Promise.allSettled(following);
      }
      await pause(REWATCH_MS, signal);
    }
  }

  /**
   * Looks for a job once, and takes it. If there is none, returns when the next delayed job is due, on the monotonic
   * clock. Also
   * moves the delayed jobs that are due and the jobs of dead workers to the ready jobs.
   */
  async #look(session: Session, signal: AbortSignal, stop?: AbortSignal): Promise<Job | { readonly dueMs: number }> {
    const { name } = this;
    const count = { countOnly: true } as const;
    for (;;) {
      const { responses } = await untilAnswered(signal, (call) =>
        this.#client.txn(
          {
            then: [
              op.range(prefix(`${name}/todo/ready/`), { limit: PAGE }),
              op.range(prefix(`${name}/todo/delayed/`), { limit: PAGE }),
              op.range(prefix(`${name}/held/claimed/`), count),
              op.range(prefix(`${name}/held/running/`), count),
            ],
          },
          call,
        ),
      );
      const [ready, delayed, claimed, running] = responses;
      const now = monotonicMs();
      const times = this.#dueTimes(delayed.kvs);
      const due = delayed.kvs.filter((_, index) => (times[index] as number) <= now);
      const moved = await Promise.all(due.map((kv) => this.#makeReady(kv, parseState(kv), signal)));
      const returned = claimed.count > running.count && (await this.#returnOrphans(signal));
      if (returned || moved.some(Boolean)) continue;
      for (const kv of ready.kvs) {
        const job = await this.#claim(session, kv, signal, stop);
        if (job !== undefined) return job;
      }
      if (ready.kvs.length > 0 || due.length > 0) continue;
      return { dueMs: Math.min(...times) };
    }
  }

  /**
   * Returns when the delayed jobs are due, on the monotonic clock: at the time in their keys by the wall clock, and at
   * the latest when their delay has passed since this worker saw them first. Otherwise, a wall clock that is set back, or
   * differs from that of the process that has delayed the job, could delay it for hours.
   */
  #dueTimes(delayed: readonly KeyValue[]): readonly number[] {
    const [now, wallMs] = [monotonicMs(), environment.Date.now()];
    const seen = this.#seen;
    this.#seen = new Map();
    return delayed.map((kv) => {
      const { attempts, delayMs } = parseState(kv);
      const id = `${lastPart(kv)} ${attempts}`;
      const seenAt = seen.get(id) ?? now;
      this.#seen.set(id, seenAt);
      return Math.min(now + dueOf(kv) - wallMs, seenAt + delayMs);
    });
  }

  #makeReady(kv: KeyValue, state: JobState, signal: AbortSignal): Promise<boolean> {
    const put = op.put(this.#keys(lastPart(kv)).ready(state), stateText(state));
    return untilAnswered(signal, (call) => this.#move(kv, [put], call));
  }

  /** Returns the jobs of dead workers to the queue. Returns whether there were any. */
  async #returnOrphans(signal: AbortSignal): Promise<boolean> {
    const all = { claimed: prefix(`${this.name}/held/claimed/`), running: prefix(`${this.name}/held/running/`) };
    const { responses } = await untilAnswered(signal, (call) =>
      this.#client.txn({ then: [op.range(all.claimed), op.range(all.running, { keysOnly: true })] }, call),
    );
    const [claimed, running] = responses;
    const alive = new Set(running.kvs.map(lastPart));
    const orphans = claimed.kvs.filter((kv) => !alive.has(lastPart(kv)));
    const returned = orphans.map((kv) => {
      const [keys, state] = [this.#keys(lastPart(kv)), parseState(kv)];
      const to = state.attempts < this.#maxAttempts ? keys.ready(state) : keys.dead;
      const isOrphan = [compare.modRevision(kv.key, '==', kv.modRevision), compare.missing(keys.running)];
      const move = { if: isOrphan, then: [op.delete(kv.key), op.put(to, stateText(state))] };
      return untilAnswered(signal, async (call) => (await this.#client.txn(move, call)).succeeded);
    });
    return (await Promise.all(returned)).some(Boolean);
  }

  /** Takes a ready job. Returns undefined if another worker was faster, or if the job's value is gone. */
  async #claim(session: Session, kv: KeyValue, signal: AbortSignal, stop?: AbortSignal): Promise<Job | undefined> {
    const id = lastPart(kv);
    const keys = this.#keys(id);
    const state = parseState(kv);
    const next = { ...state, attempts: state.attempts + 1 };
    const claim = {
      if: [compare.modRevision(kv.key, '==', kv.modRevision), compare.exists(keys.job)],
      then: [
        op.delete(kv.key),
        op.put(keys.claimed, stateText(next)),
        op.put(keys.running, '', { lease: session }),
        op.get(keys.job),
      ],
      else: [op.get(keys.running), op.get(keys.job)],
    } as const;
    let isUnknown = false;
    const noteUnknown = (): void => {
      isUnknown = true;
    };
    const result = await untilAnswered(signal, (call) => this.#client.txn(claim, call), noteUnknown).catch(
      (error: unknown) => {
        session.losesWith(error);
        throw error;
      },
    );
    const [running, job] = result.succeeded ? [undefined, result.responses[3]] : result.responses;
    // After a lost answer, an earlier attempt of this call may have taken the job.
    const isOwn = result.succeeded || (isUnknown && running?.lease === session.leaseId);
    if (!isOwn || job === undefined) {
      // Another client has deleted the job's value.
      if (job === undefined) await untilAnswered(signal, (call) => this.#move(kv, [], call));
      return undefined;
    }
    const createRevision = running?.createRevision ?? result.header.revision;
    const own = { key: keys.running, createRevision, seenAt: result.header.revision };
    const held = hold(Held, session, id, own, () => {});
    return new Job({
      client: this.#client,
      lifetime: session.signal,
      keys,
      held,
      state: next,
      value: job.value,
      signal: stop === undefined ? held.signal : checkedSignalOf(held.signal, [stop]),
      maxAttempts: this.#maxAttempts,
      retryDelayMs: this.#retryDelayMs,
      idLease: this.#idLease,
    });
  }
}

/** A lease for at least `ttl` seconds. Many IDs share a lease, which is therefore granted for twice as long. */
class SharedIdLease implements IdLease {
  readonly #client: CoreKeyspace;
  readonly #ttl: number;
  #current: { readonly id: Promise<bigint>; readonly untilMs: number } | undefined;

  constructor(client: CoreKeyspace, ttl: number) {
    this.#client = client;
    this.#ttl = ttl;
  }

  get(): Promise<bigint> {
    const now = monotonicMs();
    if (this.#current === undefined || now >= this.#current.untilMs) {
      const granted = this.#client.lease.grant({ ttl: 2 * this.#ttl });
      const current = { id: granted.then(({ id }) => id), untilMs: now + this.#ttl * 1_000 };
      current.id.catch(() => {
        if (this.#current === current) this.forget();
      });
      this.#current = current;
    }
    return this.#current.id;
  }

  forget(): void {
    this.#current = undefined;
  }
}

/** Lets a worker wait until one of its watches shows that a look may find a job. */
class News {
  #arrived = false;
  #error: unknown;
  #stopWaiting = (): void => {};
  readonly #signal: AbortSignal;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  arrive(): void {
    this.#arrived = true;
    this.#stopWaiting();
  }

  fail(error: unknown): void {
    this.#error ??= error;
    this.#stopWaiting();
  }

  /** Resolves after the next arrival, or at `dueMs` of the monotonic clock. @throws the error of a watch. */
  async next(dueMs: number): Promise<void> {
    const waiting = new AbortController();
    this.#stopWaiting = () => waiting.abort();
    if (!this.#arrived && this.#error === undefined)
      await pause(Math.max(0, dueMs - monotonicMs()), waiting.signal, this.#signal);
    this.#arrived = false;
    this.#signal.throwIfAborted();
    if (this.#error !== undefined) throw this.#error;
  }
}

/** Reports the batches of a watch for whose keys `isNews` returns true, until the watch ends. */
async function follow(watch: Watch, isNews: (keys: readonly string[]) => boolean, news: News): Promise<void> {
  try {
    for await (const { events } of watch.batches()) if (isNews(events.map((event) => event.keyText()))) news.arrive();
    news.fail(
      new EtcdError('the client was closed', { code: 'Canceled', reason: 'ClientClosed', outcome: 'rejected' }),
    );
  } catch (error) {
    news.fail(error);
  }
}

/** Whether the error means only that the session or the work has ended. */
function isSessionOver(error: unknown, session: Session, stop: AbortSignal): boolean {
  if (stop.aborted) return true;
  if (!(error instanceof EtcdError)) return false;
  if (error.reason === 'ClusterChanged') return true;
  return session.signal.aborted && session.signal.reason.reason !== 'ClientClosed';
}

function defaultRetryDelayMs(attempt: number): number {
  return Math.min(RETRY_MAX_MS, RETRY_BASE_MS * 2 ** (attempt - 1));
}

function checkId(id: string): string {
  if (typeof id === 'string' && id !== '' && !id.includes('/')) return id;
  throw invalidInput(
    'id',
    typeof id === 'string' && id !== '' ? 'a string with "/"' : show(id),
    'a non-empty string without "/"',
  );
}

function digits(number: number, length: number): string {
  return String(number).padStart(length, '0');
}

/** Returns the ID, which is the last part of each key of a job. */
function lastPart(kv: KeyValue): string {
  const key = textOf(kv.key);
  return key.slice(key.lastIndexOf('/') + 1);
}

/** Returns the time at which a delayed job is due, in milliseconds since 1970. */
function dueOf(kv: KeyValue): number {
  return Number(kv.keyText().split('/').at(-2));
}
