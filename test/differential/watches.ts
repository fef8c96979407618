import type { Access } from './access.js';
import type { Normal, Normalizer } from './normalize.js';
import { latin1, learnRevision, resolve, type Symbols } from './resolve.js';
import { streamKey, type WatchStep } from './step.js';
import { SENTINEL_KEY, type WatchKind, WatchStream } from './watch-stream.js';

/** The watch streams of one sequence. */
export class Watches {
  readonly #access: Access;
  readonly #symbols: Symbols;
  readonly #normalizer: Normalizer;
  readonly #streams = new Map<string, WatchStream>();
  /** The number of puts of the sentinel key since each stream was opened. */
  readonly #sentinels = new Map<WatchStream, number>();

  /** The position of the server of each stream. */
  readonly #positions = new Map<WatchStream, number>();

  constructor(access: Access, symbols: Symbols, normalizer: Normalizer) {
    this.#access = access;
    this.#symbols = symbols;
    this.#normalizer = normalizer;
  }

  /** Plays a step of a watch stream. */
  async play(step: WatchStep): Promise<Record<string, Normal>> {
    const request = resolve(
      step.watch === 'cancel' ? 'etcdserverpb.WatchCancelRequest' : 'etcdserverpb.WatchCreateRequest',
      step.request ?? {},
      this.#symbols,
    );
    if (step.watch === 'create') {
      const stream = await this.#open(step, this.#kindOf(request));
      await stream.create(request);
      return {};
    }
    for (const [key, stream] of this.#streamsOf(step)) {
      if (step.watch === 'cancel' && !stream.ended) await stream.cancel((request.watchId ?? 0n) as bigint);
      if (step.watch !== 'close') continue;
      stream.close();
      this.#streams.delete(key);
    }
    return {};
  }

  #kindOf({ startRevision = 0n }: { startRevision?: bigint }): WatchKind {
    if (startRevision > this.#symbols.current) return 'future';
    return startRevision > 0n && startRevision < this.#symbols.compacted ? 'compacted' : 'current';
  }

  async #open(step: WatchStep, kind: WatchKind): Promise<WatchStream> {
    const key = `${streamKey(step)} ${kind}`;
    const open = this.#streams.get(key);
    if (open !== undefined && !open.ended) return open;
    const { connection } = this.#access.serverOf(step, 'watch');
    const stream = new WatchStream(connection, this.#access.tokenOf(step), kind, this.#normalizer);
    this.#streams.set(key, stream);
    this.#positions.set(stream, step.at ?? 0);
    if (kind === 'future') {
      await stream.watchSentinel();
      this.#sentinels.set(stream, 0);
    }
    return stream;
  }

  /** Returns the streams with the number of the step: at most one of each kind. Some may have ended. */
  #streamsOf(step: WatchStep): [string, WatchStream][] {
    return [...this.#streams].filter(([key]) => key.startsWith(`${streamKey(step)} `));
  }

  /** Returns the last answers to requests for progress on the streams of a step. */
  progressOf(step: WatchStep): Normal {
    return Object.fromEntries(this.#streamsOf(step).map(([key, stream]) => [key, stream.lastProgress]));
  }

  /**
   * Waits until the events of all earlier changes have arrived. Resolves with the responses since the last call. A member
   * that is cut off knows no new changes, so its streams wait for the end of the cut.
   */
  async settle(): Promise<Record<string, Normal>> {
    const { lost } = this.#access;
    const streams = [...this.#streams].filter(([, stream]) => this.#positions.get(stream) !== lost);
    if (streams.length === 0) return {};
    await this.#updateRevision();
    const settle = (): Promise<unknown> =>
      Promise.all(streams.map(([, stream]) => stream.settle(this.#symbols.current, this.#sentinels.get(stream) ?? 0)));
    await settle();
    // The put of the sentinel key follows after the first call of `settle`. Before that, the report of a watch that has
    // not caught up could contain the revision of the put or the revision before it.
    if (streams.some(([, { kind, ended }]) => kind === 'future' && !ended)) {
      await this.#putSentinel();
      await settle();
    }
    const taken: Record<string, Normal> = {};
    for (const [key, stream] of streams) {
      const responses = stream.take();
      if (responses !== undefined) taken[key] = responses;
    }
    return Object.keys(taken).length === 0 ? {} : { watches: taken };
  }

  /** Learns the revision, because steps without a response, such as an expiry, may have changed it. */
  async #updateRevision(): Promise<void> {
    const { messages } = await this.#access.callAsRoot('kv.range', { key: latin1(SENTINEL_KEY), serializable: true });
    for (const message of messages) learnRevision(this.#symbols, message);
  }

  async #putSentinel(): Promise<void> {
    const { messages, error } = await this.#access.callAsRoot('kv.put', { key: latin1(SENTINEL_KEY) });
    if (error !== undefined) return;
    for (const message of messages) learnRevision(this.#symbols, message);
    for (const [stream, puts] of this.#sentinels) this.#sentinels.set(stream, puts + 1);
  }

  /** Ends all streams, or those at one server. */
  close(at?: number): void {
    for (const [key, stream] of this.#streams) {
      if (at !== undefined && this.#positions.get(stream) !== at) continue;
      stream.close();
      this.#streams.delete(key);
    }
  }
}
