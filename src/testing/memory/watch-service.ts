import { FilterType, type WatchCreateRequest, type WatchRequest, WatchResponse } from '../../gen/etcdserverpb/rpc.js';
import { methods } from '../../gen/methods.js';
import { type Event, EventType, type KeyValue } from '../../gen/mvccpb/kv.js';
import { encode, type Init } from '../../wire/index.js';
import { type Change, eventOf } from './change.js';
import { KeyRange } from './key-range.js';
import type { Member } from './member.js';
import { type RequestSink, type ResponseStream, type Router, type ServerCall, serverError } from './service.js';
import { maxMessageBytes } from './settings.js';
import { type Watch, WatchHub } from './watch-hub.js';

// The sources in etcd: `etcdserver/api/v3rpc/watch.go` and `mvcc/watcher.go`. The releases 3.5.33, 3.6.14 and 3.7.1
// behave alike. They check and answer the requests of a stream in order, but they send the answers and the events from
// two queues, so an event may overtake an answer. This service sends each response as soon as its cause has happened.

/** The watch ID in responses that concern no single watch. */
const NO_WATCH = -1n;
/** The watch ID of a request that lets the server choose. */
const ANY_WATCH = 0n;
/** The smallest key. etcd watches from this key on if the key of the request is empty. */
const FIRST_KEY = new Uint8Array([0]);
const MIN_PROGRESS_INTERVAL_MS = 100;

/** Registers the service Watch. */
export function registerWatch(router: Router, member: Member): void {
  const hub = new WatchHub(member.store);
  router.streaming(methods.watch.watch, (responses, call) => new WatchStream(member, hub, responses, call));
}

/** The watches of one call. The server does not end the call: a half-closed stream still delivers events. */
class WatchStream implements RequestSink<WatchRequest> {
  readonly #member: Member;
  readonly #hub: WatchHub;
  readonly #responses: ResponseStream<WatchResponse>;
  readonly #call: ServerCall;
  /** The watches that the client has not canceled. Also contains the watches that a compaction has ended. */
  readonly #watches = new Map<bigint, ActiveWatch>();
  #nextId = 0n;
  /** The time of the next progress reports in milliseconds, on the clock of the member. */
  #reportMs: number;
  readonly #intervalMs: number;
  #stopTimer: (() => void) | undefined;

  constructor(member: Member, hub: WatchHub, responses: ResponseStream<WatchResponse>, call: ServerCall) {
    this.#member = member;
    this.#hub = hub;
    this.#responses = responses;
    this.#call = call;
    this.#intervalMs = Math.max(member.settings.progressIntervalMs, MIN_PROGRESS_INTERVAL_MS);
    this.#reportMs = member.settings.clock.now() + this.#intervalMs;
    member.counters.watchStreams += 1;
  }

  message({ requestUnion }: WatchRequest): void {
    if (requestUnion?.case === 'createRequest') this.#create(requestUnion.value);
    else if (requestUnion?.case === 'cancelRequest') this.#cancel(requestUnion.value.watchId);
    else if (requestUnion?.case === 'progressRequest') this.#reportAll();
  }

  halfClosed(): void {}

  canceled(): void {
    for (const watch of this.#watches.values()) this.#hub.remove(watch);
    this.#member.counters.watchers -= this.#watches.size;
    this.#member.counters.watchStreams -= 1;
    this.#watches.clear();
    this.#stopTimer?.();
  }

  #create(request: WatchCreateRequest): void {
    const key = request.key.length === 0 ? FIRST_KEY : request.key;
    if (request.startRevision < 0n) return this.#refuse(serverError('Compacted').message);
    const refusal = this.#member.auth.mayWatch(this.#call, key, request.rangeEnd);
    // etcd sends the text of the gRPC error, as Go prints it.
    if (refusal !== undefined) return this.#refuse(`rpc error: code = ${refusal.code} desc = ${refusal.message}`);
    const range = new KeyRange(key, request.rangeEnd);
    if (range.end !== undefined && range.first >= range.end) return this.#refuse('mvcc: watcher range is empty');
    if (request.watchId !== ANY_WATCH && this.#watches.has(request.watchId))
      return this.#refuse('mvcc: duplicate watch ID provided on the WatchStream');
    const id = request.watchId === ANY_WATCH ? this.#unusedId() : request.watchId;
    const watch = new ActiveWatch(this.#member, this.#responses, range, request, id);
    this.#watches.set(id, watch);
    this.#member.counters.watchers += 1;
    this.#hub.add(watch);
    this.#responses.send({ header: this.#member.header(), watchId: id, created: true });
    this.#hub.catchUp(watch);
    if (watch.wantsProgress) this.#reportLater();
  }

  #refuse(cancelReason: string): void {
    const header = this.#member.header();
    this.#responses.send({ header, watchId: NO_WATCH, created: true, canceled: true, cancelReason });
  }

  #unusedId(): bigint {
    while (this.#watches.has(this.#nextId)) this.#nextId += 1n;
    const id = this.#nextId;
    this.#nextId += 1n;
    return id;
  }

  #cancel(id: bigint): void {
    const watch = this.#watches.get(id);
    if (watch === undefined) return;
    this.#watches.delete(id);
    this.#member.counters.watchers -= 1;
    this.#hub.remove(watch);
    this.#responses.send({ header: this.#member.header(), watchId: id, canceled: true });
  }

