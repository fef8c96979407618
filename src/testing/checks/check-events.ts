import { checkBoolean, checkInt64, checkOptions, checkText, type Int64Like } from '../../base/index.js';
import { checkRecords } from './check-records.js';
import type { SeenEvent, Violation } from './history.js';

/**
 * A rule that the events of a watch can violate.
 *
 * - `lost`: The watch did not deliver an event.
 * - `repeated`: The watch delivered an event twice.
 * - `reordered`: The watch delivered an event after an event that happened later.
 * - `torn`: The watch delivered the events of one revision in two batches.
 * - `altered`: The watch delivered an event with a wrong value.
 * - `invented`: The watch delivered an event that never happened.
 */
export type WatchRule = 'lost' | 'repeated' | 'reordered' | 'torn' | 'altered' | 'invented';

/**
 * Compares the events that a watch delivered with the events that happened.
 *
 * @param truth Every event of the watched keys, in order: from the start revision of the watch to the last revision
 * that the watch should have delivered.
 * @param batches The events that the watch delivered, one list for each batch.
 * @example
 * import { checkWatch, type SeenEvent } from 'etcdwire/testing';
 *
 * const event: SeenEvent = { revision: 2n, type: 'put', key: 'k', value: 'v' };
 * console.log(checkWatch([event], [[event]])); // []
 * console.log(checkWatch([event], [])); // [ { rule: 'lost', detail: 'put of "k" at revision 2' } ]
 */
export function checkWatch(
  truth: readonly SeenEvent[],
  batches: readonly (readonly SeenEvent[])[],
): Violation<WatchRule>[] {
  checkRecords(truth, 'truth');
  checkRecords(batches, 'batches');
  const positions = new Map(truth.map((event, position) => [eventId(event), position]));
  const seen = new Set<number>();
  const violations: Violation<WatchRule>[] = [];
  let latest = -1;
  let lastRevision: bigint | undefined;
  for (const [index, batch] of batches.entries()) {
    const found = (rule: WatchRule, detail: string): void => {
      violations.push({ rule, detail: `batch ${index}: ${detail}` });
    };
    if (batch[0] !== undefined && batch[0].revision === lastRevision)
      found('torn', `revision ${lastRevision} began in the batch before`);
    for (const event of batch) {
      const position = positions.get(eventId(event));
      if (position === undefined) found('invented', eventText(event));
      else if (truth[position]?.value !== event.value) found('altered', eventText(event));
      else if (seen.has(position)) found('repeated', eventText(event));
      else if (position < latest)
        found('reordered', `${eventText(event)} after ${eventText(truth[latest] as SeenEvent)}`);
      if (position === undefined) continue;
      seen.add(position);
      latest = Math.max(latest, position);
    }
    lastRevision = batch.at(-1)?.revision ?? lastRevision;
  }
  for (const [position, event] of truth.entries()) {
    if (!seen.has(position)) violations.push({ rule: 'lost', detail: eventText(event) });
  }
  return violations;
}

/**
 * Returns an ID of the event: its revision, type and key. The ID is unique, because each revision changes a key at most
 * once.
 */
function eventId({ revision, type, key }: SeenEvent): string {
  return `${revision} ${type} ${key}`;
}

function eventText({ revision, type, key }: SeenEvent): string {
  return `${type} of ${JSON.stringify(key)} at revision ${revision}`;
}

/** A period when one process considered itself the holder of a lock. */
export interface Claim {
  /** Name of the process. */
  readonly holder: string;
  /** Fencing token: the create revision of the holder's key. */
  readonly token: bigint;
  /** When the process became the holder, in milliseconds on a clock that all processes share. */
  readonly fromMs: number;
  /**
   * When the process last acted as the holder, or learned that it no longer held the lock, on the same clock.
   * `Infinity` if it still considers itself the holder.
   */
  readonly untilMs: number;
}

/**
 * A rule that the claims to a lock can violate.
 *
 * - `two holders`: A claim began before an earlier claim had ended.
 * - `out of order`: A claim began after a claim with the same token or a greater token.
 * - `not first in queue`: The key of a claim was never the first key in the queue.
 */
