import { clientClosed } from '../../base/index.js';
import type { CoreKeyspace, Keys, KeyValue } from '../../client/index.js';
import { untilAnswered } from '../../locks/index.js';
import { isTransient } from '../../rpc/index.js';
import { type MirrorMessage, mirrorOf, RangeFold } from '../ranges/index.js';

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
  readonly #fold = new RangeFold();
  /** The revision of the latest read of the whole range. 0n before the first one. */
  #syncedAt = 0n;

  constructor(keys: Keys, listener: Listener) {
    this.#keys = keys;
    this.#listener = listener;
  }

  /** Whether the client has read the whole range at least once. */
  get isSynced(): boolean {
    return this.#syncedAt > 0n;
  }

  get(key: Uint8Array): KeyValue | undefined {
    return this.#fold.kvs.get(key);
  }

  /**
   * Records the state of a key that the caller has read from the server. If the key is then deleted during a gap, the
   * deletion is reported, although the range has never contained the key before. Returns false if the state, of the
   * revision `revision`, is older than the latest read of the whole range, after which no event may have shown its end.
   */
  saw(key: Uint8Array, kv: KeyValue | undefined, revision: bigint): boolean {
    if (revision < this.#syncedAt) return false;
    if (kv === undefined) this.#fold.kvs.delete(key);
    else this.#fold.kvs.put(key, kv);
    return true;
  }

  /** Reports each key of the range as changed. */
  reportAll(): void {
    for (const { keyBytes: key } of this.#fold.all()) this.#listener.changed(key);
  }

  /**
   * Follows the range until `signal` aborts. While no server answers, waits, and keeps the last known state.
   *
   * @throws the reason of `signal`, the error with which the server refuses the watch or a read, or what a listener
   * has thrown.
   */
  follow(client: CoreKeyspace, signal: AbortSignal): Promise<never> {
    const followOnce = async (): Promise<never> => {
      this.#fold.restart();
      for await (const message of mirrorOf(client, this.#keys, { signal })) this.#take(message);
      // A mirror ends without an error only when its client or namespace is closed.
      throw clientClosed('rejected');
    };
    // The mirror itself does not repeat its first read after these errors.
    const mayRepeat: typeof isTransient = (error) =>
      isTransient(error) || error.reason === 'Compacted' || error.reason === 'ClusterChanged';
    return untilAnswered({ signal }, followOnce, undefined, mayRepeat);
  }

  #take(message: MirrorMessage): void {
    const isSynced = message.type === 'synced';
    if (isSynced) this.#syncedAt = message.revision;
    this.#fold.take(message, (key, _, kv) => {
      // `synced` reports the keys that exist.
      if (!isSynced || kv === undefined) this.#listener.changed(key);
    });
    if (isSynced) this.#listener.synced();
  }
}
