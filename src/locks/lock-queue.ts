import {
  after,
  type BytesLike,
  checkName as checkNotEmpty,
  compareBytes,
  EtcdError,
  type Outcome,
  pause,
  randomId,
  toBytes,
} from '../base/index.js';
import {
  type Compare,
  type CoreKeyspace,
  compare,
  type KeyValue,
  op,
  type PreparedTxn,
  prefix,
  preparedTxn,
  type Watch,
  withFirstCreate,
  withLastCreate,
  withMaxCreateRev,
} from '../client/index.js';
import type { GuardedWrite } from './guards.js';
import { isWatchInterrupted, nextBatch, REWATCH_MS, untilAnswered, untilDone, type Waiting } from './waiting.js';

// The queue of a lock in etcd: the keys under one prefix, in the order of their create revisions. Each contender puts
// one key, its queue key, under its lease. The contender whose key was created first holds the lock. The other
// contenders wait.
//
// Why only one contender holds the lock at a time: create revisions are unique and never change, so the order of two
// queue keys never changes, and a new key comes after all keys that exist. A contender holds the lock only after a read
// that shows its own key and no key before it. The keys before it can only disappear, so its key stays first until that
// key is deleted or its lease ends. This is true even if the read shows an old revision of the store (rule S20 in
// docs/semantics.md).

/** Milliseconds before a holder or a waiter watches its own key. Most holds and waits end sooner, without a watch. */
export const WATCH_AFTER_MS = { holder: 10, waiter: 100 } as const;

/** The queue key of one contender, and the queue in which the contender waits. */
export interface QueueKey {
  readonly key: string;
  /** The contender waits for every key under this prefix that was created before `key`. */
  readonly prefix: string;
  readonly lease: bigint;
}

/** A contender's queue key as it exists in etcd. */
export interface OwnKey extends QueueKey {
  readonly createRevision: bigint;
  readonly modRevision: bigint;
  /** Store revision of the response from which these revisions come. */
  readonly seenAt: bigint;
}

/** Returns the name. @throws EtcdError with reason `InvalidInput` if it is empty or not well-formed Unicode. */
export function checkName(name: string, argument = 'name'): string {
  toBytes(checkNotEmpty(name, argument), argument);
  return name;
}

/**
 * Returns the queue key for the lock `name` in the session with this lease. All callers that want this lock in the
 * session share the key. The key has the same layout as in Go's `concurrency` package and etcdctl (rule S17 in
 * docs/semantics.md).
 */
export function queueKey(name: string, lease: bigint): QueueKey {
  return { key: `${name}/${lease.toString(16)}`, prefix: `${name}/`, lease };
}

export function uniqueKey(prefix: string, lease: bigint): string {
  return `${prefix}${lease.toString(16)}-${randomId().toString(16).padStart(16, '0')}`;
}

export interface Enqueued {
  readonly own: OwnKey;
  /** A key that is before the contender's own key in the queue, if there is one. */
  readonly predecessor: KeyValue | undefined;
  /** The value of the contender's own key, if the key existed before. */
  readonly value: Uint8Array | undefined;
}

type OwnAndFirst = readonly [own: KeyValue | undefined, first: { readonly kvs: readonly KeyValue[] }];

/**
 * Puts a queue key, and reads the key right before it. If the condition is false, reads the queue key and the first
 * key.
 */
export type QueueKeyTxn = PreparedTxn<
  | { readonly succeeded: true; readonly responses: readonly [{ readonly kvs: readonly KeyValue[] }, ...unknown[]] }
  | { readonly succeeded: false; readonly responses: OwnAndFirst }
>;
/** The guarded write of a queue key. */
export type QueueKeyPut = GuardedWrite<ReturnType<QueueKeyTxn['resultOf']>>;

/** Returns the transaction that puts the queue key unless it exists (S17). */
export function putUnlessExists(queueKey: QueueKey, value: BytesLike): QueueKeyTxn {
  return putIf(compare.createRevision(queueKey.key, '==', 0n), queueKey, value);
}

/** Returns the transaction that puts the queue key if the queue is empty. */
export function putIfFirst(queueKey: QueueKey, value: BytesLike): QueueKeyTxn {
  // If the range contains no keys, etcd checks the condition as for a missing key, whose create revision is 0.
  return putIf(compare.createRevision(prefix(queueKey.prefix), '==', 0n), queueKey, value);
}

