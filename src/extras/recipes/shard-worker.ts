import { backoffMs, checkedSignalOf, EtcdError, monotonicMs, pause, untilSoonAfter } from '../../base/index.js';
import { op, prefix, preparedTxn } from '../../client/index.js';
import {
  type Held,
  isSessionOver,
  keyGone,
  leaveQueue,
  Mutex,
  RELEASE_TIMEOUT_MS,
  type Session,
  untilAnswered,
  untilSpace,
  type Waiting,
} from '../../locks/index.js';
import { type CachedRange, cachedRangeOf } from '../ranges/index.js';
import { ignoreLoss, RETRY_MAX_MS, retryDelay } from './handlers.js';
import {
  freeShardsFor,
  quotasOf,
  readShardKeys,
  shardsFolder,
  type Worker,
  workerKey,
  workersFolder,
  workerValue,
} from './shard-plan.js';

/** Maximum number of shards that a worker takes at the same time. */
const MAX_TAKING = 16;
/** The step from which the limit of the random delay between two attempts to take a shard stays the same: 200 ms. */
const MAX_BACKOFF_STEP = 2;
/** Returns the delay before the next run of a handler in milliseconds. */
const retryDelayMs = retryDelay(1_000);

/** A shard that this process owns. */
export interface Shard {
  /** A whole number from 0 to `count - 1`. */
  readonly number: number;
  /**
   * Aborts when the shard moves to another worker, when this process has lost the shard, or when the signal in the
   * options aborts. Reading `aborted` compares the lease's deadline with the clocks of the machine.
   */
  readonly signal: AbortSignal;
  /**
   * The lock of the shard, with its fencing token. `held.txn` makes writes that have no effect after another worker may
   * have taken the shard.
   */
  readonly held: Held;
}

export interface ShardSettings extends Pick<Worker, 'count' | 'weight' | 'worker'> {
  readonly name: string;
  readonly handler: (shard: Shard) => Promise<void> | void;
  readonly onFailure: (error: unknown, shard: Shard) => void;
  /** Aborts when the program asks `shards` to end. */
  readonly stop: AbortSignal;
}

interface OwnShard {
  readonly held: Held;
  /** Aborts when the shard moves to another worker. */
  readonly moving: AbortController;
}

/** A worker during one session: from the put of the worker's key until all handlers have ended. */
export class ShardWorker {
  readonly #session: Session;
  readonly #settings: ShardSettings;
  /** Aborts when the worker's key is gone, or after an error. */
  readonly #failed = new AbortController();
  /** Aborts when the worker must end all handlers: when `#failed` or `stop` aborts, or when the session ends. */
  readonly #ending: AbortSignal;
  readonly #waiting: Waiting;
  readonly #owned = new Map<number, OwnShard>();
  readonly #taking = new Set<number>();
  /** The work on each shard, from the attempt to take it until it is released. None of these promises rejects. */
  readonly #tasks = new Set<Promise<void>>();
  #view: CachedRange | undefined;
  /** The revision of the view that `#update` saw last. */
  #seen = 0n;
  #quota = 0;
  /** The free shards that this worker should take, according to the view. */
  #wanted: ReadonlySet<number> = new Set();
  /** Create revision of the worker's key. */
  #joinedAt = 0n;
  /** The error with which `shards` rejects. */
  #fatal: unknown;

  constructor(session: Session, settings: ShardSettings) {
    this.#session = session;
    this.#settings = settings;
    this.#ending = session.signalWith(settings.stop, this.#failed.signal);
    this.#waiting = { signal: this.#ending };
  }

