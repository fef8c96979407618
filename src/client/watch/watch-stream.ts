import { after, backoffMs, causeOf, clientClosed, type EtcdError, pause } from '../../base/index.js';
import type { RangeRequest, WatchRequest, WatchResponse } from '../../gen/etcdserverpb/rpc.js';
import * as kvMethods from '../../gen/methods/kv.js';
import * as maintenanceMethods from '../../gen/methods/maintenance.js';
import * as watchMethods from '../../gen/methods/watch.js';
import {
  type ClusterIdentity,
  isResumable,
  mayUseAnotherToken,
  type NextStream,
  ResumableStream,
  type Rpc,
} from '../../rpc/index.js';
import type { Init } from '../../wire/index.js';
import type { ServerWatch, WatchScope } from './server-watch.js';
import { NO_WATCH_ID, WatchIds } from './watch-ids.js';
import { fragmentOf, ordersProgress, refusal } from './watch-responses.js';

/**
 * How long, in milliseconds, a stream stays open without watches. Programs often start one watch after another, and the
 * next watch can then use the same stream.
 */
const LINGER_MS = 1_000;
/**
 * Maximum number of watches that have a stream of their own at a time, because they are far behind the store. Some
 * proxies allow only few streams on a connection.
 */
const MAX_OWN_STREAMS = 4;
/**
 * The number of streams that a connection must allow besides those of watches that are far behind: one for all other
 * watches, one for the renewals of leases, and two for calls.
 */
const OTHER_STREAMS = 4;
/**
 * The watches end when this many streams in a row have received a response that was too large. The client asks for
 * fragments after the first of these streams. The number is greater than 2, because etcd may send a response before it
 * has noted that a watch wants fragments.
 */
const MAX_TOO_LARGE = 4;
/**
 * A stream that lasts this many milliseconds ends such a row, because the server has sent it the past events of its
 * watches. It is long, because a response that is too large even as a fragment may be late on a slow link.
 */
const LASTING_MS = 60_000;
/** Maximum number of unanswered progress requests that the client remembers. Some servers never answer them. */
const MAX_PROGRESS_REQUESTS = 1_000;
/** How long, in milliseconds, the client waits for the etcd version of the member at the other end of a stream. */
const VERSION_TIMEOUT_MS = 5_000;
/** Maximum number of attempts to find out whether the cluster was restored from a backup while no stream was open. */
const MAX_CLUSTER_CHECKS = 5;

/**
 * Carries watches over one stream. On each new stream, every watch continues from the revision in its cursor. A client
 * has one `WatchStream` for all its watches and those of its namespaces. In addition, a watch that is
 * far behind the store may have a separate `WatchStream`: see `WatchParts`.
 */
