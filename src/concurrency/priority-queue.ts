import { type CallOptions, checkCallOptions } from '../channel/rpc.js';
import { invalidInput } from '../errors/etcd-error.js';
import { compare } from '../kv/compare.js';
import { prefix } from '../kv/key-range.js';
import type { KeyValue } from '../kv/key-value.js';
import { op } from '../kv/op.js';
import { withFirstKey, withLastKey } from '../kv/range-presets.js';
import { show } from '../runtime/arguments.js';
import type { BytesLike } from '../runtime/bytes.js';
import { backoffMs, pause } from '../runtime/timers.js';
import { Consumers } from './consumers.js';
import { withHelperKeys } from './helper-keys.js';
import { checkName } from './queue-entry.js';
import { checkSession, type Session } from './session.js';
import type { WaitOptions } from './wait-limit.js';

const MAX_PRIORITY = 65_535;
/** As in Go's recipes. */
const BASE_KEYS = 'under its name with "__" before it ("app/jobs": "__app/jobs/")';

/**
 * Smaller priorities first, and first in, first out among equals, on the key layout of the `PriorityQueue` of Go's
 * recipes. Every item is taken by one consumer. Besides the items, `enqueue` uses the keys that begin with "__" and the
 * name, as Go's does, and `dequeue` keys in the folder of the queue: the queue "app/jobs" uses "__app/jobs/" and
 * "app/__jobs/". A user needs readwrite permission for all of them.
 */
export class PriorityQueue {
  readonly name: string;
  readonly #session: Session;
  readonly #consumers: Consumers;

  /** @throws EtcdError, reason `InvalidInput`. */
  constructor(session: Session, name: string) {
    this.name = checkName(name);
    this.#session = checkSession(session);
    this.#consumers = new Consumers(session, name, withFirstKey());
  }

  /**
   * Puts an item behind those of the same priority, a whole number from 0 to 65,535, and gives its key. Not repeated
   * where its outcome is unknown, for it may have been taken already.
   */
  async enqueue(value: BytesLike, priority: number, options: CallOptions = {}): Promise<string> {
    checkCallOptions(options, 'PriorityQueue.enqueue');
    if (!Number.isInteger(priority) || priority < 0 || priority > MAX_PRIORITY)
      throw invalidInput('priority', show(priority), `a whole number from 0 to ${MAX_PRIORITY}`);
    const { client } = this.#session;
    const equals = `${this.name}/${String(priority).padStart(5, '0')}`;
    // Changes with every item, so that a number given to one that has gone meanwhile is not given again.
    const base = `__${equals}`;
    for (let attempt = 0; ; attempt += 1) {
      const { header, kvs } = await client.range(prefix(`${equals}/`), { ...options, ...withLastKey() });
      const key = `${equals}/${String(numberAfter(kvs[0])).padStart(16, '0')}`;
      const enqueueing = client.txn(
        {
          if: [compare.modRevision(base, '<', header.revision + 1n)],
          then: [op.put(base, ''), op.put(key, value)],
        },
        options,
      );
      const { succeeded } = await withHelperKeys('a priority queue', enqueueing, BASE_KEYS);
      if (succeeded) return key;
      await pause(backoffMs(attempt), options.signal);
    }
  }

  /** Waits for the item that comes first and takes it. See `Queue.dequeue`. */
  dequeue(options: WaitOptions = {}): Promise<KeyValue> {
    return this.#consumers.take(options);
  }
}

function numberAfter(last: KeyValue | undefined): bigint {
  const digits = /\/(\d+)$/.exec(last?.keyText() ?? '')?.[1];
  return digits === undefined ? 0n : BigInt(digits) + 1n;
}
