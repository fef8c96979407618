import type { CallOptions } from '../channel/rpc.js';
import { clientClosed, EtcdError } from '../errors/etcd-error.js';
import type { Keyspace } from '../keyspace.js';
import { compare } from '../kv/compare.js';
import { prefix } from '../kv/key-range.js';
import type { KeyValue } from '../kv/key-value.js';
import { op } from '../kv/op.js';
import { withFirstCreate, withLastCreate, withMaxCreateRev } from '../kv/range-presets.js';
import { checkName as checkNotEmpty } from '../runtime/arguments.js';
import { type BytesLike, compareBytes, toBytes } from '../runtime/bytes.js';
import { randomId } from '../runtime/text.js';
import { after, pause } from '../runtime/timers.js';
import { untilAnswered, untilDone } from './wait-limit.js';
import { isPassing, REWATCH_MS } from './watch-until.js';

const WATCH_AFTER_MS = 100;
/** A reason given costs less than the one that would be made up, and nobody sees it. */
const STOPPED = 'stopped';

/** The key that stands for one contender. */
export interface QueueKey {
  readonly key: string;
  /** Those it waits for: all keys here that were created before it. */
  readonly prefix: string;
  readonly lease: bigint;
}

/** A place in a queue: the queue is the prefix, ordered by create revision; who finds nobody ahead has its turn. */
export interface QueueEntry extends QueueKey {
  /** Create revision of the own key. */
  readonly revision: bigint;
  /** Revision of its latest put. */
  readonly modRevision: bigint;
  /** Store revision of the answer that showed the entry. */
  readonly seenAt: bigint;
}

/** What of an entry its watch needs. */
type WatchedKey = Pick<QueueEntry, 'key' | 'revision' | 'seenAt'>;

/** @throws EtcdError, reason `InvalidInput`, unless it is well-formed text, and not empty. */
export function checkName(name: string): string {
  toBytes(checkNotEmpty(name, 'name'), 'name');
  return name;
}

/** A session's one key for a name, in the layout of Go's `concurrency` package and etcdctl. */
export function queueKey(name: string, lease: bigint): QueueKey {
  return { key: `${name}/${lease.toString(16)}`, prefix: `${name}/`, lease };
}

/** A key that no other contender has, whatever the session. */
export function uniqueKey(prefix: string, lease: bigint): string {
  return `${prefix}${lease.toString(16)}-${randomId().toString(16).padStart(16, '0')}`;
}

/**
 * Enters the queue, and tells which key is right ahead. Repeating it is safe: only one locker at a time uses the key, and
 * where an earlier attempt came through the next finds the key and leaves it alone. An attempt whose outcome is unknown
 * may come through later still, when the key is gone again: `onUnknown` hears of it.
 */
export async function enqueue(
  client: Keyspace,
  queueKey: QueueKey,
  value: BytesLike,
  signal: AbortSignal,
  onUnknown: () => void,
): Promise<{ readonly entry: QueueEntry; readonly ahead: KeyValue | undefined }> {
  const { key, prefix: queue, lease } = queueKey;
  const enter = (options: CallOptions) =>
    client.txn(
      {
        if: [compare.createRevision(key, '==', 0n)],
        then: [op.range(prefix(queue), { ...withLastCreate(), keysOnly: true }), op.put(key, value, { lease })],
        else: entered(key, queue),
      },
      options,
    );
  const result = await untilAnswered(signal, enter, onUnknown);
  const seenAt = result.header.revision;
  if (result.succeeded) return { entry: newEntry(queueKey, seenAt), ahead: result.responses[0].kvs[0] };
  const [own, { kvs }] = result.responses;
  if (own === undefined) throw entryGone();
  const first = kvs[0];
  const ahead = first !== undefined && first.createRevision < own.createRevision ? first : undefined;
  return { entry: await withValue(client, entryOf(queueKey, own, seenAt), own, value, signal, onUnknown), ahead };
}

/** The own key, if it is there, and the first of the queue. */
function entered(key: string, queue: string) {
  return [op.get(key), op.range(prefix(queue), { ...withFirstCreate(), keysOnly: true })] as const;
}

function newEntry(queueKey: QueueKey, revision: bigint): QueueEntry {
  return { ...queueKey, revision, modRevision: revision, seenAt: revision };
}

