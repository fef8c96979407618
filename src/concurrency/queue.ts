import { type CallOptions, checkCallOptions } from '../channel/rpc.js';
import { compare } from '../kv/compare.js';
import type { KeyValue } from '../kv/key-value.js';
import { op } from '../kv/op.js';
import { withFirstRev } from '../kv/range-presets.js';
import type { BytesLike } from '../runtime/bytes.js';
import { Consumers } from './consumers.js';
import { Generation, helperPrefix, withHelperKeys } from './helper-keys.js';
import { checkName } from './queue-entry.js';
import { checkSession, type Session } from './session.js';
import type { WaitOptions } from './wait-limit.js';

/**
 * First in, first out, on the key layout of the `Queue` of Go's recipes. Every item is taken by one consumer. Besides the
 * items it uses keys in the same folder, under the name with "__" before its last part: the queue "app/jobs" uses
 * "app/__jobs/". A user needs readwrite permission for both.
 */
export class Queue {
  readonly name: string;
  readonly #session: Session;
  readonly #consumers: Consumers;
  readonly #generation: Generation;

  /** @throws EtcdError, reason `InvalidInput`. */
  constructor(session: Session, name: string) {
    this.name = checkName(name);
    this.#session = checkSession(session);
    this.#generation = new Generation(helperPrefix(name));
    this.#consumers = new Consumers(session, name, withFirstRev(), this.#generation);
  }

  /**
   * Puts an item at the end, and gives its key. It stays there whatever becomes of this process. Not repeated where its
   * outcome is unknown, for it may have been taken already.
   */
  async enqueue(value: BytesLike, options?: CallOptions): Promise<string> {
    checkCallOptions(options, 'Queue.enqueue');
    for (;;) {
      const key = `${this.name}/${nanoseconds()}`;
      const enqueueing = this.#session.client.txn(
        { if: [compare.missing(key), this.#generation.isUnchanged], then: [op.put(key, value)] },
        options,
      );
      const { header, succeeded } = await withHelperKeys('a queue', enqueueing);
      this.#generation.saw(header.revision);
      if (succeeded) return key;
    }
  }

  /**
   * Waits for an item and takes it: from then on it is this caller's alone, and lost with it. Consumers get items in
   * the order in which they asked. @throws EtcdError, see `WaitOptions`; with outcome `unknown` an item may be lost.
   */
  dequeue(options: WaitOptions = {}): Promise<KeyValue> {
    return this.#consumers.take(options);
  }
}

/** Since 1970, as Go names its keys; the digits below a millisecond are random, and only tell keys apart. */
function nanoseconds(): bigint {
  const [random = 0] = crypto.getRandomValues(new Uint32Array(1));
  return BigInt(Date.now()) * 1_000_000n + BigInt(random % 1_000_000);
}
