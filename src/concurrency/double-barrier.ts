import type { CallOptions } from '../channel/rpc.js';
import { EtcdError, invalidInput } from '../errors/etcd-error.js';
import type { KeyValue } from '../kv/key-value.js';
import { prefix } from '../kv/keys.js';
import { type RangeResult, withLastCreate } from '../kv/requests.js';
import { type Compare, compare, op } from '../kv/txn.js';
import { checkCount } from '../runtime/arguments.js';
import { settledWithin } from '../runtime/timers.js';
import { CLEANUP_WAIT_MS } from './lock.js';
import { checkName, keyGone, leaveQueue, uniqueKey, watchOwnKey } from './lock-queue.js';
import { checkSession, type Session } from './session.js';
import {
  untilAnswered,
  untilDone,
  type WaitLimit,
  type WaitOptions,
  waitLimit,
  watchUntil,
  withinLimit,
} from './waiting.js';

const BY_CREATION = { target: 'createRevision', order: 'asc' } as const;

/** The participant's own key, in a round that has begun. */
interface Participant {
  readonly key: string;
  readonly createRevision: bigint;
  /** Create revision of the ready key. Each round has another one. */
  readonly round: bigint;
}

/** The barrier's keys, as of one revision. */
interface State {
  readonly ready: KeyValue | undefined;
  readonly own: KeyValue | undefined;
  /** Mod revision of the epoch key, or 0n if it does not exist. Every withdrawal changes it. */
  readonly epoch: bigint;
  /** The keys of the participants that entered first: up to one more than the barrier is for. */
  readonly waiters: readonly KeyValue[];
  readonly seenAt: bigint;
}

