import type { CallOptions } from '../channel/rpc.js';
import { EtcdError, invalidInput } from '../errors/etcd-error.js';
import { type Compare, compare } from '../kv/compare.js';
import { prefix } from '../kv/key-range.js';
import type { KeyValue } from '../kv/key-value.js';
import { op } from '../kv/op.js';
import { withLastCreate, withLimit, withSort } from '../kv/range-presets.js';
import type { RangeResult } from '../kv/results.js';
import { checkCount } from '../runtime/arguments.js';
import { settledWithin } from '../runtime/timers.js';
import { checkName, entryGone, leaveQueue, uniqueKey, watchEntry } from './queue-entry.js';
import { checkSession, type Session } from './session.js';
import { untilAnswered, untilDone, type WaitLimit, type WaitOptions, waitLimit } from './wait-limit.js';
import { watchUntil } from './watch-until.js';

const CLEANUP_WAIT_MS = 1_000;

interface Participant {
  readonly key: string;
  readonly revision: bigint;
  /** Create revision of the key that says the round has begun: another one belongs to another round. */
  readonly round: bigint;
}

/** What the barrier's keys say. */
interface State {
  readonly ready: KeyValue | undefined;
  readonly own: KeyValue | undefined;
  /** Mod revision of the epoch, which every withdrawal moves on; 0n before the first. */
  readonly epoch: bigint;
  readonly waiters: readonly KeyValue[];
  readonly seenAt: bigint;
}

/**
 * A number of participants that begin together, when all have entered, and end together, when all have left: the
 * `DoubleBarrier` of Go's recipes, on its keys. A participant whose session is lost counts as gone. It can be entered
 * again once all have left; who comes earlier waits for that.
 *
 * A round begins with the put of `NAME/ready`, under the condition that nobody has withdrawn since the participants were
 * counted: each withdrawal changes the epoch, `NAME/epoch`, which every put is compared with. So whoever gave up is
 * not counted, and a put or a beginning that comes late has no effect.
 */
export class DoubleBarrier {
  readonly name: string;
  readonly count: number;
  readonly #session: Session;
  readonly #waiters: string;
  readonly #ready: string;
  readonly #epoch: string;
  #participant: Participant | undefined;
  /** A put of the own key may still be on its way. */
  #doubtful = false;
  #busy = false;

  /** @throws EtcdError, reason `InvalidInput`. */
  constructor(session: Session, name: string, count: number) {
    this.name = checkName(name);
    this.count = Number(checkCount(count, 'count', 1n));
    this.#session = checkSession(session);
    this.#waiters = `${name}/waiters/`;
    this.#ready = `${name}/ready`;
    this.#epoch = `${name}/epoch`;
  }

  /**
   * Waits until `count` participants have entered. A wait that is given up counts as not entered; where the round has
   * begun by then, it has been entered after all.
   *
   * @throws EtcdError, reason `BarrierFull` where as many have entered before; see `WaitOptions` for the others.
   */
  enter(options: WaitOptions = {}): Promise<void> {
    return this.#alone('enter', this.#participant === undefined, () => this.#enter(options));
  }

  /** Leaves, and waits until all have. Given up it may be called again, to go on waiting. */
  leave(options: WaitOptions = {}): Promise<void> {
    return this.#alone('leave', this.#participant !== undefined, () => this.#leave(options));
  }

