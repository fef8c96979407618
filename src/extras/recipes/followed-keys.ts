import { clientClosed, idOf } from '../../base/index.js';
import type { CoreKeyspace, Keys, KeyValue } from '../../client/index.js';
import { isTransient, untilAnswered } from '../../locks/index.js';
import { type MirrorMessage, mirrorOf } from '../ranges/index.js';

/** The callbacks of `FollowedKeys`. */
interface Listener {
  /** Called for each key that has changed, also if it has changed back. */
  readonly changed: (key: Uint8Array) => void;
  /** Called when the client has read the whole range: at the start and after each gap. */
  readonly synced: () => void;
}

/**
 * A range of keys in memory that reports each change. `CachedRange.changes` does not suit here, because it omits a key
 * that has changed and then changed back. The handler of `reconcile` may have read the state in between from the
 * server, so it must run again.
 */
export class FollowedKeys {
  readonly #keys: Keys;
  readonly #listener: Listener;
  #known = new Map<string, KeyValue>();
  #isSynced = false;
  /** The revision of the latest read of the whole range. */
  #syncedAt = 0n;

  constructor(keys: Keys, listener: Listener) {
    this.#keys = keys;
    this.#listener = listener;
  }

  /** Whether the client has read the whole range at least once. */
  get isSynced(): boolean {
    return this.#isSynced;
  }

  get(key: Uint8Array): KeyValue | undefined {
    return this.#known.get(idOf(key));
  }

  /**
   * Records the state of a key that the caller has read from the server. If the key is then deleted during a gap, the
   * deletion is reported, although the range has never contained the key before. Returns false if the state, of the
   * revision `revision`, is older than the latest read of the whole range, after which no event may have shown its end.
   */
  saw(key: Uint8Array, kv: KeyValue | undefined, revision: bigint): boolean {
    if (revision < this.#syncedAt) return false;
    if (kv === undefined) this.#known.delete(idOf(key));
    else this.#known.set(idOf(key), kv);
    return true;
  }

  /** Reports each key of the range as changed. */
  reportAll(): void {
    for (const { key } of this.#known.values()) this.#listener.changed(key);
  }

  /**
   * Follows the range until `signal` aborts. While no server answers, waits, and keeps the last known state.
   *
   * @throws the reason of `signal`, the error with which the server refuses the watch or a read, or what a listener
   * has thrown.
   */
  follow(client: CoreKeyspace, signal: AbortSignal): Promise<never> {
    const followOnce = async (): Promise<never> => {
      let next = new Map<string, KeyValue>();
      for await (const message of mirrorOf(client, this.#keys, { signal })) {
        if (message.type === 'resync') next = new Map();
        else if (message.type === 'keys') for (const kv of message.kvs) next.set(idOf(kv.key), kv);
        else if (message.type === 'events') this.#apply(message);
        else {
          this.#syncedAt = message.revision;
          this.#replaceBy(next);
          next = new Map();
        }
      }
      // A mirror ends without an error only when its client or namespace is closed.
      throw clientClosed('rejected');
    };
    // The mirror itself does not repeat its first read after these errors.
    const mayRepeat: typeof isTransient = (error) =>
      isTransient(error) || error.reason === 'Compacted' || error.reason === 'ClusterChanged';
    return untilAnswered({ signal }, followOnce, undefined, mayRepeat);
  }

  #apply({ events }: MirrorMessage & { readonly type: 'events' }): void {
    for (const event of events) {
      if (event.type === 'put') this.#known.set(idOf(event.key), event.kv);
      else this.#known.delete(idOf(event.key));
      this.#listener.changed(event.key);
    }
  }

  #replaceBy(next: Map<string, KeyValue>): void {
    const before = this.#known;
    this.#known = next;
    this.#isSynced = true;
    for (const [id, { key }] of before) if (!next.has(id)) this.#listener.changed(key);
    this.#listener.synced();
  }
}
