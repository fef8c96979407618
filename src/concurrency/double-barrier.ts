import { checkCount } from '../arguments.js';
import { EtcdError, invalidInput } from '../errors.js';
import { prefix } from '../kv/key-range.js';
import type { KeyValue } from '../kv/key-value.js';
import { withLastCreate, withSort } from '../kv/range-presets.js';
import type { RangeResult } from '../kv/results.js';
import { compare } from '../txn/compare.js';
import { op } from '../txn/op.js';
import { checkName, entryGone, leaveQueue, leaveQueueIfEntered, uniqueKey, watchEntry } from './queue-entry.js';
import type { Seat } from './seat.js';
import type { Session } from './session.js';
import { settledWithin, untilAnswered, type WaitOptions, waitLimit } from './wait-limit.js';
import { watchUntil } from './watch-until.js';

const CLEANUP_WAIT_MS = 1_000;

interface Participant {
  readonly key: string;
  readonly revision: bigint;
  /** The seat of the key is free again. */
  readonly free: () => void;
}

/**
 * A number of participants that begin together, when all have entered, and end together, when all have left: the
 * `DoubleBarrier` of Go's recipes, on its keys. A participant whose session is lost counts as gone. It can be entered
 * again once all have left; who comes earlier waits for that.
 */
export class DoubleBarrier {
  readonly name: string;
  readonly count: number;
  readonly #session: Session;
  readonly #waiters: string;
  readonly #ready: string;
  #participant: Participant | undefined;
  #busy = false;

  /** @throws EtcdError, reason `InvalidInput`. */
  constructor(session: Session, name: string, count: number) {
    this.name = checkName(name);
    this.count = Number(checkCount(count, 'count', 1n));
    this.#session = session;
    this.#waiters = `${name}/waiters/`;
    this.#ready = `${name}/ready`;
  }