/**
 * Lets a number of participants begin together, when all have entered, and end together, when all have left. It uses the
 * keys of the `DoubleBarrier` of Go's recipes. A participant whose session is lost counts as having left. Participants
 * that enter early wait until everybody has left the previous round.
 *
 * A round begins with the put of `NAME/ready`. The put compares the epoch, `NAME/epoch`, which every withdrawal changes,
 * so that it applies only if nobody has withdrawn since the participants were counted. The put of each participant's key
 * compares the epoch too, so that a copy of it that arrives late has no effect. (S25)
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
  /** The outcome of a put of the own key is unknown. */
  #inDoubt = false;
  #busy = false;

  /** @throws EtcdError, reason `InvalidInput`. */
  constructor(session: Session, name: string, count: number) {
    this.name = checkName(name);
    this.count = checkCount(count, 'count', 1);
    this.#session = checkSession(session);
    this.#waiters = `${name}/waiters/`;
    this.#ready = `${name}/ready`;
    this.#epoch = `${name}/epoch`;
  }

  /**
   * Waits until `count` participants have entered. A participant whose wait ends early has not entered, unless the round
   * began before its withdrawal: then `enter` resolves.
   *
   * @throws EtcdError, reason `BarrierFull` if `count` participants entered earlier, and otherwise as `WaitOptions` says.
   */
  enter(options: WaitOptions = {}): Promise<void> {
    return this.#exclusively('enter', this.#participant === undefined, () => this.#enter(options));
  }

  /**
   * Leaves, and waits until all participants have left. A call whose wait ended early may be repeated to wait on.
   *
   * @throws EtcdError, as `WaitOptions` says.
   */
  leave(options: WaitOptions = {}): Promise<void> {
    return this.#exclusively('leave', this.#participant !== undefined, () => this.#leave(options));
  }

  async #enter(options: WaitOptions): Promise<void> {
    const limit = waitLimit('enter', options, this.#session.signal);
    const key = uniqueKey(this.#waiters, this.#session.leaseId);
    try {
      limit.signal.throwIfAborted();
      this.#participant = await this.#waitForRound(key, limit).catch(async (error: unknown) => {
        const participant = await this.#withdraw(key);
        if (participant === undefined) throw limit.endedBy(error);
        return participant;
      });
    } finally {
      limit.dispose();
    }
  }

  async #waitForRound(key: string, limit: WaitLimit): Promise<Participant> {
    const { client } = this.#session;
    const state = await this.#putOwnKey(key, limit.signal);
    const { createRevision } = state.own as KeyValue;
    if (state.ready !== undefined) {
      const round = state.ready.createRevision;
      if (!(await untilAnswered(limit.signal, (callOptions) => this.#isInRound(round, key, callOptions))))
        throw full(this.count);
      return { key, createRevision, round };
    }
    if (!this.#isCounted(state.waiters, key)) throw full(this.count);
    const own = { key, createRevision, seenAt: state.seenAt };
    const stopWatching = watchOwnKey(client, own, (gone) => limit.end(gone));
    try {
      const ready = { keys: this.#ready, event: 'put' } as const;
      const round = await watchUntil(client, ready, limit.signal, async (callOptions) => {
        for (;;) {
          const seen = await this.#read(key, callOptions);
          if (seen.own?.createRevision !== createRevision) throw keyGone();
          if (seen.ready !== undefined) return seen.ready.createRevision;
          // The participant that completes the number begins the round.
          if (seen.waiters[this.count - 1]?.keyText() !== key) return undefined;
          await this.#beginRound(seen, seen.own, callOptions);
        }
      });
      return { key, createRevision, round };
    } finally {
      stopWatching();
    }
  }

  /** Puts the own key, once the previous round is over. Safe to repeat, because no other participant uses the key. */
  #putOwnKey(key: string, signal: AbortSignal): Promise<State> {
    const { client, leaseId: lease } = this.#session;
    return watchUntil(client, { keys: prefix(`${this.name}/`), event: 'delete' }, signal, async (options) => {
      for (;;) {
        const state = await this.#read(key, options);
        if (state.own !== undefined) return state;
        if (state.ready !== undefined) {
          await this.#endRoundIfEmpty(state.ready.createRevision, options);
          return undefined;
        }
        const entering = {
          if: [compare.missing(this.#ready), this.#isSameEpoch(state)],
          then: [op.put(key, '', { lease })],
        };
        await client.txn(entering, options).catch((error: unknown) => {
          if (error instanceof EtcdError && error.outcome === 'unknown') this.#inDoubt = true;
          this.#session.losesWith(error);
          throw error;
        });
      }
    });
  }

  /** Begins the round, unless somebody has withdrawn since the participants were counted. */
  async #beginRound(state: State, own: KeyValue, options: CallOptions): Promise<void> {
    const isInside = compare.createRevision(own.key, '==', own.createRevision);
    await this.#session.client.txn(
      { if: [compare.missing(this.#ready), this.#isSameEpoch(state), isInside], then: [op.put(this.#ready, '')] },
      options,
    );
  }

  #isCounted(waiters: readonly KeyValue[], key: string): boolean {
    return waiters.slice(0, this.count).some((kv) => kv.keyText() === key);
  }

  /** Whether the key was counted when the round began. Reads at the round's revision, because some may have left. */
  async #isInRound(round: bigint, key: string, options: CallOptions): Promise<boolean> {
    const inOrder = { sort: BY_CREATION, limit: this.count, keysOnly: true };
    const { kvs } = await this.#session.client.range(prefix(this.#waiters), {
      ...options,
      ...inOrder,
      revision: round,
    });
    return this.#isCounted(kvs, key);
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
   * Deletes the own key, and changes the epoch so that no put of the key applies later. If the round has begun with the
   * key, it is too late to withdraw: then this returns the participant.
   */
  async #withdraw(key: string): Promise<Participant | undefined> {
    const { client, signal: lifetime } = this.#session;
    let participant: Participant | undefined;
    let isLate = false;
    const withdrawing = untilDone(lifetime, (options) =>
      client.txn(
        {
          if: [compare.missing(this.#ready)],
          then: [op.delete(key), op.put(this.#epoch, '')],
          else: [op.get(key), op.get(this.#ready), op.put(this.#epoch, '')],
        },
        options,
      ),
    ).then(async (result) => {
      if (result.succeeded) return;
      const [own, ready] = result.responses;
      if (own === undefined || ready === undefined) return;
      const [createRevision, round] = [own.createRevision, ready.createRevision];
      const isInRound = await untilDone(lifetime, async (options) => {
        // The caller has its error already. The others wait for the key to be deleted.
        if (isLate) return false;
        return this.#isInRound(round, key, options).catch(notInRoundIfCompacted);
      });
      if (isInRound && !isLate) participant = { key, createRevision, round };
      else await leaveQueue(client, key, createRevision, lifetime);
    });
    // Fails only when the session ends, and then the key ends with the lease.
    const isDone = await settledWithin(
      CLEANUP_WAIT_MS,
      withdrawing.catch(() => {}),
    );
    isLate = !isDone;
    return participant;
  }

  #leave(options: WaitOptions): Promise<void> {
    const { client, signal: lifetime } = this.#session;
    const { key, createRevision, round } = this.#participant as Participant;
    return withinLimit('leave', options, lifetime, async ({ signal }) => {
      await leaveQueue(client, key, createRevision, signal);
      // No put of the own key applies after this one.
      if (this.#inDoubt) await untilAnswered(signal, (callOptions) => client.put(this.#epoch, '', callOptions));
      this.#inDoubt = false;
      for (;;) {
        const last = await this.#lastOf(round, signal);
        if (last === undefined) break;
        await watchUntil(client, { keys: last.key, event: 'delete' }, signal, async (callOptions) => {
          const kv = await client.get(last.key, callOptions);
          return kv?.createRevision === last.createRevision ? undefined : true;
        });
      }
      await untilAnswered(signal, (callOptions) => this.#endRoundIfEmpty(round, callOptions));
      this.#participant = undefined;
    });
  }

  /** Returns the last key that is still in the round, so that all participants wait for the same key. */
  async #lastOf(round: bigint, signal: AbortSignal): Promise<KeyValue | undefined> {
    const { client } = this.#session;
    const last = { ...withLastCreate(), keysOnly: true };
    const { responses } = await untilAnswered(signal, (options) =>
      client.txn({ then: [op.get(this.#ready), op.range(prefix(this.#waiters), last)] }, options),
    );
    const [ready, waiters] = responses as readonly [KV, RangeResult];
    // With another ready key, the round is over and the waiters are those of the next one.
    return ready?.createRevision === round ? waiters.kvs[0] : undefined;
  }

  /** Ends a round without participants, for example one whose participants all died. */
  async #endRoundIfEmpty(round: bigint, options: CallOptions): Promise<void> {
    const isEmpty = [compare.missing(prefix(this.#waiters)), compare.createRevision(this.#ready, '==', round)];
    // A put of this round that arrives later finds another epoch.
    const ending = [op.delete(this.#ready), op.put(this.#epoch, '')] as const;
    await this.#session.client.txn({ if: isEmpty, then: ending }, options);
  }

  async #exclusively(what: string, isAllowed: boolean, action: () => Promise<void>): Promise<void> {
    if (this.#busy || !isAllowed) {
      const entered = this.#participant === undefined ? 'when not entered' : 'when entered already';
      const state = this.#busy ? 'while another call is under way' : entered;
      throw invalidInput(what, state, 'enter, then leave, one after the other, with one object for each participant');
    }
    this.#busy = true;
    try {
      await action();
    } finally {
      this.#busy = false;
    }
  }
}

type KV = KeyValue | undefined;

/** After a compaction nobody can tell who was in the round. The key then counts as not in it, so that nobody waits for it. */
function notInRoundIfCompacted(error: unknown): false {
  if (error instanceof EtcdError && error.reason === 'Compacted') return false;
  throw error;
}

function full(count: number): EtcdError {
  return new EtcdError(`the barrier is for ${count} participants, and as many have entered already`, {
    code: 'FailedPrecondition',
    reason: 'BarrierFull',
    outcome: 'rejected',
  });
}