  /** Reports the progress of all watches. Sends nothing if the stream has no watch, or if a watch is not synced. */
  #reportAll(): void {
    const watches = [...this.#watches.values()];
    if (watches.length > 0 && watches.every((watch) => this.#hub.isSynced(watch)))
      this.#responses.send({ header: this.#member.header(), watchId: NO_WATCH });
  }

  /**
   * Starts the timer of the progress reports, unless it runs. As in etcd, the interval counts from the opening of the
   * stream. etcd adds up to a tenth of the interval, chosen at random for each stream.
   */
  #reportLater(): void {
    if (this.#stopTimer !== undefined) return;
    const { clock } = this.#member.settings;
    const nowMs = clock.now();
    if (this.#reportMs <= nowMs)
      this.#reportMs += (Math.floor((nowMs - this.#reportMs) / this.#intervalMs) + 1) * this.#intervalMs;
    this.#stopTimer = clock.after(this.#reportMs - nowMs, () => {
      this.#stopTimer = undefined;
      this.#reportMs += this.#intervalMs;
      for (const watch of this.#watches.values()) {
        if (!watch.wantsProgress) continue;
        this.#reportLater();
        if (watch.takeProgress() && this.#hub.isSynced(watch))
          this.#responses.send({ header: this.#member.header(), watchId: watch.id });
      }
    });
  }
}

class ActiveWatch implements Watch {
  readonly id: bigint;
  readonly range: KeyRange;
  readonly startRevision: bigint;
  readonly wantsProgress: boolean;
  readonly #member: Member;
  readonly #responses: ResponseStream<WatchResponse>;
  /** The kinds of changes that the filters of the request exclude. */
  readonly #excluded = new Set<EventType>();
  readonly #prevKv: boolean;
  readonly #fragment: boolean;
  /** Whether the watch has received events in the current interval of the progress reports. */
  #busy = false;

  constructor(
    member: Member,
    responses: ResponseStream<WatchResponse>,
    range: KeyRange,
    request: WatchCreateRequest,
    id: bigint,
  ) {
    this.id = id;
    this.range = range;
    this.startRevision = request.startRevision;
    this.wantsProgress = request.progressNotify;
    this.#member = member;
    this.#responses = responses;
    for (const filter of request.filters) {
      if (filter === FilterType.NOPUT) this.#excluded.add(EventType.PUT);
      if (filter === FilterType.NODELETE) this.#excluded.add(EventType.DELETE);
    }
    this.#prevKv = request.prevKv;
    this.#fragment = request.fragment;
  }

  changed(changes: readonly Change[], revision: bigint): void {
    const events = changes
      .filter(({ type }) => !this.#excluded.has(type))
      .map((change) => eventOf(change, this.#prevKv ? this.#previous(change) : undefined));
    if (events.length === 0) return;
    this.#busy = true;
    this.#member.counters.events += events.length;
    const response = { header: this.#member.header(revision), watchId: this.id, events };
    if (!this.#fragment) return this.#responses.send(response);
    const maxBytes = maxMessageBytes(this.#member.settings);
    for (const fragment of fragmentsOf(response, maxBytes)) this.#responses.send(fragment);
  }

  /** etcd sends the revision 0 in the header of this response. */
  compacted(revision: bigint): void {
    const header = this.#member.header(0n);
    this.#responses.send({ header, watchId: this.id, canceled: true, compactRevision: revision });
  }

  /** Returns whether a progress report is due at the end of an interval, and starts the next interval. */
  takeProgress(): boolean {
    const due = !this.#busy;
    this.#busy = false;
    return due;
  }

  /**
   * Returns the key before the change. Undefined if the key did not exist, or if the revision before the change is
   * compacted.
   */
  #previous({ key, kv }: Change): KeyValue | undefined {
    const before = kv.modRevision - 1n;
    const { store } = this.#member;
    if (kv.createRevision === kv.modRevision || before < store.compacted) return undefined;
    return store.get(key, before);
  }
}

/**
 * Splits a response of `maxBytes` or more into parts that are smaller than `maxBytes`, or contain only one event.
 * `fragment` is true in all parts but the last.
 */
function* fragmentsOf(
  response: Init<WatchResponse> & { readonly events: readonly Event[] },
  maxBytes: number,
): Generator<Init<WatchResponse>, void> {
  const sizes = response.events.map((event) => encode(WatchResponse, { events: [event] }).length);
  let bytes = encode(WatchResponse, { ...response, events: [] }).length;
  for (const size of sizes) bytes += size;
  if (bytes < maxBytes) return yield response;
  const emptyBytes = encode(WatchResponse, { ...response, fragment: true, events: [] }).length;
  for (let start = 0, end: number; start < sizes.length; start = end) {
    bytes = emptyBytes + (sizes[start] as number);
    for (end = start + 1; end < sizes.length; end += 1) {
      bytes += sizes[end] as number;
      if (bytes >= maxBytes) break;
    }
    yield { ...response, fragment: end < sizes.length, events: response.events.slice(start, end) };
  }
}
