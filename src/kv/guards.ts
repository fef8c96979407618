import type { CallOptions } from '../channel/rpc.js';
import { EtcdError, explained } from '../errors/etcd-error.js';
import { randomId } from '../runtime/bytes.js';
import type { KeyValue } from './key-value.js';
import type { KV } from './kv.js';
import { type Compare, type Conditions, compare, type Op, op, type Txn, type TxnResult } from './txn.js';

// A guard makes a write safe to repeat: however often the server receives the request, and however late, it applies the
// write at most once.
//
//   The write.   if the guard is unchanged, and the conditions of the caller hold:
//                  the operations of `then`, put the guard with "7 then"
//                else, if the guard is unchanged:
//                  the operations of `else`, put the guard with "7 else"
//                else: get the guard
//   Giving up.   if the guard is unchanged: put the guard with "8 settled"
//                else: get the guard
//
// 1. The client knows the mod revision R of the guard, and no other write uses the guard. The transaction compares the
//    mod revision with R, and puts the guard in the same revision as the operations. So the mod revision is above R as
//    soon as one copy of the request has been applied. It is never R again, because revisions only grow. Every other copy
//    finds a changed guard and does nothing.
// 2. The value of the guard is the number of the write and the branch that ran. If the answer was lost, the next copy
//    reads the guard, which tells whether an earlier copy was applied, and at which revision.
// 3. A client that gives up changes the guard itself. From then on, no copy can be applied, and the answer tells whether
//    one was applied before.
// 4. The guard is attached to a lease. After the lease has ended, the server refuses to put the guard, and with it the
//    whole transaction. So a guard that was deleted with its lease cannot let a copy pass, unless a copy of the grant has
//    created the lease again.
//
// The first write with a guard creates it: R is 0. If another client deletes the guard, a copy of that first write would
// pass again.

/** The prefix of all guards. */
export const GUARD_PREFIX = 'etcdwire/guards/';

/** A guard key, as far as this client knows. */
interface Guard {
  readonly key: string;
  /** Mod revision of the key. 0n before the first write. */
  revision: bigint;
  /** The number of the latest write. */
  writes: number;
}

/** A guarded write that the server has applied. */
export interface Applied<Result> {
  /** The store revision at which the write was applied. */
  readonly revision: bigint;
  /** Whether the branch `then` ran. */
  readonly succeeded: boolean;
  /** The result of the transaction. Undefined if its answer was lost. */
  readonly result: Result | undefined;
}

/** The guards that are attached to one lease. Each write under way uses one of them. */
export class Guards {
  readonly #client: Pick<KV, 'txn'>;
  readonly #lease: bigint;
  readonly #prefix: string;
  readonly #free: Guard[] = [];
  #count = 0;

  /** The name of each guard contains a random number, because several programs may use one lease one after another. */
  constructor(client: Pick<KV, 'txn'>, lease: bigint) {
    this.#client = client;
    this.#lease = lease;
    this.#prefix = `${GUARD_PREFIX}${lease.toString(16)}-${randomId().toString(36)}/`;
  }

  /** Returns a transaction that has not been sent yet. */
  begin<
    const If extends Conditions = undefined,
    const Then extends readonly Op[] = [],
    const Else extends readonly Op[] = [],
  >(txn: Txn<If, Then, Else>): GuardedWrite<TxnResult<If, Then, Else>> {
    return new GuardedWrite(this, txn as Txn);
  }

  /** @internal */
  take(): Guard {
    return this.#free.pop() ?? { key: `${this.#prefix}${this.#count++}`, revision: 0n, writes: 0 };
  }

  /** @internal Makes the guard available to other writes. `revision` is its mod revision after the write `writes`. */
  release(guard: Guard, revision: bigint, writes: number): void {
    this.#free.push(Object.assign(guard, { revision, writes }));
  }

