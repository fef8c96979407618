import { checkCount, EtcdError, invalidInput, NO_BYTES, textOf } from '../../base/index.js';
import {
  type Compare,
  compare,
  type KeyValue,
  op,
  prefix,
  preparedTxn,
  type RangeResult,
  withLastCreate,
} from '../../client/index.js';
import {
  checkNameOutside,
  checkSession,
  cleanedUp,
  type GuardedWrite,
  keyGone,
  leaveQueue,
  type Session,
  uniqueKey,
  untilAnswered,
  untilDone,
  type Waiting,
  type WaitLimit,
  type WaitOptions,
  watchOwnKey,
  watchUntil,
  withinLimit,
} from '../../locks/index.js';
import type { CallOptions } from '../../rpc/index.js';

const BY_CREATION = { target: 'createRevision', order: 'asc' } as const;

/**
 * This participant's key in the current round. A round begins when all participants have entered the barrier, and ends
 * when all have left.
 */
interface Participant {
  readonly key: string;
  readonly createRevision: bigint;
  /** Create revision of the ready key, `NAME/ready`, which each round creates again. */
  readonly round: bigint;
}

interface State {
  readonly ready: KeyValue | undefined;
  /** This participant's key. */
  readonly own: KeyValue | undefined;
  /** Mod revision of the epoch key, `NAME/epoch`, or 0n if it does not exist. */
  readonly epoch: bigint;
  /** The participants' keys in the order of their creation, at most `count + 1` of them. */
  readonly waiters: readonly KeyValue[];
  /** Store revision at which the keys were read. */
  readonly seenAt: bigint;
}

/**
 * Lets `count` participants begin together, when all have entered, and end together, when all have left. The time
 * in between is a round. The class uses the same keys as the `DoubleBarrier` of Go's recipes. A participant whose
 * session is lost counts as having left. A participant that enters during a round waits until all participants of that
 * round have left.
 *
 * A round begins when a participant puts the ready key, `NAME/ready`. A participant that stops waiting before the round
 * begins withdraws: it deletes its own key and puts the epoch key, `NAME/epoch`. The transaction that puts the ready
 * key checks that the epoch key has not changed, so the round begins only if no participant has withdrawn since the
 * participants were counted. The transaction that puts a participant's key checks the epoch key too, so a copy of the
 * request that arrives late has no effect (rule S25 in docs/semantics.md). No slash-separated part of the name may be
 * `waiters`, because the keys of a barrier `a/waiters` would count as participants of a barrier `a`.
 *
 * @example
 * const barrier = new DoubleBarrier(session, 'phase-1', 3);
 * await barrier.enter();
 * await work();
 * await barrier.leave();
 */
export class DoubleBarrier {
  readonly name: string;
  readonly count: number;
  readonly #session: Session;
  readonly #waiters: string;
  readonly #ready: string;
  readonly #epoch: string;
  #participant: Participant | undefined;
  /** The latest put of the participant's own key. */
  #put: GuardedWrite<unknown> | undefined;
  #busy = false;

  /** @throws EtcdError with reason `InvalidInput` if an argument is invalid. */
  constructor(session: Session, name: string, count: number) {
    this.name = checkNameOutside(['waiters'], name);
    this.count = checkCount(count, 'count', 1);
    this.#session = checkSession(session);
    this.#waiters = `${name}/waiters/`;
    this.#ready = `${name}/ready`;
    this.#epoch = `${name}/epoch`;
  }

