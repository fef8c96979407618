import type { WatchBatch } from './event.js';

/**
 * Revisions in one response to a watch that has to catch up (etcd's `watchBatchMaxRevs`). There is one such response a
 * watch every 100 ms, so a history of 100,000 revisions takes a single watch ten seconds and more.
 */
const REVISIONS_PER_RESPONSE = 1_000;
/** Watches of the server that share one way. Each makes the others dearer for it. */
const MAX_PARTS = 32;
/** A part is a little shorter than a response seems to reach: so that one response shows that it is over. */
const PART_PER_RESPONSE = 0.95;

/** How a long way is divided among several watches of the server. */
export interface Division {
  /** How many revisions each goes. */
  readonly partRevisions: bigint;
  /** As many as may go at the same time, for what they hold together. */
  readonly maxParts: number;
  /** Where the store was when that was decided: there is nothing to divide beyond. */
  readonly storeRevision: bigint;
}

/** After a response as full as they get there is a long way to go, and how long a part can be is known. */
export function divisionAfter(
  batches: readonly WatchBatch[],
  weight: number,
  storeRevision: bigint,
  bufferBytes: number,
): Division | undefined {
  const [first, last] = [batches[0], batches.at(-1)];
  if (first === undefined || last === undefined || batches.length < REVISIONS_PER_RESPONSE) return undefined;
  const reach = Number(last.revision - first.revision) + 1;
  return {
    partRevisions: BigInt(Math.max(1, Math.floor(reach * PART_PER_RESPONSE))),
    maxParts: Math.min(MAX_PARTS, Math.floor(bufferBytes / 2 / Math.max(1, weight))),
    storeRevision,
  };
}
