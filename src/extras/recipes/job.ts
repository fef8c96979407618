import {
  amended,
  checkCount,
  checkDelay,
  checkedLater,
  checkFunction,
  checkOptions,
  EtcdError,
  environment,
  invalidInput,
  messageOf,
  show,
  textOf,
  toBytes,
} from '../../base/index.js';
import {
  type CoreKeyspace,
  checkOps,
  compare,
  type KeyValue,
  MAX_TTL,
  type Op,
  op,
  parseJsonValue,
} from '../../client/index.js';
import { type Held, lockLost, type Session, untilAnswered } from '../../locks/index.js';
import { type CallOptions, isTransient } from '../../rpc/index.js';
import { LeasePool, type SharedLease } from './lease-pool.js';
import { storedFields } from './stored-fields.js';
import { type Decoder, StoredValue } from './stored-value.js';

/**
 * The keys of one job. The job has exactly one of the keys `ready`, `delayed`, `claimed` and `dead`, which shows its
 * state.
 */
export interface JobKeys {
  /** The key of the job's value. It exists from `enqueue` until the job is completed or discarded. */
  readonly job: string;
  readonly ready: (state: JobState) => string;
  readonly delayed: (dueMs: number) => string;
  readonly claimed: string;
  /** Attached to the lease of the worker that has claimed the job, so etcd deletes the key when this worker dies. */
  readonly running: string;
  readonly dead: string;
  /** Remembers the ID of a completed or discarded job for a while, if the caller of `enqueue` chose the ID. */
  readonly done: string;
}

/** The state of a job, as JSON in the value of its key `ready`, `delayed`, `claimed` or `dead`. */
export interface JobState {
  readonly priority: number;
  /** Milliseconds since 1970. */
  readonly enqueuedAt: number;
  /** The number of jobs that the same `WorkQueue` object had enqueued before in the same millisecond. */
  readonly enqueuedBefore: number;
  /** The number of tries of the job that count. `WorkQueue.requeue` sets it to 0. */
  readonly attempts: number;
  /** The latest delay of the job, in milliseconds. */
  readonly delayMs: number;
  /** Whether the queue remembers the ID after the job is completed or discarded. */
  readonly keepsId: boolean;
  /** The message of the last error. */
  readonly error?: string | undefined;
}

export function stateText(state: JobState): string {
  return JSON.stringify(state);
}

/** Reads a state. Each field that is missing or wrong gets a default, so that a damaged state cannot stop the queue. */
export function parseState(kv: KeyValue): JobState {
  const json: Partial<Record<keyof JobState, unknown>> = storedFields(kv);
  const count = (value: unknown): number => (Number.isSafeInteger(value) && Number(value) >= 0 ? Number(value) : 0);
  return {
    priority: Math.min(count(json.priority), 65_535),
    enqueuedAt: count(json.enqueuedAt),
    enqueuedBefore: count(json.enqueuedBefore),
    attempts: count(json.attempts),
    delayMs: count(json.delayMs),
    keepsId: json.keepsId === true,
    ...(typeof json.error === 'string' ? { error: json.error } : {}),
  };
}

/** Options of `Job.retry`. */
export interface RetryOptions {
  /** Milliseconds before the job is tried again. Default: the result of `retryDelayMs` of the queue. */
  readonly delayMs?: number | undefined;
  /**
   * The reason for the retry. The queue stores the message of an error, a string itself, or the type of another value.
   * `WorkQueue.dead` returns the stored text.
   */
  readonly error?: unknown;
}

const RETRY_OPTIONS = { delayMs: checkDelay, error: checkedLater } as const;
/** The maximum length of a stored error message, in UTF-16 code units. */
const MAX_ERROR_LENGTH = 1_000;
/** The limits of a wait for a lease that only a signal ends. */
const UNLIMITED = { timeoutMs: Number.POSITIVE_INFINITY, deadline: Number.POSITIVE_INFINITY } as const;

/**
 * The leases of the keys that remember IDs, `JobKeys.done`. Each lease lasts for at least `ttl` seconds from the call of
 * `withLease`, also if the machine is suspended. Many IDs share a lease, so its TTL is up to twice as long.
 */
