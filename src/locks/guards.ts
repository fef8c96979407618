import { amended, concatBytes, EtcdError, randomId, textOf, toBytes } from '../base/index.js';
import { mismatch, type PreparedTxn, REPEATABLE_TXN } from '../client/index.js';
import type * as wire from '../gen/etcdserverpb/rpc.js';
import type * as mvccpb from '../gen/mvccpb/kv.js';
import { type CallOptions, type Rpc, withObserver } from '../rpc/index.js';
import type { Init } from '../wire/index.js';
import {
  type Guard,
  guardedRequest,
  guardsDenied,
  hasElse,
  mayDelete,
  neverPut,
  read,
  unchanged,
  withoutGuards,
} from './guarded-request.js';

// A guard is a key that makes a write safe to repeat: however often and however late the server receives the request,
// it applies the write at most once. In this example, the write has the number 7:
//
//   The write.   if the guard is unchanged, and the conditions of the caller are true:
//                  the operations of `then`, put the guard with "7 1"
//                else, if the guard is unchanged:
//                  the operations of `else`, put the guard with "7 0"
//                else: get the guard
//   Giving up.   if the guard is unchanged: put the guard with "8 settled"
//                else: get the guard
//
// 1. The client knows the mod revision R of the guard, and no other write uses the guard. The transaction compares the
//    mod revision with R, and puts the guard in the same revision as the operations. So the mod revision is above R as
//    soon as the server has applied one copy of the request. The mod revision is never R again, because revisions only
//    grow. Every other copy finds a changed guard and does nothing.
// 2. The value of the guard is the number of the write and the branch that ran. If a branch contains exactly one nested
//    transaction, the put of the guard is in the branches of that transaction, so the value has one more digit. If the
//    answer was lost, the next copy reads the guard, which tells whether an earlier copy was applied, and at which
//    revision.
// 3. A client that gives up changes the guard itself. From then on, the server applies no copy, and its answer tells
//    whether it has applied a copy before.
// 4. The guard is attached to a lease. After the lease has ended, the server refuses to put the guard, and with it the
//    whole transaction. So the server applies no copy after the guard was deleted with its lease. The server chooses
//    the ID of the lease, so a late copy of the grant does not bring the lease back.
//
// A session creates each of its guards with the first write that uses the guard: R is 0. If another client deletes the
// guard, the server would apply a copy of that first write again. `retriedWrites` creates each guard with a separate
// transaction before the first write, so for these guards R is never 0. After a restore from a backup, the store uses
// revisions again, so the server may apply a copy of a write from before the restore.
//
// etcd refuses a transaction that puts and deletes one key. If the caller's write deletes the guard, for example
// because it deletes every key, the transaction does not put the guard: the deletion itself changes it. Such a write
// needs a guard that exists. If its answer is lost, no guard tells whether it was applied.

/** A guarded write that the server has applied. */
export interface Applied<Result> {
  /** The store revision at which the write was applied. */
  readonly revision: bigint;
  /** Whether the branch `then` ran. */
  readonly succeeded: boolean;
  /** A digit for each transaction whose branch is known, the outermost first: 1 for `then`, 0 for `else`. */
  readonly path: string;
  /** The header of the response that reported the write. */
  readonly header: wire.ResponseHeader;
  /** The result of the transaction. Undefined if its answer was lost. */
  readonly result: Result | undefined;
}

/** The guards that are attached to one lease. Each write under way uses one of them. */
export class Guards {
  readonly #rpc: Rpc;
  readonly #lease: bigint;
  readonly #guardPrefix: Uint8Array;
  readonly #namespace: Uint8Array;
  readonly #prefix: string;
  /** Whether a separate transaction creates each guard: see the comment at the top of this file. */
  readonly createsFirst: boolean;
  #free: Guard[] = [];
  #count = 0;
  #isBroken = false;

  /**
   * `guardPrefix` is the prefix of the guards in the keyspace of `rpc`, such as `GUARD_PREFIX`, and `namespace` is the
   * prefix of that keyspace. The name of each guard contains a random number, because several programs may use one lease
   * one after another.
   */
  constructor(rpc: Rpc, lease: bigint, guardPrefix: Uint8Array, namespace: Uint8Array, createsFirst = false) {
    this.#rpc = rpc;
    this.#lease = lease;
    this.#guardPrefix = guardPrefix;
    this.#namespace = namespace;
    this.createsFirst = createsFirst;
    this.#prefix = `${lease.toString(16)}-${randomId().toString(36)}/`;
  }

