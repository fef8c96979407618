import type { Operation } from './history.js';
import type { Violation } from './violation.js';

/** What is done with one register. Undefined stands for a key that is not there. */
export type RegisterCall =
  | { readonly type: 'read' }
  | { readonly type: 'write'; readonly value: string | undefined }
  /** Writes where the register holds `expected`; its result tells whether it did. */
  | { readonly type: 'compare-and-swap'; readonly expected: string | undefined; readonly value: string };

/** What a read saw, or whether a swap was made; nothing for a write. */
export type RegisterResult = string | boolean | undefined;

/** A recorded call, and what came of it. */
export type RegisterOperation = Operation<RegisterCall, RegisterResult>;

/** An end of an operation in the list of all starts and ends by time. */
interface Entry {
  readonly operation: number;
  /** Undefined for an end. */
  readonly end: Entry | undefined;
  next: Entry | undefined;
  previous: Entry | undefined;
}

/**
 * Whether the operations on one register are linearizable: each can be given a moment between its start and its end, so
 * that in the order of these moments every result is right. The search of Wing and Gong with Lowe's memory of
 * configurations (https://www.cs.ox.ac.uk/people/gavin.lowe/LinearizabiltyTesting/). Exponential at worst, over what
 * is under way at a time.
 */
export function checkRegister(
  operations: readonly RegisterOperation[],
  initial: string | undefined = undefined,
): Violation<'not linearizable'>[] {
  const judged = operations.filter(matters);
  const head = timeline(judged);
  const done = new Uint8Array(judged.length);
  const known = new Set<string>();
  /** What was given its moment so far, and the state before. */
  const stack: { readonly entry: Entry; readonly state: string | undefined }[] = [];
  let state = initial;
  let needed = judged.filter(({ outcome }) => outcome === 'ok').length;
  let entry = head.next;
  let furthest = 0;
  while (needed > 0) {
    const call = entry?.end === undefined ? undefined : (judged[entry.operation] as RegisterOperation);
    if (entry !== undefined && call !== undefined) {
      const after = apply(call, state);
      if (after !== undefined) {
        done[entry.operation] = 1;
        const configuration = `${done.join('')} ${JSON.stringify(after.state ?? null)}`;
        if (!known.has(configuration)) {
          known.add(configuration);
          stack.push({ entry, state });
          state = after.state;
          lift(entry);
          if (call.outcome === 'ok') needed -= 1;
          furthest = Math.max(furthest, stack.length);
          entry = head.next;
          continue;
        }
        done[entry.operation] = 0;
      }
      entry = entry.next;
      continue;
    }
    // An operation has ended that was given no moment: the last choice was wrong.
    const last = stack.pop();
    if (last === undefined) {
      const detail = `at most ${furthest} of ${judged.length} operations have an order that explains their results`;
      return [{ rule: 'not linearizable', detail }];
    }
    unlift(last.entry);
    done[last.entry.operation] = 0;
    if (judged[last.entry.operation]?.outcome === 'ok') needed += 1;
    state = last.state;
    entry = last.entry.next;
  }
  return [];
}

/** What failed had no effect, and a read that was not answered tells nothing. */
function matters({ call, outcome }: RegisterOperation): boolean {
  return outcome === 'ok' || (outcome === 'unknown' && call.type !== 'read');
}

/** The state after the call, or undefined where its result contradicts the state. */
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

/** Starts and ends by time, behind a head. An operation whose end is unknown ends after all others. */
function timeline(operations: readonly RegisterOperation[]): Entry {
  const moments = operations.flatMap(({ startMs, endMs }, operation) => {
    const end: Entry = { operation, end: undefined, next: undefined, previous: undefined };
    const start: Entry = { operation, end, next: undefined, previous: undefined };
    return [
      { ms: startMs, entry: start },
      { ms: endMs, entry: end },
    ];
  });
  // At the same moment starts come first: the two may have been under way together.
  moments.sort((a, b) => a.ms - b.ms || Number(a.entry.end === undefined) - Number(b.entry.end === undefined));
  const head: Entry = { operation: -1, end: undefined, next: undefined, previous: undefined };
  let last = head;
  for (const { entry } of moments) {
    last.next = entry;
    entry.previous = last;
    last = entry;
  }
  return head;
}

function lift(start: Entry): void {
  for (const entry of [start, start.end as Entry]) {
    if (entry.previous !== undefined) entry.previous.next = entry.next;
    if (entry.next !== undefined) entry.next.previous = entry.previous;
  }
}

/** In the reverse order of `lift`, so that the neighbours are there again. */
function unlift(start: Entry): void {
  for (const entry of [start.end as Entry, start]) {
    if (entry.previous !== undefined) entry.previous.next = entry;
    if (entry.next !== undefined) entry.next.previous = entry;
  }
}