export type LockRule = 'two holders' | 'out of order' | 'not first in queue';

/**
 * Checks that a lock had one holder at a time, in the order of the queue. The queue contains the keys under the prefix
 * of the lock, ordered by create revision. The first key in the queue owns the lock.
 *
 * @param truth Every event of the keys under the prefix of the lock, in order.
 * @example
 * import { checkLock } from 'etcdwire/testing';
 *
 * const claims = [{ holder: 'a', token: 2n, fromMs: 0, untilMs: 10 }];
 * console.log(checkLock(claims, [{ revision: 2n, type: 'put', key: 'lock/a', value: '' }])); // []
 */
export function checkLock(claims: readonly Claim[], truth: readonly SeenEvent[]): Violation<LockRule>[] {
  checkRecords(claims, 'claims');
  const owners = ownersOf(checkRecords(truth, 'truth'));
  const violations: Violation<LockRule>[] = [];
  /**
   * The claim that ends last among the claims checked so far. The next claim must not begin before this claim has
   * ended.
   */
  let longest: Claim | undefined;
  for (const claim of claims.toSorted((a, b) => a.fromMs - b.fromMs)) {
    if (!owners.has(claim.token)) {
      violations.push({
        rule: 'not first in queue',
        detail: `${claimText(claim)}, whose key was never the first key in the queue`,
      });
    }
    if (longest !== undefined && claim.fromMs < longest.untilMs) {
      violations.push({ rule: 'two holders', detail: `${claimText(claim)} while ${claimText(longest)} held it` });
    }
    if (longest !== undefined && claim.token <= longest.token) {
      violations.push({ rule: 'out of order', detail: `${claimText(claim)} after ${claimText(longest)}` });
    }
    if (longest === undefined || claim.untilMs > longest.untilMs) longest = claim;
  }
  return violations;
}

/** Returns the create revisions of the keys that were first in the queue at some time. */
function ownersOf(truth: readonly SeenEvent[]): ReadonlySet<bigint> {
  const queue = new Map<string, bigint>();
  const owners = new Set<bigint>();
  for (const { type, key, revision } of truth) {
    if (type === 'delete') queue.delete(key);
    // A later put of the same key does not change its create revision.
    else if (!queue.has(key)) queue.set(key, revision);
    const [first] = queue.values();
    if (first !== undefined) owners.add(first);
  }
  return owners;
}

function claimText({ holder, token }: Claim): string {
  return `${holder} with token ${token}`;
}

const RESOURCE_OPTIONS = { fenced: checkBoolean } as const;

/**
 * Simulates a resource outside etcd to which only the holder of a lock may write. The resource refuses a write whose
 * fencing token is smaller than the maximum token that it has seen. With `fenced: false`, the resource accepts every
 * write, and records the writes that it should have refused.
 *
 * @example
 * import { GuardedResource } from 'etcdwire/testing';
 *
 * const resource = new GuardedResource();
 * console.log(resource.write('new holder', 7n)); // true
 * console.log(resource.write('former holder', 5n)); // false
 */
export class GuardedResource {
  readonly #fenced: boolean;
  #greatest = 0n;
  readonly #staleWrites: Violation<'stale write'>[] = [];

  /** @throws EtcdError with reason `InvalidInput` if the options are invalid. */
  constructor(options: { readonly fenced?: boolean | undefined } = {}) {
    checkOptions(options, RESOURCE_OPTIONS, 'GuardedResource');
    this.#fenced = options.fenced ?? true;
  }

  /** The accepted writes whose token was smaller than the token of an earlier write. */
  get violations(): readonly Violation<'stale write'>[] {
    return this.#staleWrites;
  }

  /** Writes to the resource. Returns whether the resource accepted the write. */
  write(holder: string, fencingToken: Int64Like): boolean {
    checkText(holder, 'holder');
    const token = checkInt64(fencingToken, 'token');
    if (token >= this.#greatest) {
      this.#greatest = token;
      return true;
    }
    if (this.#fenced) return false;
    const detail = `${holder} with token ${token} after token ${this.#greatest}`;
    this.#staleWrites.push({ rule: 'stale write', detail });
    return true;
  }
}