  /**
   * Works on shards until the session is lost, `stop` aborts, or another client deletes the worker's key. Then waits
   * until all handlers have ended and their shards are released.
   *
   * @throws an error of `onFailure`, and EtcdError if the server refuses a call or the client is closed.
   */
  async run(): Promise<void> {
    const { client, leaseId } = this.#session;
    try {
      await this.#join();
      await this.#follow();
    } catch (error) {
      this.#fail(error);
    }
    // The other workers take over as soon as the key of this worker is gone. The attempts to delete the key end when
    // the session ends, because etcd then deletes the key with the lease.
    const key = workerKey(this.#settings.name, leaseId);
    if (this.#joinedAt > 0n) leaveQueue(client, key, this.#joinedAt, this.#session).catch(() => {});
    while (this.#tasks.size > 0) await Promise.all(this.#tasks);
    if (this.#fatal !== undefined) throw this.#fatal;
  }

  /**
   * Ends all work. `run` rejects with the error, unless the error only means that the session or the work has ended.
   */
  #fail(error: unknown): void {
    const { signal } = this.#session;
    const cause = signal.aborted ? signal.reason : error;
    if (!this.#failed.signal.aborted && !isSessionOver(cause, this.#session, this.#settings.stop)) this.#fatal = cause;
    this.#failed.abort(cause);
  }

  /**
   * Puts the worker's key. The same transaction reads the keys of all workers. So if two workers have different numbers
   * of shards, the younger one sees the older one, and rejects instead of taking shards.
   */
  async #join(): Promise<void> {
    const { client, guards, leaseId: lease } = this.#session;
    const { name, count } = this.#settings;
    const workers = prefix(workersFolder(name));
    const put = op.put(workerKey(name, lease), workerValue(this.#settings), { lease });
    const joining = guards.begin(preparedTxn({ then: [put, op.range(workers)] }));
    try {
      const { result } = await untilSpace(this.#waiting, (options) => joining.send(options));
      // If the answer was lost, read what it would have shown. Older workers may have left since.
      const { kvs } =
        result?.responses[1] ?? (await untilAnswered(this.#waiting, (options) => client.range(workers, options)));
      const [oldest, ...others] = readShardKeys(name, kvs).workers;
      const own = [oldest, ...others].find((each) => each?.leaseId === lease);
      if (oldest === undefined || own === undefined) return this.#failed.abort(keyGone());
      this.#joinedAt = own.createRevision;
      if (oldest.count !== count) throw differentCount(count, oldest.count);
    } catch (error) {
      this.#session.losesWith(error);
      throw error;
    }
  }

  async #follow(): Promise<void> {
    const { client } = this.#session;
    const folder = prefix(shardsFolder(this.#settings.name));
    await using view = await untilAnswered(this.#waiting, () => cachedRangeOf(client, folder, this.#waiting));
    const changes = view.changes(this.#waiting);
    this.#view = view;
    this.#update();
    // The view applies all changes of a revision at once, and often those of several revisions, but yields them one by
    // one.
    for await (const _ of changes) if (view.revision !== this.#seen) this.#update();
  }

  /** Hands over shards if the worker owns more than its quota, and begins to take free shards if it owns fewer. */
  #update(): void {
    try {
      if (this.#view !== undefined && !this.#ending.aborted) this.#balance(this.#view);
    } catch (error) {
      // The view has ended.
      this.#fail(error);
    }
  }

  #balance(view: CachedRange): void {
    if (view.revision < this.#joinedAt) return;
    const { name, count } = this.#settings;
    const { leaseId } = this.#session;
    this.#seen = view.revision;
    const keys = readShardKeys(name, view.range());
    // A worker with another count does not work, and its key will be gone soon.
    const state = { ...keys, workers: keys.workers.filter((each) => each.count === count) };
    const place = state.workers.findIndex((each) => each.leaseId === leaseId);
    // Another client has deleted the key. The worker ends all work, and joins again with another session.
    if (place < 0) return this.#failed.abort(keyGone());
    const quotas = quotasOf(count, state.workers);
    this.#quota = quotas[place] as number;
    const staying = this.#staying();
    // The shards that this worker took last move first.
    staying.sort((a, b) => (a.held.token < b.held.token ? -1 : 1));
    for (const { moving } of staying.slice(this.#quota)) moving.abort(moved());
    let room = Math.min(this.#quota - staying.length, MAX_TAKING) - this.#taking.size;
    this.#wanted = new Set(freeShardsFor(leaseId, count, state, quotas));
    for (const number of this.#wanted) {
      if (room <= 0) break;
      // The shard is free in the view, but this worker is still taking it or has just released it.
      if (this.#owned.has(number) || this.#taking.has(number)) continue;
      room -= 1;
      this.#start(number);
    }
  }

  /** The shards that this worker owns and does not hand over. */
  #staying(): OwnShard[] {
    return [...this.#owned.values()].filter(({ moving }) => !moving.signal.aborted);
  }

  #start(number: number): void {
    this.#taking.add(number);
    const task: Promise<void> = this.#work(number)
      .catch((error: unknown) => this.#fail(error))
      .finally(() => {
        this.#tasks.delete(task);
        this.#taking.delete(number);
        this.#owned.delete(number);
        this.#update();
      });
    this.#tasks.add(task);
  }

  /** Takes the shard, and works on it until it moves or the work ends. Returns if another client was faster. */
  async #work(number: number): Promise<void> {
    const held = await this.#take(number);
    if (held === undefined) return;
    try {
      // The quota may have changed since the attempt began.
      if (this.#staying().length >= this.#quota) return;
      const moving = new AbortController();
      this.#taking.delete(number);
      this.#owned.set(number, { held, moving });
      // The view may have shown the queue key of the shard before the answer arrived, so no further event may come.
      this.#update();
      await this.#handle({ number, held, signal: checkedSignalOf(held.signal, [this.#ending, moving.signal]) });
    } finally {
      // The shard counts as owned until its key is gone, or the session has ended. If no server answers while all work
      // ends, the end of the session frees the shard.
      const released = held.release({ timeoutMs: Number.POSITIVE_INFINITY });
      await untilSoonAfter(this.#ending, RELEASE_TIMEOUT_MS, released);
    }
  }

  /**
   * Tries to lock the shard until the view shows that it is not free, or that another worker should take it, or until all
   * work ends. An attempt can fail because the view is behind the store, and another client already holds the lock.
   */
  async #take(number: number): Promise<Held | undefined> {
    const { name, worker: value } = this.#settings;
    const mutex = new Mutex(this.#session, `${shardsFolder(name)}${number}`, { value });
    for (let attempt = 0; !this.#ending.aborted && (attempt === 0 || this.#wanted.has(number)); attempt += 1) {
      const held = await untilSpace(this.#waiting, () => mutex.tryLock(this.#waiting)).catch(ignoreLoss);
      if (held !== undefined) return held;
      await pause(backoffMs(Math.min(attempt, MAX_BACKOFF_STEP)), this.#ending);
    }
    return undefined;
  }

  /**
   * Calls the handler, and calls it again if it throws. If the handler returns, waits until the shard's signal aborts.
   */
  async #handle(shard: Shard): Promise<void> {
    const { handler, onFailure } = this.#settings;
    const { signal } = shard;
    for (let failures = 0; !signal.aborted; ) {
      const startedAt = monotonicMs();
      try {
        await handler(shard);
        return await pause(Number.POSITIVE_INFINITY, signal);
      } catch (error) {
        if (signal.aborted) return;
        try {
          await onFailure(error, shard);
        } catch (thrown) {
          this.#fatal ??= thrown;
          return this.#failed.abort(thrown);
        }
        if (monotonicMs() - startedAt > RETRY_MAX_MS) failures = 0;
        failures += 1;
        await pause(retryDelayMs(failures), signal);
      }
    }
  }
}

function differentCount(count: number, older: number): EtcdError {
  return new EtcdError(
    `count: got ${count}; allowed: ${older}, because a worker of these shards that joined earlier has this count; ` +
      'to change the count, stop all workers first',
    { code: 'FailedPrecondition', reason: 'Other', outcome: 'rejected' },
  );
}

/** The reason with which the signal of a shard aborts when the shard moves. */
function moved(): EtcdError {
  return new EtcdError('the shard moves to another worker', {
    code: 'Aborted',
    reason: 'Other',
    outcome: 'rejected',
  });
}