/** The entry that a key stands for, as an answer of the store at revision `seenAt` shows it. */
export function entryOf(queueKey: QueueKey, { createRevision, modRevision }: KeyValue, seenAt: bigint): QueueEntry {
  return { ...queueKey, revision: createRevision, modRevision, seenAt };
}

/**
 * Gives a key that an earlier attempt put the value that is wanted now. The put compares the revision that was read: a
 * copy of the request that arrives late finds another one, and does not bring an old value back.
 */
async function withValue(
  client: Keyspace,
  entry: QueueEntry,
  own: KeyValue,
  value: BytesLike,
  signal: AbortSignal,
  onUnknown: () => void,
): Promise<QueueEntry> {
  const wanted = toBytes(value, 'value');
  const { key, lease, revision } = entry;
  let seen = own;
  // The key is there: whatever becomes of the calls below, it has to be withdrawn where the wait ends.
  if (compareBytes(seen.value, wanted) !== 0) onUnknown();
  while (compareBytes(seen.value, wanted) !== 0) {
    const { modRevision } = seen;
    const change = (options: CallOptions) =>
      client.txn(
        {
          if: [compare.modRevision(key, '==', modRevision)],
          then: [op.put(key, wanted, { lease })],
          else: [op.get(key)],
        },
        options,
      );
    const { header, succeeded, responses } = await untilAnswered(signal, change, onUnknown);
    if (succeeded) return { ...entry, modRevision: header.revision };
    const there = responses[0];
    if (there?.createRevision !== revision) throw entryGone();
    seen = there;
  }
  return { ...entry, modRevision: seen.modRevision };
}

/** Enters the queue only where it is empty. Undefined: it was not. As to repeating, see `enqueue`. */
export async function enqueueIfEmpty(
  client: Keyspace,
  queueKey: QueueKey,
  value: BytesLike,
  signal: AbortSignal,
  onUnknown: () => void,
): Promise<QueueEntry | undefined> {
  const { key, prefix: queue, lease } = queueKey;
  const enter = (options: CallOptions) =>
    client.txn(
      {
        // A range without keys counts as one missing key, whose create revision is 0.
        if: [compare.createRevision(prefix(queue), '==', 0n)],
        then: [op.put(key, value, { lease })],
        else: entered(key, queue),
      },
      options,
    );
  const result = await untilAnswered(signal, enter, onUnknown);
  const seenAt = result.header.revision;
  if (result.succeeded) return newEntry(queueKey, seenAt);
  const [own, { kvs }] = result.responses;
  if (own === undefined) return undefined;
  const first = kvs[0];
  if (first === undefined || first.createRevision >= own.createRevision)
    return withValue(client, entryOf(queueKey, own, seenAt), own, value, signal, onUnknown);
  // An earlier attempt took this place in the queue, and no contender waits in it.
  await leaveQueue(client, key, own.createRevision, signal);
  return undefined;
}

/**
 * Waits until nobody is ahead. Each waiter watches the one right ahead of it, so a release wakes one.
 *
 * A watch from "now" is served at once, one from a past revision only every 100 ms; so the watch comes first, and when
 * it stands the queue is read again, for what happened in between. The own key is read in the same transaction: were it
 * gone, an empty queue ahead would mean nothing.
 */
export async function waitForTurn(
  client: Keyspace,
  entry: QueueEntry,
  ahead: KeyValue | undefined,
  signal: AbortSignal,
): Promise<void> {
  let predecessor = ahead;
  while (predecessor !== undefined) {
    const deletion = client.watch(predecessor.key, { filters: ['noPut'], signal });
    try {
      await deletion.created();
      let next = await readAhead(client, entry, signal);
      // By create revision: a session may have left and entered again under the same key.
      if (next?.createRevision === predecessor.createRevision) {
        await deletion.batches().next();
        next = await readAhead(client, entry, signal);
      }
      predecessor = next;
    } catch (error) {
      if (!isPassing(error)) throw error;
      await pause(REWATCH_MS, signal);
      predecessor = await readAhead(client, entry, signal);
    } finally {
      await deletion.close();
    }
  }
}