export class IdLease {
  readonly #pool: LeasePool;
  readonly #ttl: number;

  /** @throws EtcdError with reason `InvalidInput` if etcd cannot grant a lease for twice this time. */
  constructor(client: CoreKeyspace, ttl: number) {
    this.#pool = new LeasePool(client, 1, Number.POSITIVE_INFINITY);
    this.#ttl = checkCount(ttl, 'idTtl', 1);
    if (ttl > MAX_TTL / 2) throw invalidInput('idTtl', show(ttl), `whole seconds from 1 to ${MAX_TTL / 2}`);
  }

  /**
   * Calls `action` with the lease, which `granted` gets from the given function. If etcd no longer has this lease, calls
   * `action` again with a new lease.
   */
  async withLease<T>(
    granted: (grant: SharedLease['granted']) => Promise<bigint>,
    action: (lease: bigint) => Promise<T>,
  ): Promise<T> {
    let lease: SharedLease | undefined;
    const grant: SharedLease['granted'] = async (what, limits) => {
      // After a failure, the pool has another lease.
      lease = this.#pool.leaseFor(this.#ttl);
      return lease.id ?? lease.granted(what, limits);
    };
    try {
      return await action(await granted(grant));
    } catch (error) {
      if (!(error instanceof EtcdError) || error.reason !== 'LeaseNotFound') throw error;
      if (lease !== undefined) this.#pool.drop(lease);
      return action(await granted(grant));
    }
  }
}

/** The options of a `WorkQueue`. */
export interface JobSettings<T> {
  /** Decodes the values of jobs. A worker of a `WorkQueue<T>` has a codec of `T`. */
  readonly codec: Decoder<T>;
  readonly maxAttempts: number;
  readonly retryDelayMs: (attempt: number) => number;
  readonly idLease: IdLease;
}

interface JobParts<T> extends JobSettings<T> {
  readonly client: CoreKeyspace;
  /** The session of the worker. */
  readonly lifetime: Session;
  readonly keys: JobKeys;
  readonly held: Held;
  readonly state: JobState;
  readonly value: Uint8Array;
  readonly signal: AbortSignal;
  /** Aborts when the worker is asked to stop. */
  readonly stop: AbortSignal | undefined;
}