function putIf(condition: Compare, { key, prefix: queue, lease }: QueueKey, value: BytesLike) {
  return preparedTxn({
    if: [condition],
    then: [op.range(prefix(queue), { ...withLastCreate(), keysOnly: true }), op.put(key, value, { lease })],
    else: ownAndFirst(key, queue),
  });
}

/**
 * Puts the queue key, and returns it. The key may exist already, because an earlier session with the same lease has put
 * it. Returns undefined if the condition of the put was false and the key does not exist.
 */
export async function enqueue(
  client: CoreKeyspace,
  queueKey: QueueKey,
  waiting: Waiting,
  put: QueueKeyPut,
): Promise<Enqueued | undefined> {
  const { revision, succeeded, result } = await untilAnswered(waiting, (options) => put.send(options));
  if (result?.succeeded) {
    const [range] = result.responses;
    return { own: newKey(queueKey, revision), predecessor: range.kvs[0], value: undefined };
  }
  const { key, prefix: queue } = queueKey;
  let [seenAt, shown]: [bigint, OwnAndFirst | undefined] = [revision, result?.responses];
  if (shown === undefined) {
    // The answer was lost. Read what it would have shown.
    const read = await untilAnswered(waiting, (options) => client.txn({ then: ownAndFirst(key, queue) }, options));
    [seenAt, shown] = [read.header.revision, read.responses];
  }
  const [found, { kvs }] = shown;
  if (found === undefined && succeeded) throw keyGone();
  if (found === undefined) return undefined;
  const first = kvs[0];
  const predecessor = first !== undefined && first.createRevision < found.createRevision ? first : undefined;
  return { own: ownKey(queueKey, found, seenAt), predecessor, value: found.value };
}

function ownAndFirst(key: string, queue: string) {
  return [op.get(key), op.range(prefix(queue), { ...withFirstCreate(), keysOnly: true })] as const;
}

function newKey({ key, prefix, lease }: QueueKey, revision: bigint): OwnKey {
  return { key, prefix, lease, createRevision: revision, modRevision: revision, seenAt: revision };
}

function ownKey(queueKey: QueueKey, { createRevision, modRevision }: KeyValue, seenAt: bigint): OwnKey {
  return { ...queueKey, createRevision, modRevision, seenAt };
}

/**
 * Sets the value of the queue key if it existed before with another value. The transaction checks the mod revision, so
 * a copy of the request that arrives late cannot restore an old value.
 */
export async function withValue(
  client: CoreKeyspace,
  { own, value: found }: Enqueued,
  value: BytesLike,
  waiting: Waiting,
): Promise<OwnKey> {
  const wanted = toBytes(value, 'value');
  const { key, lease, createRevision } = own;
  let { modRevision } = own;
  for (let seen = found; seen !== undefined && compareBytes(seen, wanted) !== 0; ) {
    const change = {
      if: [compare.modRevision(key, '==', modRevision)],
      then: [op.put(key, wanted, { lease })],
      else: [op.get(key)],
    } as const;
    const { header, succeeded, responses } = await untilAnswered(waiting, (options) => client.txn(change, options));
    if (succeeded) return { ...own, modRevision: header.revision };
    const current = responses[0];
    if (current?.createRevision !== createRevision) throw keyGone();
    seen = current.value;
    modRevision = current.modRevision;
  }
  return { ...own, modRevision };
}

/**
 * Waits until no key is before the waiter's own key. Each waiter watches the key right before its own, so that a
 * release wakes only one waiter (S18). Resolves with the revision at which the waiter has last seen its own key.
 *
 * If a watch starts at the current revision, etcd sends its events at once. If a watch starts at a past revision, etcd
 * sends its events only every 100 ms. So the waiter creates a watch that starts at the current revision. If the store
 * has changed since the waiter saw the predecessor, the waiter checks whether the predecessor is still in the queue,
 * because it may have left before the watch was created (S19).
 *
 * @throws EtcdError with reason `LockLost` if the waiter's own key is gone.
 */
