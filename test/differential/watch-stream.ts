import { pause } from '../../src/base/timers.js';
import type { Normal, Normalizer } from './normalize.js';
import type { Connection, Message, OpenStream } from './target.js';

/** How long to wait for a response that the server must send, in milliseconds. A later response is a difference. */
export const RESPONSE_LIMIT_MS = 10_000;
/** The interval between two requests for progress, which etcd may leave unanswered, in milliseconds. */
const PROGRESS_INTERVAL_MS = 40;

/** The smallest ID of the watches that this file creates. All IDs in sequences are smaller. */
const OWN_WATCH_ID = 1_000_000n;
/** The key whose changes show that all earlier events have arrived. */
export const SENTINEL_KEY = '~sentinel';
const NO_DELETE = 1;
/** The watch ID of a progress report for all watches of a stream. */
const ALL_WATCHES = -1n;

/**
 * The kind of the watches on a stream. Each kind has its own stream, because the kind decides how the test finds out
 * that all events have arrived.
 *
 * - `current`: etcd answers a request for progress when all watches have caught up.
 * - `future`: etcd leaves requests for progress unanswered until the store reaches the start revision of each watch.
 *   These watches are synced, so they have received all earlier events when the event of a put of `SENTINEL_KEY`
 *   arrives.
 * - `compacted`: etcd cancels the watches because of their start revision, and from then on leaves all requests for
 *   progress unanswered. No events arrive.
 */
export type WatchKind = 'current' | 'future' | 'compacted';

/** A watch stream of a sequence. */
export class WatchStream {
  readonly kind: WatchKind;
  readonly #normalizer: Normalizer;
  readonly #stream: OpenStream;
  /** The IDs of the watches that the server has created and not canceled. */
  readonly active = new Set<bigint>();
  /** The number of messages that have been handled. */
  #handled = 0;
  /** The responses since the last call of `take`, by watch. */
  #responses = new Map<string, Normal[]>();
  /** The progress reports since the last call of `settle`. */
  #progress: Message[] = [];
  /** The number of responses to create and cancel requests. */
  #controls = 0;
  /** The ID of the watch that the last create request has created. Undefined if the server has refused it. */
  #lastCreated: bigint | undefined;
  #sentinelEvents = 0;
  #ownWatches = 0n;
  #wake = (): void => {};

