import { isTooLarge } from '../channel/retry.js';
import type { CallOptions } from '../channel/rpc.js';
import { EtcdError } from '../errors/etcd-error.js';
import type { Keyspace } from '../keyspace.js';
import type { Keys } from '../kv/key-range.js';
import { pause } from '../runtime/timers.js';
import { untilAnswered } from './wait-limit.js';

export const REWATCH_MS = 50;

/** Which events make it worth looking again. */
export type Wake = 'put' | 'delete';

/**
 * Looks, and looks again after every event of a kind in a range, until there is something to see. The watch is from
 * "now", for one from a past revision is served only every 100 ms, and what happened before it stood is looked for.
 */
export async function watchUntil<T>(
  client: Keyspace,
  { keys, wake }: { readonly keys: Keys; readonly wake: Wake },
  signal: AbortSignal,
  look: (options: CallOptions) => Promise<T | undefined>,
): Promise<T> {
  const seen = await untilAnswered(signal, look);
  if (seen !== undefined) return seen;
  for (;;) {
    const watch = client.watch(keys, { filters: [wake === 'put' ? 'noDelete' : 'noPut'], signal });
    try {
      let stands = await orPassing(watch.created());
      while (stands) {
        const found = await untilAnswered(signal, look);
        if (found !== undefined) return found;
        stands = await orPassing(watch.batches().next());
      }
    } finally {
      await watch.close();
    }
    await pause(REWATCH_MS, signal);
  }
}

/** Whether it came about; false where the watch ended for a cause that passes. */
async function orPassing(event: Promise<unknown>): Promise<boolean> {
  try {
    await event;
    return true;
  } catch (error) {
    if (isPassing(error)) return false;
    throw error;
  }
}

/** A watch that ended for a cause that says nothing of the key: its revision is compacted, or a response too large. */
export function isPassing(error: unknown): boolean {
  return error instanceof EtcdError && (error.reason === 'Compacted' || isTooLarge(error));
}
