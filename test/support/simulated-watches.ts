import { EtcdError } from '../../src/errors/etcd-error.js';
import {
  ResponseHeader,
  type WatchCreateRequest,
  WatchRequest,
  WatchResponse,
} from '../../src/gen/etcdserverpb/rpc.js';
import { Event, KeyValue } from '../../src/gen/mvccpb/kv.js';
import { decode, encode, type Init } from '../../src/protobuf/codec.js';
import { textOf } from '../../src/runtime/bytes.js';
import type { OutgoingStream, StreamHandler } from '../../src/transport/transport.js';

// An etcd that serves watches as it should. When it does what is up to whoever plays it.

/** In one response to a watch that has to catch up, as etcd has it. */
const REVISIONS_PER_RESPONSE = 1_000;
const VALUE = new Uint8Array(100);

interface Change {
  readonly revision: bigint;
  readonly keys: readonly string[];
}

/** Which keys changed when. All of it stays, for whoever judges. */
export class SimulatedStore {
  readonly #changes: Change[] = [];
  /** What is older can be asked for no more. */
  oldest = 0n;

  /** An empty store is at 1. */
  get revision(): bigint {
    return BigInt(this.#changes.length) + 1n;
  }

  put(keys: readonly string[]): void {
    this.#changes.push({ revision: this.revision + 1n, keys });
  }

  /** The cluster is restored from a backup of this revision: what came later never was. */
  restore(revision: bigint): void {
    if (revision < 1n) return;
    this.#changes.splice(Number(revision) - 1);
    if (this.oldest > this.revision) this.oldest = 0n;
  }

  compact(oldest: bigint): void {
    if (oldest > this.oldest && oldest <= this.revision) this.oldest = oldest;
  }

  /** What was changed of these keys from a revision on. */
  *changes(from: bigint, isWatched: (key: string) => boolean): Generator<Change, void> {
    for (let index = Math.max(0, Number(from) - 2); index < this.#changes.length; index += 1) {
      const { revision, keys } = this.#changes[index] as Change;
      const watched = keys.filter(isWatched);
      if (watched.length > 0) yield { revision, keys: watched };
    }
  }
}

interface ServedWatch {
  readonly id: bigint;
  readonly isWatched: (key: string) => boolean;
  readonly fragment: boolean;
  readonly start: bigint;
  /** The first revision of which it has not been sent what there is. */
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

/** What may differ between servers that the client has to do with. */
export interface WatchServerKind {
  /**
   * Uses ids of its own, from 0 on, and answers creations in another order than they came in, as `etcd grpc-proxy` does.
   */
  readonly ownIds: boolean;
  /** Answers requests for progress ahead of events that are on their way, as etcd before 3.4.25 and 3.5.8 does. */
  readonly earlyProgress: boolean;
}

/** A member of the newest etcd. */
export const MEMBER: WatchServerKind = { ownIds: false, earlyProgress: false };

/** A watch stream from the server's side, and what is on its way. */
export class SimulatedWatchStream implements OutgoingStream<WatchRequest> {
  readonly #store: SimulatedStore;
  readonly #handler: StreamHandler<WatchResponse>;
  /** What holds of the token that the stream was opened with. */
  readonly #isTokenGood: () => boolean;
  readonly #kind: WatchServerKind;
  #nextId = 0n;
  readonly #watches = new Map<bigint, ServedWatch>();
  #requests: WatchRequest[] = [];
  #responses: WatchResponse[] = [];
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

  // ——— what the client does ———

  send(message: Init<WatchRequest>): void {
    // As it stands on the wire: what cannot is refused here.
    const bytes = encode(WatchRequest, message);
    if (!this.#over) this.#requests.push(decode(WatchRequest, bytes));
  }

  cancel(): void {
    this.#over = true;
  }

  end(): void {}
  pause(): void {}
  resume(): void {}

  // ——— what the server does ———

  /** Deals with the next requests. */
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
   * Sends one of the watches what it has not got of some revisions, perhaps in fragments of so many events; and, as
   * servers have done, so many revisions once more.
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
    const size = watch.fragment ? Math.max(1, fragmentEvents) : Math.max(1, events.length);
    for (let at = 0; at < events.length; at += size) {
      this.#respond({ watchId: watch.id, events: events.slice(at, at + size), fragment: at + size < events.length });
    }
  }

  /** Tells one of the watches how far the store is, if it has got everything. */
  notify(index: number): void {
    const watch = this.#watch(index);
    if (watch !== undefined && this.#hasAll(watch)) this.#respond({ watchId: watch.id });
  }

  /** Ends one of the watches for want of a leader. */
  refuse(index: number): void {
    const watch = this.#watch(index);
    if (watch === undefined) return;
    this.#watches.delete(watch.id);
    const cancelReason = 'rpc error: code = Unavailable desc = etcdserver: no leader';
    this.#respond({ watchId: watch.id, canceled: true, cancelReason });
  }

  /** What was sent arrives. */
  deliver(count: number): void {
    for (const response of this.#responses.splice(0, count)) if (!this.#over) this.#handler.message(response);
  }

  break(how: number): void {
    if (this.#over) return;
    this.#over = true;
    this.#handler.end(BREAKS[how % BREAKS.length]);
  }

  /** A response is longer than the client takes, if there is one that was not asked for in fragments. */
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

  /** Whether a watch has been sent all that there is; from then on it is no matter what becomes compacted. */
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
