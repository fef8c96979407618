import { isTokenRefused, MAX_TOKEN_RENEWALS } from '../channel/authentication.js';
import { REQUIRE_LEADER, type Rpc } from '../channel/rpc.js';
import { clientClosed, EtcdError, type Reason } from '../errors/etcd-error.js';
import type { StatusCode } from '../errors/status.js';
import { errorFromText } from '../errors/status-error.js';
import type { WatchRequest, WatchResponse } from '../gen/etcdserverpb/rpc.js';
import { methods } from '../gen/methods.js';
import { causeOf, WaitLog } from '../runtime/log.js';
import { UniqueQueue } from '../runtime/queues.js';
import { onAbort } from '../runtime/signals.js';
import { after, backoffMs, monotonicMs, pause } from '../runtime/timers.js';
import type { OutgoingStream } from '../transport/transport.js';
import type { Watcher } from './watcher.js';

/** Concerns every watch of the stream, or one that could not be created. */
const NO_WATCH_ID = -1n;
/** How long a stream without watches is kept: waits come one after the other, and each would open a new one. */
const LINGER_MS = 1_000;
/** A stream that has lasted this long did not fail for the reason of the one before. */
const STEADY_MS = 1_000;
/**
 * Responses are asked for whole up to here. To cut one into fragments costs etcd time that grows with the square of its
 * events, 1 s for 15,000 small ones; so only large ones are worth it, which have few events for their length.
 */
const WHOLE_RESPONSE_BYTES = 64 * 1024 * 1024;
/** Ends of the stream after which a new one may do better. */
const RESUMABLE: ReadonlySet<StatusCode> = new Set([
  'OK',
  'Unavailable',
  'Unknown',
  'Internal',
  'Canceled',
  'DeadlineExceeded',
  'Aborted',
]);

/** More than one: etcd may begin to send before it has noted that a watch wants fragments. */
const MAX_TOO_LARGE = 4;

const FINAL: ReadonlySet<Reason> = new Set(['AuthFailed', 'ClientClosed', 'MalformedMessage', 'ResponseTooLarge']);

/** How long the client waits for the version of the member that serves a stream. */
const VERSION_TIMEOUT_MS = 5_000;
/** Attempts to find out whether the cluster was restored while no stream was open. */
const MAX_CLUSTER_CHECKS = 5;

/**
 * All watches over one stream. This object alone owns the stream and decides what goes over it; after a break it opens
 * the next one and creates every watch again from where it stands.
 *
 * An answer to a creation bears an id. etcd 3.4 and later use the id that the client asks for, and so the client knows
 * which creation was answered. `etcd grpc-proxy` and older servers choose ids of their own, and the proxy answers in any
 * order. So the first creation of each stream goes out alone: its answer tells which kind of server it is, and on a
 * stream with ids of the server's choice all others go out one at a time, too.
 */
