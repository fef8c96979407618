import type { Watch, WatchBatch, WatchEvent } from '../../src/index.js';

/** Returns the value of a put as text, or an empty string for a deletion. */
export function valueText(event: WatchEvent): string {
  return event.type === 'put' ? event.kv.text() : '';
}

const iterations = new WeakMap<Watch, AsyncIterableIterator<WatchBatch>>();

/** Returns the only iteration of a watch, so that a test may take its batches in several steps. */
export function batchesOf(watch: Watch): AsyncIterableIterator<WatchBatch> {
  const batches = iterations.get(watch) ?? watch.batches();
  iterations.set(watch, batches);
  return batches;
}