  /** Returns the guarded write of a transaction. Sends nothing: see `GuardedWrite.send`. */
  begin<Result>(txn: PreparedTxn<Result>): GuardedWrite<Result> {
    return new GuardedWrite(this, txn);
  }

  /** @internal */
  take(): Guard {
    const free = this.#free.pop();
    if (free !== undefined) return free;
    const name = toBytes(`${this.#prefix}${this.#count++}`, 'guard');
    return { key: concatBytes(this.#guardPrefix, name), revision: 0n, writes: 0 };
  }

  /**
   * @internal Makes the guard available to other writes. `revision` is its mod revision after the write with the number
   * `writes`.
   */
  release(guard: Guard, revision: bigint, writes: number): void {
    this.#free.push(Object.assign(guard, { revision, writes }));
  }

  /** Whether a guard was deleted. If so, the other guards were probably deleted, too. */
  get isBroken(): boolean {
    return this.#isBroken;
  }

  /** @internal Records that a guard was deleted. Forgets the free guards, because they were probably deleted, too. */
  break(): void {
    this.#isBroken = true;
    this.#free = [];
  }

  /** @internal Returns the operation that changes the guard. */
  move({ key }: Guard, value: string): Init<wire.RequestOp> {
    return {
      request: { case: 'requestPut', value: { key, value: toBytes(value, 'guard'), lease: this.#lease } },
    };
  }

  /** @internal Runs a transaction that contains an operation that `move` has returned. */
  async run(txn: Init<wire.TxnRequest>, options: CallOptions): Promise<Answer> {
    try {
      const { header, succeeded, responses } = await this.#rpc.call(REPEATABLE_TXN, txn, options);
      if (header === undefined) throw mismatch();
      return { header, succeeded, responses };
    } catch (error) {
      if (!(error instanceof EtcdError) || error.reason !== 'PermissionDenied') throw error;
      const denied = await this.#denial(options);
      if (denied === undefined) throw error;
      throw guardsDenied(error, denied, concatBytes(this.#namespace, this.#guardPrefix));
    }
  }

  /** Returns the error with which the server denies the put of a guard. Asks with a put whose condition is never true. */
  #denial(options: CallOptions): Promise<EtcdError | undefined> {
    const denied = (error: EtcdError) => (error.reason === 'PermissionDenied' ? error : undefined);
    return this.#rpc.call(REPEATABLE_TXN, neverPut(this.#guardPrefix), options).then(() => undefined, denied);
  }
}

type Answer = wire.TxnResponse & { readonly header: wire.ResponseHeader };

/** One transaction that the server applies at most once, however often the client sends it. */
export class GuardedWrite<Result> {
  readonly #guards: Guards;
  /** The transaction. Undefined after `giveUp`. */
  #txn: PreparedTxn<Result> | undefined;
  /** The guard of this write. Undefined before the first attempt, and when this write no longer uses a guard. */
  #guard: Guard | undefined;
  /** Whether the server may apply an attempt later, or may have applied it. */
  #isOutcomeUnknown = false;
  #applied: Applied<Result> | undefined;
  #hasLeaseEnded = false;

  /** @internal */
  constructor(guards: Guards, txn: PreparedTxn<Result>) {
    this.#guards = guards;
    this.#txn = txn;
  }

  /** Whether the server has applied the write, or may have applied it. */
  get mayBeApplied(): boolean {
    return this.#isOutcomeUnknown || this.#applied !== undefined;
  }

  /** Whether the server has said that the lease of the guard does not exist. */
  get hasLeaseEnded(): boolean {
    return this.#hasLeaseEnded;
  }

  /** Whether the server may still apply an attempt. */
  get isOpen(): boolean {
    return this.#guard !== undefined && this.#isOutcomeUnknown;
  }

  /**
   * Sends the write, and resolves when the server has applied it. Uses another guard if another client has changed or
   * deleted the guard. After an error, the caller must call `send` again, or `settle`.
   *
   * @throws EtcdError as `txn` does.
   */
  async send(options: CallOptions): Promise<Applied<Result>> {
    const txn = this.#txn as PreparedTxn<Result>;
    const { request } = txn;
    for (;;) {
      this.#guard ??= this.#guards.take();
      const guard = this.#guard;
      const isFirst = guard.revision === 0n && (this.#guards.createsFirst || mayDeleteGuard(request, guard));
      if (isFirst && !(await this.#create(guard, options))) continue;
      const number = guard.writes + 1;
      const guarded = guardedRequest(request, guard, (path) => this.#guards.move(guard, `${number} ${path}`));
      /** Whether the server may have applied an earlier attempt, including one that the channel repeated. */
      let wasOutcomeUnknown = this.#isOutcomeUnknown;
      const attempt = withObserver(options, {
        retry: ({ outcome }) => {
          wasOutcomeUnknown ||= outcome === 'unknown';
        },
      });
      // From here on, the server may apply the write, unless `run` rejects with the outcome `not-sent`.
      this.#isOutcomeUnknown = true;
      let response: Answer;
      try {
        response = await this.#guards.run(guarded, attempt);
      } catch (error) {
        if (error instanceof EtcdError && error.outcome === 'not-sent') this.#isOutcomeUnknown = wasOutcomeUnknown;
        throw error;
      }
      const answer = answerOf(response, txn, guard);
      if (answer.is === 'applied')
        return this.#settled(guard, answer.isGuardDeleted ? undefined : number, answer.write);
      const applied = this.#appliedAs(guard, number, answer.found, response.header);
      if (applied !== undefined) return applied;
      // Another client has changed or deleted the guard, or the lease of the guard has ended.
      this.#guard = undefined;
      if (answer.found === undefined) this.#guards.break();
      if (wasOutcomeUnknown) throw guardLost();
      this.#isOutcomeUnknown = false;
    }
  }

  /**
   * Drops the transaction, because the caller only settles the write from now on. The outcome may stay unknown for
   * minutes, and the transaction may be large.
   */
  giveUp(): void {
    this.#txn = undefined;
  }

  /**
   * Gives up, and makes sure that the server can no longer apply the write. Resolves with the result if the server has applied the
   * write before. The caller may call `settle` again after an error. If `mayBeApplied` is true afterwards although the
   * result is undefined, the server may have applied the write before.
   *
   * @throws EtcdError as `txn` does.
   */
  async settle(options: CallOptions): Promise<Applied<Result> | undefined> {
    this.giveUp();
    const guard = this.#guard;
    if (this.#applied !== undefined || guard === undefined) return this.#applied;
    const number = guard.writes + 1;
    if (!this.#isOutcomeUnknown) {
      this.#guard = undefined;
      // The next write with this guard uses another number.
      this.#guards.release(guard, guard.revision, number);
      return undefined;
    }
    const value = `${number + 1} settled`;
    let moved: Moved;
    try {
      moved = await this.#move(guard, value, options);
    } catch (error) {
      // The server also refuses a copy of the write if the client may not put the guard, or if its lease has ended.
      const isImpossible =
        error instanceof EtcdError && (error.reason === 'PermissionDenied' || error.reason === 'LeaseNotFound');
      if (!isImpossible) throw error;
      this.#hasLeaseEnded ||= error.reason === 'LeaseNotFound';
      this.#guard = undefined;
      return undefined;
    }
    const applied = this.#appliedAs(guard, number, moved.found, moved.header);
    if (applied !== undefined) return applied;
    this.#guard = undefined;
    if (moved.found !== undefined && textOf(moved.found.value) === value) {
      this.#isOutcomeUnknown = false;
      this.#guards.release(guard, moved.found.modRevision, number + 1);
      return undefined;
    }
    if (moved.found === undefined) this.#guards.break();
    throw guardLost();
  }

  /** Puts a new guard, before the first write with it. Returns whether the guard exists with the value of this put. */
  async #create(guard: Guard, options: CallOptions): Promise<boolean> {
    const value = `${guard.writes + 1} created`;
    const { found } = await this.#move(guard, value, options).catch((error: unknown) => {
      if (!(error instanceof EtcdError)) throw error;
      this.#hasLeaseEnded ||= error.reason === 'LeaseNotFound';
      throw amended(error, { outcome: 'not-sent' });
    });
    const isCreated = found !== undefined && textOf(found.value) === value;
    if (isCreated) Object.assign(guard, { revision: found.modRevision, writes: guard.writes + 1 });
    else this.#guard = undefined;
    return isCreated;
  }

  /** Puts the guard if it is unchanged. Returns the guard as it is afterwards. */
  async #move(guard: Guard, value: string, options: CallOptions): Promise<Moved> {
    const { header, succeeded, responses } = await this.#guards.run(
      { compare: [unchanged(guard)], success: [this.#guards.move(guard, value)], failure: [read(guard)] },
      options,
    );
    const moved = { modRevision: header.revision, value: toBytes(value, 'guard') };
    return { header, found: succeeded ? moved : guardIn(responses) };
  }

  #appliedAs(
    guard: Guard,
    number: number,
    found: GuardState | undefined,
    header: wire.ResponseHeader,
  ): Applied<Result> | undefined {
    const value = found === undefined ? '' : textOf(found.value);
    const path = value.startsWith(`${number} `) ? value.slice(`${number} `.length) : '';
    if (found === undefined || !/^[01]+$/.test(path)) return undefined;
    const { modRevision: revision } = found;
    const succeeded = path.startsWith('1');
    const applied = { revision, succeeded, path, header: { ...header, revision }, result: undefined };
    return this.#settled(guard, number, applied);
  }

  /**
   * Records that the write was applied. `number` is undefined if the write has deleted the guard. Releases the guard
   * only if the write still uses it, because the answer may arrive after `settle`.
   */
  #settled(guard: Guard, number: number | undefined, applied: Applied<Result>): Applied<Result> {
    if (number === undefined) this.#guards.break();
    else if (this.#guard === guard) this.#guards.release(guard, applied.revision, number);
    this.#guard = undefined;
    this.#applied = applied;
    return applied;
  }
}

/** What the answer to an attempt says: this attempt was applied, or `found` is the guard that has refused it. */
type AttemptAnswer<Result> =
  | { readonly is: 'applied'; readonly write: Applied<Result>; readonly isGuardDeleted: boolean }
  | { readonly is: 'refused'; readonly found: GuardState | undefined };

function answerOf<Result>(
  { header, succeeded, responses }: Answer,
  { request, resultOf }: PreparedTxn<Result>,
  guard: Guard,
): AttemptAnswer<Result> {
  const nested = succeeded || !hasElse(request) ? undefined : nestedIn(responses);
  if (!succeeded && !nested?.succeeded) return { is: 'refused', found: guardIn((nested ?? { responses }).responses) };
  const operations = (succeeded ? request.success : request.failure) ?? [];
  // The caller must not see the responses to the puts of the guard.
  const own = withoutGuards((nested ?? { responses }).responses, operations);
  const result = resultOf({ header, succeeded, responses: own });
  return {
    is: 'applied',
    write: { revision: header.revision, succeeded, path: succeeded ? '1' : '0', header, result },
    isGuardDeleted: operations.some((operation) => mayDelete(operation, guard.key)),
  };
}

type GuardState = Pick<mvccpb.KeyValue, 'modRevision' | 'value'>;

interface Moved {
  readonly header: wire.ResponseHeader;
  /**
   * The guard after the transaction. Undefined if the caller's write, another client or the end of the guard's lease
   * has deleted the guard.
   */
  readonly found: GuardState | undefined;
}

/** Whether a branch of the transaction may delete the guard. */
function mayDeleteGuard(value: Init<wire.TxnRequest>, { key }: Guard): boolean {
  return mayDelete({ request: { case: 'requestTxn', value } }, key);
}

function nestedIn([first]: readonly wire.ResponseOp[]): wire.TxnResponse {
  if (first?.response?.case === 'responseTxn') return first.response.value;
  throw mismatch();
}

function guardIn([first]: readonly wire.ResponseOp[]): mvccpb.KeyValue | undefined {
  if (first?.response?.case === 'responseRange') return first.response.value.kvs[0];
  throw mismatch();
}

function guardLost(): EtcdError {
  return new EtcdError(
    'the guard of the write was changed by another client, or its lease has ended; the write was applied once, or not at all',
    {
      code: 'Aborted',
      reason: 'Other',
      outcome: 'unknown',
    },
  );
}
