import { amended, EtcdError } from '../errors/etcd-error.js';
import { compare } from '../kv/compare.js';
import { prefix } from '../kv/key-range.js';
import type { KeyValue } from '../kv/key-value.js';
import { op } from '../kv/op.js';
import type { RangeOptions } from '../kv/requests.js';
import { compareBytes } from '../runtime/bytes.js';
import { onAbort } from '../runtime/signals.js';
import type { Held } from './held.js';
import { type Generation, helperPrefix, withHelperKeys } from './helper-keys.js';
import { Line } from './line.js';
import type { Session } from './session.js';
import { untilAnswered, type WaitLimit, type WaitOptions, waitLimit } from './wait-limit.js';
import { watchUntil } from './watch-until.js';

/**
 * Those who take from a queue: they stand in line, so that a new item wakes one, and they get items in the order in
 * which they asked. The line's keys lie beside the items: see `helperPrefix`.
 */
export class Consumers {
  readonly #session: Session;
  readonly #items: string;
  readonly #order: RangeOptions;
  readonly #line: Line;
  readonly #generation: Generation | undefined;

  /** `order` picks the item that comes first. A `generation` is told of each item that is taken. */
  constructor(session: Session, name: string, order: RangeOptions, generation?: Generation) {
    this.#session = session;
    this.#items = `${name}/`;
    this.#order = order;
    this.#generation = generation;
    this.#line = new Line(session, `${helperPrefix(name)}consumers`);
  }

  /** Waits for an item and takes it. */
  async take(options: WaitOptions): Promise<KeyValue> {
    const limit = waitLimit('dequeue', options, this.#session.signal);
    try {
      const entering = this.#line.enter('dequeue', { signal: limit.signal });
      const turn = await withHelperKeys('a queue', entering);
      try {
        for (;;) {
          const item = await this.#first(turn, limit);
          if (await this.#claim(turn, item)) return item;
        }
      } finally {
        // Goes on in the background where it takes long.
        turn.unlock().catch(() => {});
      }
    } catch (error) {
      if (error instanceof UncertainClaim) throw error.cause;
      // Nothing was taken, whatever may have become of the session.
      limit.settle('rejected');
      throw withoutEffect(limit.endedBy(error));
    } finally {
      limit.dispose();
    }
  }

  #first(turn: Held, limit: WaitLimit): Promise<KeyValue> {
    const { client } = this.#session;
    const offLost = onAbort(turn.signal, () => limit.end(turn.signal.reason));
    return watchUntil(client, { keys: prefix(this.#items), wake: 'put' }, limit.signal, async (options) => {
      const { kvs } = await client.range(prefix(this.#items), { ...options, ...this.#order });
      return kvs[0];
    }).finally(offLost);
  }

  /**
   * Deletes the item, unless somebody else did. The key of one's place in the line notes which item that was: where an
   * answer is lost, the repetition finds out whether the attempt before came through. Once begun only the end of the
   * session stops it, for nobody else would see the item again.
   */
  async #claim(turn: Held, item: KeyValue): Promise<boolean> {
    const { leaseId: lease, signal } = this.#session;
    const next = this.#generation === undefined ? [] : [this.#generation.next];
    let doubtful = false;
    try {
      const result = await untilAnswered(
        signal,
        (options) =>
          turn.txn(
            {
              if: [compare.modRevision(item.key, '==', item.modRevision)],
              then: [op.delete(item.key), op.put(turn.key, item.key, { lease }), ...next],
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
      throw doubtful && error instanceof EtcdError ? new UncertainClaim(error) : error;
    }
  }
}

/** The item may have been taken, and nobody will have it then. */
class UncertainClaim {
  readonly cause: EtcdError;

  constructor(error: EtcdError) {
    this.cause = amended(error, { outcome: 'unknown' });
  }
}

function withoutEffect(error: unknown): unknown {
  return error instanceof EtcdError && error.outcome === 'unknown' ? amended(error, { outcome: 'rejected' }) : error;
}