/**
 * A job that a worker has claimed. It belongs to the worker until the worker calls `complete`, `retry`, `bury` or
 * `held.release`, or the worker's session ends.
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
export class Job<T = Uint8Array> extends StoredValue<T> {
  /** @internal */
  static override readonly name: string = 'Job';
  readonly id: string;
  /** Number of tries of the job, including this one: 1 for the first. */
  readonly attempt: number;
  readonly priority: number;
  /**
   * Aborts when the job no longer belongs to this worker, when the program calls `complete`, `retry` or `bury`, or when
   * the worker is asked to stop. Reading `aborted` compares the lease's deadline with the clocks of the machine.
   */
  readonly signal: AbortSignal;
  /**
   * The claim, for writes that have no effect after another worker may have taken the job: `job.held.txn(…)`.
   * `job.held.release()` ends the try, and the try counts: the job returns to the queue at once, or becomes a dead job
   * after the last try.
   */
  readonly held: Held;
  readonly #parts: JobParts<T>;
  /** The settlement (call of `complete`, `retry`, `bury` or `giveBack`) that is in progress or has succeeded. */
  #settling: Promise<void> | undefined;
  /** Whether the server has refused a settlement. The job then still belongs to this worker. */
  #wasRefused = false;
  /** Whether an attempt of a settlement has an unknown outcome. */
  #isUnknown = false;

  /** @internal */
  constructor(parts: JobParts<T>) {
    super(parts.value, parts.codec);
    this.#parts = parts;
    this.id = parts.held.name;
    this.attempt = parts.state.attempts;
    this.priority = parts.state.priority;
    this.signal = parts.signal;
    this.held = parts.held;
  }

  /** @internal */
  override shown(): object {
    const { id, bytes: value, attempt, priority } = this;
    return { id, value, attempt, priority };
  }

  /** @internal The call of `complete`, `retry` or `bury` that is in progress or has succeeded. */
  get settling(): Promise<void> | undefined {
    return this.#settling;
  }

  /** @internal Whether the job still belongs to this worker. */
  get isOwned(): boolean {
    if (this.#settling !== undefined) return false;
    return this.#wasRefused ? !this.#parts.lifetime.leaseSignal.aborted : this.held.unheldBy() === undefined;
  }

  /** Decodes the value as UTF-8. Malformed bytes become U+FFFD. */
  text(): string {
    return textOf(this.bytes);
  }

  /** Parses the value as JSON. @throws a `SyntaxError`, or the error of `parse`. */
  json<T>(parse: (json: unknown) => T): T {
    checkFunction(parse, 'parse');
    return parse(parseJsonValue(this.bytes));
  }

  /**
   * Removes the job from the queue, because the work is done. The operations, for example the puts of the results, take
   * effect in the same transaction, so they take effect exactly once. `ops` may contain at most 124 operations if the
   * caller of `enqueue` has chosen the ID of the job, and otherwise 125, because a server allows 128 operations in a
   * transaction by default.
   *
   * @throws EtcdError with reason `LockLost` if the job no longer belongs to this worker. With outcome `rejected`, the
   * operations have no effect and the job runs again. With outcome `unknown`, the session ended before the server
   * answered, or an answer was lost and the lease has been revoked, so the job may be complete. While the server is out
   * of space, the call waits. Reason `LockReleased` means that the job was settled or released before. If the server
   * refuses the transaction, for example because two operations put the same key, the job still belongs to this worker,
   * which should call `retry` or `bury`.
   */
  async complete(ops: readonly Op[] = []): Promise<void> {
    const own = checkOps(ops, 'ops');
    await this.#settle([op.delete(this.#parts.keys.job), ...own], true);
  }

  /**
   * Returns the job to the queue because it failed, so that a worker tries it again after a delay. After `maxAttempts`
   * tries, the job becomes a dead job instead.
   *
   * @throws EtcdError as `complete` does.
   */
  async retry(options: RetryOptions = {}): Promise<void> {
    checkOptions(options, RETRY_OPTIONS, 'Job.retry');
    const { keys, state, maxAttempts, retryDelayMs } = this.#parts;
    if (state.attempts >= maxAttempts) return this.bury(options.error);
    const delayMs = checkDelay(options.delayMs ?? retryDelayMs(state.attempts));
    const next = { ...state, delayMs, error: undefined, ...errorField(options.error) };
    const to = delayMs === 0 ? keys.ready(next) : keys.delayed(environment.Date.now() + delayMs);
    await this.#settle([op.put(to, stateText(next))]);
  }

  /**
   * Makes the job a dead job, because no further try can succeed. `WorkQueue.dead` returns it.
   *
   * @throws EtcdError as `complete` does.
   */
  async bury(error?: unknown): Promise<void> {
    const { keys, state } = this.#parts;
    const dead = stateText({ ...state, error: undefined, ...errorField(error) });
    await this.#settle([op.put(keys.dead, dead)]);
  }

  /** @internal Returns the job to the queue at once. The try does not count. */
  async giveBack(): Promise<void> {
    const { keys, state } = this.#parts;
    const next = { ...state, attempts: state.attempts - 1 };
    await this.#settle([op.put(keys.ready(next), stateText(next))]);
  }

  /** @internal Tells the session that the program no longer works on the job, which it has lost or settled. */
  abandon(): void {
    this.#parts.lifetime.holders.delete(this.held);
    // The claim may still exist if the client could not watch it.
    this.held.release().catch(() => {});
  }

  /** Ends the claim together with the operations. `completes` says whether they delete the job. */
  #settle(ops: readonly Op[], completes = false): Promise<void> {
    if (!this.isOwned) {
      // A settlement that is in progress needs the claim.
      if (this.#settling === undefined) this.abandon();
      throw notOwned(this.held.lostBy(), 'rejected');
    }
    this.#settling = this.#trySettle(ops, completes);
    // Calls listeners. While a closing client waits for the job, the settlement goes on until the lease ends.
    this.held.endKeepingKey();
    return this.#settling;
  }

  async #trySettle(ops: readonly Op[], completes: boolean): Promise<void> {
    const { lifetime, keys, state, idLease } = this.#parts;
    let end: Settlement;
    try {
      end =
        completes && state.keepsId
          ? await idLease.withLease(
              (grant) => this.#untilSpace(({ signal }) => grant('Job.complete', { signal, ...UNLIMITED })),
              (lease) => this.#endClaim([...ops, op.put(keys.done, '', { lease })], completes),
            )
          : await this.#endClaim(ops, completes);
    } catch (error) {
      const { aborted, reason } = lifetime.leaseSignal;
      if (!aborted) {
        this.#settling = undefined;
        this.#wasRefused = true;
        throw this.#isUnknown && error instanceof EtcdError ? amended(error, { outcome: 'unknown' }) : error;
      }
      this.abandon();
      throw notOwned(reason, this.#isUnknown ? 'unknown' : 'rejected');
    }
    this.abandon();
    if (end !== 'settled') throw notOwned(undefined, end);
  }

  async #endClaim(ops: readonly Op[], completes: boolean): Promise<Settlement> {
    const { client, keys, held, lifetime } = this.#parts;
    const noteUnknown = (): void => {
      this.#isUnknown = true;
    };
    const txn = endOfClaim(keys, held.token, ops);
    const { succeeded } = await this.#untilSpace((call) => client.txn(txn, call), noteUnknown);
    if (succeeded) return 'settled';
    if (!this.#isUnknown) return 'rejected';
    // An answer was lost. Nothing else than an earlier attempt ends a claim while the lease of the session lives.
    const waiting = { signal: lifetime.leaseSignal };
    if (completes && (await untilAnswered(waiting, (call) => client.get(keys.job, call))) !== undefined)
      return 'rejected';
    // If the lease had ended before, another worker may have settled the job.
    const { leaseId } = lifetime;
    const { remainingTtl } = await untilAnswered(waiting, (call) => client.lease.timeToLive(leaseId, call));
    if (remainingTtl !== undefined) return 'settled';
    return 'unknown';
  }

  /** Does not wait for space when the worker is asked to stop, so that its session ends, and the job returns. */
  #untilSpace<T>(call: (options: CallOptions) => Promise<T>, onUnknown?: () => void): Promise<T> {
    const { lifetime, stop } = this.#parts;
    const mayRepeat = (error: EtcdError): boolean =>
      isTransient(error) || (error.reason === 'NoSpace' && !stop?.aborted);
    return untilAnswered({ signal: lifetime.leaseSignal }, call, onUnknown, mayRepeat);
  }
}

