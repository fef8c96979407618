import {
  type ActionLast,
  actionLast,
  type BytesLike,
  checkDelay,
  checkOptions,
  EtcdError,
  environment,
  onAbort,
  randomId,
  toBytes,
} from '../../base/index.js';
import { type CoreKeyspace, checkClient, compare, keyspaceClientOf, op, prefix } from '../../client/index.js';
import {
  AGAIN,
  checkNameOutside,
  checkSession,
  checkSessionOf,
  Ending,
  isSessionOver,
  type Session,
  sessionAfterSession,
  untilClosed,
  untilSpace,
  type WaitOptions,
  withinLimit,
} from '../../locks/index.js';
import { type CallOptions, checkCallOptions, deadlineIn, internally } from '../../rpc/index.js';
import type { ValueCodec } from '../keys/index.js';
import { retriedTxn } from '../writes/index.js';
import { ignoreLoss, retryDelay } from './handlers.js';
import { checkId, IdLease, type Job, type JobState, parseState, stateText } from './job.js';
import { JobSource, jobIdOf, keysOf, moveState } from './job-source.js';
import { StoredValue } from './stored-value.js';
import {
  type DeadJob,
  ENQUEUE_OPTIONS,
  type EnqueueOptions,
  WORK_OPTIONS,
  WORK_QUEUE_OPTIONS,
  type WorkOptions,
  type WorkQueueCounts,
  type WorkQueueOptions,
} from './work-queue-options.js';

const DEFAULT_PRIORITY = 100;
const DEFAULT_MAX_ATTEMPTS = 5;
/** Default number of seconds for which the queue remembers the ID of a completed or discarded job. */
const DEFAULT_ID_TTL_S = 3_600;
/** Delay before the second try of a job in milliseconds. */
const RETRY_BASE_MS = 1_000;
/** The folders that a queue reads as a whole. */
const FOLDERS = ['todo', 'held', 'dead'];

/** The codec of a queue whose caller gives no codec. */
const BYTES: ValueCodec<Uint8Array> = { encode: (value) => value, decode: (bytes) => bytes };

/**
 * A queue of jobs for a fleet of workers. Each job runs at least once: it leaves the queue only when a worker has
 * completed it, or when a program discards it as a dead job. If the worker dies, the job returns to the queue when the
 * worker's lease ends. A job that fails is tried again after a delay, and becomes a dead job after `maxAttempts` tries.
 *
 * Jobs with a smaller priority number come first, and jobs of the same priority come in the order of the calls of
 * `enqueue`, by the clocks of the processes that called it. Within a millisecond, only the jobs of one `WorkQueue`
 * object keep their order. Each key of the queue begins with its name and `/`. No slash-separated part of the name may
 * be `todo`, `held` or `dead`, because the keys of a queue `mail/dead` would count as dead jobs of a queue `mail`.
 * `Queue` has the layout of Go's recipes, and delivers each item at most once.
 *
 * @example
 * const emails = new WorkQueue(etcd, 'emails');
 * await emails.enqueue('to: ada@example.com', { id: 'welcome-ada' });
 * const stop = new AbortController();
 * await emails.work({ signal: stop.signal }, (job) => {
 *   console.log(job.id, job.text());
 *   stop.abort();
 * });
 */
export class WorkQueue<T = Uint8Array> {
  readonly name: string;
  readonly #client: CoreKeyspace;
  readonly #idLease: IdLease;
  readonly #source: JobSource<T>;
  readonly #codec: ValueCodec<T>;
  /** The time of the latest call of `enqueue`, and the number of calls before it in the same millisecond. */
  #latest = { atMs: 0, before: 0 };

  /** @throws EtcdError with reason `InvalidInput` if an argument is invalid. */
  constructor(client: CoreKeyspace, name: string, options: WorkQueueOptions<T> = {}) {
    this.#client = checkClient(client);
    this.name = checkNameOutside(FOLDERS, name);
    checkOptions(options, WORK_QUEUE_OPTIONS, 'WorkQueue');
    const {
      maxAttempts = DEFAULT_MAX_ATTEMPTS,
      retryDelayMs = retryDelay(RETRY_BASE_MS),
      idTtl = DEFAULT_ID_TTL_S,
      codec = BYTES as unknown as ValueCodec<T>,
    } = options;
    this.#codec = codec;
    this.#idLease = new IdLease(client, idTtl);
    this.#source = new JobSource(client, name, { maxAttempts, retryDelayMs, idLease: this.#idLease, codec });
  }

