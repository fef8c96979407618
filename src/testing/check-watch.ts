import type { Violation } from './violation.js';

/** One change of one key. */
export interface SeenEvent {
  readonly revision: bigint;
  readonly type: 'put' | 'delete';
  readonly key: string;
  /** Empty for a delete. */
  readonly value: string;
}

/** What is wrong with an event that a watch delivered, or did not. */
export type WatchRule = 'lost' | 'repeated' | 'reordered' | 'torn' | 'altered' | 'invented';

/**
 * Judges what a watch delivered by what happened. `truth` is every event under the watched keys from the watch's start
 * revision up to the last that it is to have delivered, in order; `batches` what it delivered, together what came
 * together.
 */
export function checkWatch(
  truth: readonly SeenEvent[],
  batches: readonly (readonly SeenEvent[])[],
): Violation<WatchRule>[] {
  const places = new Map(truth.map((event, place) => [idOf(event), place]));
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
      const place = places.get(idOf(event));
      if (place === undefined) found('invented', textOf(event));
      else if (truth[place]?.value !== event.value) found('altered', textOf(event));
      else if (seen.has(place)) found('repeated', textOf(event));
      else if (place < latest) found('reordered', `${textOf(event)} after ${textOf(truth[latest] as SeenEvent)}`);
      if (place === undefined) continue;
      seen.add(place);
      latest = Math.max(latest, place);
    }
    lastRevision = batch.at(-1)?.revision ?? lastRevision;
  }
  for (const [place, event] of truth.entries()) {
    if (!seen.has(place)) violations.push({ rule: 'lost', detail: textOf(event) });
  }
  return violations;
}

/** A revision changes a key once at most. */
function idOf({ revision, type, key }: SeenEvent): string {
  return `${revision} ${type} ${key}`;
}

function textOf({ revision, type, key }: SeenEvent): string {
  return `${type} of ${JSON.stringify(key)} at revision ${revision}`;
}
