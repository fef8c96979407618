import { checkRecords } from './check-records.js';
import type { Operation, SeenEvent, Violation } from './history.js';

/** A put of a unique value: no other put writes the same value to the same key. */
export interface PutCall {
  readonly key: string;
  readonly value: string;
}

/**
 * A rule that puts can violate. A put is applied when the store records its value at a new revision.
 *
 * - `lost`: A put succeeded, but the store never held its value.
 * - `applied twice`: One put was applied at more than one revision.
 * - `applied though failed`: A put failed, but the store held its value.
 * - `invented`: The store held a value that no recorded put wrote.
 */
export type PutRule = 'lost' | 'applied twice' | 'applied though failed' | 'invented';

/**
 * Checks that each successful put was applied exactly once, that no failed put was applied, that each put whose outcome
 * is unknown was applied at most once, and that the store held no other values.
 *
 * @param truth All values that the store ever held, in the order of their revisions.
 * @throws TypeError if two puts write the same value to the same key.
 * @example
 * import { checkPuts, type Operation, type PutCall } from 'etcdwire/testing';
 *
 * const put: Operation<PutCall, unknown> = {
 *   process: 'a',
 *   call: { key: 'k', value: 'v' },
 *   startMs: 0,
 *   endMs: 1,
 *   outcome: 'ok',
 *   result: undefined,
 * };
 * console.log(checkPuts([put], [{ key: 'k', value: 'v' }])); // []
 */
export function checkPuts(
  operations: readonly Operation<PutCall, unknown>[],
  truth: readonly { readonly key: string; readonly value: string }[],
): Violation<PutRule>[] {
  checkRecords(operations, 'operations');
  checkRecords(truth, 'truth');
  const applied = new Map<string, number>();
  for (const { key, value } of truth) applied.set(idOf(key, value), (applied.get(idOf(key, value)) ?? 0) + 1);
  const violations: Violation<PutRule>[] = [];
  const known = new Set<string>();
  for (const { process, call, outcome } of operations) {
    const id = idOf(call.key, call.value);
    if (known.has(id)) throw new TypeError(`two puts of ${id}: values must be unique`);
    known.add(id);
    const times = applied.get(id) ?? 0;
    const detail = `${id} by ${process}: ${outcome}, applied ${times} times`;
    if (times > 1) violations.push({ rule: 'applied twice', detail });
    else if (outcome === 'ok' && times === 0) violations.push({ rule: 'lost', detail });
    else if (outcome === 'fail' && times === 1) violations.push({ rule: 'applied though failed', detail });
  }
  for (const id of applied.keys()) {
    if (!known.has(id)) violations.push({ rule: 'invented', detail: `${id}: no recorded put wrote this value` });
  }
  return violations;
}

function idOf(key: string, value: string): string {
  return `${JSON.stringify(key)} = ${JSON.stringify(value)}`;
}

/** A read or a write of one key. The values written to a key must be unique. */
export type OrderedCall =
  | { readonly type: 'read'; readonly key: string }
  | { readonly type: 'write'; readonly key: string; readonly value: string };

/** The response to an ordered call. */
export interface OrderedResult {
  /** The revision in the header of the response. */
  readonly revision: bigint;
  /** The value that a read returned; undefined if the key did not exist. */
  readonly value?: string | undefined;
}

/** A recorded read or write, with its result. */
export type OrderedOperation = Operation<OrderedCall, OrderedResult>;

/**
 * A rule that reads and writes can violate.
 *
 * - `stale`: A call took effect at an older revision than another call that had ended before this call began. A write
 *   is also stale at the same revision.
 * - `wrong value`: A read did not return the value that the key had at the revision of the read.
 * - `not applied`: A write succeeded, but `truth` contains no put of its value at the revision of the response.
 */
export type OrderRule = 'stale' | 'wrong value' | 'not applied';

/** A read or write that took effect. */
interface OrderedEffect {
  readonly operation: OrderedOperation;
  /** The revision at which the call took effect. */
  readonly revision: bigint;
}

