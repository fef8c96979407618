import { textOf } from '../../src/base/bytes.js';
import { EtcdError } from '../../src/base/etcd-error.js';
import {
  ResponseHeader,
  type WatchCreateRequest,
  WatchRequest,
  WatchResponse,
} from '../../src/gen/etcdserverpb/rpc.js';
import { Event, KeyValue } from '../../src/gen/mvccpb/kv.js';
import { decode } from '../../src/wire/protobuf/reader.js';
import { encode, type Init } from '../../src/wire/protobuf/writer.js';
import type { OutgoingStream, StreamHandler } from '../../src/wire/transport.js';

// A simulated etcd that serves watches correctly. The test decides when the simulated server processes requests and
// when it delivers responses.

/** The maximum number of revisions in one response to a watch that is catching up, as in etcd. */
const REVISIONS_PER_RESPONSE = 1_000;
const VALUE = new Uint8Array(100);

interface Change {
  readonly revision: bigint;
  readonly keys: readonly string[];
}

/** The history of all keys. It includes compacted changes, so that a test can compare delivered events with them. */
export class SimulatedStore {
  readonly #changes: Change[] = [];
  /** The whole history before each restore. */
  readonly #former: (readonly Change[])[] = [];
  /**
   * The highest revision that the client had seen before a restore. If the restored store reaches this revision before
   * the client reads anything from it, the client cannot notice the restore, and may miss events up to this revision.
   */
  unnoticeable = 0n;
  /** The oldest revision that is not compacted. 0 before the first compaction. */
  oldest = 0n;
  /** The highest value that `oldest` has had, before or after a restore. */
  highestOldest = 0n;

