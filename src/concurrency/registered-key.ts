import type { Keyspace } from '../keyspace.js';
import { compare } from '../kv/compare.js';
import { op } from '../kv/op.js';
import { compareBytes } from '../runtime/bytes.js';
import { untilAnswered } from './wait-limit.js';

/** One key that is to be there, and what is known of it. */
export class RegisteredKey {
  readonly key: Uint8Array;
  readonly value: Uint8Array;
  /** It is to be deleted: not to be put again. */
  leaving = false;
  /** A put of it has an unknown outcome, and may come through late. */
  doubtful = false;
  /** Of the last put known to be ours. */
  #modRevision = 0n;

  constructor(key: Uint8Array, value: Uint8Array) {
    this.key = key;
    this.value = value;
  }

  /**
   * Puts it under this lease. The comparison with what was read before makes repeating safe: a put that comes late
   * finds another revision. `mayReplace` decides by the lease of what is there; false: it may not.
   *
   * @throws EtcdError, reason `LeaseNotFound` among others.
   */
  async put(
    client: Keyspace,
    lease: bigint,
    mayReplace: (lease: bigint) => boolean,
    signal: AbortSignal,
  ): Promise<boolean> {
    for (;;) {
      const seen = await untilAnswered(signal, (options) => client.get(this.key, options));
      if (seen?.lease === lease && compareBytes(seen.value, this.value) === 0) {
        this.#modRevision = seen.modRevision;
        return true;
      }
      if (seen !== undefined && !mayReplace(seen.lease)) return false;
      const unchanged = [compare.modRevision(this.key, '==', seen?.modRevision ?? 0n)];
      const { header, succeeded } = await untilAnswered(
        signal,
        (options) => client.txn({ if: unchanged, then: [op.put(this.key, this.value, { lease })] }, options),
        () => {
          this.doubtful = true;
        },
      );
      if (!succeeded) continue;
      this.#modRevision = header.revision;
      return true;
    }
  }

  /** Deletes it unless somebody has put it anew. Repeating it is safe: what comes late finds another revision. */
  async delete(client: Keyspace, signal: AbortSignal): Promise<void> {
    const own = [compare.modRevision(this.key, '==', this.#modRevision)];
    await untilAnswered(signal, (options) => client.txn({ if: own, then: [op.delete(this.key)] }, options));
  }
}
