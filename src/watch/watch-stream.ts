import { mayUseAnotherToken } from '../channel/authentication.js';
import { REQUIRE_LEADER, type Rpc } from '../channel/rpc.js';
import { clientClosed, type EtcdError } from '../errors/etcd-error.js';
import type { RangeRequest, WatchRequest, WatchResponse } from '../gen/etcdserverpb/rpc.js';
import * as kvMethods from '../gen/methods/kv.js';
import * as maintenanceMethods from '../gen/methods/maintenance.js';
import * as watchMethods from '../gen/methods/watch.js';
import type { Init } from '../protobuf/codec.js';
import { causeOf, WaitLog } from '../runtime/log.js';
import { onAbort } from '../runtime/signals.js';
import { after, backoffMs, monotonicMs, pause } from '../runtime/timers.js';
import type { OutgoingStream } from '../transport/transport.js';
import type { ServerWatch } from './server-watch.js';
import { NO_WATCH_ID, WatchIds } from './watch-ids.js';
import { fragmentOf, isResumable, ordersProgress, refusal } from './watch-responses.js';

/**
 * How long, in milliseconds, a stream stays open without watches. Programs often start one watch after another, and the
 * next watch can then use the same stream.
 */
const LINGER_MS = 1_000;
/** If a stream lasted longer than this many milliseconds, its failure starts the backoff from the shortest delay. */
const STEADY_MS = 1_000;
/**
 * Maximum number of watches that have a stream of their own at a time, because they are far behind the store. Some
 * proxies allow only few streams on a connection.
 */
const MAX_OWN_STREAMS = 4;
/**
 * The watches end when this many streams in a row had a response that was too large. The number is greater than 1,
 * because etcd may send a response before it has noted that a watch wants fragments.
 */
const MAX_TOO_LARGE = 4;
/** Maximum number of unanswered progress requests that the client remembers. Some servers never answer them. */
const MAX_PROGRESS_REQUESTS = 1_000;
/** How long, in milliseconds, the client waits for the version of the member at the other end of a stream. */
const VERSION_TIMEOUT_MS = 5_000;
/** Maximum number of attempts to find out whether the cluster was restored from a backup while no stream was open. */
const MAX_CLUSTER_CHECKS = 5;

/**
 * Carries watches over one stream. When the stream breaks, this class opens a new stream, on which every watch
 * continues from the revision in its cursor. A keyspace (a client, or one of its namespaces) has one `WatchStream` for
 * all its watches. In addition, a watch that is far behind the store has a `WatchStream` of its own: see `WatchParts`.
 */