export async function waitUntilFirst(client: CoreKeyspace, enqueued: Enqueued, waiting: Waiting): Promise<bigint> {
  const { own } = enqueued;
  let before: Before = { predecessor: enqueued.predecessor, seenAt: own.seenAt };
  while (before.predecessor !== undefined) {
    const { predecessor, seenAt } = before;
    const deletion = client.watch(predecessor.keyBytes, { ...waiting, only: 'delete' });
    try {
      if ((await deletion.created()) !== seenAt) before = await readUnlessAhead(predecessor, client, own, waiting);
      // The create revision identifies the predecessor, because its session may have left the queue and put the key
      // again.
      if (before.predecessor?.createRevision !== predecessor.createRevision) continue;
      const { revision } = await nextBatch(deletion.batches());
      before = await readBefore(client, own, waiting, revision);
    } catch (error) {
      if (!isWatchInterrupted(error)) throw error;
      await pause(REWATCH_MS, waiting.signal);
      before = await readBefore(client, own, waiting);
    } finally {
      // Do not wait until the watch is closed, because the waiter may hold the lock now.
      void deletion.close();
    }
  }
  return before.seenAt;
}

/** The key right before the waiter's own key, if there is one, at the revision `seenAt` of the store. */
interface Before {
  readonly predecessor: KeyValue | undefined;
  readonly seenAt: bigint;
}

/**
 * Reads the waiter's own key and the key right before it in one transaction: without a predecessor, the waiter is first
 * only if its own key still exists (S20). If `after` is the revision of a received event, the member that has sent it
 * usually answers from its own data. If the answer is older, the waiter reads linearizably.
 *
 * @throws EtcdError with reason `LockLost` if the waiter's own key is gone.
 */
async function readBefore(client: CoreKeyspace, own: OwnKey, waiting: Waiting, after?: bigint): Promise<Before> {
  const { header, responses } = await untilAnswered(waiting, (options) =>
    client.txn({ then: ownAndBefore(own, after !== undefined) }, options),
  );
  if (after !== undefined && header.revision < after) return readBefore(client, own, waiting);
  return existing(own, header.revision, responses[0], responses[1].kvs[0]);
}

/**
 * Like `readBefore`, but looks for the key right before the waiter's own key only if `predecessor` has left the queue,
 * because the server reads all keys of the queue to find that key.
 */
async function readUnlessAhead(
  predecessor: KeyValue,
  client: CoreKeyspace,
  own: OwnKey,
  waiting: Waiting,
): Promise<Before> {
  const isAhead = compare.createRevision(predecessor.keyBytes, '==', predecessor.createRevision);
  const { header, succeeded, responses } = await untilAnswered(waiting, (options) =>
    client.txn({ if: [isAhead], then: [op.get(own.key)], else: ownAndBefore(own, false) }, options),
  );
  return existing(own, header.revision, responses[0], succeeded ? predecessor : responses[1].kvs[0]);
}

function ownAndBefore({ key, prefix: queue, createRevision }: OwnKey, serializable: boolean) {
  const before = { ...withLastCreate(), ...withMaxCreateRev(createRevision - 1n), keysOnly: true, serializable };
  return [op.get(key, { serializable }), op.range(prefix(queue), before)] as const;
}

/** Returns the result of a read. @throws EtcdError with reason `LockLost` if `found` is not the waiter's own key. */
function existing(own: OwnKey, seenAt: bigint, found: KeyValue | undefined, predecessor: KeyValue | undefined): Before {
  if (found?.createRevision !== own.createRevision) throw keyGone();
  return { predecessor, seenAt };
}

/** Reads the queue key. Returns undefined unless the key exists and is the first in its queue. */
export async function readIfFirst(
  client: CoreKeyspace,
  queueKey: QueueKey,
  waiting: Waiting,
): Promise<OwnKey | undefined> {
  const { header, responses } = await untilAnswered(waiting, (options) =>
    client.txn({ then: ownAndFirst(queueKey.key, queueKey.prefix) }, options),
  );
  const [found, range] = responses as readonly [KeyValue | undefined, { readonly kvs: readonly KeyValue[] }];
  if (found === undefined || range.kvs[0]?.createRevision !== found.createRevision) return undefined;
  return ownKey(queueKey, found, header.revision);
}

