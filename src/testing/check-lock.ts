import type { SeenEvent } from './check-watch.js';
import type { Violation } from './violation.js';

/** For how long somebody took themselves for the holder of a lock. */
export interface Claim {
  readonly holder: string;
  /** Create revision of the holder's key. */
  readonly token: bigint;
  /** On one monotonic clock for all. */
  readonly fromMs: number;
  /** When they last acted as the holder, or saw that they were not; `Infinity` for one that never stopped. */
  readonly untilMs: number;
}

/** What is wrong with a claim: it held while another did, came before one ahead of it, or had no place in line. */
export type LockRule = 'two holders' | 'out of order' | 'not in line';

/**
 * Judges the claims to one lock. `truth` is every event under the lock's prefix, in order: the lock belongs to the key
 * with the lowest create revision, so it is granted in the order in which keys come to be that.
 */
export function checkLock(claims: readonly Claim[], truth: readonly SeenEvent[]): Violation<LockRule>[] {
  const turns = turnsOf(truth);
  const violations: Violation<LockRule>[] = [];
  const inTime = [...claims].sort((a, b) => a.fromMs - b.fromMs);
  let before: Claim | undefined;
  for (const claim of inTime) {
    if (!turns.has(claim.token)) {
      violations.push({ rule: 'not in line', detail: `${textOf(claim)}, whose key was never the first` });
    }
    if (before !== undefined && claim.fromMs < before.untilMs) {
      violations.push({ rule: 'two holders', detail: `${textOf(claim)} while ${textOf(before)} held it` });
    }
    if (before !== undefined && claim.token <= before.token) {
      violations.push({ rule: 'out of order', detail: `${textOf(claim)} after ${textOf(before)}` });
    }
    // Who claims longest is who the next ones have to wait for.
    if (before === undefined || claim.untilMs > before.untilMs) before = claim;
  }
  return violations;
}

/** Create revisions of the keys that were the first in line at some time. */
function turnsOf(truth: readonly SeenEvent[]): ReadonlySet<bigint> {
  const line = new Map<string, bigint>();
  const turns = new Set<bigint>();
  for (const { type, key, revision } of truth) {
    if (type === 'delete') line.delete(key);
    // A later put of the same key changes nothing of its place.
    else if (!line.has(key)) line.set(key, revision);
    const [first] = line.values();
    if (first !== undefined) turns.add(first);
  }
  return turns;
}

function textOf({ holder, token }: Claim): string {
  return `${holder} with token ${token}`;
}