export class WatchStream {
  readonly #rpc: Rpc;
  readonly #lingerMs: number;
  /** How many watches have a stream of their own. */
  #ownStreams = 0;
  readonly #watches = new Set<ServerWatch>();
  readonly #ids = new WatchIds({
    sendCreation: (watch, watchId) => {
      const value = watch.createRequest(watchId, this.#tooLarge > 0);
      this.#stream?.send({ requestUnion: { case: 'createRequest', value } });
    },
    sendCancel: (watchId) => this.#stream?.send({ requestUnion: { case: 'cancelRequest', value: { watchId } } }),
    created: (watch, revision) => this.#created(watch, revision),
    refused: (watch, response) => this.#refused(watch, response),
    failed: (watch, error) => this.#end(watch, error as EtcdError),
  });
  #stream: OutgoingStream<WatchRequest> | undefined;
  /** The endpoint of the stream. */
  #endpoint: string | undefined;
  /**
   * For each progress request that may be unanswered, the lowest watch ID that the client had not yet used when it sent
   * the request. etcd answers progress requests and creation requests over separate channels. The answer to a creation
   * request may therefore arrive before the answer to an earlier progress request, which does not concern that watch.
   */
  #progressRequests: bigint[] = [];
  /** Whether the member answers a progress request only after it has sent all earlier events: see `requestProgress`. */
  #ordersProgress: Promise<boolean> | undefined;
  /** Whether the client receives nothing on the stream, nor on the next one, until `resume`. */
  #isPaused = false;
  #isChecking = false;
  /** How many reads `#checkCluster` may still make. A new stream starts the count again. */
  #checksLeft = 0;
  #failures = 0;
  /** How many streams in a row the server has ended because it refused the stream's token. */
  #tokenRefusals = 0;
  /**
   * How many streams in a row have ended because a response was too large. After the first such stream, the client asks
   * for fragments. It does not ask before, because the time that etcd needs to cut a response into fragments grows with
   * the square of the number of events: 1 s for 15,000 small events.
   */
  #tooLarge = 0;
  /** When the client opened the stream, on the monotonic clock. */
  #openedAt = 0;
  /** Whether the latest stream broke. If so, the cluster may have been restored from a backup in the meantime. */
  #wasBroken = false;
  #reopening = false;
  #stopReopening: () => void = () => {};
  #stopLingering: () => void = () => {};
  #unsubscribe: () => void = () => {};
  readonly #waitLog: WaitLog;

  constructor(rpc: Rpc, lingerMs = LINGER_MS) {
    this.#rpc = rpc;
    this.#lingerMs = lingerMs;
    this.#waitLog = new WaitLog(rpc.settings.logger, 'watches');
  }

  /** The highest revision of the store that the client has seen. 0n if the client has seen none. */
  get storeRevision(): bigint {
    return this.#rpc.settings.cluster?.revision ?? 0n;
  }

  /**
   * Returns another stream, for a watch that is far behind the store. Returns undefined if `MAX_OWN_STREAMS` watches
   * have one. The watch calls `returnOwnStream` when it no longer uses the other stream.
   */
  takeOwnStream(): WatchStream | undefined {
    if (this.#ownStreams === MAX_OWN_STREAMS) return undefined;
    this.#ownStreams += 1;
    return new WatchStream(this.#rpc, 0);
  }

  returnOwnStream(): void {
    this.#ownStreams -= 1;
  }

  /** Stops receiving. Flow control then makes the server pause. */
  pause(): void {
    this.#isPaused = true;
    this.#stream?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.#stream?.resume();
  }

  /** Adds a watch. Opens the stream if it is not open. */
  add(watch: ServerWatch): void {
    const { closed, cluster } = this.#rpc.settings;
    if (closed.aborted) return watch.end(clientClosed());
    this.#stopLingering();
    // Keep the listeners only while there are watches. Otherwise, every namespace would leave its listeners at the
    // client until the client closes, and a client may create many short-lived namespaces.
    if (this.#watches.size === 0) {
      const offClosed = onAbort(closed, () => this.close());
      const offChange = cluster?.onChange((error) => this.#endAll((each) => each.end(error)));
      this.#unsubscribe = () => {
        offClosed();
        offChange?.();
      };
      this.#stream?.hold?.(true);
    }
    this.#watches.add(watch);
    if (this.#stream !== undefined) this.#ids.add([watch]);
    else if (!this.#reopening) this.#open();
  }

  /**
   * Takes a watch off the stream, because it has ended, its consumer is slow, or it moves to another stream. Returns
   * whether the watch was on the stream.
   */
  remove(watch: ServerWatch): boolean {
    if (!this.#watches.delete(watch)) return false;
    this.#ids.remove(watch);
    if (this.#watches.size > 0) return true;
    this.#unsubscribe();
    this.#stopLingering();
    // The stream stays open for a while, but does not keep the process alive without watches.
    this.#stream?.hold?.(false);
    if (this.#lingerMs === 0) this.#close();
    else this.#stopLingering = after(this.#lingerMs, () => this.#close(), 'background');
    return true;
  }

  /**
   * Asks the server for the revision up to which it has sent all events for the watches on the stream. The answer
   * concerns all of these watches. The answer moves their cursors only if the member is known to send it after all
   * earlier events. etcd before 3.4.25 and 3.5.8 may send the answer before earlier events (etcd issue 15220).
   */
  requestProgress(): void {
    if (this.#stream === undefined) return;
    this.#stream.send({ requestUnion: { case: 'progressRequest', value: {} } });
    if (this.#progressRequests.length < MAX_PROGRESS_REQUESTS) this.#progressRequests.push(this.#ids.nextId);
    // If the version is unavailable, the client assumes that the member behaves like the older versions.
    this.#ordersProgress ??= this.#rpc
      .call(maintenanceMethods.status, {}, { endpoint: this.#endpoint, timeoutMs: VERSION_TIMEOUT_MS })
      .then(({ version }) => ordersProgress(version))
      .catch(() => false);
  }

  /** Ends every watch because the client is closed. Iterations end without an error. */
  close(): void {
    this.#endAll((watch) => watch.close(clientClosed()));
  }

  #end(watch: ServerWatch, error: EtcdError): void {
    this.remove(watch);
    watch.end(error);
  }

  #endAll(end: (watch: ServerWatch) => void): void {
    for (const watch of this.#watches) end(watch);
    this.#watches.clear();
    this.#unsubscribe();
    this.#stopLingering();
    this.#close();
  }

  #close(): void {
    this.#stopReopening();
    this.#reopening = false;
    this.#tooLarge = 0;
    this.#isPaused = false;
    this.#waitLog.reset();
    this.#cancelStream();
  }

  /** Ends the stream with RST_STREAM, because some servers leak the watches on a stream that the client half-closes. */
  #cancelStream(why?: 'unauthenticated'): void {
    this.#stream?.cancel(why);
    this.#forgetStream();
  }

  #forgetStream(): void {
    this.#stream = undefined;
    this.#progressRequests = [];
    this.#ordersProgress = undefined;
    this.#ids.reset();
  }

  #open(): void {
    const stream = this.#rpc.stream(
      watchMethods.watch,
      {
        message: (response) => {
          if (this.#stream === stream) this.#receive(response);
        },
        end: (error) => {
          if (this.#stream === stream) this.#ended(error);
        },
        leaving: () => {
          if (this.#stream !== stream) return;
          stream.cancel();
          this.#ended(undefined);
        },
      },
      {
        metadata: REQUIRE_LEADER,
        ofPiece: fragmentOf,
        observer: {
          attempt: (endpoint) => {
            this.#endpoint = endpoint;
          },
        },
      },
    );
    this.#stream = stream;
    if (this.#isPaused) stream.pause();
    this.#openedAt = monotonicMs();
    this.#ids.add(this.#watches);
    if (this.#wasBroken) void this.#checkCluster();
    this.#wasBroken = false;
  }

  #ended(error: EtcdError | undefined): void {
    this.#wasBroken = true;
    this.#forgetStream();
    for (const watch of this.#watches) watch.detached(error);
    if (error !== undefined && error.reason === 'ResponseTooLarge' && ++this.#tooLarge < MAX_TOO_LARGE)
      return this.#open();
    if (error?.reason === 'ClientClosed') return this.close();
    if (
      error !== undefined &&
      !isResumable(error) &&
      !mayUseAnotherToken(this.#rpc.settings, error, this.#tokenRefusals++)
    )
      return this.#endAll((watch) => watch.end(error));
    this.#waitLog.waits({ ...causeOf(error), watches: this.#watches.size });
    this.#reopening = true;
    if (monotonicMs() - this.#openedAt > STEADY_MS) this.#failures = 0;
    this.#stopReopening = after(backoffMs(this.#failures++), () => {
      this.#reopening = false;
      if (this.#watches.size > 0) this.#open();
    });
  }

  /** Cancels the stream for the reason `why`, and opens a new stream at once. The new stream gets a new token. */
  #openWithNewToken(why?: 'unauthenticated'): void {
    this.#cancelStream(why);
    for (const watch of this.#watches) watch.detached();
    if (this.#watches.size > 0) this.#open();
  }

  #receive(response: WatchResponse): void {
    const { watchId } = response;
    if (response.created) return this.#ids.answered(response);
    const revision = response.header?.revision ?? 0n;
    if (watchId === NO_WATCH_ID) return this.#progressed(revision);
    const watch = this.#ids.live.get(watchId);
    if (watch === undefined) return;
    if (response.canceled) {
      this.#ids.release(watchId, watch);
      this.#refused(watch, response);
    } else if (response.events.length > 0 || response.fragment) watch.receive(response);
    else watch.progressed(revision, true);
  }

  /**
   * Handles the answer to a progress request. The server may have dropped some requests, so the client cannot tell
   * which request this answers. It assumes the oldest one, because that request covers the fewest watches.
   */
  #progressed(revision: bigint): void {
    const nextId = this.#progressRequests.shift() ?? 0n;
    const live = [...this.#ids.live].filter(([, watch]) => watch.requestId < nextId);
    for (const [, watch] of live) watch.progressed(revision, false);
    const stream = this.#stream;
    void this.#ordersProgress?.then((inOrder) => {
      if (!inOrder || this.#stream !== stream) return;
      for (const [id, watch] of live) if (this.#ids.live.get(id) === watch) watch.resumeAfter(revision);
    });
  }

  #created(watch: ServerWatch, revision: bigint): void {
    this.#waitLog.goOn({ watches: this.#watches.size });
    this.#tokenRefusals = 0;
    // Find out why the store's revision is lower than before: this member may lag behind the previous stream's member,
    // or the cluster was restored from a backup.
    if (revision < watch.position - 1n && this.#stream !== undefined) void this.#checkCluster();
    watch.created(revision);
  }

  /**
   * Checks whether the cluster was restored from a backup. If it was, a watch that continues after the last revision
   * that it has seen would miss all events until the store reaches this revision again. This method makes a
   * linearizable read. The channel compares the read's revision with the revisions that it has seen before, and ends
   * the watches with reason `ClusterChanged` if the store went back.
   */
  async #checkCluster(): Promise<void> {
    const { cluster, closed } = this.#rpc.settings;
    if (cluster === undefined) return;
    this.#checksLeft = MAX_CLUSTER_CHECKS;
    // During an outage, the first read waits for a connection. The later streams must not add a read each.
    if (this.#isChecking) return;
    this.#isChecking = true;
    while (this.#checksLeft > 0 && this.#stream !== undefined) {
      this.#checksLeft -= 1;
      const left = this.#checksLeft;
      const [watch] = this.#watches;
      if (watch === undefined) break;
      const { key } = watch.createRequest(0n, false);
      const error = await this.#readError({ key });
      // A stream has opened since, so the answer may be older than that stream.
      if (this.#checksLeft !== left) continue;
      if (error === undefined || !isResumable(error)) break;
      await pause(backoffMs(MAX_CLUSTER_CHECKS - left), closed);
    }
    this.#isChecking = false;
  }

  /** Handles a response that says that the server refused to create a watch, or ended the watch. */
  #refused(watch: ServerWatch, response: WatchResponse): void {
    const error = refusal(response);
    if (mayUseAnotherToken(this.#rpc.settings, error, watch.tokenRefusals)) {
      watch.tokenRefusals += 1;
      this.#openWithNewToken('unauthenticated');
    } else if (error.reason === 'PermissionDenied' && this.#rpc.settings.renewsTokens && watch.tokenRefusals === 0) {
      watch.tokenRefusals += 1;
      void this.#checkPermission(watch, error);
    } else if (error.code === 'Unavailable') {
      this.#waitLog.waits({ ...causeOf(error), watches: this.#watches.size });
      watch.detached();
      // The timer runs in the background, because the stream already keeps the process alive.
      after(backoffMs(this.#failures++), () => this.#createAgain(watch), 'background');
    } else this.#end(watch, error);
  }

  /**
   * Finds out why the server refused a watch with "permission denied", because older servers give this answer for an
   * expired token, too. A read of the same keys shows the real reason without breaking the stream, and makes the
   * channel get a new token if the old token has expired.
   */
  async #checkPermission(watch: ServerWatch, refusedWith: EtcdError): Promise<void> {
    watch.detached();
    const stream = this.#stream;
    const { key, rangeEnd } = watch.createRequest(0n, false);
    const error = await this.#readError({ key, rangeEnd });
    if (!this.#watches.has(watch)) return;
    if (error?.reason === 'PermissionDenied') this.#end(watch, refusedWith);
    else if (this.#stream !== undefined && this.#stream === stream) this.#openWithNewToken();
    else this.#createAgain(watch);
  }

  /** Creates a watch on the open stream, unless the watch has ended or is already on this stream. */
  #createAgain(watch: ServerWatch): void {
    if (this.#watches.has(watch) && this.#stream !== undefined && !this.#ids.has(watch)) this.#ids.add([watch]);
  }

  /** Returns the error of a linearizable read of these keys, or undefined if the read succeeds. */
  #readError(keys: Init<Pick<RangeRequest, 'key' | 'rangeEnd'>>, signal?: AbortSignal): Promise<EtcdError | undefined> {
    return this.#rpc.call(kvMethods.range, { ...keys, countOnly: true }, { signal }).then(
      () => undefined,
      (error: EtcdError) => error,
    );
  }
}