/**
 * Deletes a queue key. The call is safe to repeat, because its transaction checks the create revision: a copy of the
 * request that arrives late cannot delete a key that was put later. The attempts end when `lifetime` aborts. `lifetime`
 * must abort when the lease is lost, because etcd then deletes the key with it (S23, S25).
 */
export function leaveQueue(
  client: CoreKeyspace,
  key: BytesLike,
  createRevision: bigint,
  lifetime: Waiting,
): Promise<unknown> {
  return untilDone(lifetime, (options) =>
    client.txn({ if: [compare.createRevision(key, '==', createRevision)], then: [op.delete(key)] }, options),
  );
}

/**
 * Makes sure that the put of a key is not applied later. Deletes the key if the put was applied, unless the key has
 * been put again since. The attempts end when the lease is lost, because etcd then deletes the key with it.
 */
export async function undoPut(
  session: { readonly client: CoreKeyspace; readonly leaseId: bigint; readonly leaseSignal: AbortSignal },
  key: BytesLike,
  put: GuardedWrite<unknown>,
): Promise<void> {
  const { client, leaseId, leaseSignal: signal } = session;
  const applied = await untilDone({ signal }, (options) => put.settle(options));
  let modRevision = applied?.succeeded ? applied.revision : undefined;
  if (applied === undefined && put.mayBeApplied) {
    // Another client has deleted the guard of the put, or the server has refused the put.
    const found = await untilAnswered({ signal }, (options) => client.get(key, options));
    if (found?.lease === leaseId) modRevision = found.modRevision;
  }
  if (modRevision === undefined) return;
  const isOwn = [compare.modRevision(key, '==', modRevision)];
  await untilDone({ signal }, (options) => client.txn({ if: isOwn, then: [op.delete(key)] }, options));
}

/**
 * Watches the contender's own key after `afterMs`, and calls `gone` when the key has been deleted, or when the watch
 * fails. In this case, the error has a cause, and the key may still exist. The returned function stops the watch. The
 * watch starts at the revision after `seenAt`, so it misses no deletion.
 */
export function watchOwnKey(
  client: CoreKeyspace,
  own: Pick<OwnKey, 'key' | 'createRevision' | 'seenAt'>,
  gone: (error: EtcdError) => void,
  afterMs: number = WATCH_AFTER_MS.waiter,
): () => void {
  let stop = after(afterMs, () => {
    let watch: Watch | undefined;
    let recheck: AbortController | undefined;
    let isStopped = false;
    // Also releases the timer.
    stop = () => {
      isStopped = true;
      void watch?.close();
      recheck?.abort();
    };
    const deleted = async (): Promise<void> => {
      for (let startRevision = own.seenAt + 1n; !isStopped; ) {
        try {
          watch = client.watch(own.key, { only: 'delete', startRevision });
          await nextBatch(watch.batches());
          return;
        } catch (error) {
          if (!isWatchInterrupted(error)) throw error;
          // Created only now, because a program may hold thousands of locks, and a signal takes about 1 kB of memory.
          recheck = new AbortController();
          await pause(REWATCH_MS, recheck.signal);
          const { header, kvs } = await untilAnswered(recheck, (options) => client.range(own.key, options));
          if (kvs[0]?.createRevision !== own.createRevision) return;
          startRevision = header.revision + 1n;
        }
      }
    };
    // If the watch fails permanently, nothing shows that the key still exists, so the lock counts as lost. But a client
    // that closes ends only its watches: the key exists until the session ends.
    const report = (cause: unknown): void => {
      const isClosing = cause instanceof EtcdError && cause.reason === 'ClientClosed';
      if (isStopped || isClosing) return;
      gone(cause === undefined ? keyGone() : lockLost("the client cannot watch the caller's queue key", cause));
    };
    deleted().then(report, report);
  });
  return () => stop();
}

export function keyGone(): EtcdError {
  return lockLost("the caller's queue key no longer exists, because another client deleted it or its lease ended");
}

/** Returns an error with reason `LockLost`, or with reason `LockReleased` if that is the reason of `cause`. */
export function lockLost(problem: string, cause?: unknown, outcome: Outcome = 'rejected'): EtcdError {
  const isReleased = cause instanceof EtcdError && cause.reason === 'LockReleased';
  return new EtcdError(problem, { code: 'Aborted', reason: isReleased ? 'LockReleased' : 'LockLost', outcome, cause });
}