/** Whether the claim has ended together with the operations. If not, the outcome of the operations. */
type Settlement = 'settled' | 'rejected' | 'unknown';

/**
 * Returns the transaction that ends a claim and runs the operations. It has no effect if the claim has ended before.
 * `claimedAt` is the create revision of the key `running`.
 */
export function endOfClaim({ claimed, running }: JobKeys, claimedAt: bigint, ops: readonly Op[]) {
  const isClaimed = [compare.createRevision(running, '==', claimedAt)];
  return { if: isClaimed, then: [op.delete(claimed), op.delete(running), ...ops] };
}

function notOwned(cause: unknown, outcome: 'rejected' | 'unknown'): EtcdError {
  const rest = outcome === 'rejected' ? 'nothing was written' : 'the server may have done what the call asked for';
  return lockLost(`the job no longer belongs to this worker; ${rest}`, cause, outcome);
}

function errorField(error: unknown): { readonly error?: string } {
  if (error === undefined) return {};
  return { error: (typeof error === 'string' ? error : messageOf(error)).slice(0, MAX_ERROR_LENGTH) };
}

/** @throws EtcdError with reason `InvalidInput` if the text is not the ID of a job. */
export function checkId(id: string, argument = 'id'): string {
  if (typeof id === 'string' && id !== '' && !id.includes('/')) {
    toBytes(id, argument);
    return id;
  }
  throw invalidInput(
    argument,
    typeof id === 'string' && id !== '' ? 'a string with "/"' : show(id),
    'a non-empty string without "/"',
  );
}