export class WatchStream {
  readonly #rpc: Rpc;
  /** The stream for which a read is under way that looks whether the store went back. */
  #checking: OutgoingStream<WatchRequest> | undefined;
  readonly #watchers = new Set<Watcher>();
  readonly #byId = new Map<bigint, Watcher>();
  readonly #ids = new Map<Watcher, bigint>();
  /** Watches to be created on this stream, whose requests have not been sent. */
  readonly #queued = new UniqueQueue<Watcher>();
  /** Creations that were sent and not answered, by the id that the client asked for, in the order of sending. */
  readonly #requested = new Map<bigint, Watcher>();
  /** Of each watch the latest entry in `#requested`: a watch may be removed and added again before the first answer. */
  readonly #requestedId = new Map<Watcher, bigint>();
  /** Whether the server uses the ids that the client asks for. Undefined until the stream's first creation is answered. */
  #keepsIds: boolean | undefined;
  /** A refused creation bears no id. While several are under way, the client does not know which one it answers. */
  #refusals: WatchResponse[] = [];
  /** Refusals could not be told apart: the creations that are left go out one at a time. */
  #oneByOne = false;
  #stream: OutgoingStream<WatchRequest> | undefined;
  /** Where the stream was opened. */
  #endpoint: string | undefined;
  /** Whether the member answers a request for progress only after the events before it; see `requestProgress`. */
  #ordersProgress: Promise<boolean> | undefined;
  /** Never used twice, so that a late response cannot concern another watch. */
  #nextId = 1n;
  #failures = 0;
  /** Streams in a row that ended for their token. */
  #renewals = 0;
  /** On the monotonic clock. */
  #openedAt = 0;
  /** The latest stream ended with an error: the cluster may have been restored since. */
  #wasBroken = false;
  #stopReopening: () => void = () => {};
  #stopLingering: () => void = () => {};
  #unsubscribe: () => void = () => {};
  #reopening = false;
  /** Streams that ended for a response that was too large: from the first on, fragments are asked for. */
  #tooLarge = 0;
  readonly #waitLog: WaitLog;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
    this.#waitLog = new WaitLog(rpc.settings.logger, 'watches');
  }

  add(watcher: Watcher): void {
    const { closed } = this.#rpc.settings;
    if (closed.aborted) return watcher.end(clientClosed());
    this.#stopLingering();
    // Only as long as there is one: a namespace is made for a moment, and the client lasts.
    if (this.#watchers.size === 0) {
      this.#subscribe(closed);
      this.#stream?.hold?.(true);
    }
    this.#watchers.add(watcher);
    if (this.#stream !== undefined) this.#create(watcher);
    else if (!this.#reopening) this.#open();
  }

  /** The watch is over, or has to wait for its consumer. */
  remove(watcher: Watcher): void {
    if (!this.#watchers.delete(watcher)) return;
    this.#queued.delete(watcher);
    const watchId = this.#ids.get(watcher);
    if (watchId !== undefined) this.#cancel(watchId);
    if (this.#watchers.size > 0) return;
    this.#unsubscribe();
    this.#stopLingering();
    // Nobody waits for a stream that lingers: it keeps no process alive.
    this.#stream?.hold?.(false);
    this.#stopLingering = after(LINGER_MS, () => this.#close(), 'background');
  }

  /**
   * Asks the server how far the stream's watches are. The answer concerns all of them, and moves their resume points
   * only where the member is known to send it after the events: etcd before 3.4.25 and 3.5.8 may send it ahead of them
   * (etcd issue 15220).
   */
  requestProgress(): void {
    if (this.#stream === undefined) return;
    this.#stream.send({ requestUnion: { case: 'progressRequest', value: {} } });
    this.#ordersProgress ??= this.#askOrdersProgress();
  }

  /** Ends every watch with this error. */
  end(error: EtcdError): void {
    this.#endAll((watcher) => watcher.end(error));
  }

  /** Ends every watch because its owner closes the client: iterations end, and do not throw. */
  close(): void {
    this.#endAll((watcher) => watcher.close(clientClosed()));
  }

  #endAll(end: (watcher: Watcher) => void): void {
    for (const watcher of this.#watchers) end(watcher);
    this.#watchers.clear();
    this.#unsubscribe();
    this.#stopLingering();
    this.#close();
  }

  #subscribe(closed: AbortSignal): void {
    const undos = [
      onAbort(closed, () => this.close()),
      this.#rpc.settings.cluster?.onChange((error) => this.end(error)),
    ];
    this.#unsubscribe = () => {
      for (const undo of undos) undo?.();
    };
  }

  /** By RST_STREAM: on some servers a half-close leaks the stream's watches. */
  #close(): void {
    this.#stopReopening();
    this.#reopening = false;
    this.#tooLarge = 0;
    this.#waitLog.reset();
    this.#stream?.cancel();
    this.#forgetStream();
  }

  #forgetStream(): void {
    this.#stream = undefined;
    this.#keepsIds = undefined;
    this.#ordersProgress = undefined;
    this.#oneByOne = false;
    this.#refusals = [];
    this.#queued.clear();
    this.#requested.clear();
    this.#requestedId.clear();
    this.#byId.clear();
    this.#ids.clear();
  }

  #detach(watchId: bigint): void {
    const watcher = this.#byId.get(watchId);
    this.#byId.delete(watchId);
    if (watcher !== undefined) this.#ids.delete(watcher);
  }

  #open(): void {
    const stream = this.#rpc.stream(
      methods.watch.watch,
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
        maxReceiveBytes: this.#tooLarge > 0 ? undefined : WHOLE_RESPONSE_BYTES,
        onAttempt: (endpoint) => {
          this.#endpoint = endpoint;
        },
      },
    );
    this.#stream = stream;
    this.#openedAt = monotonicMs();
    for (const watcher of this.#watchers) this.#queued.add(watcher);
    this.#sendCreations();
    if (this.#wasBroken) void this.#checkCluster(stream);
    this.#wasBroken = false;
  }

  #create(watcher: Watcher): void {
    this.#queued.add(watcher);
    this.#sendCreations();
  }

  /** Sends as many creations as can be told apart by their answers. */
  #sendCreations(): void {
    for (let stream = this.#stream; stream !== undefined && this.#queued.size > 0; stream = this.#stream) {
      if (this.#requested.size > 0 && (this.#keepsIds !== true || this.#oneByOne)) return;
      const watcher = this.#queued.take() as Watcher;
      const watchId = this.#nextId++;
      try {
        const value = watcher.createRequest(watchId, this.#tooLarge > 0);
        stream.send({ requestUnion: { case: 'createRequest', value } });
        this.#requested.set(watchId, watcher);
        this.#requestedId.set(watcher, watchId);
      } catch (error) {
        // The request is too long: the trouble of this watch alone.
        this.remove(watcher);
        watcher.end(error as EtcdError);
      }
    }
  }

  /** Events still on their way for this id find no watch. */
  #cancel(watchId: bigint): void {
    this.#detach(watchId);
    this.#stream?.send({ requestUnion: { case: 'cancelRequest', value: { watchId } } });
  }

  #receive(response: WatchResponse): void {
    const { watchId } = response;
    const revision = response.header?.revision ?? 0n;
    if (response.created) return this.#answered(response, revision);
    if (watchId === NO_WATCH_ID) return this.#progressed(revision);
    const watcher = this.#byId.get(watchId);
    if (watcher === undefined) return;
    if (response.canceled) {
      this.#detach(watchId);
      this.#refused(watcher, response);
    } else if (response.events.length > 0) watcher.receive(response);
    else watcher.progressed(revision, true);
  }

  /** The server has answered a creation. */
  #answered(response: WatchResponse, revision: bigint): void {
    if (response.watchId === NO_WATCH_ID) {
      this.#refusals.push(response);
      return this.#assignRefusals();
    }
    const requestId = this.#requestAnswered(response.watchId);
    if (requestId === undefined) return;
    const watcher = this.#requested.get(requestId) as Watcher;
    const isLatest = this.#takeRequest(requestId);
    if (response.canceled) this.#refused(watcher, response);
    else {
      this.#waitLog.goOn({ watches: this.#watchers.size });
      this.#renewals = 0;
      if (!isLatest || !this.#watchers.has(watcher)) this.#cancel(response.watchId);
      else {
        this.#byId.set(response.watchId, watcher);
        this.#ids.set(watcher, response.watchId);
        // The member is behind what the client has seen before, or the store went back.
        if (revision < watcher.position - 1n && this.#stream !== undefined) void this.#checkCluster(this.#stream);
        watcher.created(revision);
      }
    }
    this.#assignRefusals();
    this.#sendCreations();
  }

  /** The creation that this id answers. Undefined for an answer that is none, or that comes a second time. */
  #requestAnswered(watchId: bigint): bigint | undefined {
    if (this.#byId.has(watchId)) return undefined;
    if (this.#keepsIds === true) return this.#requested.has(watchId) ? watchId : undefined;
    // One at a time is under way.
    const [only] = this.#requested.keys();
    if (only !== undefined) this.#keepsIds ??= watchId === only;
    return only;
  }

  /** Takes an answered creation off the list. Tells whether it is the latest one of its watch. */
  #takeRequest(requestId: bigint): boolean {
    const watcher = this.#requested.get(requestId) as Watcher;
    this.#requested.delete(requestId);
    if (this.#requestedId.get(watcher) !== requestId || this.#queued.has(watcher)) return false;
    this.#requestedId.delete(watcher);
    return true;
  }

  /** Once nothing but refused creations is under way: one is the refused one, several are sent again one at a time. */
  #assignRefusals(): void {
    if (this.#refusals.length === 0 || this.#refusals.length < this.#requested.size) return;
    const refused = [...this.#requested];
    const refusals = this.#refusals;
    this.#refusals = [];
    this.#requested.clear();
    this.#requestedId.clear();
    const [only] = refused;
    if (only !== undefined && refused.length === 1) this.#refused(only[1], refusals[0] as WatchResponse);
    else {
      this.#oneByOne = true;
      for (const [, watcher] of refused) if (this.#watchers.has(watcher)) this.#queued.add(watcher);
    }
    this.#sendCreations();
    if (this.#queued.size === 0 && this.#requested.size === 0) this.#oneByOne = false;
  }

  /** An answer to a request for progress. */
  #progressed(revision: bigint): void {
    const watchers = [...this.#byId.values()];
    for (const watcher of watchers) watcher.progressed(revision, false);
    const stream = this.#stream;
    void this.#ordersProgress?.then((inOrder) => {
      if (!inOrder || this.#stream !== stream) return;
      for (const watcher of watchers) if (this.#ids.has(watcher)) watcher.resumeAfter(revision);
    });
  }

  async #askOrdersProgress(): Promise<boolean> {
    const options = { endpoint: this.#endpoint, timeoutMs: VERSION_TIMEOUT_MS };
    // Where the member does not tell its version, nothing is certain.
    return this.#rpc
      .call(methods.maintenance.status, {}, options)
      .then(({ version }) => ordersProgress(version))
      .catch(() => false);
  }

  /**
   * Since the client last heard of it the cluster may have been restored from a backup. Then a watch that goes on after
   * the last revision it has seen would miss what happens until the store is there again. A linearizable read tells: the
   * channel compares its revision with what was seen before, and ends the watches where the store went back.
   */
  async #checkCluster(stream: OutgoingStream<WatchRequest>): Promise<void> {
    if (this.#rpc.settings.cluster === undefined || this.#checking === stream) return;
    this.#checking = stream;
    await this.#readLinearizably(stream);
    if (this.#checking === stream) this.#checking = undefined;
  }

  async #readLinearizably(stream: OutgoingStream<WatchRequest>): Promise<void> {
    for (let attempt = 0; attempt < MAX_CLUSTER_CHECKS && this.#stream === stream; attempt += 1) {
      const [watcher] = this.#watchers;
      if (watcher === undefined) return;
      const { key } = watcher.createRequest(0n, false);
      const error = await this.#rpc.call(methods.kv.range, { key, countOnly: true }).then(
        () => undefined,
        (failed: EtcdError) => failed,
      );
      if (error === undefined || !isResumable(error)) return;
      await pause(backoffMs(attempt), this.#rpc.settings.closed);
    }
  }

  #refused(watcher: Watcher, response: WatchResponse): void {
    if (!this.#watchers.has(watcher)) return;
    const error = refusal(response);
    if (this.#renews(error, watcher.renewals)) {
      watcher.renewals += 1;
      return this.#renew('unauthenticated');
    }
    if (error.reason === 'PermissionDenied' && this.#rpc.settings.renewsTokens && watcher.renewals === 0) {
      watcher.renewals += 1;
      return void this.#askWhetherForbidden(watcher, error);
    }
    if (error.code === 'Unavailable') {
      this.#waitLog.waits({ ...causeOf(error), watches: this.#watchers.size });
      watcher.detached();
      const again = (): void => {
        if (!this.#watchers.has(watcher) || this.#stream === undefined || this.#isOnStream(watcher)) return;
        this.#create(watcher);
      };
      // The stream holds the process as long as there is one.
      return void after(backoffMs(this.#failures++), again, 'background');
    }
    this.remove(watcher);
    watcher.end(error);
  }

  /**
   * Older servers say "permission denied" of a token that expired, too. A call about the same keys tells the two apart,
   * without a word to the other watches, and gets a new token where need be.
   */
  async #askWhetherForbidden(watcher: Watcher, refusedWith: EtcdError): Promise<void> {
    watcher.detached();
    const stream = this.#stream;
    const { key, rangeEnd } = watcher.createRequest(0n, false);
    const denial = await this.#rpc.call(methods.kv.range, { key, rangeEnd, countOnly: true }).then(
      () => undefined,
      (error: EtcdError) => error,
    );
    if (!this.#watchers.has(watcher)) return;
    if (denial?.reason === 'PermissionDenied') {
      this.remove(watcher);
      watcher.end(refusedWith);
    } else if (this.#stream !== undefined && this.#stream === stream) this.#renew();
    else if (this.#stream !== undefined && !this.#isOnStream(watcher)) this.#create(watcher);
  }

  /** Whether a new stream, with a new token, may do better after this refusal, of which there were some before. */
  #renews(error: EtcdError, renewals: number): boolean {
    return this.#rpc.settings.renewsTokens && isTokenRefused(error) && renewals < MAX_TOKEN_RENEWALS;
  }

  /** A new stream at once, with all watches from where they stand. */
  #renew(why?: 'unauthenticated'): void {
    this.#stream?.cancel(why);
    this.#forgetStream();
    for (const watcher of this.#watchers) watcher.detached();
    if (this.#watchers.size > 0) this.#open();
  }

  #isOnStream(watcher: Watcher): boolean {
    return this.#ids.has(watcher) || this.#requestedId.has(watcher) || this.#queued.has(watcher);
  }

  #ended(error: EtcdError | undefined): void {
    this.#wasBroken = true;
    this.#forgetStream();
    for (const watcher of this.#watchers) watcher.detached(error);
    if (error !== undefined && error.reason === 'ResponseTooLarge' && ++this.#tooLarge < MAX_TOO_LARGE)
      return this.#open();
    if (error?.reason === 'ClientClosed') return this.close();
    if (error !== undefined && !isResumable(error) && !this.#renews(error, this.#renewals++)) return this.end(error);
    this.#waitLog.waits({ ...causeOf(error), watches: this.#watchers.size });
    this.#reopening = true;
    if (monotonicMs() - this.#openedAt > STEADY_MS) this.#failures = 0;
    this.#stopReopening = after(backoffMs(this.#failures++), () => {
      this.#reopening = false;
      if (this.#watchers.size > 0) this.#open();
    });
  }
}

/** Whether a server of this version answers a request for progress only after the events before it. */
function ordersProgress(version: string): boolean {
  const [major = 0, minor = 0, patch = 0] = version.split('.').map((part) => Number.parseInt(part, 10));
  if (major !== 3 || minor > 5) return major >= 3;
  return (minor === 5 && patch >= 8) || (minor === 4 && patch >= 25);
}

function isResumable({ code, reason, outcome }: EtcdError): boolean {
  // A peer, or a proxy, that has enough for now; headers that are too long for any have not left.
  const hasEnough = code === 'ResourceExhausted' && outcome !== 'not-sent';
  return (RESUMABLE.has(code) || hasEnough) && !FINAL.has(reason);
}

/** Why the server ended a watch. */
function refusal({ compactRevision, cancelReason }: WatchResponse): EtcdError {
  const method = methods.watch.watch.path;
  if (compactRevision > 0n) {
    return new EtcdError(`the watch needs a revision that is compacted; the oldest there is ${compactRevision}`, {
      code: 'OutOfRange',
      reason: 'Compacted',
      outcome: 'rejected',
      method,
      compactRevision,
    });
  }
  return errorFromText(cancelReason === '' ? 'the server ended the watch' : cancelReason, { method });
}
