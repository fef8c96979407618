import { compareBytes } from '../bytes.js';
import { amended, EtcdError } from '../errors.js';
import { prefix } from '../kv/key-range.js';
import type { KeyValue } from '../kv/key-value.js';
import type { RangeOptions } from '../kv/requests.js';
import { compare } from '../txn/compare.js';
import { op } from '../txn/op.js';
import type { Held } from './held.js';
import { Mutex } from './mutex.js';
import type { Session } from './session.js';
import { untilAnswered, type WaitOptions, waitLimit } from './wait-limit.js';
import { watchUntil } from './watch-until.js';

/**
 * Those who take from a queue: in line behind a `Mutex`, so that a new item wakes one, and they get items in the order
 * in which they asked. Its name begins with "__", as do the other keys beside the items in Go's layout.
 */
export class Consumers {
  readonly #session: Session;
  readonly #items: string;
  readonly #order: RangeOptions;
  readonly #line: Mutex;

  /** `order` picks the item that comes first. */
  constructor(session: Session, name: string, order: RangeOptions) {
    this.#session = session;
    this.#items = `${name}/`;
    this.#order = order;
    this.#line = new Mutex(session, `__${name}/consumers`);
  }

  /** Waits for an item and takes it. */
  async take(options: WaitOptions): Promise<KeyValue> {
    const limit = waitLimit('dequeue', options, this.#session.signal);
    try {
      const turn = await this.#line.lock({ signal: limit.signal });
      try {
        for (;;) {
          const item = await this.#first(limit.signal);
          if (await this.#claim(turn, item)) return item;
        }
      } finally {
        // Goes on in the background where it takes long.
        turn.unlock().catch(() => {});
      }
    } catch (error) {
      const gaveUp = limit.signal.aborted && !(error instanceof EtcdError && error.outcome === 'unknown');
      throw gaveUp ? limit.signal.reason : error;
    } finally {
      limit.dispose();
    }
  }

  #first(signal: AbortSignal): Promise<KeyValue> {
    const { client } = this.#session;
    return watchUntil(client, { keys: prefix(this.#items), wake: 'put' }, signal, async (options) => {
      const { kvs } = await client.range(prefix(this.#items), { ...options, ...this.#order });
      return kvs[0];
    });
  }

  /**
   * Deletes the item, unless somebody else did. The key of one's place in the line notes which item that was: where an
   * answer is lost, the repetition finds out whether the attempt before came through. Once begun only the end of the
   * session stops it, for nobody else would see the item again.
   */
  async #claim(turn: Held, item: KeyValue): Promise<boolean> {
    const { leaseId: lease, signal } = this.#session;
    let doubtful = false;
    try {
      const result = await untilAnswered(
        signal,
        (options) =>
          turn.txn(
            {
              if: [compare.modRevision(item.key, '==', item.modRevision)],
              then: [op.delete(item.key), op.put(turn.key, item.key, { lease })],
              else: [op.get(turn.key)],
            },
            options,
          ),
        () => {
          doubtful = true;
        },
      );
      if (result.succeeded) return true;
      const noted = result.responses[0];
      return noted !== undefined && compareBytes(noted.value, item.key) === 0;
    } catch (error) {
      throw doubtful && error instanceof EtcdError ? amended(error, { outcome: 'unknown' }) : error;
    }
  }
}
