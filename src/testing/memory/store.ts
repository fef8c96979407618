import { lowerBound, SortedList } from '../../base/index.js';
import { EventType, type KeyValue } from '../../gen/mvccpb/kv.js';
import { byRevision, type Change, type Commit, commitsOf } from './change.js';
import { compare, type KeyId, type KeyRange } from './key-range.js';
import { type ReadView, WriteTransaction } from './write-transaction.js';

// A `Store` keeps the keys of a member, with the versions that no compaction has discarded, as etcd's package `mvcc`
// does. The store knows neither requests nor permissions; the services check both.

/** A consistent copy of a store, for a backup. */
export interface StoreSnapshot {
  readonly revision: bigint;
  readonly compacted: bigint;
  readonly commits: readonly Commit[];
}

/** The revision of an empty store. */
const FIRST_REVISION = 1n;
/** The value of `compacted` before the first compaction. */
const NEVER_COMPACTED = -1n;

const PAGE_BYTES = 4_096;
/** Size of the database of a new member: the pages that bbolt and etcd's own tables occupy. */
const EMPTY_BYTES = 7 * PAGE_BYTES;
/** Estimate of the bytes that the database needs for one version of a key, in addition to the key and the value. */
const VERSION_BYTES = 64;
/** The share of each page that bbolt fills with versions. */
const FILLED_SHARE = 0.9;

/** The keys of a member, with all versions that no compaction has discarded. */
export class Store implements ReadView {
  #revision = FIRST_REVISION;
  #compacted = NEVER_COMPACTED;
  /** The versions of each key, oldest first. The last version of a deleted key is a tombstone. */
  #versions = new Map<KeyId, Change[]>();
  /** The keys of which a compaction may discard a version: those with several versions, and deleted keys. */
  readonly #compactible = new Set<KeyId>();
  /** All keys that have a version, in byte order. */
  readonly #keys = new SortedList<KeyId, KeyId>(compare);
  /** The commits since the last compaction, oldest first, including the commit at the compacted revision. */
  #commits: Commit[] = [];
  /** The keys that are attached to each lease. */
  #attached = new Map<bigint, Set<KeyId>>();
  #bytesInUse = EMPTY_BYTES;
  #bytes = EMPTY_BYTES;
  readonly #listeners = new Set<(commit: Commit) => void>();
  readonly #compactionListeners = new Set<(revision: bigint) => void>();

  /** The revision of the last commit. */
  get revision(): bigint {
    return this.#revision;
  }

  /** The revision of the last compaction: the oldest revision that can be read. -1 before the first compaction. */
  get compacted(): bigint {
    return this.#compacted;
  }

