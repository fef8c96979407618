import {
  type BytesLike,
  checkInt64,
  checkOptions,
  checkSignal,
  compareBytes,
  type Int64Like,
  iterate,
  toBytes,
} from '../base/index.js';
import {
  type CoreKeyspace,
  checkClient,
  compare,
  type KeyValue,
  op,
  prefix,
  withFirstCreate,
} from '../client/index.js';
import { mirrorOf, RangeFold } from '../extras/ranges/index.js';
import { type CallOptions, checkCallOptions, type WithHeader, withHeader } from '../rpc/index.js';
import { acquire, sharedContender } from './acquire.js';
import { Held, hold, RELEASE_OPTIONS, type ReleaseOptions } from './held.js';
import { checkName, keyGone, type OwnKey, queueKey, readIfFirst } from './lock-queue.js';
import { checkSession, type Session } from './session.js';
import { type LockOptions, type WaitOptions, withinLimit } from './waiting.js';

const OBSERVE_OPTIONS = { signal: checkSignal } as const;

/**
 * The leadership that a candidate has won. The value of its `key` is the proclaimed value. Its `token` is a fencing
 * token.
 *
 * @example
 * const leadership = await election.campaign('host-1');
 * await leadership.proclaim('host-1:8080');
 * await leadership.resign();
 */
export class Leadership extends Held {
  /** Mod revision of the latest put of the key that this client has seen. */
  #modRevision: bigint;

  /** @internal */
  constructor(session: Session, name: string, own: OwnKey, leaveLocalQueue: () => void) {
    super(session, name, own, leaveLocalQueue);
    this.#modRevision = own.modRevision;
  }

