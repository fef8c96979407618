import { type CallOptions, checkCallOptions } from '../channel/rpc.js';
import { compare } from '../kv/compare.js';
import { prefix } from '../kv/key-range.js';
import type { KeyValue } from '../kv/key-value.js';
import { op } from '../kv/op.js';
import { withFirstCreate } from '../kv/range-presets.js';
import type { WithHeader } from '../kv/results.js';
import { checkInt64, checkOptions } from '../runtime/arguments.js';
import { type BytesLike, compareBytes, toBytes } from '../runtime/bytes.js';
import { Held, UNLOCK_OPTIONS, type UnlockOptions } from './held.js';
import { checkName, entryGone, type QueueEntry, type QueueKey, queueKey, readTurn } from './queue-entry.js';
import { checkSession, type Session } from './session.js';
import { takeTurn } from './turn.js';
import { type WaitOptions, waitLimit } from './wait-limit.js';

const OBSERVE_OPTIONS = { signal: true } as const;

/** Being the leader. Its `key` bears the value proclaimed, its `token` fences writes; `resign` gives it up. */
export class Leadership extends Held {
  /** Revision of the key's latest put that is known here. */
  #modRevision: bigint;

  /** @internal */
  constructor(session: Session, name: string, entry: QueueEntry, leave: () => void) {
    super(session, name, entry, leave);
    this.#modRevision = entry.modRevision;
  }

  /**
   * Gives the leader a new value. The put compares the revision of the value before, so that a copy of the request that
   * arrives late cannot bring an old value back.
   *
   * @throws EtcdError, reason `LockLost`, where it does not lead any more.
   */
  async proclaim(value: BytesLike, options?: CallOptions): Promise<WithHeader<object>> {
    checkCallOptions(options, 'Leadership.proclaim');
    for (;;) {
      const put = op.put(this.key, value, { lease: this.session.leaseId });
      const isUnchanged = [compare.modRevision(this.key, '==', this.#modRevision)];
      const { header, succeeded, responses } = await this.txn(
        { if: isUnchanged, then: [put], else: [op.get(this.key)] },
        options,
      );
      if (succeeded) {
        this.#modRevision = header.revision;
        return { header };
      }
      // An earlier proclamation came through without an answer, or somebody else put the key.
      this.#modRevision = responses[0]?.modRevision ?? 0n;
    }
  }

  /** As `unlock`: `signal` aborts with reason `LockReleased`. */
  async resign(options?: UnlockOptions): Promise<void> {
    checkOptions(options, UNLOCK_OPTIONS, 'resign');
    return this.unlock(options);
  }
}

/**
 * One leader among candidates, in the order in which they came, understood by Go's `concurrency.Election` and
 * `etcdctl elect`. What is said of the names of a `Mutex` holds here too; an election and a mutex of one name are one
 * queue.
 */
export class Election {
  readonly name: string;
  readonly #session: Session;

  /** @throws EtcdError, reason `InvalidInput`. */
  constructor(session: Session, name: string) {
    this.name = checkName(name);
    this.#session = checkSession(session);
  }

  /** Waits to be elected; the value is proclaimed from then on. @throws EtcdError, see `WaitOptions`. */
  async campaign(value: BytesLike, options: WaitOptions = {}): Promise<Leadership> {
    const contender = { session: this.#session, key: this.#key(), value: toBytes(value, 'value') };
    return takeTurn('campaign', contender, options, (entry, leave) =>
      Leadership.begin(this.#session, this.name, entry, leave),
    );
  }

  /**
   * The leadership that this session's lease has already, as after a restart of the program with the lease of before;
   * `token` is that of the leadership. @throws EtcdError, reason `LockLost`, where the lease does not lead with it.
   */
  async resume(token: bigint, options: WaitOptions = {}): Promise<Leadership> {
    checkInt64(token, 'token', 1n);
    const session = this.#session;
    const limit = waitLimit('resume', options, session.signal);
    try {
      limit.signal.throwIfAborted();
      const seat = session.seat(this.#key().key);
      const leave = await seat.localQueue.enter(limit.signal);
      try {
        const entry = await readTurn(session.client, this.#key(), limit.signal);
        if (entry?.revision !== token) throw entryGone();
        seat.claim(token);
        return Leadership.begin(session, this.name, entry, leave);
      } catch (error) {
        leave();
        throw error;
      }
    } catch (error) {
      throw limit.endedBy(error);
    } finally {
      limit.dispose();
    }
  }

  /** The leader's key, whose value is what it proclaimed; undefined where nobody leads. */
  async leader(options?: CallOptions): Promise<KeyValue | undefined> {
    checkCallOptions(options, 'Election.leader');
    const { kvs } = await this.#session.client.range(prefix(`${this.name}/`), { ...options, ...withFirstCreate() });
    return kvs[0];
  }

  /**
   * The leader now, and then every leader and every proclamation, each once and in order, until the loop is left or
   * `signal` aborts. Leaders that came and went while history was compacted, and nobody could look, are left out.
   */
  async *observe(options: Pick<WaitOptions, 'signal'> = {}): AsyncGenerator<KeyValue, void> {
    checkOptions(options, OBSERVE_OPTIONS, 'observe');
    const { signal } = options;
    const candidates = new Map<string, KeyValue>();
    let synced = false;
    let told: KeyValue | undefined;
    for await (const message of this.#session.client.mirror(prefix(`${this.name}/`), { signal })) {
      switch (message.type) {
        case 'resync':
          candidates.clear();
          synced = false;
          break;
        case 'keys':
          for (const kv of message.kvs) candidates.set(kv.keyText(), kv);
          break;
        case 'synced':
          synced = true;
          break;
        case 'events':
          for (const { type, kv } of message.events) {
            if (type === 'put') candidates.set(kv.keyText(), kv);
            else candidates.delete(kv.keyText());
          }
          break;
      }
      const leader = synced ? firstCreated(candidates.values()) : undefined;
      if (leader === undefined || isSame(leader, told)) continue;
      told = leader;
      yield leader;
    }
  }

  #key(): QueueKey {
    return queueKey(this.name, this.#session.leaseId);
  }
}

function firstCreated(kvs: Iterable<KeyValue>): KeyValue | undefined {
  let first: KeyValue | undefined;
  for (const kv of kvs) if (first === undefined || kv.createRevision < first.createRevision) first = kv;
  return first;
}

function isSame(a: KeyValue, b: KeyValue | undefined): boolean {
  return b !== undefined && a.modRevision === b.modRevision && compareBytes(a.key, b.key) === 0;
}