  constructor(connection: Connection, token: string | undefined, kind: WatchKind, normalizer: Normalizer) {
    this.kind = kind;
    this.#normalizer = normalizer;
    this.#stream = connection.open('watch.watch', token, () => {
      this.#handle();
      this.#wake();
    });
  }

  get ended(): boolean {
    return this.#stream.ended;
  }

  /** Watches `SENTINEL_KEY`. */
  async watchSentinel(): Promise<void> {
    await this.create({ key: Buffer.from(SENTINEL_KEY), watchId: OWN_WATCH_ID, filters: [NO_DELETE] });
  }

  /**
   * Sends a create request. Resolves when the response has arrived and, for the kind `compacted`, the server has
   * canceled the watch.
   */
  async create(request: Message): Promise<void> {
    const before = this.#controls;
    this.#send('createRequest', request);
    await this.#until(() => this.#controls > before, 'no response to a create request');
    const id = this.#lastCreated;
    if (this.kind === 'compacted' && id !== undefined && id < OWN_WATCH_ID)
      await this.#until(() => !this.active.has(id), 'a watch of a compacted revision was not canceled');
  }

  /** Sends a cancel request. Resolves when the response, if there is one, has arrived. */
  async cancel(watchId: bigint): Promise<void> {
    const before = this.#controls;
    const answers = this.active.has(watchId);
    this.#send('cancelRequest', { watchId });
    if (answers) await this.#until(() => this.#controls > before, 'no response to a cancel request');
    else await this.#acknowledge();
  }

  /**
   * Resolves when the events of all earlier changes have arrived. For streams of the kind `future`, the caller has put
   * `SENTINEL_KEY` before, and passes the number of these puts since the stream was opened.
   */
  async settle(revision: bigint, sentinels: number): Promise<void> {
    if (this.ended || this.kind === 'compacted') return;
    if (this.kind === 'future') {
      // A member that does not know the token refuses all watches of the stream.
      if (!this.active.has(OWN_WATCH_ID)) return;
      await this.#until(() => this.#sentinelEvents >= sentinels, 'no event for the last change');
      return;
    }
    if (this.active.size === 0) return;
    const start = performance.now();
    this.#progress = [];
    const isAnswered = (): boolean =>
      this.#progress.some(({ header }) => (header as { revision: bigint }).revision >= revision) || this.ended;
    while (!isAnswered()) {
      if (performance.now() - start > RESPONSE_LIMIT_MS)
        return this.#record('problem', 'no answer to a request for progress');
      this.#send('progressRequest', {});
      await this.#wakeWithin(PROGRESS_INTERVAL_MS, isAnswered);
    }
  }

  /** The last answer to a request for progress. */
  get lastProgress(): Normal {
    const last = this.#progress.at(-1);
    return last === undefined ? null : this.#normalizer.message('etcdserverpb.WatchResponse', last);
  }

  /** Returns the responses since the last call, by watch. Undefined if there were none. */
  take(): Normal | undefined {
    if (this.#responses.size === 0) return undefined;
    const taken = Object.fromEntries([...this.#responses].sort(([a], [b]) => (a < b ? -1 : 1)));
    this.#responses = new Map();
    return taken;
  }

  close(): void {
    this.#stream.outgoing.cancel();
  }

  /** Resolves when the server has handled all earlier requests, even those that it does not answer. */
  async #acknowledge(): Promise<void> {
    this.#ownWatches += 1n;
    const watchId = OWN_WATCH_ID + this.#ownWatches;
    await this.create({ key: Buffer.from('~none'), watchId });
    if (this.active.has(watchId)) await this.cancel(watchId);
  }

  #send(name: string, value: Message): void {
    this.#stream.outgoing.send({ requestUnion: { case: name, value } });
  }

  #handle(): void {
    const { messages } = this.#stream;
    for (; this.#handled < messages.length; this.#handled += 1) this.#receive(messages[this.#handled] as Message);
    if (this.#stream.ended) {
      const { error } = this.#stream;
      this.#record('end', error === undefined ? 'OK' : `${error.code}: ${error.problem}`);
    }
  }

  #receive(message: Message): void {
    const { watchId, created, canceled, events } = message as {
      watchId: bigint;
      created: boolean;
      canceled: boolean;
      events: { kv: { key: Uint8Array } }[];
    };
    if (watchId === ALL_WATCHES && !created && !canceled && events.length === 0)
      return void this.#progress.push(message);
    if (created) this.#lastCreated = canceled ? undefined : watchId;
    if (created && !canceled) this.active.add(watchId);
    if (canceled && !created) this.active.delete(watchId);
    if (created || canceled) this.#controls += 1;
    if (watchId >= OWN_WATCH_ID) {
      this.#sentinelEvents += events.length;
      return;
    }
    // A put of the sentinel key reaches the watches of a stream in any order.
    const others = events.filter(({ kv }) => Buffer.from(kv.key).toString('latin1') !== SENTINEL_KEY);
    if (others.length === 0 && events.length > 0) return;
    const shown = { ...message, events: others };
    this.#record(`watch ${watchId}`, this.#normalizer.message('etcdserverpb.WatchResponse', shown));
  }

  #record(group: string, response: Normal): void {
    this.#responses.set(group, [...(this.#responses.get(group) ?? []), response]);
  }

  async #until(isDone: () => boolean, problem: string): Promise<void> {
    const deadline = performance.now() + RESPONSE_LIMIT_MS;
    while (!isDone() && !this.ended) {
      if (performance.now() > deadline) return this.#record('problem', problem);
      await this.#wakeWithin(deadline - performance.now(), isDone);
    }
  }

  /** Resolves at the next message, or after `ms`. Resolves at once if the condition holds. */
  async #wakeWithin(ms: number, isDone: () => boolean): Promise<void> {
    if (isDone()) return;
    const stop = new AbortController();
    this.#wake = () => stop.abort();
    await pause(ms, stop.signal);
  }
}
