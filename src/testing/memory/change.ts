import type { Event, EventType, KeyValue } from '../../gen/mvccpb/kv.js';
import { compare, type KeyId } from './key-range.js';

/** One change of a key: a put, or a deletion (a tombstone). */
export interface Change {
  readonly key: KeyId;
  readonly type: EventType;
  /** The key after the change. A tombstone has only `key` and `modRevision`. */
  readonly kv: KeyValue;
  /** Position of the change within its commit, from 0: the sub-revision in etcd's database. */
  readonly index: number;
}

/** All changes of one revision, in the order in which they were made. A compaction may remove changes. */
export interface Commit {
  readonly revision: bigint;
  readonly changes: readonly Change[];
}

/** Groups changes by their revisions, each in the given order. */
export function commitsOf(changes: Iterable<Change>): Commit[] {
  const commits = new Map<bigint, Change[]>();
  for (const change of changes) {
    const { modRevision } = change.kv;
    const own = commits.get(modRevision);
    if (own === undefined) commits.set(modRevision, [change]);
    else own.push(change);
  }
  return [...commits].map(([revision, own]) => ({ revision, changes: own }));
}

/** Compares commits by their revisions. */
export function byRevision(a: Commit, b: Commit): number {
  return compare(a.revision, b.revision);
}

/** Converts a change to the event that a watch delivers. */
export function eventOf({ type, kv }: Change, prevKv?: KeyValue): Event {
  return { type, kv, prevKv };
}