  /** @internal Returns the operation that changes the guard. */
  move({ key }: Guard, value: string): Op {
    return op.put(key, value, { lease: this.#lease });
  }

  /** @internal Returns the condition that no write has changed the guard. */
  unchanged({ key, revision }: Guard): Compare {
    return compare.modRevision(key, '==', revision);
  }

  /** @internal Runs a transaction that contains an operation of `move`. */
  async run(txn: Txn<Conditions>, options: CallOptions): Promise<AnyResult> {
    try {
      return (await this.#client.txn(txn, options)) as unknown as AnyResult;
    } catch (error) {
      if (!(error instanceof EtcdError) || error.reason !== 'PermissionDenied') throw error;
      const prefix = JSON.stringify(GUARD_PREFIX);
      const needed =
        'locks, elections, queues, barriers and registrations also put guards, which make their writes safe';
      throw explained(error, `${error.problem}; ${needed}: grant readwrite on the prefix ${prefix}`);
    }
  }
}

/** The result of any transaction. */
interface AnyResult {
  readonly header: { readonly revision: bigint };
  readonly succeeded: boolean;
  readonly responses: readonly unknown[];
}

/** One transaction that is applied at most once, however often it is sent. */
export class GuardedWrite<Result> {
  readonly #guards: Guards;
  readonly #txn: Txn;
  /** The guard of this write. Undefined before the first attempt, and after the outcome is known. */
  #guard: Guard | undefined;
  /** Whether the server may apply an attempt later, or may have applied it. */
  #inDoubt = false;
  #applied: Applied<Result> | undefined;

  /** @internal */
  constructor(guards: Guards, txn: Txn) {
    this.#guards = guards;
    this.#txn = txn;
  }

  /** Whether the server has applied the write, or may have. */
  get mayBeApplied(): boolean {
    return this.#inDoubt || this.#applied !== undefined;
  }

  /**
   * Makes an attempt. After an error, the caller may call `send` again, and must call `settle` otherwise.
   *
   * @throws EtcdError as `txn` does.
   */
  async send(options: CallOptions): Promise<Applied<Result>> {
    for (;;) {
      this.#guard ??= this.#guards.take();
      const guard = this.#guard;
      const number = guard.writes + 1;
      const { if: conditions, then = [], else: otherwise = [] } = this.#txn;
      const unchanged = this.#guards.unchanged(guard);
      const whenFalse = {
        if: [unchanged],
        then: [...otherwise, this.#guards.move(guard, `${number} else`)],
        else: [op.get(guard.key)],
      };
      const guarded = {
        if: [unchanged, ...(conditions ?? [])],
        then: [...then, this.#guards.move(guard, `${number} then`)],
        else: [conditions === undefined ? op.get(guard.key) : op.txn(whenFalse)],
      };
      const wasInDoubt = this.#inDoubt;
      const { header, succeeded, responses } = await this.#inDoubtDuring(this.#guards.run(guarded, options));
      const nested = succeeded || conditions === undefined ? undefined : (responses[0] as AnyResult);
      if (succeeded || nested?.succeeded) {
        // The caller must not see the response to the put of the guard.
        const own = (nested?.responses ?? responses).slice(0, -1);
        return this.#settled(guard, number, header.revision, succeeded, { succeeded, responses: own } as Result);
      }
      const applied = this.#appliedAs(guard, number, (nested?.responses ?? responses)[0] as KeyValue | undefined);
      if (applied !== undefined) return applied;
      // Another client has changed or deleted the guard.
      this.#guard = undefined;
      if (wasInDoubt) throw guardLost();
      this.#inDoubt = false;
    }
  }

  /**
   * Makes sure that the write can no longer be applied. Resolves with its result if it was applied before. May be
   * repeated after an error.
   *
   * @throws EtcdError as `txn` does.
   */
  async settle(options: CallOptions): Promise<Applied<Result> | undefined> {
    const guard = this.#guard;
    if (this.#applied !== undefined || guard === undefined) return this.#applied;
    const number = guard.writes + 1;
    if (!this.#inDoubt) {
      this.#guard = undefined;
      this.#guards.release(guard, guard.revision, guard.writes);
      return undefined;
    }
    const value = `${number + 1} settled`;
    let found: KeyValue | undefined;
    try {
      const txn = {
        if: [this.#guards.unchanged(guard)],
        then: [this.#guards.move(guard, value)],
        else: [op.get(guard.key)],
      };
      const { header, succeeded, responses } = await this.#guards.run(txn, options);
      if (!succeeded) found = responses[0] as KeyValue | undefined;
      else found = { modRevision: header.revision, text: () => value } as KeyValue;
    } catch (error) {
      // Without the permission or the lease, the server applies no copy of the write either.
      const isImpossible =
        error instanceof EtcdError && (error.reason === 'PermissionDenied' || error.reason === 'LeaseNotFound');
      if (!isImpossible) throw error;
      this.#guard = undefined;
      return undefined;
    }
    const applied = this.#appliedAs(guard, number, found);
    if (applied !== undefined) return applied;
    this.#guard = undefined;
    if (found?.text() !== value) throw guardLost();
    this.#guards.release(guard, found.modRevision, number + 1);
    return undefined;
  }

  /** The write is in doubt from the start of an attempt, unless the client has not sent the attempt. */
  async #inDoubtDuring<T>(attempt: Promise<T>): Promise<T> {
    const before = this.#inDoubt;
    this.#inDoubt = true;
    try {
      return await attempt;
    } catch (error) {
      if (error instanceof EtcdError && error.outcome === 'not-sent') this.#inDoubt = before;
      throw error;
    }
  }

  #appliedAs(guard: Guard, number: number, kv: KeyValue | undefined): Applied<Result> | undefined {
    const branch = kv?.text();
    if (kv === undefined || (branch !== `${number} then` && branch !== `${number} else`)) return undefined;
    return this.#settled(guard, number, kv.modRevision, branch.endsWith('then'), undefined);
  }

  #settled(
    guard: Guard,
    number: number,
    revision: bigint,
    succeeded: boolean,
    result: Result | undefined,
  ): Applied<Result> {
    // The answer may arrive after `settle`, if the caller has not waited for it.
    if (this.#guard === guard) this.#guards.release(guard, revision, number);
    this.#guard = undefined;
    this.#applied = { revision, succeeded, result };
    return this.#applied;
  }
}

function guardLost(): EtcdError {
  return new EtcdError('another client changed the guard of the write; the write was applied once, or not at all', {
    code: 'Aborted',
    reason: 'Other',
    outcome: 'unknown',
  });
}
