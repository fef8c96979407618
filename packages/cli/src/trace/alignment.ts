import { methodByPath } from '../../../../src/internal.js';
import { messagesIn } from '../inspect/index.js';
import type { Step, Story } from './story.js';

/** A unary call with its answer, a message of a stream, or another step; and the number of each step in its story. */
interface Unit {
  readonly steps: readonly (readonly [order: number, step: Step])[];
  /** What the client did, in words that two runs of a program share. Empty for a frame without a message. */
  readonly what: string;
  /** How it ended, in such words. */
  readonly answer: string;
}

/** What two traces did at the same place. One side is undefined if only the other trace has the unit. */
export interface Pair {
  readonly units: readonly [Unit | undefined, Unit | undefined];
  readonly differs: boolean;
}

/** Maximum number of comparisons. Longer traces are aligned only at their beginning and at their end. */
const MAX_COMPARISONS = 4_000_000;

/**
 * Aligns two stories by their calls, in the order in which the calls begin. The same calls stand in the same pair, and
 * as many pairs as possible have the same calls.
 */
export function aligned(first: Story, second: Story): readonly Pair[] {
  const [left, right] = [unitsOf(first), unitsOf(second)];
  const pairs: Pair[] = [];
  let [from, to]: [Unit[], Unit[]] = [[], []];
  const endRun = (): void => {
    for (let index = 0; index < Math.max(from.length, to.length); index += 1)
      pairs.push(pairOf(from[index], to[index]));
    [from, to] = [[], []];
  };
  let [at, other] = [0, 0];
  for (const [matched, counterpart] of [...matches(left, right), [left.length, right.length] as const]) {
    from.push(...left.slice(at, matched));
    to.push(...right.slice(other, counterpart));
    endRun();
    if (matched < left.length) pairs.push(pairOf(left[matched], right[counterpart]));
    [at, other] = [matched + 1, counterpart + 1];
  }
  return pairs;
}

function pairOf(left: Unit | undefined, right: Unit | undefined): Pair {
  const units = [left, right] as const;
  // The frames around messages depend on the timing.
  const isMinor = units.every((unit) => unit === undefined || unit.what === '');
  return { units, differs: !isMinor && (left?.what !== right?.what || left?.answer !== right?.answer) };
}

/** Groups the steps of a story. A unit stands where its first step is. */
function unitsOf({ steps }: Story): readonly Unit[] {
  const units: { steps: [number, Step][]; what: string; answer: string }[] = [];
  const open = new Map<string, (typeof units)[number]>();
  for (const [order, step] of steps.entries()) {
    const { frame, stream, message, kind, label, verdict } = step;
    const isUnary = methodByPath.get(message?.method ?? '')?.kind === 'unary';
    const call = open.get(stream);
    if (kind === 'frame') {
      // A frame belongs to the call of its stream, and any other frame to the unit before it.
      const unit = call ?? units.at(-1);
      if (unit === undefined) units.push({ steps: [[order, step]], what: '', answer: '' });
      else unit.steps.push([order, step]);
    } else if (call !== undefined && (frame?.direction === 'received' || verdict !== undefined)) {
      call.steps.push([order, step]);
      call.answer += comparable(label);
    } else {
      const unit = { steps: [[order, step] as [number, Step]], what: comparable(label), answer: '' };
      units.push(unit);
      if (isUnary && frame !== undefined && messagesIn(frame).length > 0) open.set(stream, unit);
    }
  }
  return units;
}

/** Replaces what differs between two runs of the same program: IDs of leases, revisions, tokens and times. */
function comparable(label: string): string {
  return label
    .replace(/\b[0-9a-f]{12,16}\b/g, '#')
    .replace(/(revision of .*? [=<>≠] )\d+/g, '$1#')
    .replace(/\b\d+(\.\d+)? ms\b/g, '# ms')
    .replace(/, \d+ bytes$/, '')
    .replace(/, token \d+$/, '');
}

/** Returns the indexes of the units that are the same in both lists, as the longest common subsequence. */
function matches(left: readonly Unit[], right: readonly Unit[]): readonly (readonly [number, number])[] {
  const isSame = (a: number, b: number): boolean => left[a]?.what === right[b]?.what;
  const found: (readonly [number, number])[] = [];
  let start = 0;
  const shorter = Math.min(left.length, right.length);
  for (; start < shorter && isSame(start, start); start += 1) found.push([start, start]);
  let end = 0;
  while (end < shorter - start && isSame(left.length - 1 - end, right.length - 1 - end)) end += 1;
  const [rows, columns] = [left.length - start - end, right.length - start - end];
  if (rows * columns <= MAX_COMPARISONS) {
    /** The length of the longest common subsequence of the rest of both lists, from each pair of places on. */
    const lengths = Array.from({ length: rows + 1 }, () => new Uint32Array(columns + 1));
    const lengthAt = (row: number, column: number): number => lengths[row]?.[column] ?? 0;
    for (let row = rows - 1; row >= 0; row -= 1)
      for (let column = columns - 1; column >= 0; column -= 1)
        (lengths[row] as Uint32Array)[column] = isSame(start + row, start + column)
          ? lengthAt(row + 1, column + 1) + 1
          : Math.max(lengthAt(row + 1, column), lengthAt(row, column + 1));
    for (let row = 0, column = 0; row < rows && column < columns; ) {
      if (isSame(start + row, start + column)) found.push([start + row++, start + column++]);
      else if (lengthAt(row + 1, column) >= lengthAt(row, column + 1)) row += 1;
      else column += 1;
    }
  }
  for (let index = end; index > 0; index -= 1) found.push([left.length - index, right.length - index]);
  return found;
}