export class WatchStream extends ResumableStream<WatchRequest, WatchResponse> {
  /** The streams of the watches that have a stream of their own. */
  readonly #ownStreams = new Set<WatchStream>();
  readonly #watches = new Set<ServerWatch>();
  readonly #ids = new WatchIds({
    sendCreation: (watch, watchId) => {
      const value = watch.createRequest(watchId, this.#tooLarge > 0 && this.lastedMs < LASTING_MS);
      this.stream?.send({ requestUnion: { case: 'createRequest', value } });
    },
    sendCancel: (watchId) => this.stream?.send({ requestUnion: { case: 'cancelRequest', value: { watchId } } }),
    created: (watch, revision) => this.#created(watch, revision),
    refused: (watch, response) => this.#refused(watch, response),
    failed: (watch, error) => this.#end(watch, error as EtcdError),
  });
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
  /** How many reads `#checkCluster` may still make. Each call of `#checkCluster` starts the count again. */
  #checksLeft = 0;
  /**
   * How many streams in a row have ended because a response was too large. After the first such stream, the client asks
   * for fragments, until the row ends. It does not ask before, because the time that etcd needs to cut a response into
   * fragments grows with the square of the number of events: 1 s for 15,000 small events.
   */
  #tooLarge = 0;

  constructor(rpc: Rpc, lingerMs = LINGER_MS) {
    super(rpc, watchMethods.watch, 'watches', lingerMs);
  }

  /** The ID and the revision of the client's cluster. */
  get cluster(): ClusterIdentity | undefined {
    return this.rpc.settings.cluster;
  }

  /**
   * Returns another stream, for a watch that is far behind the store. Returns undefined if `MAX_OWN_STREAMS` watches
   * have one, if the server allows too few streams, or if this stream is closed. The watch calls `returnOwnStream` when
   * it no longer uses the other stream.
   */
  takeOwnStream(): WatchStream | undefined {
    const { maxStreams = () => Number.POSITIVE_INFINITY } = this.rpc.settings;
    const maxOwn = Math.min(MAX_OWN_STREAMS, maxStreams() - OTHER_STREAMS);
    if (this.isClosed || this.#ownStreams.size >= maxOwn) return undefined;
    const own = this.separate();
    this.#ownStreams.add(own);
    return own;
  }

  /** Returns another stream, which ends with its last watch. */
  separate(): WatchStream {
    return new WatchStream(this.rpc, 0);
  }

  returnOwnStream(own: WatchStream): void {
    this.#ownStreams.delete(own);
  }

  /** Stops receiving. Flow control then makes the server pause. */
  pause(): void {
    this.#isPaused = true;
    this.stream?.pause();
  }

  resume(): void {
    this.#isPaused = false;
    this.stream?.resume();
  }

  /**
   * Adds a watch, or lets the server create a watch again after `suspend`. Opens the stream if it is not open, unless
   * the watch is suspended or a backoff runs.
   */
  add(watch: ServerWatch): void {
    if (this.isClosed || watch.scope.isClosed) return watch.end(clientClosed());
    this.use();
    this.#watches.add(watch);
    if (watch.isSuspended || this.isWaiting || this.#ids.has(watch)) return;
    if (this.stream !== undefined) return this.#ids.add([watch]);
    this.#tooLarge = 0;
    this.goOn();
  }

  /** Cancels a suspended watch on the server. The watch still ends if the keyspace closes or the store goes back. */
  suspend(watch: ServerWatch): void {
    this.#ids.remove(watch);
  }

  /** Removes a watch, because it has ended or moves to another stream. Returns whether the stream had the watch. */
  remove(watch: ServerWatch): boolean {
    if (!this.#watches.delete(watch)) return false;
    this.#ids.remove(watch);
    if (this.#watches.size === 0) this.release();
    return true;
  }

  /**
   * Asks the server for the revision up to which it has sent all events for the watches on the stream. The answer
   * concerns all of these watches. The answer moves their cursors only if the version of the member proves that the
   * member sends the answer after all earlier events. etcd before 3.4.25 and 3.5.8 may send the answer before earlier
   * events (etcd issue 15220).
   */
  requestProgress(): void {
    if (this.stream === undefined) return;
    this.stream.send({ requestUnion: { case: 'progressRequest', value: {} } });
    if (this.#progressRequests.length < MAX_PROGRESS_REQUESTS) this.#progressRequests.push(this.#ids.nextId);
    // If the version is unavailable, the client assumes that the member behaves like the older versions.
    this.#ordersProgress ??= this.rpc
      .call(maintenanceMethods.status, {}, { endpoint: this.#endpoint, timeoutMs: VERSION_TIMEOUT_MS })
      .then(({ version }) => ordersProgress(version))
      .catch(() => false);
  }

  /** Ends every watch, including those that have a stream of their own. Iterations end without an error. */
  override close(): void {
    super.close();
    for (const own of this.#ownStreams) own.close();
  }

  /** Ends every watch of a keyspace that is closed. */
  closeScope(scope: WatchScope): void {
    for (const watch of this.#watches) if (watch.scope === scope) this.#end(watch, clientClosed());
    for (const own of this.#ownStreams) own.closeScope(scope);
  }

  protected get userCount(): { readonly watches: number } {
    return { watches: this.#watches.size };
  }

  protected detached(error: EtcdError | undefined): void {
    this.#progressRequests = [];
    this.#ordersProgress = undefined;
    if (this.lastedMs >= LASTING_MS) this.#tooLarge = 0;
    this.#ids.reset();
    for (const watch of this.#watches) watch.detached(error);
  }

  protected nextStream(error: EtcdError): NextStream {
    if (error.reason === 'ResponseTooLarge' && ++this.#tooLarge < MAX_TOO_LARGE) return 'at once';
    return isResumable(error) ? 'after a backoff' : 'never';
  }

  protected endAll(error: EtcdError): void {
    for (const watch of this.#watches) this.#end(watch, error);
  }

  #end(watch: ServerWatch, error: EtcdError): void {
    this.remove(watch);
    const { denied } = this.rpc.settings;
    if (error.reason === 'ClientClosed') watch.close(error);
    else if (error.reason !== 'PermissionDenied' || denied === undefined) watch.end(error);
    else watch.end(denied(error, watch.createRequest(0n, false)));
  }

  /** Opens the stream, and creates the watches on it, except those that are suspended. */
  protected goOn(): void {
    const watches = [...this.#watches].filter((watch) => !watch.isSuspended);
    if (watches.length === 0) return;
    const observer = {
      attempt: (endpoint: string) => {
        this.#endpoint = endpoint;
      },
    };
    const stream = this.open({ ofPiece: fragmentOf, observer });
    if (stream === undefined) return;
    if (this.#isPaused) stream.pause();
    // An interceptor may have added or removed watches while the stream opened.
    this.#ids.add([...this.#watches].filter((watch) => !watch.isSuspended));
    // The cluster may have been restored from a backup while these watches had no stream.
    if (watches.some((watch) => watch.wasCreated)) void this.#checkCluster();
  }

  protected message(response: WatchResponse): void {
    const { watchId } = response;
    if (response.created) return this.#ids.answered(response);
    const revision = response.header?.revision ?? 0n;
    if (watchId === NO_WATCH_ID) return this.#progressed(revision);
    const watch = this.#ids.live.get(watchId);
    if (watch === undefined) return;
    if (response.canceled) {
      this.#ids.release(watch);
      this.#refused(watch, response);
    } else if (response.events.length > 0 || response.fragment) watch.receive(response);
    else watch.progressed(revision, true);
  }

  /**
   * Handles the answer to a progress request. The server may have dropped some requests, so the client cannot tell
   * which request the response answers. The client assumes the oldest request, because it covers the fewest watches.
   */
  #progressed(revision: bigint): void {
    const nextId = this.#progressRequests.shift() ?? 0n;
    const live = [...this.#ids.live].filter(([, watch]) => watch.requestId < nextId);
    for (const [, watch] of live) watch.progressed(revision, false);
    const stream = this.stream;
    void this.#ordersProgress?.then((inOrder) => {
      if (!inOrder || this.stream !== stream) return;
      for (const [id, watch] of live) if (this.#ids.live.get(id) === watch) watch.resumeAfter(revision);
    });
  }

  #created(watch: ServerWatch, revision: bigint): void {
    const isBehind = revision < watch.position - 1n && this.stream !== undefined;
    watch.created(revision);
    this.accepted();
    // Find out why the store's revision is lower than before: this member may lag behind the previous stream's member,
    // or the cluster was restored from a backup.
    if (isBehind) void this.#checkCluster();
  }

  /**
   * Checks whether the cluster was restored from a backup. If it was, a watch that continues after the last revision
   * that it has seen would miss all events until the store reaches this revision again. This method makes a
   * linearizable read. The channel compares the read's revision with the revisions that it has seen before, and ends
   * the watches with reason `ClusterChanged` if the store went back.
   */
  async #checkCluster(): Promise<void> {
    const { cluster, closed } = this.rpc.settings;
    if (cluster === undefined) return;
    this.#checksLeft = MAX_CLUSTER_CHECKS;
    // During an outage, the first read waits for a connection. Streams that open later must not add a read each.
    if (this.#isChecking) return;
    this.#isChecking = true;
    while (this.#checksLeft > 0 && this.stream !== undefined) {
      this.#checksLeft -= 1;
      const left = this.#checksLeft;
      const [watch] = this.#watches;
      if (watch === undefined) break;
      const { key } = watch.createRequest(0n, false);
      const error = await this.#readError({ key });
      // Another stream has opened since the read began, so the answer may be older than that stream.
      if (this.#checksLeft !== left) continue;
      if (error === undefined || !isResumable(error)) break;
      await pause(backoffMs(MAX_CLUSTER_CHECKS - left), closed);
    }
    this.#isChecking = false;
  }

  /** Handles a response that says that the server refused to create a watch, or ended the watch. */
  #refused(watch: ServerWatch, response: WatchResponse): void {
    const error = refusal(response);
    const { settings } = this.rpc;
    if (mayUseAnotherToken(settings, error, watch.tokenRefusals)) {
      watch.tokenRefusals += 1;
      this.reopen(causeOf(error), 'unauthenticated');
    } else if (error.reason === 'PermissionDenied' && settings.renewsTokens && watch.tokenRefusals === 0) {
      watch.tokenRefusals += 1;
      void this.#checkPermission(watch, error);
    } else if (error.code === 'Unavailable') {
      watch.detached();
      // The timer runs in the background, because the stream already keeps the process alive.
      const createAgain = (): void => {
        if (this.#watches.has(watch)) this.add(watch);
      };
      after(this.waitMs(causeOf(error)), createAgain, 'background');
    } else this.#end(watch, error);
  }

  /**
   * Finds out why the server refused a watch with "permission denied", because older servers give this answer for an
   * expired token, too. A read of the same keys shows the real reason without breaking the stream, and makes the client
   * get a new token if the old token has expired.
   */
  async #checkPermission(watch: ServerWatch, refusedWith: EtcdError): Promise<void> {
    watch.detached();
    const { stream } = this;
    const { key, rangeEnd } = watch.createRequest(0n, false);
    const error = await this.#readError({ key, rangeEnd });
    if (!this.#watches.has(watch)) return;
    if (error?.reason === 'PermissionDenied') this.#end(watch, refusedWith);
    else if (this.stream === stream) this.reopen(causeOf(refusedWith));
  }

  /** Returns the error of a linearizable read of these keys, or undefined if the read succeeds. */
  #readError(keys: Init<Pick<RangeRequest, 'key' | 'rangeEnd'>>): Promise<EtcdError | undefined> {
    return this.rpc.call(kvMethods.range, { ...keys, countOnly: true }).then(
      () => undefined,
      (error: EtcdError) => error,
    );
  }
}
