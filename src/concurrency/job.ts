import { EtcdError } from '../errors/etcd-error.js';
import type { CoreKeyspace } from '../keyspace.js';
import { type KeyValue, parseJson } from '../kv/key-value.js';
import { compare, type Op, op } from '../kv/txn.js';
import { checkList, checkOptions, checkPositive } from '../runtime/arguments.js';
import { textOf, validTextOf } from '../runtime/bytes.js';
import { environment } from '../runtime/environment.js';
import { monotonicMs } from '../runtime/timers.js';
import { type Held, notHeld } from './lock.js';
import { leaveQueue } from './lock-queue.js';
import { untilAnswered } from './waiting.js';

/** The keys of one job. The job has exactly one of the keys `ready`, `delayed`, `claimed` and `dead`: its state. */
export interface JobKeys {
  /** The key of the job's value. It exists from `enqueue` until the job is completed or discarded. */
  readonly job: string;
  readonly ready: (state: JobState) => string;
  readonly delayed: (dueMs: number) => string;
  readonly claimed: string;
  /** Exists as long as the worker that has claimed the job lives: it is attached to the worker's lease. */
  readonly running: string;
  readonly dead: string;
  /** Exists for a while after a job whose ID the caller has chosen was completed. */
  readonly done: string;
}

/** The state of a job, which is stored as JSON in the key that says where the job is. */
export interface JobState {
  readonly priority: number;
  /** Milliseconds since 1970. */
  readonly enqueuedAt: number;
  /** How many times a worker has claimed the job. */
  readonly attempts: number;
  /** The milliseconds of the latest delay. */
  readonly delayMs: number;
  /** Whether the queue remembers the ID after the job is completed. */
  readonly keepsId: boolean;
  /** The message of the last error. */
  readonly error?: string | undefined;
}

export function stateText(state: JobState): string {
  return JSON.stringify(state);
}

/** Reads a state. Each field that is missing or wrong gets a default, so that a damaged state cannot stop the queue. */
export function parseState(kv: KeyValue): JobState {
  let json: Partial<Record<keyof JobState, unknown>>;
  try {
    json = Object(parseJson(kv.text(), 'value'));
  } catch {
    json = {};
  }
  const count = (value: unknown): number => (Number.isSafeInteger(value) && Number(value) >= 0 ? Number(value) : 0);
  return {
    priority: Math.min(count(json.priority), 65_535),
    enqueuedAt: count(json.enqueuedAt),
    attempts: count(json.attempts),
    delayMs: count(json.delayMs),
    keepsId: json.keepsId === true,
    ...(typeof json.error === 'string' ? { error: json.error } : {}),
  };
}

/** Options of `Job.retry`. */
export interface RetryOptions {
  /** Milliseconds before the job is tried again. Default: what `retryDelayMs` of the queue returns. */
  readonly delayMs?: number | undefined;
  /** The reason. Its message is stored with the job, and `WorkQueue.dead` returns it. */
  readonly error?: unknown;
}

const RETRY_OPTIONS = { delayMs: true, error: true } as const;
/** The maximum length of a stored error message, in UTF-16 code units. */
const MAX_ERROR_LENGTH = 1_000;

/**
 * Grants the leases of the IDs of completed jobs. Each lease lasts for at least `ttl` seconds from the call of `get`. Many
 * IDs share a lease, which is therefore granted for twice as long.
 */
export class IdLease {
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

  /** Makes the next call of `get` grant a new lease, because etcd does not have the present one any more. */
  forget(): void {
    this.#current = undefined;
  }
}

interface JobParts {
  readonly client: CoreKeyspace;
  /** Aborts when the worker's session ends. */
  readonly lifetime: AbortSignal;
  readonly keys: JobKeys;
  readonly held: Held;
  readonly state: JobState;
  readonly value: Uint8Array;
  readonly signal: AbortSignal;
  readonly maxAttempts: number;
  readonly retryDelayMs: (attempt: number) => number;
  readonly idLease: IdLease;
}

/**
 * A job that belongs to this worker, until one of `complete`, `retry` and `bury` is called or the worker's session ends.
 *
 * @example
 * const emails = new WorkQueue(etcd, 'emails');
 * await emails.enqueue('{"to":"ada@example.com"}');
 * await using session = await Session.open(etcd);
 * const job = await emails.take(session);
 * const { to } = job.json((value) => value as { to: string });
 * console.log(to, job.attempt);
 * await job.complete();
 */
export class Job {
  readonly id: string;
  readonly value: Uint8Array;
  /** How many times the job was tried, with this try: 1 for the first. */
  readonly attempt: number;
  readonly priority: number;
  /**
   * Aborts when the job no longer belongs to this worker, or when the worker is asked to stop. Reading `aborted`
   * compares the lease's deadline with the monotonic clock.
   */
  readonly signal: AbortSignal;
  /**
   * The claim, for writes that have no effect after another worker may have taken the job: `job.held.txn(…)`. Its
   * release returns the job to the queue at once.
   */
  readonly held: Held;
  readonly #parts: JobParts;
  #isSettled = false;

  /** @internal */
  constructor(parts: JobParts) {
    this.#parts = parts;
    this.id = parts.held.name;
    this.value = parts.value;
    this.attempt = parts.state.attempts;
    this.priority = parts.state.priority;
    this.signal = parts.signal;
    this.held = parts.held;
  }