  /**
   * Changes the leader's value. The transaction checks the mod revision of the previous value, so that a copy of the
   * request that arrives late cannot restore an old value (rule S25 in docs/semantics.md).
   *
   * @throws EtcdError with reason `LockLost` if the session is no longer the leader, or `LockReleased` after `resign`.
   */
  async proclaim(value: BytesLike, options?: CallOptions): Promise<WithHeader<object>> {
    checkCallOptions(options, 'Leadership.proclaim');
    const own = toBytes(value, 'value');
    const { key } = this;
    for (;;) {
      const { header, succeeded, responses } = await this.txn(
        {
          if: [compare.modRevision(key, '==', this.#modRevision)],
          then: [op.put(key, own, { lease: this.session.leaseId })],
          else: [op.get(key)],
        },
        options,
      );
      const found = succeeded ? undefined : responses[0];
      // The mod revision differs because a copy of this request or of an earlier one took effect, or because another
      // client put the key.
      this.#modRevision = found?.modRevision ?? header.revision;
      if (succeeded || (found !== undefined && compareBytes(found.value, own) === 0)) return withHeader(header, {});
    }
  }

  /** Gives up the leadership. Same as `release`. */
  async resign(options?: ReleaseOptions): Promise<void> {
    checkOptions(options, RELEASE_OPTIONS, 'resign');
    return this.release(options);
  }
}

/**
 * Elects one leader among candidates, in the order in which they campaign. Go's `concurrency.Election` and `etcdctl
 * elect` use the same keys, so at most one candidate for a name leads at a time. An election and a mutex with the same
 * name share one queue. The rules for names that contain "/" are those of `Mutex`.
 *
 * @example
 * const election = new Election(session, 'scheduler');
 * await using leadership = await election.campaign('host-1');
 * await work({ signal: leadership.signal });
 */
export class Election {
  readonly name: string;
  readonly #session: Session;

  /** @throws EtcdError with reason `InvalidInput` if an argument is invalid. */
  constructor(session: Session, name: string) {
    this.name = checkName(name);
    this.#session = checkSession(session);
  }

  /**
   * Waits until the session is the leader, with `value` as the proclaimed value. @throws EtcdError, see `WaitOptions`.
   */
  async campaign(value: BytesLike, options: LockOptions = {}): Promise<Leadership> {
    const contender = sharedContender(this.#session, this.name, toBytes(value, 'value'));
    return acquire('campaign', contender, options, Leadership);
  }

  /**
   * Becomes leader again without a new campaign, if the session's lease already holds the leadership: for example,
   * after the program has restarted and opened a session with its previous lease. `token` is the token of that
   * leadership.
   *
   * @throws EtcdError with reason `LockLost` if the session's lease does not hold the leadership with this token.
   */
  async resume(token: Int64Like, options: WaitOptions = {}): Promise<Leadership> {
    const createRevision = checkInt64(token, 'token', 1n);
    const session = this.#session;
    const { client } = session;
    const wanted = queueKey(this.name, session.leaseId);
    return withinLimit('resume', options, session.signal, async ({ waiting }) => {
      const leaveLocalQueue = await session.localQueue(wanted.key).enter(waiting.signal);
      try {
        const own = await readIfFirst(client, wanted, waiting);
        if (own?.createRevision !== createRevision) throw keyGone();
        return hold(Leadership, session, this.name, own, leaveLocalQueue);
      } catch (error) {
        leaveLocalQueue();
        throw error;
      }
    });
  }

  /** Returns the leader's key with the proclaimed value, or undefined if there is no leader. */
  async leader(options?: CallOptions): Promise<KeyValue | undefined> {
    checkCallOptions(options, 'Election.leader');
    const { kvs } = await this.#session.client.range(prefix(`${this.name}/`), { ...options, ...withFirstCreate() });
    return kvs[0];
  }

  /**
   * Yields the key of the current leader, and then the leader's key after each change of leader and each proclamation,
   * once and in order, until the caller leaves the loop. If `signal` aborts, the loop throws an error with reason
   * `Canceled`. If etcd compacts its history while the client cannot reach the cluster, changes from that time may be
   * missing (rule S26 in docs/semantics.md).
   *
   * @example
   * for await (const leader of election.observe()) console.log(leader.text());
   */
  observe(options: Pick<WaitOptions, 'signal'> = {}): AsyncGenerator<KeyValue, void> {
    return observe(this.#session.client, this.name, options);
  }
}

/**
 * Yields the key of the current leader of an election, and then the leader's key after each change of leader and each
 * proclamation, once and in order, until the caller leaves the loop. If `signal` aborts, the loop throws an error with
 * reason `Canceled`. Needs no session, unlike `Election.observe`. `name` may also be the name of a `Mutex`.
 *
 * @example
 * for await (const leader of observe(etcd, 'scheduler')) console.log(leader.text());
 */
export function observe(
  client: CoreKeyspace,
  name: string,
  options: Pick<WaitOptions, 'signal'> = {},
): AsyncGenerator<KeyValue, void> {
  checkOptions(options, OBSERVE_OPTIONS, 'observe');
  checkName(name);
  checkClient(client);
  return iterate(options.signal, (signal) => leaders(client, name, signal));
}

async function* leaders(client: CoreKeyspace, name: string, signal: AbortSignal): AsyncGenerator<KeyValue, void> {
  const candidates = new RangeFold();
  let last: KeyValue | undefined;
  for await (const message of mirrorOf(client, prefix(`${name}/`), { signal })) {
    if (!candidates.take(message)) continue;
    const leader = firstCreated(candidates.all());
    if (leader === undefined || isSame(leader, last)) continue;
    last = leader;
    yield leader;
  }
}

function firstCreated(kvs: readonly KeyValue[]): KeyValue | undefined {
  let first: KeyValue | undefined;
  for (const kv of kvs) if (first === undefined || kv.createRevision < first.createRevision) first = kv;
  return first;
}

function isSame(a: KeyValue, b: KeyValue | undefined): boolean {
  return b !== undefined && a.modRevision === b.modRevision && compareBytes(a.keyBytes, b.keyBytes) === 0;
}