/**
 * Checks that reads and writes are linearizable. Compares revisions, so it needs no search for a valid order. etcd
 * orders all changes by their revisions. The callers must have seen the changes in this order, and each read must have
 * returned the value that its key had at the revision of the read. This function does not check that the written values
 * are unique; `checkPuts` does.
 *
 * @param truth Every event of the keys, in the order of their revisions.
 * @example
 * import { checkOrder, type OrderedOperation } from 'etcdwire/testing';
 *
 * const read: OrderedOperation = {
 *   process: 'a',
 *   call: { type: 'read', key: 'k' },
 *   startMs: 0,
 *   endMs: 1,
 *   outcome: 'ok',
 *   result: { revision: 2n, value: 'v' },
 * };
 * console.log(checkOrder([read], [{ revision: 2n, type: 'put', key: 'k', value: 'v' }])); // []
 */
export function checkOrder(
  operations: readonly OrderedOperation[],
  truth: readonly SeenEvent[],
): Violation<OrderRule>[] {
  checkRecords(operations, 'operations');
  checkRecords(truth, 'truth');
  const puts = truth.filter(({ type }) => type === 'put');
  const written = new Map(puts.map(({ key, value, revision }) => [idOf(key, value), revision]));
  const violations: Violation<OrderRule>[] = [];
  const effects: OrderedEffect[] = [];
  for (const operation of operations) {
    const { call, outcome, result } = operation;
    const revision = call.type === 'write' ? written.get(idOf(call.key, call.value)) : result?.revision;
    if (outcome === 'ok' && revision !== result?.revision) {
      const found = revision === undefined ? 'contains no put of this value' : `contains the put at ${revision}`;
      violations.push({ rule: 'not applied', detail: `${operationText(operation)}: the truth ${found}` });
    } else if (revision !== undefined) effects.push({ operation, revision });
  }
  const byEnd = effects.toSorted((a, b) => a.operation.endMs - b.operation.endMs);
  let ended = 0;
  let seen = 0n;
  for (const { operation, revision } of effects.toSorted((a, b) => a.operation.startMs - b.operation.startMs)) {
    for (; (byEnd[ended]?.operation.endMs ?? Number.POSITIVE_INFINITY) < operation.startMs; ended += 1) {
      const before = byEnd[ended]?.revision ?? 0n;
      if (before > seen) seen = before;
    }
    // A write creates a new revision. A read may return a revision that another call has returned before.
    if (operation.call.type === 'write' ? revision <= seen : revision < seen)
      violations.push({ rule: 'stale', detail: `${operationText(operation)}: revision ${seen} was already seen` });
  }
  return [...violations, ...wrongReads(effects, truth)];
}

/** Returns a violation for each read that did not return the value that its key had at the revision of the read. */
function wrongReads(effects: readonly OrderedEffect[], truth: readonly SeenEvent[]): Violation<OrderRule>[] {
  const violations: Violation<OrderRule>[] = [];
  const values = new Map<string, string | undefined>();
  let next = 0;
  const reads = effects.filter(({ operation }) => operation.call.type === 'read');
  for (const { operation, revision } of reads.toSorted((a, b) => Number(a.revision - b.revision))) {
    for (let event = truth[next]; event !== undefined && event.revision <= revision; event = truth[++next])
      values.set(event.key, event.type === 'put' ? event.value : undefined);
    const value = values.get(operation.call.key);
    if (value !== operation.result?.value)
      violations.push({
        rule: 'wrong value',
        detail: `${operationText(operation)}: the value was ${JSON.stringify(value)}`,
      });
  }
  return violations;
}

function operationText({ process, call, result }: OrderedOperation): string {
  const value = call.type === 'write' ? call.value : result?.value;
  return `${call.type} of ${JSON.stringify(call.key)} = ${JSON.stringify(value)} by ${process} at ${result?.revision}`;
}

/** A call to one register, that is, to one key. The value undefined stands for a key that does not exist. */
export type RegisterCall =
  | { readonly type: 'read' }
  | { readonly type: 'write'; readonly value: string | undefined }
  /** Writes `value` if the register holds `expected`. The result is whether the call wrote the value. */
  | { readonly type: 'compare-and-swap'; readonly expected: string | undefined; readonly value: string };

/** The value that a read returned, or whether a compare-and-swap wrote its value; undefined for a write. */
export type RegisterResult = string | boolean | undefined;

/** A recorded call to a register, with its result. */
export type RegisterOperation = Operation<RegisterCall, RegisterResult>;

/** The start or the end of an operation. */
interface Boundary {
  /** Index of the operation. */
  readonly operation: number;
  readonly isStart: boolean;
  readonly ms: number;
}