/** Who is right ahead. @throws EtcdError, reason `LockLost`, where the own key is gone. */
async function readAhead(client: Keyspace, entry: QueueEntry, signal: AbortSignal): Promise<KeyValue | undefined> {
  const ahead = { ...withLastCreate(), ...withMaxCreateRev(entry.revision - 1n), keysOnly: true };
  const { responses } = await untilAnswered(signal, (options) =>
    client.txn({ then: [op.get(entry.key), op.range(prefix(entry.prefix), ahead)] }, options),
  );
  const [own, range] = responses as readonly [KeyValue | undefined, { readonly kvs: readonly KeyValue[] }];
  if (own?.createRevision !== entry.revision) throw entryGone();
  return range.kvs[0];
}

/** The own entry, if it is there and has its turn. */
export async function readTurn(
  client: Keyspace,
  queueKey: QueueKey,
  signal: AbortSignal,
): Promise<QueueEntry | undefined> {
  const first = { ...withFirstCreate(), keysOnly: true };
  const { header, responses } = await untilAnswered(signal, (options) =>
    client.txn({ then: [op.get(queueKey.key), op.range(prefix(queueKey.prefix), first)] }, options),
  );
  const [own, range] = responses as readonly [KeyValue | undefined, { readonly kvs: readonly KeyValue[] }];
  if (own === undefined || range.kvs[0]?.createRevision !== own.createRevision) return undefined;
  return entryOf(queueKey, own, header.revision);
}

/**
 * Leaves the queue. The create revision makes repeating safe: a late repetition finds a newer key and leaves it alone.
 * `lifetime` ends the attempts: with the session the key goes by itself.
 */
export async function leaveQueue(
  client: Keyspace,
  key: BytesLike,
  revision: bigint,
  lifetime: AbortSignal,
): Promise<void> {
  await untilDone(lifetime, (options) =>
    client.txn({ if: [compare.createRevision(key, '==', revision)], then: [op.delete(key)] }, options),
  );
}

/**
 * Deletes a key where it is there under this lease: a put of it may have come through without an answer, or late. Under
 * another lease it is another contender's.
 */
export async function deleteLatePut(
  client: Keyspace,
  key: BytesLike,
  lease: bigint,
  lifetime: AbortSignal,
): Promise<void> {
  const own = await untilDone(lifetime, (options) => client.get(key, options));
  if (own?.lease !== lease) return;
  const isOwn = [compare.createRevision(key, '==', own.createRevision), compare.lease(key, '==', lease)];
  await untilDone(lifetime, (options) => client.txn({ if: isOwn, then: [op.delete(key)] }, options));
}

/**
 * Calls `gone` when the entry's key is deleted, by whomever, until the function returned is called. The watch covers
 * all since the entry was seen, but begins only after a moment: most waits and holds are over before.
 */
export function watchEntry(client: Keyspace, entry: WatchedKey, gone: (error: EtcdError) => void): () => void {
  const stop = new AbortController();
  const report = (cause?: unknown): void => {
    if (!stop.signal.aborted) gone(entryGone(cause));
  };
  const callOff = after(WATCH_AFTER_MS, () => {
    // A watch that fails for good leaves nobody who could tell whether the key is there: then it counts as gone.
    entryDeleted(client, entry, stop.signal).then(() => report(), report);
  });
  return () => {
    callOff();
    stop.abort(STOPPED);
  };
}

async function entryDeleted(client: Keyspace, entry: WatchedKey, signal: AbortSignal): Promise<void> {
  let startRevision = entry.seenAt + 1n;
  for (;;) {
    try {
      const deletion = client.watch(entry.key, { filters: ['noPut'], startRevision, signal });
      const { done } = await deletion.batches().next();
      // A watch that is closed with its client tells nothing of the key, and the session ends by itself.
      if (done) throw clientClosed();
      return;
    } catch (error) {
      if (!isPassing(error)) throw error;
      await pause(REWATCH_MS, signal);
      const { header, kvs } = await untilAnswered(signal, (options) => client.range(entry.key, options));
      if (kvs[0]?.createRevision !== entry.revision) return;
      startRevision = header.revision + 1n;
    }
  }
}

export function entryGone(cause?: unknown): EtcdError {
  return new EtcdError('the key that stood for the holder is gone: deleted, or its lease ended', {
    code: 'Aborted',
    reason: 'LockLost',
    outcome: 'rejected',
    cause,
  });
}
