import { UniqueQueue } from '../../runtime/queues.js';
import { ConnectionError, ErrorCode } from './error-code.js';
import { MAX_STREAM_ID } from './frame.js';
import type { Http2Stream } from './stream.js';

/** A power of two. */
const RECENT = 1_024;

/** The streams of a connection: those that are open, by identifier, and those that wait for room. */
export class StreamTable {
  /** By the low bits of the identifier: a Map's tables would outlive their streams, as `Deadlines` says. */
  readonly #recent = new Array<Http2Stream | undefined>(RECENT).fill(undefined);
  /** Those that were still open when another one came to their place. */
  readonly #long = new Map<number, Http2Stream>();
  #size = 0;
  readonly #waiting = new UniqueQueue<Http2Stream>();
  #nextId: number;

  constructor(firstId: number) {
    this.#nextId = firstId;
  }

  /** How many are open. */
  get size(): number {
    return this.#size;
  }

  get hasWaiting(): boolean {
    return this.#waiting.size > 0;
  }

  /** RFC 9113, section 5.1.1: identifiers are not used again, and this connection has had them all. */
  get isExhausted(): boolean {
    return this.#nextId > MAX_STREAM_ID;
  }

  /** Those that are open, in their order. */
  all(): readonly Http2Stream[] {
    const recent = this.#recent.filter((stream) => stream !== undefined);
    return [...this.#long.values(), ...recent].sort((a, b) => a.id - b.id);
  }

  /** Gives the stream its identifier. */
  add(stream: Http2Stream): number {
    const id = this.#nextId;
    this.#nextId += 2;
    const before = this.#recent[placeOf(id)];
    if (before !== undefined) this.#long.set(before.id, before);
    this.#recent[placeOf(id)] = stream;
    this.#size += 1;
    return id;
  }

  wait(stream: Http2Stream): void {
    this.#waiting.add(stream);
  }

  /** The one that has waited longest. */
  takeWaiting(): Http2Stream | undefined {
    return this.#waiting.take();
  }

  /** Whether it was open. */
  delete(stream: Http2Stream): boolean {
    if (this.#waiting.delete(stream)) return false;
    if (this.#recent[placeOf(stream.id)] === stream) this.#recent[placeOf(stream.id)] = undefined;
    else if (!this.#long.delete(stream.id)) return false;
    this.#size -= 1;
    return true;
  }

  /**
   * Undefined for a stream that is closed: what was on its way to it is passed over.
   *
   * @throws ConnectionError for one that was never opened.
   */
  find(id: number, frame: string): Http2Stream | undefined {
    const recent = this.#recent[placeOf(id)];
    const stream = recent?.id === id ? recent : this.#long.get(id);
    if (stream !== undefined || (id % 2 === 1 && id < this.#nextId)) return stream;
    throw new ConnectionError(ErrorCode.PROTOCOL_ERROR, `${frame} on stream ${id}, which nobody opened`);
  }
}

function placeOf(id: number): number {
  return (id >>> 1) & (RECENT - 1);
}