  async #enter(options: WaitOptions): Promise<void> {
    const limit = waitLimit('enter', options, this.#session.signal);
    const key = uniqueKey(this.#waiters, this.#session.leaseId);
    try {
      limit.signal.throwIfAborted();
      this.#participant = await this.#wait(key, limit).catch(async (error: unknown) => {
        const entered = await this.#withdraw(key);
        if (entered === undefined) throw limit.endedBy(error);
        return entered;
      });
    } finally {
      limit.dispose();
    }
  }

  async #wait(key: string, limit: WaitLimit): Promise<Participant> {
    const { client } = this.#session;
    const state = await this.#put(key, limit.signal);
    const { createRevision: revision } = state.own as KeyValue;
    if (state.ready !== undefined) {
      const round = state.ready.createRevision;
      if (!(await untilAnswered(limit.signal, (callOptions) => this.#isIn(round, key, callOptions))))
        throw full(this.count);
      return { key, revision, round };
    }
    if (!this.#isCounted(state.waiters, key)) throw full(this.count);
    const stopWatching = watchEntry(client, { key, revision, seenAt: state.seenAt }, (gone) => limit.end(gone));
    try {
      const beginning = { keys: this.#ready, wake: 'put' } as const;
      const round = await watchUntil(client, beginning, limit.signal, async (callOptions) => {
        for (;;) {
          const seen = await this.#read(key, callOptions);
          if (seen.own?.createRevision !== revision) throw entryGone();
          if (seen.ready !== undefined) return seen.ready.createRevision;
          // Who completes the number is the one to say so.
          if (seen.waiters[this.count - 1]?.keyText() !== key) return undefined;
          await this.#begin(seen, seen.own, callOptions);
        }
      });
      return { key, revision, round };
    } finally {
      stopWatching();
    }
  }

  /** Puts the own key, not before the round of before is over. Repeating it is safe: the key is nobody else's. */
  #put(key: string, signal: AbortSignal): Promise<State> {
    const { client, leaseId: lease } = this.#session;
    return watchUntil(client, { keys: prefix(`${this.name}/`), wake: 'delete' }, signal, async (options) => {
      for (;;) {
        const state = await this.#read(key, options);
        if (state.own !== undefined) return state;
        if (state.ready !== undefined) {
          await this.#sweep(state.ready.createRevision, options);
          return undefined;
        }
        const entering = {
          if: [compare.missing(this.#ready), this.#unmoved(state)],
          then: [op.put(key, '', { lease })],
        };
        await client.txn(entering, options).catch((error: unknown) => {
          if (error instanceof EtcdError && error.outcome === 'unknown') this.#doubtful = true;
          this.#session.losesWith(error);
          throw error;
        });
      }
    });
  }

  /** Says that the round has begun, unless somebody has withdrawn since all were counted. */
  async #begin(state: State, own: KeyValue, options: CallOptions): Promise<void> {
    const inside = compare.createRevision(own.key, '==', own.createRevision);
    await this.#session.client.txn(
      { if: [compare.missing(this.#ready), this.#unmoved(state), inside], then: [op.put(this.#ready, '')] },
      options,
    );
  }

  #isCounted(waiters: readonly KeyValue[], key: string): boolean {
    return waiters.slice(0, this.count).some((kv) => kv.keyText() === key);
  }

  /** Whether the key was one of those counted when the round began; some may have left since. */
  async #isIn(round: bigint, key: string, options: CallOptions): Promise<boolean> {
    const inOrder = { ...withSort('create', 'ascend'), ...withLimit(this.count), keysOnly: true };
    const { kvs } = await this.#session.client.range(prefix(this.#waiters), {
      ...options,
      ...inOrder,
      revision: round,
    });
    return this.#isCounted(kvs, key);
  }

  #unmoved({ epoch }: State): Compare {
    return compare.modRevision(this.#epoch, '==', epoch);
  }

  async #read(key: string, options: CallOptions): Promise<State> {
    const inOrder = { ...withSort('create', 'ascend'), ...withLimit(this.count + 1), keysOnly: true };
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
   * Takes the own key back, wherever it is; after that no put of it comes through. Where the round has begun with it
   * that is too late: then it is what was entered.
   */
  async #withdraw(key: string): Promise<Participant | undefined> {
    const { client, signal: lifetime } = this.#session;
    let entered: Participant | undefined;
    let tooLate = false;
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
      const [revision, round] = [own.createRevision, ready.createRevision];
      const isIn = await untilDone(lifetime, async (options) => {
        // Nobody waits for the answer any more, but all the others for the key to be gone.
        if (tooLate) return false;
        return this.#isIn(round, key, options).catch(unknownAfterCompaction);
      });
      if (isIn && !tooLate) entered = { key, revision, round };
      else await leaveQueue(client, key, revision, lifetime);
    });
    // Fails only with the session, and then the key goes with the lease.
    const done = await settledWithin(
      CLEANUP_WAIT_MS,
      withdrawing.catch(() => {}),
    );
    tooLate = !done;
    return entered;
  }

  async #leave(options: WaitOptions): Promise<void> {
    const { client, signal: lifetime } = this.#session;
    const { key, revision, round } = this.#participant as Participant;
    const limit = waitLimit('leave', options, lifetime);
    try {
      await leaveQueue(client, key, revision, limit.signal);
      // No put of the key that was held up on its way comes through after this.
      if (this.#doubtful) await untilAnswered(limit.signal, (options) => client.put(this.#epoch, '', options));
      this.#doubtful = false;
      for (;;) {
        const last = await this.#lastOf(round, limit.signal);
        if (last === undefined) break;
        const { key: other, createRevision } = last;
        await watchUntil(client, { keys: other, wake: 'delete' }, limit.signal, async (callOptions) => {
          const kv = await client.get(other, callOptions);
          return kv?.createRevision === createRevision ? undefined : true;
        });
      }
      await untilAnswered(limit.signal, (callOptions) => this.#sweep(round, callOptions));
      this.#participant = undefined;
    } catch (error) {
      throw limit.endedBy(error);
    } finally {
      limit.dispose();
    }
  }

  /** One that has not left the round yet: who entered last, so that all wait for one, and seldom for many in turn. */
  async #lastOf(round: bigint, signal: AbortSignal): Promise<KeyValue | undefined> {
    const { client } = this.#session;
    const last = { ...withLastCreate(), keysOnly: true };
    const { responses } = await untilAnswered(signal, (options) =>
      client.txn({ then: [op.get(this.#ready), op.range(prefix(this.#waiters), last)] }, options),
    );
    const [ready, waiters] = responses as readonly [KV, RangeResult];
    // Over already: who is there now is there for the next round.
    return ready?.createRevision === round ? waiters.kvs[0] : undefined;
  }

  /** Ends a round in which nobody is any more, also one whose participants all died. */
  async #sweep(round: bigint, options: CallOptions): Promise<void> {
    const empty = [compare.missing(prefix(this.#waiters)), compare.createRevision(this.#ready, '==', round)];
    // A put that belongs to this round, and arrives later, finds another epoch.
    const ending = [op.delete(this.#ready), op.put(this.#epoch, '')] as const;
    await this.#session.client.txn({ if: empty, then: ending }, options);
  }

  async #alone(what: string, allowed: boolean, action: () => Promise<void>): Promise<void> {
    if (this.#busy || !allowed) {
      const entered = this.#participant === undefined ? 'when not entered' : 'when entered already';
      const state = this.#busy ? 'while a call of it is under way' : entered;
      throw invalidInput(what, state, 'enter, then leave, one after the other; one object a participant');
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

/** What nobody can tell any more counts as not entered: that holds up nobody. */
function unknownAfterCompaction(error: unknown): false {
  if (error instanceof EtcdError && error.reason === 'Compacted') return false;
  throw error;
}

function full(count: number): EtcdError {
  return new EtcdError(`the barrier is for ${count}, and as many have entered already`, {
    code: 'FailedPrecondition',
    reason: 'BarrierFull',
    outcome: 'rejected',
  });
}
