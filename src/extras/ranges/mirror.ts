import {
  backoffMs,
  checkBoolean,
  checkInt64,
  checkOptions,
  checkSignal,
  checkUint64,
  EtcdError,
  type Int64Like,
  int64Of,
  iterate,
  KEYS_HINTS,
  pause,
  printable,
  type SignalOption,
} from '../../base/index.js';
import {
  type CoreKeyspace,
  type Keys,
  type KeyValue,
  keyspaceClientOf,
  ownKeys,
  type PagedKV,
  type ScanPage,
  type Watch,
  type WatchEvent,
  type Watches,
} from '../../client/index.js';

/**
 * A message of a mirror. First, the mirror reads the whole range. It then delivers the changes. With a `fromRevision`
 * above 0n, it delivers only the changes, unless it has to read the range after all. In that case, it first delivers
 * `resync`.
 *
 * - `keys`: Some of the keys of the range, as they were at `revision`. The mirror delivers the range in any number of
 *   these messages.
 * - `synced`: The mirror has delivered the whole range. The keys received since the start of the mirror, or since the
 *   last `resync`, are all keys of the range at `revision`. Messages of type `events` follow.
 * - `events`: All changes of the range in one revision.
 * - `resync`: The mirror has to read the range again, because it may have missed changes; `cause` is the reason.
 *   Discard all keys received so far. All keys of the range follow.
 *
 * In `synced` and `events`, `clusterId` is the ID of the cluster that `revision` belongs to, or 0n if a proxy hides the
 * ID.
 */
export type MirrorMessage =
  | { readonly type: 'keys'; readonly revision: bigint; readonly kvs: readonly KeyValue[] }
  | { readonly type: 'synced'; readonly revision: bigint; readonly clusterId: bigint }
  | {
      readonly type: 'events';
      readonly revision: bigint;
      readonly clusterId: bigint;
      readonly events: readonly WatchEvent[];
    }
  | { readonly type: 'resync'; readonly cause: EtcdError };

/** Options of `mirror`. */
export interface MirrorOptions {
  /** Whether each event also contains the key as it was before the change. Default false. */
  readonly prevKv?: boolean | undefined;
  /**
   * The last revision of which the caller has applied every change. The mirror does not read the range, but starts with
   * the changes after this revision. Default 0n: the mirror reads the range first. Persist the `revision` and the
   * `clusterId` of each `synced` and `events` message together with the changes, after all of them are applied. Between
   * the first message of type `keys` or `resync` and the next `synced`, no revision is complete: persist 0n. A mirror that
   * starts at 0n delivers no `resync` first, so discard the persisted keys yourself before you start it.
   *
   * If etcd has compacted a change after this revision, or if the store is at an older revision because the cluster was
   * restored from a backup, the first message is `resync`, and the whole range follows. The mirror cannot detect by the
   * revision alone that a store was restored, if the store has passed this revision again since then. So also pass
   * `clusterId`, and restore with `etcdutl snapshot restore --bump-revision --mark-compacted`.
   */
  readonly fromRevision?: Int64Like | undefined;
  /**
   * The ID of the cluster that `fromRevision` belongs to: the `clusterId` of the message that had this revision. If
   * another cluster answers, the first message is `resync`, and the whole range follows. Default 0n: any cluster.
   */
  readonly clusterId?: bigint | undefined;
  /** A signal that ends the mirror: when the signal aborts, the iteration throws an error with reason `Canceled`. */
  readonly signal?: SignalOption;
}

const MIRROR_OPTIONS = {
  prevKv: checkBoolean,
  fromRevision: checkInt64,
  clusterId: checkUint64,
  signal: checkSignal,
} as const;