/**
 * Checks that the operations on one register, that is, on one key, are linearizable: each operation that took effect
 * has a point in time between its start and its end, such that all results are right if the operations take effect at
 * these points. Uses the algorithm of Wing and Gong with Lowe's cache of visited configurations
 * (https://www.cs.ox.ac.uk/people/gavin.lowe/LinearizabiltyTesting/). In the worst case, the time of the search is
 * exponential in the number of concurrent operations.
 *
 * @param initial The value before the first operation. Default: the key does not exist.
 * @example
 * import { checkRegister, type RegisterOperation } from 'etcdwire/testing';
 *
 * const write: RegisterOperation = {
 *   process: 'a',
 *   call: { type: 'write', value: 'v' },
 *   startMs: 0,
 *   endMs: 1,
 *   outcome: 'ok',
 *   result: undefined,
 * };
 * console.log(checkRegister([write])); // []
 */
export function checkRegister(
  operations: readonly RegisterOperation[],
  initial: string | undefined = undefined,
): Violation<'not linearizable'>[] {
  checkRecords(operations, 'operations');
  // A failed operation had no effect, and a read without an answer proves nothing.
  const relevant = operations.filter(
    ({ call, outcome }) => outcome === 'ok' || (outcome === 'unknown' && call.type !== 'read'),
  );
  const boundaries = timeline(relevant);
  /**
   * 1 for each operation that has taken effect in the order that the search is trying. The search skips these
   * operations.
   */
  const done = new Uint8Array(relevant.length);
  const nextFrom = (from: number): number => {
    let next = from;
    while (next < boundaries.length && done[boundaries[next]?.operation as number] === 1) next += 1;
    return next;
  };
  const known = new Set<string>();
  /** The operations that have taken effect, in order, each with the index of its start and the state before it. */
  const stack: { readonly at: number; readonly operation: number; readonly state: string | undefined }[] = [];
  let state = initial;
  let needed = relevant.filter(({ outcome }) => outcome === 'ok').length;
  let at = nextFrom(0);
  let furthest = 0;
  while (needed > 0) {
    const { operation = -1, isStart = false } = boundaries[at] ?? {};
    if (isStart) {
      const call = relevant[operation] as RegisterOperation;
      const after = apply(call, state);
      if (after !== undefined) {
        done[operation] = 1;
        const configuration = `${done.join('')} ${JSON.stringify(after.state ?? null)}`;
        if (!known.has(configuration)) {
          known.add(configuration);
          stack.push({ at, operation, state });
          state = after.state;
          if (call.outcome === 'ok') needed -= 1;
          furthest = Math.max(furthest, stack.length);
          at = nextFrom(0);
          continue;
        }
        done[operation] = 0;
      }
      at = nextFrom(at + 1);
      continue;
    }
    // In the current order, an operation would end before it has taken effect, so the search takes back its latest
    // choice.
    const last = stack.pop();
    if (last === undefined) {
      const detail = `at most ${furthest} of ${relevant.length} operations have an order that explains their results`;
      return [{ rule: 'not linearizable', detail }];
    }
    done[last.operation] = 0;
    if (relevant[last.operation]?.outcome === 'ok') needed += 1;
    state = last.state;
    at = nextFrom(last.at + 1);
  }
  return [];
}

/** Returns the state after the call, or undefined if the result of the call contradicts the state before the call. */
function apply(
  { call, outcome, result }: RegisterOperation,
  state: string | undefined,
): { readonly state: string | undefined } | undefined {
  switch (call.type) {
    case 'read':
      return result === state ? { state } : undefined;
    case 'write':
      return { state: call.value };
    case 'compare-and-swap': {
      const swaps = call.expected === state;
      if (outcome === 'ok' && result !== swaps) return undefined;
      return { state: swaps ? call.value : state };
    }
  }
}

/** Returns the starts and ends of all operations, ordered by time. */
function timeline(operations: readonly RegisterOperation[]): readonly Boundary[] {
  const boundaries = operations.flatMap(({ startMs, endMs }, operation) => [
    { operation, isStart: true, ms: startMs },
    { operation, isStart: false, ms: endMs },
  ]);
  // If a start and an end have the same time, the start comes first, because the operations may have been concurrent.
  return boundaries.sort((a, b) => a.ms - b.ms || Number(b.isStart) - Number(a.isStart));
}
