import {
  type BytesLike,
  checkOptions,
  checkPositiveCount,
  EtcdError,
  iterate,
  printable,
  type SignalOption,
} from '../../base/index.js';
import {
  type CoreKeyspace,
  checkKey,
  type KeyspaceClient,
  type KeyValue,
  keyspaceClientOf,
  pastEvents,
} from '../../client/index.js';
import { type Waiting, withinLimit } from '../../locks/index.js';
import { TIME_LIMITS } from '../../rpc/index.js';

/** Options of `history`. */
export interface HistoryOptions {
  /**
   * Maximum number of entries. After this number, the iteration ends, even without an entry of type `end`. Default: no
   * limit.
   */
  readonly limit?: number | undefined;
  /** Cancels the iteration when this signal aborts. */
  readonly signal?: SignalOption;
  /**
   * Time limit in milliseconds of each read, and of the search for earlier deletions of the key. Default: the client's
   * `timeoutMs`.
   */
  readonly timeoutMs?: number | undefined;
}

const HISTORY_OPTIONS = { limit: checkPositiveCount, ...TIME_LIMITS } as const;

/** One change of a key, or the end of its history. `type` tells them apart. */
export type HistoryEntry =
  /** A put, at `revision`. `kv` has the value, the lease and the number of the version. */
  | { readonly type: 'put'; readonly revision: bigint; readonly kv: KeyValue }
  /** A deletion, at `revision`. */
  | { readonly type: 'delete'; readonly revision: bigint }
  /**
   * The last entry. The history contains every change after `revision`. With reason `beginning`, there is no earlier
   * change. With reason `compacted`, etcd has compacted the earlier changes.
   */
  | { readonly type: 'end'; readonly revision: bigint; readonly reason: 'beginning' | 'compacted' };

/**
 * Yields the versions of a key from the newest to the oldest, and then an entry that says why the history ends there.
 * Reads one version at a time, when the caller asks for it. If etcd compacts versions during the iteration, the history
 * ends at the compaction. The history never leaves out a version between two others.
 *
 * When the iteration reaches a version that created the key, the client searches for earlier deletions with a watch.
 * The client requests the progress of this watch to find out when the search is complete. `etcd grpc-proxy` never
 * answers such a request, so the iteration then rejects with reason `DeadlineExceeded`. Versions of etcd before 3.4.25
 * and 3.5.8 may answer too early, so the iteration then rejects with code `Unimplemented`.
 *
 * @throws EtcdError with reason `ClusterChanged` if the cluster was restored from a backup during the iteration,
 * `Canceled` if `signal` aborts, `NotInGateway` if the client uses the transport of `etcdwire/gateway`, and otherwise
 * as `range` and `watch` do.
 *
 * @example
 * const etcd = new Client({ endpoints: ['http://127.0.0.1:2379'] });
 * for (const color of ['red', 'green']) await etcd.put('config/paint', color);
 * await etcd.delete('config/paint');
 * const seen: string[] = [];
 * for await (const entry of history(etcd, 'config/paint', { limit: 3 }))
 *   seen.push(entry.type === 'put' ? entry.kv.text() : entry.type);
 * console.log(seen.join()); // delete,green,red
 */
export function history(
  client: CoreKeyspace,
  key: BytesLike,
  options: HistoryOptions = {},
): AsyncGenerator<HistoryEntry, void> {
  const keyspace = keyspaceClientOf(client);
  const own = checkKey(key, 'key');
  checkOptions(options, HISTORY_OPTIONS, 'history');
  const { limit, ...reads } = options;
  return iterate(options.signal, (signal) => limited(new KeyHistory(keyspace, own, { ...reads, signal }), limit));
}

async function* limited(history: KeyHistory, limit = Number.POSITIVE_INFINITY): AsyncGenerator<HistoryEntry, void> {
  let left = limit;
  for await (const entry of history.entries()) {
    yield entry;
    left -= 1;
    if (left === 0) return;
  }
}

/** The deletions of a key before some revision. */
interface Deletions {
  /** The revisions of the deletions, in ascending order. */
  readonly revisions: bigint[];
  /** The list contains every deletion after this revision. 0n if the store was never compacted. */
  readonly after: bigint;
}