/**
 * Reads a range of keys at one revision, and then delivers every change of the following revisions exactly once. If the
 * mirror may have missed changes, it delivers `resync` and reads the range again. While no server answers, the mirror
 * waits, like a watch. Iterate over a mirror only once, because each iteration reads the range again. Breaking out of
 * the iteration ends the mirror.
 *
 * @example
 * const config = new Map<string, string>();
 * for await (const message of etcd.mirror(prefix('config/'))) {
 *   if (message.type === 'resync') config.clear();
 *   if (message.type === 'keys') for (const kv of message.kvs) config.set(kv.key, kv.text());
 *   if (message.type !== 'events') continue;
 *   for (const event of message.events) {
 *     if (event.type === 'put') config.set(event.key, event.kv.text());
 *     else config.delete(event.key);
 *   }
 *   console.log(`${config.size} keys at revision ${message.revision}`);
 * }
 */
export interface Mirror extends Pick<RangeMirror, keyof RangeMirror> {}

export function mirrorOf(client: CoreKeyspace, keys: Keys, options: MirrorOptions = {}): Mirror {
  const keyspace = keyspaceClientOf(client);
  return new RangeMirror(keyspace, keyspace.watches, keys, options);
}

/**
 * The progress of a mirror: it has delivered nothing yet, it has to deliver the rest of the range or the whole range,
 * or it delivers changes.
 */
type Phase = 'starting' | 'reading' | 'following';

/** Implements `Mirror`, which is an interface, because a test double cannot have the private fields of a class. */
export class RangeMirror implements AsyncIterable<MirrorMessage> {
  /** @internal The class name that `console.log` shows. */
  static readonly name = 'Mirror';
  readonly #kv: PagedKV;
  readonly #watches: Watches;
  readonly #keys: Keys;
  readonly #options: MirrorOptions;

  /** @internal */
  constructor(kv: PagedKV, watches: Watches, keys: Keys, options: MirrorOptions) {
    checkOptions(options, MIRROR_OPTIONS, 'mirror', KEYS_HINTS);
    this.#kv = kv;
    this.#watches = watches;
    this.#keys = ownKeys(keys);
    this.#options = { ...options };
  }

