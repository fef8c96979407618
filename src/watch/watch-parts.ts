import type { CallTrace } from '../channel/attempts.js';
import type { EtcdError } from '../errors/etcd-error.js';
import type { WatchCreateRequest } from '../gen/etcdserverpb/rpc.js';
import type { Init } from '../protobuf/codec.js';
import { SerialRunner } from '../runtime/async.js';
import type { Division } from './catch-up.js';
import type { WatchBatch } from './event.js';
import type { WatchStream } from './watch-stream.js';
import { Watcher } from './watcher.js';

export interface WatchPartsOptions {
  readonly request: Init<WatchCreateRequest>;
  readonly bufferBytes: number;
  readonly progress: boolean;
  /** What became of the watch's streams. */
  readonly trace: CallTrace | undefined;
  /** There is nothing more to come but what lies here. */
  readonly ended: () => void;
}

/**
 * What one watch is made of on the server: a single one, or while there is a long way to catch up several, each with the
 * revisions from where it begins `until` the next one does. They are taken in order, one after the other; the last has no
 * end. A part that sees no event beyond its own stays, and then there are none for those after it either.
 */
export class WatchParts {
  readonly #stream: WatchStream;
  readonly #options: WatchPartsOptions;
  /** From its creation on every event is told, whichever part is being taken. */
  readonly #first: Watcher;
  /** In order; the first is the one that is being taken. */
  #parts: Watcher[];
  #division: Division | undefined;
  readonly #turns = new SerialRunner();
  #ended = false;

  constructor(stream: WatchStream, options: WatchPartsOptions) {
    this.#stream = stream;
    this.#options = options;
    this.#first = this.#part(options.request.startRevision ?? 0n, options.bufferBytes);
    this.#parts = [this.#first];
  }

  start(): void {
    this.#stream.add(this.#head);
  }

  created(): Promise<bigint> {
    return this.#first.whenCreated();
  }

  /** One after the other: who waits for a part that ends goes on with the next one, ahead of whoever asks later. */
  next(): Promise<IteratorResult<WatchBatch, undefined>> {
    if (this.#turns.isIdle && !this.#head.batches.isEmpty) return this.#head.batches.next();
    return this.#turns.run(() => this.#take());
  }

  async #take(): Promise<IteratorResult<WatchBatch, undefined>> {
    const head = this.#head;
    const result = await head.batches.next().catch((error: unknown) => {
      // Those after it ended with the same error, which is told once.
      this.#parts = [head];
      throw error;
    });
    if (!result.done || this.#parts.length === 1) return result;
    this.#parts.shift();
    this.#head.bufferBytes = this.#options.bufferBytes;
    this.#extend();
    return this.#take();
  }

  /** What was not taken is dropped. */
  discard(error?: EtcdError): void {
    this.#end(error);
    for (const part of this.#parts) part.batches.discard();
  }

  get #head(): Watcher {
    return this.#parts[0] as Watcher;
  }

  #part(startRevision: bigint, bufferBytes: number): Watcher {
    const { request, progress, trace } = this.#options;
    const part: Watcher = new Watcher({
      request: { ...request, startRevision },
      bufferBytes,
      progress,
      trace,
      suspend: () => this.#stream.remove(part),
      resume: () => this.#stream.add(part),
      // Only the last part tells of that: the others have an end.
      behind: (division) => {
        this.#division = division;
        this.#extend();
      },
      ended: (error) => {
        this.#stream.remove(part);
        if (error !== undefined || part.until === undefined) this.#end(error);
      },
      closed: () => this.discard(),
    });
    return part;
  }

  /** Adds as many parts as the way is long and memory allows. */
  #extend(): void {
    const { bufferBytes, progress } = this.#options;
    // Who wants to hear how far the watch is wants to hear it of all of it.
    if (this.#division === undefined || this.#ended || progress) return;
    const { partRevisions, maxParts, storeRevision } = this.#division;
    while (this.#parts.length < maxParts) {
      const last = this.#parts.at(-1) as Watcher;
      const beginning = last.position + partRevisions;
      if (beginning > storeRevision) return;
      const part = this.#part(beginning, bufferBytes / 2 / maxParts);
      last.until = beginning;
      this.#parts.push(part);
      this.#stream.add(part);
    }
  }

  /** One that fails is the end of all: what comes after it would leave a gap. */
  #end(error: EtcdError | undefined): void {
    if (this.#ended) return;
    this.#ended = true;
    for (const part of this.#parts) {
      this.#stream.remove(part);
      part.end(error);
    }
    this.#options.ended();
  }
}
