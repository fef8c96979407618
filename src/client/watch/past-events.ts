import { EtcdError, pause } from '../../base/index.js';
import * as maintenanceMethods from '../../gen/methods/maintenance.js';
import type { CallOptions, Rpc } from '../../rpc/index.js';
import type { Keys } from '../kv/keys.js';
import type { WatchEvent } from './event.js';
import type { KeyWatch, Watches, WatchOptions } from './watch.js';
import { ordersProgress } from './watch-responses.js';

/** The interval between two requests for the progress of a watch, in milliseconds. etcd may drop a request. */
const PROGRESS_POLL_MS = 100;

/** Options of `pastEvents`, which say which events it returns. */
interface PastEventsOptions extends Required<Pick<WatchOptions, 'startRevision' | 'only'>> {
  /** The last revision whose events the function returns. The store must have reached this revision. */
  readonly lastRevision: bigint;
}

/**
 * Uses a watch to read the events of keys from `startRevision` to `lastRevision`. Returns undefined if the watch is
 * closed, for example because its client is closed.
 *
 * @throws EtcdError with reason `Compacted` and `compactRevision` if etcd has compacted a revision that the watch
 * needs, with code `Unimplemented` if the server may report progress before it has sent all events, and with reason
 * `NotInGateway` if the transport does not support progress requests. `etcd grpc-proxy` ignores progress requests, so
 * the function then waits until `signal` aborts.
 */
export async function pastEvents(
  { rpc, watches }: { readonly rpc: Rpc; readonly watches: Watches },
  keys: Keys,
  { startRevision, only, lastRevision }: PastEventsOptions,
  calls: Pick<CallOptions, 'signal'>,
): Promise<WatchEvent[] | undefined> {
  const { version } = await rpc.call(maintenanceMethods.status, {}, calls);
  if (!ordersProgress(version)) throw unordered(version);
  // The watch has a stream of its own, because etcd drops progress requests while another watch of the same stream is
  // catching up, and after a compaction has ended another watch (`progressIfSync` in etcd's `watchable_store.go`).
  const watch = watches.openAlone(keys, { ...calls, startRevision, only, progress: true });
  const found = new AbortController();
  const events: WatchEvent[] = [];
  try {
    await watch.created();
    // The first request throws if the transport does not support progress requests.
    watch.requestProgress();
    askAgain(watch, found.signal).catch(() => {});
    for await (const batch of watch.batches()) {
      if (batch.revision <= lastRevision) for (const event of batch.events) events.push(event);
      if (batch.revision >= lastRevision) return events;
    }
    return undefined;
  } finally {
    found.abort();
    await watch.close();
  }
}

async function askAgain(watch: KeyWatch, ended: AbortSignal): Promise<void> {
  for (;;) {
    await pause(PROGRESS_POLL_MS, ended);
    if (ended.aborted) return;
    watch.requestProgress();
  }
}

function unordered(version: string): EtcdError {
  return new EtcdError(
    `etcd ${version} may say too early that it has sent all events of a watch, so the past of the key cannot be read ` +
      'without a gap; update etcd to 3.4.25, 3.5.8 or a later version',
    { code: 'Unimplemented', reason: 'Other', outcome: 'rejected' },
  );
}
