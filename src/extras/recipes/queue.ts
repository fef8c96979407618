import {
  amended,
  type BytesLike,
  backoffMs,
  compareBytes,
  EtcdError,
  environment,
  invalidInput,
  onAbort,
  ownBytes,
  pause,
  randomId,
  show,
  textOf,
} from '../../base/index.js';
import {
  type CoreKeyspace,
  checkClient,
  compare,
  type Keys,
  type KeyValue,
  keyRange,
  op,
  prefix,
  type RangeOptions,
  withFirstKey,
  withFirstRev,
  withLastKey,
} from '../../client/index.js';
import {
  acquire,
  checkName,
  checkSession,
  checkSessionOf,
  Held,
  helperPrefix,
  type Session,
  uniqueContender,
  untilAnswered,
  type WaitLimit,
  type WaitOptions,
  waitLimit,
  watchUntil,
  withHelperKeys,
} from '../../locks/index.js';
import { type CallOptions, checkCallOptions } from '../../rpc/index.js';
import { retriedTxn } from '../writes/index.js';

const MAX_PRIORITY = 65_535;
/** Describes, in error messages, the keys that `PriorityQueue.enqueue` puts in addition to the items. */
const BASE_KEYS = 'under its name with "__" before it ("__app/jobs/" for "app/jobs")';

/**
 * A first-in, first-out queue that uses the same keys as the `Queue` of Go's recipes. An item is lost if the process
 * that took it dies. Use `WorkQueue` if every item must be processed. Each item goes to at most one consumer. In
 * addition to the items, the queue uses helper keys in the same folder: the queue "app/jobs" uses keys under
 * "app/__jobs/". The etcd user needs readwrite permission for the items and the helper keys. Do not use both a queue
 * "app" and a queue whose name continues with a slash and a digit, such as "app/1", because the items of the second
 * queue are also items of the first queue.
 *
 * @example
 * const queue = new Queue(etcd, 'app/jobs');
 * await queue.enqueue('resize image 1');
 * const item = await queue.dequeue(session);
 */
export class Queue {
  readonly name: string;
  readonly #client: CoreKeyspace;

  /** @throws EtcdError with reason `InvalidInput` if an argument is invalid. */
  constructor(client: CoreKeyspace, name: string) {
    this.name = checkName(name);
    this.#client = checkClient(client);
  }