  /** The revision of an empty store is 1. */
  get revision(): bigint {
    return BigInt(this.#changes.length) + 1n;
  }

  put(keys: readonly string[]): void {
    this.#changes.push({ revision: this.revision + 1n, keys });
  }

  /**
   * Restores the cluster from a backup at this revision. Later changes are lost. `seen` is the highest revision that
   * the client has seen.
   */
  restore(revision: bigint, seen: bigint): void {
    if (revision < 1n) return;
    this.#former.push([...this.#changes]);
    this.#changes.splice(Number(revision) - 1);
    if (seen > this.unnoticeable) this.unnoticeable = seen;
    if (this.oldest > this.revision) this.oldest = 0n;
  }

  compact(oldest: bigint): void {
    if (oldest > this.oldest && oldest <= this.revision) this.oldest = oldest;
    if (this.oldest > this.highestOldest) this.highestOldest = this.oldest;
  }

  /**
   * Returns the changes that a watch may deliver next if it has delivered all events before `from`. These are the next
   * change of each former history, and the changes of the present history up to the first change after `unnoticeable`,
   * because the watch may miss the changes before that one.
   */
  next(from: bigint, isWatched: (key: string) => boolean): readonly Change[] {
    const next: Change[] = [];
    for (const history of this.#former) {
      const first = changesIn(history, from, isWatched).next().value;
      if (first) next.push(first);
    }
    for (const change of this.changes(from, isWatched)) {
      next.push(change);
      if (change.revision > this.unnoticeable) break;
    }
    return next;
  }

  /** Yields the changes of the watched keys from a revision on. */
  changes(from: bigint, isWatched: (key: string) => boolean): Generator<Change, void> {
    return changesIn(this.#changes, from, isWatched);
  }
}

function* changesIn(
  history: readonly Change[],
  from: bigint,
  isWatched: (key: string) => boolean,
): Generator<Change, void> {
  // The first change of each history has revision 2, and each further change has the next revision.
  for (let index = Math.max(0, Number(from) - 2); index < history.length; index += 1) {
    const { revision, keys } = history[index] as Change;
    const watched = keys.filter(isWatched);
    if (watched.length > 0) yield { revision, keys: watched };
  }
}

interface ServedWatch {
  readonly id: bigint;
  readonly isWatched: (key: string) => boolean;
  readonly fragment: boolean;
  readonly start: bigint;
  /** The first revision that the server has not sent to this watch. */
  next: bigint;
}

const BREAKS: readonly (EtcdError | undefined)[] = [
  undefined,
  new EtcdError('lost', { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' }),
  new EtcdError('refused', { code: 'Unavailable', reason: 'StreamRefused', outcome: 'rejected' }),
  new EtcdError('not connected', { code: 'Unavailable', reason: 'ConnectFailed', outcome: 'not-sent' }),
  new EtcdError('broken', { code: 'Internal', reason: 'Other', outcome: 'unknown' }),
];
const TOO_LARGE = new EtcdError('too large', {
  code: 'ResourceExhausted',
  reason: 'ResponseTooLarge',
  outcome: 'unknown',
});

/** The differences between servers in their behavior. The client must support every kind. */
export interface WatchServerKind {
  /**
   * Whether the server chooses the watch IDs itself, from 0 on, and confirms creations out of order, like `etcd
   * grpc-proxy`.
   */
  readonly ownIds: boolean;
  /**
   * Whether the server responds to progress requests before it has sent the events up to the reported revision, like
   * etcd before 3.4.25 and 3.5.8.
   */
  readonly earlyProgress: boolean;
}

/** The behavior of a member that runs a current version of etcd. */
export const MEMBER: WatchServerKind = { ownIds: false, earlyProgress: false };

/** A watch stream, as the server sees it, with the requests and responses that have not been delivered yet. */
export class SimulatedWatchStream implements OutgoingStream<WatchRequest> {
  readonly #store: SimulatedStore;
  readonly #handler: StreamHandler<WatchResponse>;
  /** Whether the token that the stream was opened with is valid. */
  readonly #isTokenGood: () => boolean;
  readonly #kind: WatchServerKind;
  #nextId = 0n;
  readonly #watches = new Map<bigint, ServedWatch>();
  #requests: WatchRequest[] = [];
  #responses: WatchResponse[] = [];
  #isPaused = false;
  #over = false;

  constructor(
    store: SimulatedStore,
    handler: StreamHandler<WatchResponse>,
    isTokenGood: () => boolean,
    kind: WatchServerKind = MEMBER,
  ) {
    this.#kind = kind;
    this.#store = store;
    this.#handler = handler;
    this.#isTokenGood = isTokenGood;
  }

  get over(): boolean {
    return this.#over;
  }

  send(message: Init<WatchRequest>): void {
    // Encodes and decodes the request, so that an invalid request throws here, as it would in the real client.
    const bytes = encode(WatchRequest, message);
    if (!this.#over) this.#requests.push(decode(WatchRequest, bytes));
  }

  cancel(): void {
    this.#over = true;
  }

  end(): void {}
  pause(): void {
    this.#isPaused = true;
  }
  resume(): void {
    this.#isPaused = false;
  }

  /** Processes the next requests. */
  serve(count: number): void {
    const before = this.#responses.length;
    this.#serve(count);
    if (!this.#kind.ownIds) return;
    const answers = this.#responses.splice(before);
    this.#responses.push(...answers.filter(({ created }) => created).reverse());
    this.#responses.push(...answers.filter(({ created }) => !created));
  }

  #serve(count: number): void {
    for (const { requestUnion } of this.#requests.splice(0, count)) {
      if (requestUnion?.case === 'createRequest') this.#create(requestUnion.value);
      else if (requestUnion?.case === 'cancelRequest') this.#cancel(requestUnion.value.watchId);
      else if (this.#kind.earlyProgress || [...this.#watches.values()].every((watch) => this.#hasAll(watch)))
        this.#respond({ watchId: -1n });
    }
  }

  /**
   * Sends the next revisions to one of the watches, in fragments of `fragmentEvents` events. The transport cuts a long
   * response into fragments even if the watch has not asked the server for them. Repeats the previous `again` revisions
   * before them, because some servers have sent events twice.
   */
  sync(index: number, revisions: number, fragmentEvents: number, again = 0): void {
    const watch = this.#watch(index);
    if (watch === undefined) return;
    const from = watch.next - BigInt(again) > watch.start ? watch.next - BigInt(again) : watch.start;
    if (watch.next < this.#store.oldest) {
      this.#watches.delete(watch.id);
      return this.#respond({ watchId: watch.id, canceled: true, compactRevision: this.#store.oldest });
    }
    const events: Event[] = [];
    let left = Math.min(revisions, REVISIONS_PER_RESPONSE);
    let next = this.#store.revision + 1n;
    for (const { revision, keys } of this.#store.changes(from, watch.isWatched)) {
      if (left === 0) {
        next = revision;
        break;
      }
      left -= 1;
      for (const key of keys) events.push(put(key, revision));
    }
    if (next > watch.next) watch.next = next;
    const size = Math.max(1, fragmentEvents);
    for (let at = 0; at < events.length; at += size) {
      this.#respond({ watchId: watch.id, events: events.slice(at, at + size), fragment: at + size < events.length });
    }
  }

  /** Sends the current revision to one of the watches, if the server has sent all events to that watch. */
  notify(index: number): void {
    const watch = this.#watch(index);
    if (watch !== undefined && this.#hasAll(watch)) this.#respond({ watchId: watch.id });
  }

  /** Cancels one of the watches because the cluster has no leader. */
  refuse(index: number): void {
    const watch = this.#watch(index);
    if (watch === undefined) return;
    this.#watches.delete(watch.id);
    const cancelReason = 'rpc error: code = Unavailable desc = etcdserver: no leader';
    this.#respond({ watchId: watch.id, canceled: true, cancelReason });
  }

  /** Delivers the next responses to the client, unless the client has paused the stream. */
  deliver(count: number): void {
    for (let left = count; left > 0 && !this.#isPaused && !this.#over; left -= 1) {
      const response = this.#responses.shift();
      if (response === undefined) return;
      this.#handler.message(response);
    }
  }

  break(how: number): void {
    if (this.#over) return;
    this.#over = true;
    this.#handler.end(BREAKS[how % BREAKS.length]);
  }

  /** Ends the stream with the error for a response that is too large. Does nothing if every watch allows fragments. */
  exceed(): void {
    if (this.#over || [...this.#watches.values()].every(({ fragment }) => fragment)) return;
    this.#over = true;
    this.#handler.end(TOO_LARGE);
  }

  #create({ key, rangeEnd, startRevision, watchId: askedId, fragment }: WatchCreateRequest): void {
    const watchId = this.#kind.ownIds ? this.#nextId++ : askedId;
    if (!this.#isTokenGood()) {
      const cancelReason = 'rpc error: code = PermissionDenied desc = etcdserver: permission denied';
      return this.#respond({ watchId: -1n, created: true, canceled: true, cancelReason });
    }
    const start = startRevision > 0n ? startRevision : this.#store.revision + 1n;
    const isWatched = within(key, rangeEnd);
    this.#watches.set(watchId, { id: watchId, isWatched, fragment, start, next: start });
    this.#respond({ watchId, created: true });
  }

  #cancel(watchId: bigint): void {
    if (this.#watches.delete(watchId)) this.#respond({ watchId, canceled: true });
  }

  #watch(index: number): ServedWatch | undefined {
    const watches = [...this.#watches.values()];
    return watches[index % watches.length];
  }

  /**
   * Whether the server has sent all events to a watch. If so, moves the watch past the current revision, so that a
   * later compaction does not affect the watch.
   */
  #hasAll(watch: ServedWatch): boolean {
    const { oldest, revision } = this.#store;
    if (watch.next < oldest || this.#store.changes(watch.next, watch.isWatched).next().done !== true) return false;
    if (watch.next <= revision) watch.next = revision + 1n;
    return true;
  }

  #respond(response: Partial<WatchResponse>): void {
    const header = { ...ResponseHeader.create(), clusterId: 1n, revision: this.#store.revision };
    this.#responses.push({ ...WatchResponse.create(), ...response, header });
  }
}

function put(key: string, modRevision: bigint): Event {
  return { ...Event.create(), kv: { ...KeyValue.create(), key: Buffer.from(key), value: VALUE, modRevision } };
}

function within(key: Uint8Array, rangeEnd: Uint8Array): (text: string) => boolean {
  const [first, end] = [textOf(key), textOf(rangeEnd)];
  if (end === '') return (text) => text === first;
  return (text) => text >= first && (end === '\0' || text < end);
}
