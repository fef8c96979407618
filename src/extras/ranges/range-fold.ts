import { compareBytes, NO_BYTES, SortedList } from '../../base/index.js';
import type { KeyValue } from '../../client/index.js';
import type { MirrorMessage } from './mirror.js';

/** Receives the state of a key before and after a change. Undefined is the state of a missing key. */
export type NoteChange = (key: Uint8Array, old: KeyValue | undefined, kv: KeyValue | undefined) => void;

/** The keys of a range in memory, which the messages of a mirror fill and change. */
export class RangeFold {
  /** The keys of the latest complete state, in ascending order. A new read of the whole range replaces the list. */
  kvs: SortedList<KeyValue, Uint8Array> = sortedKeyValues();
  /** The revision up to which `kvs` contains every change. 0n if it belongs to a former history of the store. */
  revision = 0n;
  /** Whether the mirror is reading the whole range: at the start, and after each gap. */
  isSyncing = true;
  /** The keys that the mirror has read so far while it reads the whole range. */
  #next = sortedKeyValues();

  all(): readonly KeyValue[] {
    return this.kvs.slice(NO_BYTES, undefined);
  }

  /** Discards the keys of an incomplete read. Call this method before the messages of another mirror. */
  restart(): void {
    this.#next = sortedKeyValues();
    this.isSyncing = true;
  }

  /**
   * Applies a message. Returns whether it has changed the keys or the revision. `note` receives each event, and, after
   * the mirror has read the whole range, the keys that no longer exist and then all keys, also the unchanged ones.
   */
  take(message: MirrorMessage, note?: NoteChange): boolean {
    if (message.type === 'keys') for (const kv of message.kvs) this.#next.put(kv.keyBytes, kv);
    if (message.type === 'resync') {
      this.restart();
      // The revision belongs to the former history of the store.
      if (message.cause.reason === 'ClusterChanged') this.revision = 0n;
    }
    if (message.type === 'keys' || message.type === 'resync') return false;
    // The caller may have found that all events up to a later revision together change nothing.
    if (message.type === 'events' && message.revision <= this.revision) return false;
    const { kvs } = this;
    // After a read of the whole range, the revision may be smaller than before, because the cluster may have been
    // restored from a backup.
    this.revision = message.revision;
    if (message.type === 'events') {
      for (const event of message.events) {
        const kv = event.type === 'put' ? event.kv : undefined;
        const old = note && kvs.get(event.keyBytes);
        if (kv !== undefined) kvs.put(event.keyBytes, kv);
        else kvs.delete(event.keyBytes);
        note?.(event.keyBytes, old, kv);
      }
      return true;
    }
    this.kvs = this.#next;
    this.restart();
    this.isSyncing = false;
    if (note === undefined) return true;
    for (const old of kvs.slice(NO_BYTES, undefined))
      if (this.kvs.get(old.keyBytes) === undefined) note(old.keyBytes, old, undefined);
    for (const kv of this.all()) note(kv.keyBytes, kvs.get(kv.keyBytes), kv);
    return true;
  }
}

/** Returns an empty list that is sorted as etcd sorts keys, in byte order. */
function sortedKeyValues(): SortedList<KeyValue, Uint8Array> {
  return new SortedList((kv, key) => compareBytes(kv.keyBytes, key));
}