  /**
   * Waits until `count` participants have entered. If the wait ends early, the participant withdraws and `enter`
   * rejects. If the round has already begun by then, `enter` resolves instead.
   *
   * @throws EtcdError with reason `BarrierFull` if `count` other participants entered first. See also `WaitOptions`.
   */
  enter(options: WaitOptions = {}): Promise<void> {
    const key = uniqueKey(this.#waiters, this.#session.leaseId);
    return this.#exclusively('enter', this.#participant === undefined, options, async (limit) => {
      this.#participant = await this.#waitForRound(key, limit).catch(async (error: unknown) => {
        const participant = await this.#withdraw(key, limit);
        if (participant === undefined) throw error;
        return participant;
      });
    });
  }

  /**
   * Leaves, and waits until all participants have left. If the wait ends early, call `leave` again to continue waiting.
   *
   * @throws EtcdError, see `WaitOptions`.
   */
  leave(options: WaitOptions = {}): Promise<void> {
    return this.#exclusively('leave', this.#participant !== undefined, options, async ({ waiting }) => {
      const { client } = this.#session;
      const { key, createRevision, round } = this.#participant as Participant;
      await leaveQueue(client, key, createRevision, waiting);
      for (;;) {
        const last = await this.#lastOf(round, waiting);
        if (last === undefined) break;
        await watchUntil(client, { keys: last.keyBytes, event: 'delete' }, waiting, async (callOptions) => {
          const kv = await client.get(last.keyBytes, callOptions);
          return kv?.createRevision === last.createRevision ? undefined : true;
        });
      }
      await untilAnswered(waiting, (callOptions) => this.#endRoundIfEmpty(round, callOptions));
      this.#participant = undefined;
    });
  }

  async #waitForRound(key: string, limit: WaitLimit): Promise<Participant> {
    const { client } = this.#session;
    const state = await this.#putOwnKey(key, limit.waiting);
    const { createRevision } = state.own as KeyValue;
    if (state.ready !== undefined) {
      const round = state.ready.createRevision;
      if (!(await untilAnswered(limit.waiting, (callOptions) => this.#isInRound(round, key, callOptions))))
        throw full(this.count);
      return { key, createRevision, round };
    }
    if (!this.#isCounted(state.waiters, key)) throw full(this.count);
    const own = { key, createRevision, seenAt: state.seenAt };
    const stopWatching = watchOwnKey(client, own, (gone) => limit.end(gone));
    try {
      const ready = { keys: this.#ready, event: 'put' } as const;
      const round = await watchUntil(client, ready, limit.waiting, async (callOptions) => {
        for (;;) {
          const seen = await this.#read(key, callOptions);
          if (seen.own?.createRevision !== createRevision) throw keyGone();
          if (seen.ready !== undefined) return seen.ready.createRevision;
          // The participant that entered as number `count`, the last one, begins the round.
          if (textOf(seen.waiters[this.count - 1]?.keyBytes ?? NO_BYTES) !== key) return undefined;
          // Has no effect if the round has already begun, a participant has withdrawn since the participants were counted,
          // or this participant's key is gone.
          const isInside = compare.createRevision(key, '==', createRevision);
          const isUnchanged = [compare.missing(this.#ready), this.#isSameEpoch(seen), isInside];
          await client.txn({ if: isUnchanged, then: [op.put(this.#ready, '')] }, callOptions);
        }
      });
      return { key, createRevision, round };
    } finally {
      stopWatching();
    }
  }

  /** Waits until the previous round has ended, and then puts this participant's key. */
  #putOwnKey(key: string, waiting: Waiting): Promise<State> {
    const { client, guards, leaseId: lease } = this.#session;
    this.#put = undefined;
    return watchUntil(client, { keys: prefix(`${this.name}/`), event: 'delete' }, waiting, async (options) => {
      for (;;) {
        // Make sure that the previous put, whose outcome may be unknown, does not take effect later.
        await this.#put?.settle(options);
        const state = await this.#read(key, options);
        if (state.own !== undefined) return state;
        if (state.ready !== undefined) {
          await this.#endRoundIfEmpty(state.ready.createRevision, options);
          return undefined;
        }
        this.#put = guards.begin(
          preparedTxn({
            if: [compare.missing(this.#ready), this.#isSameEpoch(state)],
            then: [op.put(key, '', { lease })],
          }),
        );
        await this.#put.send(options).catch((error: unknown) => {
          this.#session.losesWith(error);
          throw error;
        });
      }
    });
  }

  #isCounted(waiters: readonly KeyValue[], key: string): boolean {
    return waiters.slice(0, this.count).some(({ keyBytes }) => textOf(keyBytes) === key);
  }

  /**
   * Returns whether the key was one of the first `count` keys when the round began. Reads at the store revision at
   * which the round began, because participants may have left since then.
   */
  async #isInRound(round: bigint, key: string, options: CallOptions): Promise<boolean> {
    const inOrder = { sort: BY_CREATION, limit: this.count, keysOnly: true };
    const { kvs } = await this.#session.client.range(prefix(this.#waiters), {
      ...options,
      ...inOrder,
      revision: round,
    });
    return this.#isCounted(kvs, key);
  }

  /** The limit of cleanups. The lease of a closing client may live on for locks, while `signal` of the session aborts. */
  get #lifetime(): Waiting {
    return { signal: this.#session.leaseSignal };
  }

  #isSameEpoch({ epoch }: State): Compare {
    return compare.modRevision(this.#epoch, '==', epoch);
  }

  async #read(key: string, options: CallOptions): Promise<State> {
    const inOrder = { sort: BY_CREATION, limit: this.count + 1, keysOnly: true };
    const { header, responses } = await this.#session.client.txn(
      {
        then: [op.get(this.#ready), op.get(key), op.get(this.#epoch), op.range(prefix(this.#waiters), inOrder)],
      },
      options,
    );
    const [ready, own, epoch, { kvs }] = responses as readonly [KV, KV, KV, RangeResult];
    return { ready, own, epoch: epoch?.modRevision ?? 0n, waiters: kvs, seenAt: header.revision };
  }

  /**
   * Withdraws, and returns undefined. If the round has already begun with this key, the participant can no longer
   * withdraw, and this method returns the participant.
   */
  async #withdraw(key: string, limit: WaitLimit): Promise<Participant | undefined> {
    const { client } = this.#session;
    // Rejects only when the lease is lost, and then etcd deletes the key with it.
    const withdrawing = this.#tryWithdraw(key);
    if (await cleanedUp(withdrawing)) return withdrawing.catch(() => undefined);
    if (this.#put?.mayBeApplied) limit.setOutcome('unknown');
    // `enter` rejects now, so this participant must leave if the round has begun with its key. Otherwise, the other
    // participants would wait for it.
    const leaving = withdrawing.then((late) => late && leaveQueue(client, key, late.createRevision, this.#lifetime));
    leaving.catch(() => {});
    return undefined;
  }

  /**
   * Deletes this participant's key, and puts the epoch key so that no put that arrives late takes effect. Returns the
   * participant if the round has already begun with this key.
   */
  async #tryWithdraw(key: string): Promise<Participant | undefined> {
    const { client } = this.#session;
    const { succeeded, responses } = await untilDone(this.#lifetime, (options) =>
      client.txn(
        {
          if: [compare.missing(this.#ready)],
          then: [op.delete(key), op.put(this.#epoch, '')],
          else: [op.get(key), op.get(this.#ready), op.put(this.#epoch, '')],
        },
        options,
      ),
    );
    const [own, ready] = succeeded ? [] : responses;
    if (own === undefined || ready === undefined) return undefined;
    const [createRevision, round] = [own.createRevision, ready.createRevision];
    const isInRound = await untilDone(this.#lifetime, (options) =>
      this.#isInRound(round, key, options).catch(notInRoundIfCompacted),
    );
    if (isInRound) return { key, createRevision, round };
    await leaveQueue(client, key, createRevision, this.#lifetime);
    return undefined;
  }

  /**
   * Returns the newest key that is still in the round. All participants that are leaving wait for the deletion of this
   * same key.
   */
  async #lastOf(round: bigint, waiting: Waiting): Promise<KeyValue | undefined> {
    const { client } = this.#session;
    const last = { ...withLastCreate(), keysOnly: true };
    const { responses } = await untilAnswered(waiting, (options) =>
      client.txn({ then: [op.get(this.#ready), op.range(prefix(this.#waiters), last)] }, options),
    );
    const [ready, waiters] = responses as readonly [KV, RangeResult];
    // If the ready key is missing or has a different create revision, the round has ended.
    return ready?.createRevision === round ? waiters.kvs[0] : undefined;
  }

  /** Ends the round if no participant is left in it. */
  async #endRoundIfEmpty(round: bigint, options: CallOptions): Promise<void> {
    const isEmpty = [compare.missing(prefix(this.#waiters)), compare.createRevision(this.#ready, '==', round)];
    // After the put of the epoch key, a put of this round that arrives late has no effect.
    const ending = [op.delete(this.#ready), op.put(this.#epoch, '')] as const;
    await this.#session.client.txn({ if: isEmpty, then: ending }, options);
  }

  async #exclusively(
    what: string,
    isAllowed: boolean,
    options: WaitOptions,
    action: (limit: WaitLimit) => Promise<void>,
  ): Promise<void> {
    if (this.#busy || !isAllowed) {
      const entered = this.#participant === undefined ? 'a call before enter' : 'a second call';
      const state = this.#busy ? 'a call while another call is under way' : entered;
      const allowed = 'one enter and then one leave, one call at a time, on a DoubleBarrier object of each participant';
      throw invalidInput(what, state, allowed);
    }
    this.#busy = true;
    try {
      await withinLimit(what, options, this.#session.signal, action);
    } finally {
      this.#busy = false;
    }
  }
}

type KV = KeyValue | undefined;

/**
 * Returns false if `error` says that etcd has compacted the revision at which the round began. etcd can then no longer
 * show which keys were in the round, so the caller deletes the key. Rethrows every other error.
 */
function notInRoundIfCompacted(error: unknown): false {
  if (error instanceof EtcdError && error.reason === 'Compacted') return false;
  throw error;
}

function full(count: number): EtcdError {
  return new EtcdError(`as many participants as the barrier was created for (count = ${count}) have already entered`, {
    code: 'FailedPrecondition',
    reason: 'BarrierFull',
    outcome: 'rejected',
  });
}