  /** @internal Whether `complete`, `retry` or `bury` was called. */
  get isSettled(): boolean {
    return this.#isSettled;
  }

  /** Decodes the value as UTF-8. Malformed bytes become U+FFFD. */
  text(): string {
    return textOf(this.value);
  }

  /** Parses the value as JSON. @throws a `SyntaxError`, or what `parse` throws. */
  json<T>(parse: (json: unknown) => T): T {
    return parse(parseJson(validTextOf(this.value) ?? '', 'value'));
  }

  /**
   * Removes the job from the queue, because the work is done. The operations, for example the puts of the results, take
   * effect in the same transaction, so they take effect exactly once. A job whose ID the caller has chosen leaves room
   * for at most 124 operations, and other jobs for 125, because the server limits transactions to 128 by default.
   *
   * @throws EtcdError with reason `LockLost` if the job no longer belongs to this worker. The operations then have no
   * effect, and the job runs again. If the server refuses the transaction, the job returns to the queue.
   */
  async complete(ops: readonly Op[] = []): Promise<void> {
    checkList(ops, 'ops');
    const { keys, state, idLease, client, lifetime } = this.#parts;
    const done = async (): Promise<readonly Op[]> => {
      if (!state.keepsId) return [op.delete(keys.job), ...ops];
      const lease = await untilAnswered(lifetime, () => idLease.get());
      return [op.delete(keys.job), op.put(keys.done, '', { lease }), ...ops];
    };
    const isDone = async (): Promise<boolean> =>
      (await untilAnswered(lifetime, (call) => client.get(keys.job, call))) === undefined;
    await this.#settle(done, isDone);
  }

  /**
   * Returns the job to the queue because it failed, so that a worker tries it again after a delay. After `maxAttempts`
   * tries, the job becomes a dead job instead.
   *
   * @throws EtcdError with reason `LockLost` if the job no longer belongs to this worker.
   */
  async retry(options: RetryOptions = {}): Promise<void> {
    checkOptions(options, RETRY_OPTIONS, 'Job.retry');
    const { keys, state, maxAttempts, retryDelayMs } = this.#parts;
    if (state.attempts >= maxAttempts) return this.bury(options.error);
    const delayMs = checkDelay(options.delayMs ?? retryDelayMs(state.attempts));
    const next = { ...state, delayMs, ...errorField(options.error) };
    const to = delayMs === 0 ? keys.ready(next) : keys.delayed(environment.Date.now() + delayMs);
    await this.#settle(async () => [op.put(to, stateText(next))]);
  }

  /**
   * Makes the job a dead job, because no further try can succeed. `WorkQueue.dead` returns it.
   *
   * @throws EtcdError with reason `LockLost` if the job no longer belongs to this worker.
   */
  async bury(error?: unknown): Promise<void> {
    const { keys, state } = this.#parts;
    await this.#settle(async () => [op.put(keys.dead, stateText({ ...state, ...errorField(error) }))]);
  }

  /** @internal Returns the job to the queue at once. The try does not count. */
  async giveBack(): Promise<void> {
    const { keys, state } = this.#parts;
    const next = { ...state, attempts: state.attempts - 1 };
    await this.#settle(async () => [op.put(keys.ready(next), stateText(next))]);
  }

  /**
   * Ends the claim and does the other operations, in one transaction. `isDone` finds out, after a lost answer, whether
   * the transaction has taken effect; without it, an ended claim means that it has.
   */
  async #settle(ops: () => Promise<readonly Op[]>, isDone: () => Promise<boolean> = async () => true): Promise<void> {
    const { client, keys, held, lifetime, idLease } = this.#parts;
    const lost = held.lostBy();
    if (lost !== undefined) throw notHeld(lost);
    this.#isSettled = true;
    held.settle();
    let isUnknown = false;
    const noteUnknown = (): void => {
      isUnknown = true;
    };
    const settle = async (): Promise<boolean> => {
      const then = [op.delete(keys.claimed), op.delete(keys.running), ...(await ops())];
      const isHeld = [compare.createRevision(keys.running, '==', held.token)];
      const settling = untilAnswered(lifetime, (call) => client.txn({ if: isHeld, then }, call), noteUnknown);
      return (await settling).succeeded || (isUnknown && (await isDone()));
    };
    try {
      const isSettled = await settle().catch((error: unknown) => {
        if (!(error instanceof EtcdError) || error.reason !== 'LeaseNotFound') throw error;
        idLease.forget();
        return settle();
      });
      if (!isSettled) throw notHeld(undefined);
    } catch (error) {
      // The session has ended, or the server refuses the transaction. The end of the claim returns the job.
      leaveQueue(client, keys.running, held.token, lifetime).catch(() => {});
      throw lifetime.aborted ? notHeld(lifetime.reason) : error;
    }
  }
}

/** Returns the delay in whole milliseconds. @throws EtcdError with reason `InvalidInput` unless it is 0 or more. */
export function checkDelay(delayMs: number): number {
  return delayMs === 0 ? 0 : Math.ceil(checkPositive(delayMs, 'delayMs', 'milliseconds'));
}

function errorField(error: unknown): { readonly error?: string } {
  if (error === undefined) return {};
  return { error: (error instanceof Error ? error.message : String(error)).slice(0, MAX_ERROR_LENGTH) };
}