  /**
   * Puts an item at the end of the queue and returns its key. The item stays in the queue if this process ends. The
   * client repeats the call until a server answers it or the time limit passes, and the server adds the item at most
   * once.
   *
   * @throws EtcdError if an argument is not valid or the put fails. If the outcome of the error is `unknown`, the item
   *   may be in the queue.
   */
  async enqueue(value: BytesLike, options?: CallOptions): Promise<string> {
    checkCallOptions(options, 'Queue.enqueue');
    const own = ownBytes(value, 'value');
    for (;;) {
      const key = `${this.name}/${unixNanoseconds()}`;
      const txn = { if: [compare.missing(key)], then: [op.put(key, own)] };
      const { succeeded } = await retriedTxn(this.#client, txn, options);
      if (succeeded) return key;
    }
  }

  /**
   * Waits for an item and takes it out of the queue. No other consumer gets the item, even if this process then fails.
   * Consumers get items in the order in which they called `dequeue`.
   *
   * @throws EtcdError, see `WaitOptions`. If the outcome of the error is `unknown`, this call may have removed an item
   *   that no consumer gets.
   */
  dequeue(session: Session, options: WaitOptions = {}): Promise<KeyValue> {
    checkSessionOf(this.#client, checkSession(session), 'Queue');
    return takeFirst(session, this.name, withFirstRev(), options);
  }
}

/**
 * A queue of items with priorities that uses the same keys as the `PriorityQueue` of Go's recipes. An item is lost if
 * the process that took it dies. Use `WorkQueue` if every item must be processed. Items with a smaller priority number
 * come first, and items of equal priority are returned in the order in which they were put. Each item goes to at most
 * one consumer. In addition to the items, the queue "app/jobs" uses two kinds of helper keys: `enqueue` uses keys under
 * "__app/jobs/", as Go does, and `dequeue` uses keys under "app/__jobs/". The etcd user needs readwrite permission for
 * all these keys. The rule of `Queue` for names that continue with a slash and a digit applies here too.
 *
 * @example
 * const queue = new PriorityQueue(etcd, 'app/jobs');
 * await queue.enqueue('resize image 1', 10);
 * const item = await queue.dequeue(session);
 */
export class PriorityQueue {
  readonly name: string;
  readonly #client: CoreKeyspace;

  /** @throws EtcdError with reason `InvalidInput` if an argument is invalid. */
  constructor(client: CoreKeyspace, name: string) {
    this.name = checkName(name);
    this.#client = checkClient(client);
  }

  /**
   * Puts an item behind the items of the same priority and returns its key. `priority` is a whole number from 0 to
   * 65,535. Unless the client has the option `retryWrites`, it does not repeat a put whose outcome is unknown, because
   * a consumer may have taken the item already.
   *
   * @throws EtcdError if an argument is not valid or the put fails. If the outcome of the error is `unknown`, the item
   *   may be in the queue.
   */
  async enqueue(value: BytesLike, priority: number, options: CallOptions = {}): Promise<string> {
    checkCallOptions(options, 'PriorityQueue.enqueue');
    checkPriority(priority, 'priority');
    const own = ownBytes(value, 'value');
    const equals = `${this.name}/${String(priority).padStart(5, '0')}`;
    // The key of an item ends in a sequence number. Every `enqueue` with this priority also puts the key `base`, and
    // checks that `base` has not changed since the range request. So no item gets the sequence number of an item that
    // was put since, even if that item has already been taken.
    const base = `__${equals}`;
    for (let attempt = 0; ; attempt += 1) {
      const { header, kvs } = await this.#client.range(prefix(`${equals}/`), { ...options, ...withLastKey() });
      const key = `${equals}/${String(numberAfter(kvs[0])).padStart(16, '0')}`;
      const enqueueing = this.#client.txn(
        {
          if: [compare.modRevision(base, '<', header.revision + 1n)],
          then: [op.put(base, ''), op.put(key, own)],
        },
        options,
      );
      const { succeeded } = await withHelperKeys('a priority queue', enqueueing, BASE_KEYS);
      if (succeeded) return key;
      await pause(backoffMs(attempt), options.signal);
    }
  }

  /** Waits for the item with the smallest priority number and takes it, like `Queue.dequeue`. */
  dequeue(session: Session, options: WaitOptions = {}): Promise<KeyValue> {
    checkSessionOf(this.#client, checkSession(session), 'PriorityQueue');
    return takeFirst(session, this.name, withFirstKey(), options);
  }
}

/** Returns the last part of an item's key: the nanoseconds since 1970, as in Go. The last six digits are random. */
function unixNanoseconds(): bigint {
  return BigInt(environment.Date.now()) * 1_000_000n + (randomId() % 1_000_000n);
}

/**
 * Returns the range of the items. As in Go's recipes, the key of an item is the name, a slash, and a text that begins
 * with a digit. Other keys under the name belong to queues such as "app/jobs" if this queue has the name "app".
 */
function itemsOf(name: string): Keys {
  return keyRange(`${name}/0`, `${name}/:`);
}

function numberAfter(last: KeyValue | undefined): bigint {
  const digits = /\/(\d+)$/.exec(last === undefined ? '' : textOf(last.keyBytes))?.[1];
  return digits === undefined ? 0n : BigInt(digits) + 1n;
}

/**
 * Waits for an item and takes it. The consumers contend for a lock, so that a new item wakes only one consumer, and
 * consumers get items in the order in which they called `dequeue`. `order` selects the first item.
 */
async function takeFirst(session: Session, name: string, order: RangeOptions, options: WaitOptions): Promise<KeyValue> {
  const consumers = `${helperPrefix(name)}consumers/`;
  const limit = waitLimit('dequeue', options, session.signal);
  /** Whether the server may have deleted an item, although no consumer got it. */
  let isUncertain = false;
  const noteUnknown = (): void => {
    isUncertain = true;
  };
  try {
    const contender = uniqueContender(session, name, consumers, consumers);
    const acquiring = acquire('dequeue', contender, limit.waiting, Held);
    const consumer = await withHelperKeys('a queue', acquiring);
    try {
      for (;;) {
        const item = await waitForItem(session, itemsOf(name), order, consumer, limit);
        if (await claim(session, consumer, item, noteUnknown)) return item;
        isUncertain = false;
      }
    } finally {
      // The release continues in the background.
      consumer.release().catch(() => {});
    }
  } catch (error) {
    if (isUncertain && error instanceof EtcdError) throw amended(error, { outcome: 'unknown' });
    // No item was taken, even if the outcome of a call that acquires the lock is unknown.
    limit.setOutcome('rejected');
    const ended = limit.endedBy(error);
    throw ended instanceof EtcdError && ended.outcome === 'unknown' ? amended(ended, { outcome: 'rejected' }) : ended;
  } finally {
    limit.dispose();
  }
}

function waitForItem(
  { client }: Session,
  items: Keys,
  order: RangeOptions,
  consumer: Held,
  limit: WaitLimit,
): Promise<KeyValue> {
  const lost = (): void => limit.end(consumer.signal.reason);
  const offLost = onAbort(consumer.signal, lost);
  if (consumer.signal.aborted) lost();
  return watchUntil(client, { keys: items, event: 'put' }, limit.waiting, async (options) => {
    const { kvs } = await client.range(items, { ...options, ...order });
    return kvs[0];
  }).finally(offLost);
}

/**
 * Deletes the item, and returns whether this consumer deleted it. The same transaction records the item's key in the
 * consumer's queue key. If the response to an attempt is lost, the next attempt thus finds out whether the earlier
 * attempt took effect. The attempts continue until the server answers or the session ends, because an attempt without
 * an answer may have deleted the item, and no other consumer would then get the item. Calls `onUnknown` for each such
 * attempt.
 */
async function claim(session: Session, consumer: Held, item: KeyValue, onUnknown: () => void): Promise<boolean> {
  const taking = {
    if: [compare.modRevision(item.keyBytes, '==', item.modRevision)],
    then: [op.delete(item.keyBytes), op.put(consumer.key, item.keyBytes, { lease: session.leaseId })],
    else: [op.get(consumer.key)],
  } as const;
  const result = await untilAnswered(session, (options) => consumer.txn(taking, options), onUnknown);
  if (result.succeeded) return true;
  const recorded = result.responses[0];
  return recorded !== undefined && compareBytes(recorded.value, item.keyBytes) === 0;
}

export function checkPriority(priority: number, argument: string): void {
  if (!Number.isInteger(priority) || priority < 0 || priority > MAX_PRIORITY)
    throw invalidInput(argument, show(priority), `a whole number from 0 to ${MAX_PRIORITY}`);
}
