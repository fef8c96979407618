import type { SeenEvent } from './check-watch.js';
import type { Operation } from './history.js';
import type { Violation } from './violation.js';

/** A call about one key, or about none that the order depends on. Values of a key must be unique. */
export type OrderedCall =
  | { readonly type: 'read'; readonly key: string }
  | { readonly type: 'write'; readonly key: string; readonly value: string };

/** The revision of the answer's header, and of a read what it saw; undefined for a key that was not there. */
export interface OrderedResult {
  readonly revision: bigint;
  readonly value?: string | undefined;
}

/** A recorded call, and what came of it. */
export type OrderedOperation = Operation<OrderedCall, OrderedResult>;

/** What is wrong with a call: it saw what was past, or what never was, or is not in the truth. */
export type OrderRule = 'stale' | 'wrong value' | 'not applied';

/**
 * Linearizability, judged by revisions: etcd itself orders all that happens, so it is enough that this order is the one
 * in which the callers saw things happen, and that each read tells what the key was at its revision. Linear in time,
 * where a search for any order is not. `truth` is every event of the keys, in the order of their revisions. That values
 * are unique is for `checkPuts` to tell.
 */
export function checkOrder(
  operations: readonly OrderedOperation[],
  truth: readonly SeenEvent[],
): Violation<OrderRule>[] {
  const written = new Map(truth.map(({ key, value, revision }) => [idOf(key, value), revision]));
  const violations: Violation<OrderRule>[] = [];
  const placed: { readonly operation: OrderedOperation; readonly revision: bigint }[] = [];
  for (const operation of operations) {
    const { call, outcome, result } = operation;
    const revision = call.type === 'write' ? written.get(idOf(call.key, call.value)) : result?.revision;
    if (outcome === 'ok' && revision !== result?.revision)
      violations.push({ rule: 'not applied', detail: `${textOf(operation)}: the truth has it at ${revision}` });
    else if (revision !== undefined) placed.push({ operation, revision });
  }
  const byEnd = placed.toSorted((a, b) => a.operation.endMs - b.operation.endMs);
  let ended = 0;
  let seen = 0n;
  for (const { operation, revision } of placed.toSorted((a, b) => a.operation.startMs - b.operation.startMs)) {
    for (; (byEnd[ended]?.operation.endMs ?? Number.POSITIVE_INFINITY) < operation.startMs; ended += 1) {
      const before = byEnd[ended]?.revision ?? 0n;
      if (before > seen) seen = before;
    }
    // A write makes a new revision, a read may see the one that was seen before.
    if (operation.call.type === 'write' ? revision <= seen : revision < seen)
      violations.push({ rule: 'stale', detail: `${textOf(operation)}: ${seen} was seen before it began` });
  }
  return [...violations, ...wrongReads(placed, truth)];
}

/** Reads that did not see what the key was at their revision. */
function wrongReads(
  placed: readonly { readonly operation: OrderedOperation; readonly revision: bigint }[],
  truth: readonly SeenEvent[],
): Violation<OrderRule>[] {
  const violations: Violation<OrderRule>[] = [];
  const values = new Map<string, string | undefined>();
  let next = 0;
  const reads = placed.filter(({ operation }) => operation.call.type === 'read');
  for (const { operation, revision } of reads.toSorted((a, b) => Number(a.revision - b.revision))) {
    for (let event = truth[next]; event !== undefined && event.revision <= revision; event = truth[++next])
      values.set(event.key, event.type === 'put' ? event.value : undefined);
    const value = values.get(operation.call.key);
    if (value !== operation.result?.value)
      violations.push({ rule: 'wrong value', detail: `${textOf(operation)}: it was ${JSON.stringify(value)}` });
  }
  return violations;
}

function textOf({ process, call, result }: OrderedOperation): string {
  const value = call.type === 'write' ? call.value : result?.value;
  return `${call.type} of ${JSON.stringify(call.key)} = ${JSON.stringify(value)} by ${process} at ${result?.revision}`;
}

function idOf(key: string, value: string): string {
  return `${JSON.stringify(key)} = ${JSON.stringify(value)}`;
}