  /**
   * Starts the mirror, and yields its messages. The mirror reads the range again if etcd has compacted changes that the
   * mirror still needs, if the cluster was restored from a backup, or if no server answered for a while.
   *
   * @throws EtcdError if the signal aborts, or if the watch or a read fails for a reason other than the three above. A
   * mirror without `fromRevision` also throws if another cluster than that of the client answers at the start.
   */
  [Symbol.asyncIterator](): AsyncGenerator<MirrorMessage, void> {
    return iterate(this.#options.signal, (signal) => this.#messages(signal));
  }

  async *#messages(signal: AbortSignal): AsyncGenerator<MirrorMessage, void> {
    let fromRevision = int64Of(this.#options.fromRevision) ?? 0n;
    let phase: Phase = 'starting';
    let readsWhole = false;
    for (let failures = 0; ; failures += 1) {
      // Create the watch before reading the keys, so that the watch starts at the current revision. etcd sends the
      // events of such a watch at once. etcd processes a watch that starts at a past revision only every 100 ms, and
      // cancels it if that revision has been compacted by then (syncWatchersLoop in etcd's watchable_store.go).
      const isReading = fromRevision === 0n;
      const startRevision = isReading ? 0n : fromRevision + 1n;
      const watch = this.#watches.open(this.#keys, { ...this.#options, startRevision, signal });
      try {
        let revision = fromRevision;
        if (isReading) {
          for await (const page of this.#pages(watch, readsWhole, signal)) {
            revision = page.revision;
            phase = 'reading';
            yield printable({ type: 'keys', revision, kvs: [...page.kvs] });
          }
        } else await this.#checkStore(signal);
        // A server has answered, so the client knows the cluster.
        const clusterId = this.#watches.stream.cluster?.id ?? 0n;
        if (isReading) yield printable({ type: 'synced', clusterId, revision });
        phase = 'following';
        failures = 0;
        for await (const batch of watch.batches())
          if (batch.revision > revision) yield printable({ type: 'events', clusterId, ...batch });
        return;
      } catch (error) {
        if (!(error instanceof EtcdError) || signal?.aborted) throw error;
        const { code, reason } = error;
        if (reason === 'ClientClosed') return;
        const isLost = reason === 'Compacted' || reason === 'ClusterChanged';
        const isUnanswered = code === 'Unavailable' || reason === 'DeadlineExceeded';
        if (phase === 'starting' ? isLost && !isReading : isLost || isUnanswered) {
          readsWhole = phase === 'reading' && !readsWhole && reason === 'Compacted';
          fromRevision = 0n;
          phase = 'reading';
          yield printable({ type: 'resync', cause: error });
        } else if (!isUnanswered && !(reason === 'ClusterChanged' && failures === 0)) throw error;
        // In the remaining cases, no server has answered yet, or the first read has found that the cluster was restored. If
        // another cluster has answered, the second attempt fails, too. The next attempt starts at the same revision.
      } finally {
        await watch.close();
      }
      await pause(backoffMs(failures), signal);
    }
  }

  /**
   * Checks that the store contains `fromRevision`. A watch that starts at a later revision than the store's receives
   * nothing until the store reaches that revision. If only one member lags behind, this wait is correct. If the cluster
   * was restored, the mirror would miss the changes until then. Only a linearizable read tells the two cases apart,
   * because the answer to the creation of the watch contains the revision of one member.
   *
   * @throws EtcdError with reason `ClusterChanged` if the store is at an older revision, or belongs to another cluster.
   */
  async #checkStore(signal: AbortSignal): Promise<void> {
    const { fromRevision = 0n, clusterId = 0n } = this.#options;
    const { header } = await this.#kv.range(this.#keys, { limit: 1, keysOnly: true, signal });
    const isOther = clusterId !== 0n && header.clusterId !== clusterId;
    if (!isOther && header.revision >= fromRevision) return;
    const problem = isOther
      ? `cluster ${header.clusterId.toString(16)} answers instead of clusterId ${clusterId.toString(16)}`
      : `the store was restored: its revision ${header.revision} is below fromRevision ${fromRevision}`;
    throw new EtcdError(problem, { code: 'FailedPrecondition', reason: 'ClusterChanged', outcome: 'rejected' });
  }

  /**
   * Yields all keys at a revision that is not older than the revision at which the server created the watch, so that
   * the watch delivers every change after the read. With `readsWhole`, reads the keys in one response instead of in
   * pages.
   */
  async *#pages(watch: Watch, readsWhole: boolean, signal: AbortSignal): AsyncGenerator<ScanPage, void> {
    for (let reads = 0; ; reads += 1) {
      // The first two reads need no delay. A third read is needed only in the rare case that a proxy has reported a
      // revision that the store has not reached yet.
      if (reads > 1) await pause(backoffMs(reads), signal);
      const pages = readsWhole ? this.#wholeRange(signal) : this.#kv.scanPages(this.#keys, { signal });
      try {
        const [first, createdAt] = await Promise.all([pages.next(), watch.created()]);
        if (first.done) return;
        if (first.value.revision >= createdAt) {
          yield first.value;
          return yield* pages;
        }
        // The server read these keys before it created the watch, so read the range again.
      } finally {
        await pages.return();
      }
    }
  }

  /**
   * Reads all keys in one response, so that no compaction can interrupt the read. A read in pages fails if etcd
   * compacts the revision of the pages before the client has read the last page. If the response is larger than the
   * client accepts, this method reads in pages after all.
   */
  async *#wholeRange(signal: AbortSignal): AsyncGenerator<ScanPage, void> {
    try {
      const { header, kvs } = await this.#kv.range(this.#keys, { signal });
      yield { revision: header.revision, kvs };
    } catch (error) {
      if (!(error instanceof EtcdError && error.reason === 'ResponseTooLarge')) throw error;
      yield* this.#kv.scanPages(this.#keys, { signal });
    }
  }
}
