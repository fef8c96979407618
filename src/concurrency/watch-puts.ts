import type { Keyspace } from '../keyspace.js';
import type { Keys } from '../kv/key-range.js';
import type { KeyValue } from '../kv/key-value.js';
import { pause } from '../runtime/timers.js';

const REWATCH_MS = 1_000;

export interface PutWatcher {
  /** The watch stands: every put from now on is told. What was there before is to be looked for. */
  stands(): Promise<void>;
  put(kv: KeyValue): Promise<void>;
}

/** Tells of puts in a range, over any failure, until one of the signals aborts: then its reason is thrown. */
export async function watchPuts(
  client: Keyspace,
  keys: Keys,
  { lifetime, over }: { readonly lifetime: AbortSignal; readonly over: AbortSignal },
  watcher: PutWatcher,
): Promise<never> {
  for (;;) {
    const watch = client.watch(keys, { filters: ['noDelete'], signal: lifetime });
    const close = (): void => void watch.close();
    over.addEventListener('abort', close);
    try {
      await watch.created();
      await watcher.stands();
      for await (const { kv } of watch) await watcher.put(kv);
    } catch {
      await pause(REWATCH_MS, lifetime, over);
    } finally {
      over.removeEventListener('abort', close);
    }
    lifetime.throwIfAborted();
    over.throwIfAborted();
  }
}