  /**
   * Adds a job and returns its ID. `added` is false if the queue knew the ID already. The client repeats the call until
   * a server answers it or the time limit passes, and the server adds the job at most once.
   *
   * @throws EtcdError as `txn` does. If the outcome of the error is `unknown`, the job may be in the queue; calling
   * `enqueue` again with the same `id` is safe.
   */
  async enqueue(
    value: [T] extends [Uint8Array] ? BytesLike : T,
    options: EnqueueOptions = {},
  ): Promise<{ readonly id: string; readonly added: boolean }> {
    checkOptions(options, ENQUEUE_OPTIONS, 'WorkQueue.enqueue');
    const { id = randomId().toString(16).padStart(16, '0'), priority = DEFAULT_PRIORITY, delayMs = 0 } = options;
    const wholeDelayMs = checkDelay(delayMs);
    const bytes = toBytes(this.#codec.encode(value as T), 'value');
    const now = environment.Date.now();
    const enqueuedBefore = this.#latest.atMs === now ? this.#latest.before + 1 : 0;
    this.#latest = { atMs: now, before: enqueuedBefore };
    const state: JobState = {
      priority,
      enqueuedAt: now,
      enqueuedBefore,
      attempts: 0,
      delayMs: wholeDelayMs,
      keepsId: options.id !== undefined,
    };
    const keys = keysOf(this.name, id);
    const todo = wholeDelayMs === 0 ? keys.ready(state) : keys.delayed(now + wholeDelayMs);
    const txn = {
      if: [compare.missing(keys.job), compare.missing(keys.done)],
      then: [op.put(keys.job, bytes), op.put(todo, stateText(state))],
    };
    const { signal, timeoutMs } = options;
    const { succeeded } = await retriedTxn(this.#client, txn, { signal, timeoutMs });
    return { id, added: succeeded };
  }

  /**
   * Takes jobs and calls `handler` for each of them, until the signal in the options aborts or the client closes, which
   * waits for the handlers. Opens a session for the worker, and another one if it is lost. If `handler` returns, `work`
   * completes the job. If `handler` throws, a worker tries the job again later. The handler may instead call
   * `job.complete`, `job.retry` or `job.bury` itself.
   *
   * `job.signal` aborts when the job no longer belongs to this worker, or when `work` ends. If the handler throws after
   * that, `work` ignores the error and the job returns to the queue. The try does not count if the job still belonged to
   * this worker. A handler that does not end when its job is lost occupies one of the `concurrency` slots. While no
   * server answers, or the server is out of space, `work` waits.
   *
   * @throws EtcdError with reason `InvalidInput`, `PermissionDenied` or `ResponseTooLarge`, with `ClientClosed` if the
   * client was closed before the call, or with another reason for which the server refuses a call, or the error of
   * `onFailure` or `retryDelayMs`. `work` then aborts the signals of all jobs, and rejects when the handlers have ended.
   *
   * @example
   * const thumbnails = new WorkQueue(etcd, 'thumbnails');
   * await thumbnails.enqueue('image 1');
   * const stop = new AbortController();
   * process.once('SIGTERM', () => stop.abort());
   * await thumbnails.work({ concurrency: 4, signal: stop.signal }, async (job) => {
   *   await job.complete([op.put(`thumbnails-done/${job.id}`, job.value)]);
   *   stop.abort();
   * });
   */
  async work(...last: ActionLast<WorkOptions<T>, (job: Job<T>) => Promise<void> | void>): Promise<void> {
    const [options, handler] = actionLast(last, 'handler');
    checkOptions(options, WORK_OPTIONS, 'WorkQueue.work');
    return untilClosed(this.#client, options.signal, (stop) => this.#work(handler, stop, options));
  }

  async #work(
    handler: (job: Job<T>) => Promise<void> | void,
    asked: AbortSignal,
    { concurrency = 1, ttl, allowLongTtl, onFailure = () => {} }: WorkOptions<T>,
  ): Promise<void> {
    const ended = new Ending(asked);
    const stop = ended.signal;
    const failUnlessOver = (session: Session) => (error: unknown) => {
      if (!isSessionOver(error, session, stop)) ended.fail(error);
    };
    // The running handlers, including those whose session is lost. They occupy their slots until they end.
    const running = new Set<Promise<void>>();
    let changed = (): void => {};
    const workUntil = async (session: Session, ending: AbortSignal): Promise<void> => {
      while (!ending.aborted) {
        if (running.size >= concurrency) {
          await new Promise<void>((resolve) => {
            changed = resolve;
          });
          continue;
        }
        const waiting = { signal: ending };
        const take = () => this.#source.take(session, waiting, concurrency - running.size, stop);
        const jobs = await untilSpace(waiting, take);
        for (const job of jobs) {
          const run: Promise<void> = this.#runJob(job, handler, stop, onFailure, ended.crash)
            .catch(failUnlessOver(session))
            .finally(() => {
              running.delete(run);
              changed();
            });
          running.add(run);
        }
      }
    };
    const useSession = async (session: Session): Promise<typeof AGAIN> => {
      const ending = session.signalWith(stop);
      const offEnding = onAbort(ending, () => changed());
      await workUntil(session, ending).catch(failUnlessOver(session)).finally(offEnding);
      // The handlers need the session to complete their jobs.
      if (stop.aborted) await Promise.all(running);
      return AGAIN;
    };
    await sessionAfterSession(this.#client, { ttl, allowLongTtl }, stop, useSession).finally(() => ended.close());
    await Promise.all(running);
    ended.throwIfFailed();
  }

  /**
   * Waits for a job and takes it. The job belongs to the session until the program calls `complete`, `retry`, `bury` or
   * `held.release` of the job, or the session ends.
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
  take(session: Session, options: WaitOptions = {}): Promise<Job<T>> {
    checkSessionOf(this.#client, checkSession(session), 'WorkQueue');
    return withinLimit('WorkQueue.take', options, session.signal, ({ waiting }) =>
      this.#source.take(session, waiting, 1).then(([job]) => job as Job<T>),
    );
  }

  /** Counts the jobs in each state, at one revision. @throws EtcdError as `txn` does. */
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

  /**
   * Returns all dead jobs, in the order of their IDs. Call `requeue` or `discard` for each of them.
   *
   * @throws EtcdError as `get` does.
   */
  async dead(options?: CallOptions): Promise<readonly DeadJob<T>[]> {
    checkCallOptions(options, 'WorkQueue.dead');
    const { kvs } = await this.#client.range(prefix(`${this.name}/dead/`), options);
    const jobs = await Promise.all(
      kvs.map(async (kv): Promise<DeadJob<T> | undefined> => {
        const id = jobIdOf(kv);
        const job = await this.#client.get(keysOf(this.name, id).job, options);
        const { attempts, error } = parseState(kv);
        // Undefined if another process has completed or discarded the job since.
        return job && Object.assign(new StoredValue(job.value, this.#codec), { id, attempts, error });
      }),
    );
    return jobs.filter((job) => job !== undefined);
  }

  /**
   * Lets workers try a dead job again, as if it had never been tried. Returns false if there is no such dead job.
   *
   * @throws EtcdError as `txn` does.
   */
  async requeue(id: string, options?: CallOptions): Promise<boolean> {
    checkCallOptions(options, 'WorkQueue.requeue');
    const keys = keysOf(this.name, checkId(id));
    const kv = await this.#client.get(keys.dead, options);
    if (kv === undefined) return false;
    const state = { ...parseState(kv), attempts: 0, error: undefined };
    return moveState(this.#client, kv, [op.put(keys.ready(state), stateText(state))], options);
  }

  /**
   * Removes a dead job for good, and remembers its ID like that of a completed job. Returns false if there is no such
   * dead job.
   *
   * @throws EtcdError as `txn` does.
   */
  async discard(id: string, options: CallOptions = {}): Promise<boolean> {
    checkCallOptions(options, 'WorkQueue.discard');
    const keys = keysOf(this.name, checkId(id));
    const { signal, timeoutMs = keyspaceClientOf(this.#client).rpc.settings.timeoutMs } = options;
    const deadline = deadlineIn(options, timeoutMs);
    const limits = internally(options, { deadline });
    const kv = await this.#client.get(keys.dead, limits);
    if (kv === undefined) return false;
    if (!parseState(kv).keepsId) return moveState(this.#client, kv, [op.delete(keys.job)], limits);
    return this.#idLease.withLease(
      (grant) => grant('WorkQueue.discard', { signal, timeoutMs, deadline }),
      (lease) => moveState(this.#client, kv, [op.delete(keys.job), op.put(keys.done, '', { lease })], limits),
    );
  }

  /**
   * Calls the handler, and then settles the job unless the handler has done so. Does not reject if the handler throws.
   */
  async #runJob(
    job: Job<T>,
    handler: (job: Job<T>) => Promise<void> | void,
    stop: AbortSignal,
    onFailure: (error: unknown, job: Job<T>) => void,
    crash: (error: unknown) => void,
  ): Promise<void> {
    try {
      await handler(job);
      await (job.settling ?? job.complete());
    } catch (error) {
      if (job.settling !== undefined) await job.settling.catch(() => {});
      // The handler has settled the job, or another worker returns the lost or released job to the queue.
      if (!job.isOwned) return job.abandon();
      if (stop.aborted) return await job.giveBack().catch(ignoreLoss);
      try {
        await onFailure(error, job);
      } catch (thrown) {
        return crash(thrown);
      }
      await job.retry({ error }).catch((thrown: unknown) => {
        // `retryDelayMs` has thrown.
        if (thrown instanceof EtcdError) return ignoreLoss(thrown);
        crash(thrown);
      });
    }
  }
}
