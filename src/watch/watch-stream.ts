import { isTooLarge } from '../channel/retry.js';
import { REQUIRE_LEADER, type Rpc } from '../channel/rpc.js';
import { isTokenRefused, MAX_RENEWALS } from '../channel/token-source.js';
import { clientClosed, EtcdError, type Reason } from '../errors.js';
import type { WatchRequest, WatchResponse } from '../gen/etcdserverpb/rpc.js';
import { methods } from '../gen/methods.js';
import { log } from '../log.js';
import { onAbort } from '../on-abort.js';
import type { StatusCode } from '../status.js';
import { errorFromText } from '../status-error.js';
import { after, backoffMs, monotonicMs } from '../time.js';
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

/**
 * All watches over one stream. This object alone owns the stream and decides what goes over it; after a break it opens
 * the next one and creates every watch again from where it stands.
 */
export class WatchStream {
  readonly #rpc: Rpc;
  readonly #watchers = new Set<Watcher>();
  readonly #byId = new Map<bigint, Watcher>();
  readonly #ids = new Map<Watcher, bigint>();
  /** Created but not answered yet. Creates are answered in order, also those that fail, which bear no id. */
  #creating: Watcher[] = [];
  #stream: OutgoingStream<WatchRequest> | undefined;
  /** Never used twice, so that a late response cannot concern another watch. */
  #nextId = 1n;
  #failures = 0;
  /** Streams in a row that ended for their token. */
  #renewals = 0;
  /** On the monotonic clock. */
  #openedAt = 0;
  #stopReopening: () => void = () => {};
  #stopLingering: () => void = () => {};
  #offClosed: () => void = () => {};
  #reopening = false;
  /** Streams that ended for a response that was too large: from the first on, fragments are asked for. */
  #tooLarge = 0;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  add(watcher: Watcher): void {
    this.#stopLingering();
    // Only as long as there is one: a namespace is made for a moment, and the client lasts.
    if (this.#watchers.size === 0) this.#offClosed = onAbort(this.#rpc.settings.closed, () => this.end(clientClosed()));
    this.#watchers.add(watcher);
    if (this.#stream !== undefined) this.#create(watcher, this.#stream);
    else if (!this.#reopening) this.#open();
  }

  /** The watch is over, or has to wait for its consumer. */
  remove(watcher: Watcher): void {
    if (!this.#watchers.delete(watcher)) return;
    const watchId = this.#ids.get(watcher);
    if (watchId !== undefined) this.#cancel(watchId);
    if (this.#watchers.size > 0) return;
    this.#offClosed();
    this.#stopLingering();
    this.#stopLingering = after(LINGER_MS, () => this.#close());
  }

  /** Asks the server how far the stream's watches are; the answer moves their cursors. */
  requestProgress(): void {
    this.#stream?.send({ requestUnion: { case: 'progressRequest', value: {} } });
  }

  /** Ends every watch with this error. */
  end(error: EtcdError): void {
    for (const watcher of this.#watchers) watcher.end(error);
    this.#watchers.clear();
    this.#offClosed();
    this.#stopLingering();
    this.#close();
  }

  /** By RST_STREAM: on some servers a half-close leaks the stream's watches. */
  #close(): void {
    this.#stopReopening();
    this.#reopening = false;
    this.#tooLarge = 0;
    this.#stream?.cancel();
    this.#forgetStream();
  }

  #forgetStream(): void {
    this.#stream = undefined;
    this.#creating = [];
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
      { metadata: REQUIRE_LEADER, maxReceiveBytes: this.#tooLarge > 0 ? undefined : WHOLE_RESPONSE_BYTES },
    );
    this.#stream = stream;
    this.#openedAt = monotonicMs();
    for (const watcher of [...this.#watchers]) this.#create(watcher, stream);
  }

  #create(watcher: Watcher, stream: OutgoingStream<WatchRequest>): void {
    const watchId = this.#nextId++;
    try {
      stream.send({
        requestUnion: { case: 'createRequest', value: watcher.createRequest(watchId, this.#tooLarge > 0) },
      });
      this.#creating.push(watcher);
    } catch (error) {
      // The request is too long: the trouble of this watch alone.
      this.remove(watcher);
      watcher.end(error as EtcdError);
    }
  }

  /** Events still on their way for this id find nobody. */
  #cancel(watchId: bigint): void {
    this.#detach(watchId);
    this.#stream?.send({ requestUnion: { case: 'cancelRequest', value: { watchId } } });
  }

  #receive(response: WatchResponse): void {
    const { watchId } = response;
    const revision = response.header?.revision ?? 0n;
    if (response.created) return this.#created(response, revision);
    if (watchId === NO_WATCH_ID) {
      for (const watcher of this.#byId.values()) watcher.progressed(revision);
      return;
    }
    const watcher = this.#byId.get(watchId);
    if (watcher === undefined) return;
    if (response.canceled) {
      this.#detach(watchId);
      this.#refused(watcher, response);
    } else if (response.events.length > 0) watcher.receive(response);
    else watcher.progressed(revision);
  }

  #created(response: WatchResponse, revision: bigint): void {
    const watcher = this.#creating.shift();
    if (watcher === undefined) return;
    if (response.canceled) return this.#refused(watcher, response);
    this.#renewals = 0;
    // Two entries of one watch: it was taken off the stream and put back before the first was answered.
    if (!this.#watchers.has(watcher) || this.#creating.includes(watcher)) return this.#cancel(response.watchId);
    this.#byId.set(response.watchId, watcher);
    this.#ids.set(watcher, response.watchId);
    watcher.created(revision);
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
      watcher.detached();
      const again = (): void => {
        if (!this.#watchers.has(watcher) || this.#stream === undefined || this.#isOnStream(watcher)) return;
        this.#create(watcher, this.#stream);
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
    else if (this.#stream !== undefined && !this.#isOnStream(watcher)) this.#create(watcher, this.#stream);
  }

  /** Whether a new stream, with a new token, may do better after this refusal, of which there were some before. */
  #renews(error: EtcdError, renewals: number): boolean {
    return this.#rpc.settings.renewsTokens && isTokenRefused(error) && renewals < MAX_RENEWALS;
  }

  /** A new stream at once, with all watches from where they stand. */
  #renew(why?: 'unauthenticated'): void {
    this.#stream?.cancel(why);
    this.#forgetStream();
    for (const watcher of this.#watchers) watcher.detached();
    if (this.#watchers.size > 0) this.#open();
  }

  #isOnStream(watcher: Watcher): boolean {
    return this.#ids.has(watcher) || this.#creating.includes(watcher);
  }

  #ended(error: EtcdError | undefined): void {
    this.#forgetStream();
    for (const watcher of this.#watchers) watcher.detached();
    if (error !== undefined && isTooLarge(error) && ++this.#tooLarge < MAX_TOO_LARGE) return this.#open();
    if (error !== undefined && !isResumable(error) && !this.#renews(error, this.#renewals++)) return this.end(error);
    const reason = error?.reason ?? 'the server ended it';
    log(this.#rpc.settings.logger, 'info', 'watches go on over a new stream', { reason, watches: this.#watchers.size });
    this.#reopening = true;
    if (monotonicMs() - this.#openedAt > STEADY_MS) this.#failures = 0;
    this.#stopReopening = after(backoffMs(this.#failures++), () => {
      this.#reopening = false;
      if (this.#watchers.size > 0) this.#open();
    });
  }
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