  /**
   * Size of the database in bytes, in whole pages. The size is an estimate, because it depends on how bbolt splits its
   * pages. Like the file of etcd's database, it does not shrink until `defragment`, but later writes reuse the space.
   */
  get bytes(): number {
    return Math.ceil(this.#bytes / PAGE_BYTES) * PAGE_BYTES;
  }

  /** Size in bytes of the content of the database, in whole pages: an estimate, see `bytes`. */
  get bytesInUse(): number {
    return Math.ceil(this.#bytesInUse / PAGE_BYTES) * PAGE_BYTES;
  }

  /** Calls `listener` after each commit. Returns a function that stops the calls. */
  onCommit(listener: (commit: Commit) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Calls `listener` before each compaction, with the revision that becomes the oldest one. */
  onCompaction(listener: (revision: bigint) => void): void {
    this.#compactionListeners.add(listener);
  }

  range(range: KeyRange, revision: bigint = this.#revision): KeyValue[] {
    const found: KeyValue[] = [];
    for (const key of this.#keys.from(range.first)) {
      if (!range.has(key)) break;
      const kv = this.get(key, revision);
      if (kv !== undefined) found.push(kv);
    }
    return found;
  }

  /** Returns a key at a revision, or undefined if the key does not exist at that revision. */
  get(key: KeyId, revision: bigint = this.#revision): KeyValue | undefined {
    const versions = this.#versions.get(key);
    const version = versions?.[countUntil(versions, revision) - 1];
    return version === undefined || version.type === EventType.DELETE ? undefined : version.kv;
  }

  /**
   * Yields the commits from a revision on, reduced to the changes in the range. Leaves out commits without a change in
   * the range.
   */
  *commits(from: bigint, range: KeyRange): Generator<Commit, void> {
    for (let at = this.#firstCommit(from); at < this.#commits.length; at += 1) {
      const { revision, changes } = this.#commits[at] as Commit;
      const within = changes.filter(({ key }) => range.has(key));
      if (within.length > 0) yield { revision, changes: within };
    }
  }

  /** The keys that are attached to a lease, in byte order. */
  keysOf(lease: bigint): KeyId[] {
    return [...(this.#attached.get(lease) ?? [])].sort();
  }

  /** Starts a write transaction. Transactions must not overlap. The caller calls `commit` or drops the transaction. */
  write(): WriteTransaction {
    return new WriteTransaction(this, (changes) => this.#commit(changes));
  }

  /**
   * Discards all versions that a read at `revision` or later does not need. The caller has checked that the revision is
   * not compacted yet and exists. Keeps, of each key, all later versions, and the version that is valid at `revision`.
   * If that version is a tombstone, keeps it only if its revision is exactly `revision`, because a watch may start
   * there (`doCompact` in etcd's `key_index.go`). Older patch releases of etcd removed this tombstone.
   */
  compact(revision: bigint): void {
    for (const listener of this.#compactionListeners) listener(revision);
    this.#compacted = revision;
    for (const key of this.#compactible) this.#compactKey(key, revision);
    this.#commits = this.#commits.slice(this.#firstCommit(revision));
    const [first] = this.#commits;
    if (first?.revision === revision) this.#commits[0] = { revision, changes: first.changes.filter(this.#isKept) };
  }

  #compactKey(key: KeyId, revision: bigint): void {
    const versions = this.#versions.get(key) ?? [];
    const valid = countUntil(versions, revision) - 1;
    const version = versions[valid];
    if (version === undefined) return;
    const isObsolete = version.type === EventType.DELETE && version.kv.modRevision < revision;
    for (const removed of versions.splice(0, isObsolete ? valid + 1 : valid)) this.#bytesInUse -= bytesOf(removed);
    if (versions.length === 0) {
      this.#versions.delete(key);
      this.#keys.delete(key);
    }
    if (versions.length === 0 || (versions.length === 1 && versions[0]?.type === EventType.PUT))
      this.#compactible.delete(key);
  }

  /** Whether the change is still a version of its key. A later change at the same revision may have replaced it. */
  readonly #isKept = (change: Change): boolean => this.#versions.get(change.key)?.includes(change) ?? false;

  /** Releases the space that compactions have freed: `bytes` becomes `bytesInUse`. */
  defragment(): void {
    this.#bytes = this.#bytesInUse;
  }

  /** Returns a copy of the whole state. The copy shares the messages, which never change. */
  snapshot(): StoreSnapshot {
    return { revision: this.#revision, compacted: this.#compacted, commits: this.#history() };
  }

  /** Replaces the whole state, as if the member had been restored from a backup. Calls no listener. */
  restore({ revision, compacted, commits }: StoreSnapshot): void {
    this.#versions = new Map();
    this.#keys.clear();
    this.#compactible.clear();
    this.#attached = new Map();
    this.#bytesInUse = EMPTY_BYTES;
    this.#commits = commits.filter((commit) => commit.revision >= compacted);
    for (const { changes } of commits) for (const change of changes) this.#apply(change);
    this.#revision = revision;
    this.#compacted = compacted;
    this.defragment();
  }

  /**
   * All versions that the store still has, as commits: those that the last compaction has kept, and all later commits.
   */
  #history(): Commit[] {
    // Only the first version of a key can be older than the compaction.
    const kept = [...this.#versions.values()]
      .flatMap((versions) => versions.slice(0, 1))
      .filter(({ kv }) => kv.modRevision < this.#compacted)
      .sort((a, b) => a.index - b.index);
    return [...commitsOf(kept).sort(byRevision), ...this.#commits];
  }

  /** Raises the revision, as if clients had changed keys that nobody reads. */
  skip(revisions: bigint): void {
    this.#revision += revisions;
  }

  #commit(changes: readonly Change[]): void {
    if (changes.length === 0) return;
    this.#revision += 1n;
    for (const change of changes) this.#apply(change);
    const commit = { revision: this.#revision, changes };
    this.#commits.push(commit);
    for (const listener of [...this.#listeners]) listener(commit);
  }

  #apply(change: Change): void {
    const { key, kv } = change;
    const versions = this.#versions.get(key);
    const leaseBefore = versions?.at(-1)?.kv.lease ?? 0n;
    if (versions === undefined) {
      this.#versions.set(key, [change]);
      this.#keys.put(key, key);
    } else versions.push(change);
    if (versions !== undefined || change.type === EventType.DELETE) this.#compactible.add(key);
    // The lease of a tombstone is 0, so a deletion detaches the key.
    if (leaseBefore !== kv.lease) {
      this.#detach(leaseBefore, key);
      this.#attach(kv.lease, key);
    }
    this.#bytesInUse += bytesOf(change);
    this.#bytes = Math.max(this.#bytes, this.#bytesInUse);
  }

  #attach(lease: bigint, key: KeyId): void {
    if (lease === 0n) return;
    const keys = this.#attached.get(lease);
    if (keys === undefined) this.#attached.set(lease, new Set([key]));
    else keys.add(key);
  }

  #detach(lease: bigint, key: KeyId): void {
    const keys = this.#attached.get(lease);
    keys?.delete(key);
    if (keys?.size === 0) this.#attached.delete(lease);
  }

  /** The index of the first commit at the revision `from` or later. */
  #firstCommit(from: bigint): number {
    return lowerBound(this.#commits.length, (at) => (this.#commits[at] as Commit).revision < from);
  }
}

/** Returns an estimate of the bytes that a change adds to the database. */
function bytesOf({ kv }: Change): number {
  return Math.ceil((VERSION_BYTES + kv.key.length + kv.value.length) / FILLED_SHARE);
}

/** Returns how many of a key's versions were made at `revision` or before. */
function countUntil(versions: readonly Change[], revision: bigint): number {
  const last = versions.at(-1);
  // Most reads ask for the newest version.
  if (last !== undefined && last.kv.modRevision <= revision) return versions.length;
  return lowerBound(versions.length, (at) => (versions[at] as Change).kv.modRevision <= revision);
}
