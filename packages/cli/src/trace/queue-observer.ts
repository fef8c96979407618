import { Client, type ClientOptions, monotonicMs, pause, prefix, textOf } from '../../../../src/internal.js';

/** The queue of a lock after a change. */
export interface QueueState {
  /** Milliseconds on the monotonic clock. */
  readonly atMs: number;
  readonly revision: bigint;
  /** The change that led to this state; undefined for the initial state. */
  readonly change: { readonly type: 'enters' | 'leaves'; readonly key: string } | undefined;
  /** The queue keys in the order of the queue. */
  readonly queue: readonly string[];
  /** The fencing token of the holder, which is the create revision of the first key. Undefined if the queue is empty. */
  readonly token: bigint | undefined;
}

/** The states of a queue since the start of the observation. */
export interface QueueObserver {
  readonly states: readonly QueueState[];
  stop(): Promise<void>;
}

/** How long the observer waits at the end for changes that it has not seen yet, in milliseconds. */
const LAST_CHANGES_MS = 1_000;
const PROGRESS_POLL_MS = 20;

/** Watches the queue of a lock with a separate client, so that the trace shows the other contenders too. */
export async function observeQueue(options: ClientOptions, name: string): Promise<QueueObserver> {
  const states: QueueState[] = [];
  const client = new Client(options);
  const { header, kvs } = await client.range(prefix(`${name}/`), { keysOnly: true });
  const createRevisions = new Map(kvs.map((kv) => [textOf(kv.keyBytes), kv.createRevision]));
  const note = (revision: bigint, change: QueueState['change']): void => {
    const sorted = [...createRevisions].sort(([, a], [, b]) => (a < b ? -1 : 1));
    states.push({ atMs: monotonicMs(), revision, change, queue: sorted.map(([key]) => key), token: sorted[0]?.[1] });
  };
  const watch = client.watch(prefix(`${name}/`), { startRevision: header.revision + 1n, progress: true });
  let seenUntil = header.revision;
  const follow = async (): Promise<void> => {
    for await (const { revision, events } of watch.batches()) {
      for (const event of events) {
        const key = textOf(event.keyBytes);
        const isKnown = createRevisions.has(key);
        if (event.type === 'put') createRevisions.set(key, event.kv.createRevision);
        else createRevisions.delete(key);
        // A put of an existing key, such as a proclamation, does not change the queue.
        if (event.type === 'delete' || !isKnown)
          note(event.modRevision, { type: event.type === 'put' ? 'enters' : 'leaves', key });
      }
      seenUntil = revision;
    }
  };
  note(header.revision, undefined);
  // The watch rejects when the client closes. If the watch fails before that, the rest of the trace is still useful.
  follow().catch(() => {});
  /** Waits until the observer has seen all changes that were made before the call, or `ended` aborts. */
  const seeAll = async (ended: AbortSignal): Promise<void> => {
    const last = (await client.range(prefix(`${name}/`), { countOnly: true })).header.revision;
    for (; seenUntil < last && !ended.aborted; await pause(PROGRESS_POLL_MS, ended)) watch.requestProgress();
  };
  const stop = async (): Promise<void> => {
    const ended = new AbortController();
    await Promise.race([seeAll(ended.signal).catch(() => {}), pause(LAST_CHANGES_MS, ended.signal)]);
    ended.abort();
    await client.close();
  };
  return { states, stop };
}
