import type { Operation } from './history.js';
import type { Violation } from './violation.js';

/** A put of a value that no other put writes. */
export interface PutCall {
  readonly key: string;
  readonly value: string;
}

/** What is wrong with a put. */
export type PutRule = 'lost' | 'applied twice' | 'applied though failed' | 'invented';

/**
 * Judges puts by all values that the store ever held, in the order of their revisions: a put that succeeded was applied
 * once, one that failed never, one whose outcome is unknown at most once; and nobody else wrote.
 */
export function checkPuts(
  operations: readonly Operation<PutCall, unknown>[],
  truth: readonly { readonly key: string; readonly value: string }[],
): Violation<PutRule>[] {
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
    if (!known.has(id)) violations.push({ rule: 'invented', detail: `${id}: no put wrote it` });
  }
  return violations;
}

function idOf(key: string, value: string): string {
  return `${JSON.stringify(key)} = ${JSON.stringify(value)}`;
}