class KeyHistory {
  readonly #client: KeyspaceClient;
  readonly #key: Uint8Array;
  readonly #options: HistoryOptions;
  /** The greatest revision of the store that a read has returned. */
  #storeRevision = 0n;

  constructor(client: KeyspaceClient, key: Uint8Array, options: HistoryOptions) {
    this.#client = client;
    this.#key = key;
    this.#options = options;
  }

  async *entries(): AsyncGenerator<HistoryEntry, void> {
    let kv = await this.#read(0n);
    // The entries so far contain every change at this revision or later.
    let from = this.#storeRevision + 1n;
    let deletions: Deletions | undefined;
    for (;;) {
      // Yield the versions from `kv` back to the one that created the key.
      while (kv !== undefined) {
        if (kv === 'compacted') return yield endAfter(from - 1n, from);
        yield printable({ type: 'put', revision: kv.modRevision, kv });
        from = kv.modRevision;
        kv = kv.version === 1n ? undefined : await this.#readBefore(kv);
      }
      deletions ??= await this.#deletionsBefore(from);
      const revision = deletions.revisions.pop();
      if (revision === undefined) return yield endAfter(deletions.after, from);
      yield printable({ type: 'delete', revision });
      from = revision;
      kv = await this.#read(revision - 1n);
      if (kv === undefined) throw restored();
    }
  }

  /** Reads the version before the given version, which must not be the first version of the key. */
  async #readBefore({ modRevision, createRevision, version }: KeyValue): Promise<KeyValue | 'compacted'> {
    const kv = await this.#read(modRevision - 1n);
    if (kv === 'compacted') return kv;
    if (kv?.createRevision !== createRevision || kv.version !== version - 1n) throw restored();
    return kv;
  }

  /** Reads the key at a revision, or at the current revision if `revision` is 0n. */
  async #read(revision: bigint): Promise<KeyValue | 'compacted' | undefined> {
    const { signal, timeoutMs } = this.#options;
    try {
      const { header, kvs } = await this.#client.range(this.#key, { revision, signal, timeoutMs });
      if (header.revision < this.#storeRevision) throw restored();
      this.#storeRevision = header.revision;
      return kvs[0];
    } catch (error) {
      const reason = error instanceof EtcdError ? error.reason : undefined;
      if (reason === 'Compacted') return 'compacted';
      throw reason === 'FutureRev' ? restored(error) : error;
    }
  }

  #deletionsBefore(from: bigint): Promise<Deletions> {
    const { signal, timeoutMs = this.#client.rpc.settings.timeoutMs } = this.#options;
    const search = async (waiting: Waiting): Promise<Deletions> => {
      for (let after = 0n; after < from; ) {
        try {
          const range = { startRevision: after === 0n ? 1n : after, lastRevision: from - 1n, only: 'delete' } as const;
          const events = await pastEvents(this.#client, this.#key, range, waiting);
          if (events !== undefined) return { revisions: events.map(({ modRevision }) => modRevision), after };
        } catch (error) {
          const compacted = error instanceof EtcdError ? error.compactRevision : undefined;
          if (compacted === undefined || compacted <= after) throw error;
          after = compacted;
        }
      }
      return { revisions: [], after: from - 1n };
    };
    const limits = { signal, maxWaitMs: timeoutMs };
    return withinLimit('history', limits, undefined, ({ waiting }) => search(waiting), 'timeoutMs');
  }
}

/**
 * Returns the last entry of a history whose oldest change is at `from`, and that contains every change after `after`.
 */
function endAfter(after: bigint, from: bigint): HistoryEntry {
  if (after === 0n) return printable({ type: 'end', reason: 'beginning', revision: 0n });
  return printable({ type: 'end', reason: 'compacted', revision: after < from ? after : from - 1n });
}

function restored(cause?: unknown): EtcdError {
  return new EtcdError(
    'the store went back to an older state during the iteration, because the cluster was restored; ' +
      'read the history again',
    { code: 'FailedPrecondition', reason: 'ClusterChanged', outcome: 'rejected', cause },
  );
}