  /**
   * Waits until `count` participants have entered. A wait that is given up counts as not entered.
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
    const { client, leaseId: lease, signal: lifetime } = this.#session;
    const limit = waitLimit('enter', options, lifetime);
    const key = uniqueKey(this.#waiters, lease);
    const seat = this.#session.seat(key);
    let free = (): void => {};
    let revision: bigint | undefined;
    try {
      free = await seat.localQueue.enter(limit.signal);
      const { place, createRevision, seenAt } = await this.#put(key, seat, limit.signal);
      revision = createRevision;
      seat.claim(revision);
      if (place > this.count) throw full(this.count);
      const entry = { key, prefix: this.#waiters, lease, revision, seenAt };
      const stopWatching = watchEntry(client, entry, (gone) => limit.end(gone));
      try {
        if (place === this.count) await this.#begin(limit.signal);
        await this.#whenReady(key, revision, limit.signal);
      } finally {
        stopWatching();
      }
      this.#participant = { key, revision, free };
    } catch (error) {
      const withdrawn = (
        revision === undefined
          ? leaveQueueIfEntered(client, key, lifetime)
          : leaveQueue(client, key, revision, lifetime)
      ).catch(() => {});
      await settledWithin(CLEANUP_WAIT_MS, withdrawn.finally(free));
      throw limit.signal.aborted ? limit.signal.reason : error;
    } finally {
      limit.dispose();
    }
  }

  /** Puts the own key, not before the round of before is over, and tells which in line it is. */
  async #put(
    key: string,
    seat: Seat,
    signal: AbortSignal,
  ): Promise<{ readonly place: number; readonly createRevision: bigint; readonly seenAt: bigint }> {
    const { client, leaseId: lease } = this.#session;
    const inOrder = { ...withSort('create', 'ascend'), keysOnly: true };
    return watchUntil(client, { keys: this.#ready, wake: 'delete' }, signal, async (options) => {
      const result = await client
        .txn(
          {
            if: [compare.createRevision(this.#ready, '==', 0n)],
            then: [op.put(key, '', { lease }), op.range(prefix(this.#waiters), inOrder)],
          },
          options,
        )
        .catch((error: unknown) => {
          if (error instanceof EtcdError && error.outcome === 'unknown') seat.guard();
          throw error;
        });
      if (!result.succeeded) {
        await this.#sweep(signal);
        return undefined;
      }
      const { kvs } = result.responses[1];
      const index = kvs.findIndex((kv) => kv.keyText() === key);
      return {
        place: index + 1,
        createRevision: (kvs[index] as KeyValue).createRevision,
        seenAt: result.header.revision,
      };
    });
  }

  /** Everybody is there. Without a lease: the round lasts until the last has left, whoever that is. */
  async #begin(signal: AbortSignal): Promise<void> {
    const absent = [compare.createRevision(this.#ready, '==', 0n)];
    await untilAnswered(signal, (options) =>
      this.#session.client.txn({ if: absent, then: [op.put(this.#ready, '')] }, options),
    );
  }

  #whenReady(key: string, revision: bigint, signal: AbortSignal): Promise<true> {
    const { client } = this.#session;
    return watchUntil(client, { keys: this.#ready, wake: 'put' }, signal, async (options) => {
      const { responses } = await client.txn({ then: [op.get(key), op.get(this.#ready)] }, options);
      const [own, ready] = responses as readonly (KeyValue | undefined)[];
      if (own?.createRevision !== revision) throw entryGone();
      return ready === undefined ? undefined : true;
    });
  }

  async #leave(options: WaitOptions): Promise<void> {
    const { client, signal: lifetime } = this.#session;
    const { key, revision, free } = this.#participant as Participant;
    const limit = waitLimit('leave', options, lifetime);
    try {
      await leaveQueue(client, key, revision, limit.signal);
      let last = await this.#lastThere(limit.signal);
      while (last !== undefined) {
        const { key: other, createRevision } = last;
        await watchUntil(client, { keys: other, wake: 'delete' }, limit.signal, async (callOptions) => {
          const kv = await client.get(other, callOptions);
          return kv?.createRevision === createRevision ? undefined : true;
        });
        last = await this.#lastThere(limit.signal);
      }
      await this.#sweep(limit.signal);
      this.#participant = undefined;
      free();
    } catch (error) {
      throw limit.signal.aborted ? limit.signal.reason : error;
    } finally {
      limit.dispose();
    }
  }

  /** One that has not left yet: the last that entered, so that all wait for one, and seldom for many in turn. */
  async #lastThere(signal: AbortSignal): Promise<KeyValue | undefined> {
    const { client } = this.#session;
    const last = { ...withLastCreate(), keysOnly: true };
    const { responses } = await untilAnswered(signal, (options) =>
      client.txn({ then: [op.get(this.#ready), op.range(prefix(this.#waiters), last)] }, options),
    );
    const [ready, waiters] = responses as readonly [KeyValue | undefined, RangeResult];
    // Over already: who is there now is there for the next round.
    return ready === undefined ? undefined : waiters.kvs[0];
  }

  /** Ends a round in which nobody is any more, also one whose participants all died. */
  async #sweep(signal: AbortSignal): Promise<void> {
    const empty = [compare.createRevision(prefix(this.#waiters), '==', 0n)];
    await untilAnswered(signal, (options) =>
      this.#session.client.txn({ if: empty, then: [op.delete(this.#ready)] }, options),
    );
  }

  async #alone(what: string, allowed: boolean, action: () => Promise<void>): Promise<void> {
    if (this.#busy || !allowed) {
      const state = this.#busy ? 'while a call of it is under way' : allowed ? '' : `when ${this.#state()}`;
      throw invalidInput(what, state, 'enter, then leave, one after the other; one object a participant');
    }
    this.#busy = true;
    try {
      await action();
    } finally {
      this.#busy = false;
    }
  }

  #state(): string {
    return this.#participant === undefined ? 'not entered' : 'entered already';
  }
}

function full(count: number): EtcdError {
  return new EtcdError(`the barrier is for ${count}, and as many have entered already`, {
    code: 'FailedPrecondition',
    reason: 'BarrierFull',
    outcome: 'rejected',
  });
}
