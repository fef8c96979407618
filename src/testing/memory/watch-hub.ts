import { after } from '../../base/index.js';
import type { Change, Commit } from './change.js';
import type { KeyRange } from './key-range.js';
import type { Store } from './store.js';

/** Maximum number of revisions whose events one response to an unsynced watch contains, as in etcd. */
const MAX_REVISIONS_PER_RESPONSE = 1_000;
/**
 * Milliseconds between two responses to an unsynced watch. etcd waits up to 100 ms. Without an interval, a client that
 * divides the past revisions among several watches could not cancel a watch before the watch had received all past
 * revisions.
 */
const RESPONSE_INTERVAL_MS = 10;

/** A watch, as the hub sees it. */
export interface Watch {
  readonly range: KeyRange;
  /** The first revision to deliver. 0 stands for the next revision. */
  readonly startRevision: bigint;
  /** Called with the next changes in the range, at least one. `revision` is the current revision of the store. */
  changed(changes: readonly Change[], revision: bigint): void;
  /**
   * Called instead of `changed` if a compaction has discarded changes that the watch has not received. The hub has
   * removed the watch. `revision` is the revision of the compaction.
   */
  compacted(revision: bigint): void;
}

/**
 * Delivers the commits of a store to the watches of all streams. The source in etcd is `mvcc/watchable_store.go`.
 *
 * A synced watch has received all changes up to the current revision, or starts at a later revision. At each commit,
 * the hub delivers to the watch the new changes in its range, from its start revision on. An unsynced watch starts at a
 * past revision, and has not caught up yet. The hub delivers no new commit to an unsynced watch.
 */
export class WatchHub {
  readonly #store: Store;
  /** The synced watches, each with the first revision that the hub delivers to it. */
  readonly #synced = new Map<Watch, bigint>();
  /** The unsynced watches, each with the first revision that it has not received yet. */
  readonly #unsynced = new Map<Watch, bigint>();
  #stopTimer: (() => void) | undefined;

  constructor(store: Store) {
    this.#store = store;
    store.onCommit((commit) => this.#deliver(commit));
  }

  /** Adds a watch. A watch that starts in the past receives nothing before the call of `catchUp`. */
  add(watch: Watch): void {
    const next = this.#store.revision + 1n;
    const { startRevision } = watch;
    if (startRevision === 0n) this.#synced.set(watch, next);
    else if (startRevision >= next) this.#synced.set(watch, startRevision);
    else this.#unsynced.set(watch, startRevision);
  }

  /** Removes a watch. Does nothing if a compaction has ended the watch. */
  remove(watch: Watch): void {
    this.#synced.delete(watch);
    this.#unsynced.delete(watch);
    if (this.#unsynced.size > 0) return;
    this.#stopTimer?.();
    this.#stopTimer = undefined;
  }

  /**
   * Whether a watch has received all changes up to the current revision, and its start revision is not in the future.
   */
  isSynced(watch: Watch): boolean {
    return this.#synced.has(watch) && watch.startRevision <= this.#store.revision;
  }

  /** Sends the watch its first response if it is unsynced, and one more after each interval until it is synced. */
  catchUp(watch: Watch): void {
    this.#sync(watch);
    this.#continueLater();
  }

  /** The interval is real time, so that a `MemoryEtcd` with a `ManualClock` also delivers all past revisions. */
  #continueLater(): void {
    if (this.#unsynced.size === 0) return;
    this.#stopTimer ??= after(
      RESPONSE_INTERVAL_MS,
      () => {
        this.#stopTimer = undefined;
        for (const watch of this.#unsynced.keys()) this.#sync(watch);
        this.#continueLater();
      },
      'background',
    );
  }

  #deliver({ revision, changes }: Commit): void {
    for (const [watch, next] of this.#synced) {
      if (revision < next) continue;
      const wanted = changes.filter(({ key }) => watch.range.has(key));
      if (wanted.length > 0) watch.changed(wanted, revision);
    }
  }

  /** Sends an unsynced watch its next response. */
  #sync(watch: Watch): void {
    const next = this.#unsynced.get(watch);
    if (next === undefined) return;
    const { revision, compacted } = this.#store;
    if (next < compacted) {
      this.#unsynced.delete(watch);
      watch.compacted(compacted);
    } else this.#sendPast(watch, next, revision);
  }

  /**
   * Sends the changes from the revision `next` on, in one response. `revision` is the current revision of the store.
   */
  #sendPast(watch: Watch, next: bigint, revision: bigint): void {
    const changes: Change[] = [];
    let revisions = 0;
    let more: bigint | undefined;
    for (const commit of this.#store.commits(next, watch.range)) {
      revisions += 1;
      if (revisions > MAX_REVISIONS_PER_RESPONSE) {
        more = commit.revision;
        break;
      }
      for (const change of commit.changes) changes.push(change);
    }
    if (more === undefined) {
      this.#unsynced.delete(watch);
      this.#synced.set(watch, revision + 1n);
    } else this.#unsynced.set(watch, more);
    if (changes.length > 0) watch.changed(changes, revision);
  }
}
