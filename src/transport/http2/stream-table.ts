import { ConnectionError, ErrorCode } from './error-code.js';
import { MAX_STREAM_ID } from './frame.js';
import type { Http2Stream } from './stream.js';

/** The streams of a connection: those that are open, by identifier, and those that wait for room. */
export class StreamTable {
  readonly #open = new Map<number, Http2Stream>();
  readonly #waiting = new Set<Http2Stream>();
  #nextId: number;

  constructor(firstId: number) {
    this.#nextId = firstId;
  }

  /** How many are open. */
  get size(): number {
    return this.#open.size;
  }

  get hasWaiting(): boolean {
    return this.#waiting.size > 0;
  }

  /** RFC 9113, section 5.1.1: identifiers are not used again, and this connection has had them all. */
  get isExhausted(): boolean {
    return this.#nextId > MAX_STREAM_ID;
  }

  all(): readonly Http2Stream[] {
    return [...this.#open.values()];
  }

  /** Gives the stream its identifier. */
  add(stream: Http2Stream): number {
    const id = this.#nextId;
    this.#nextId += 2;
    this.#open.set(id, stream);
    return id;
  }

  wait(stream: Http2Stream): void {
    this.#waiting.add(stream);
  }

  /** The one that has waited longest. */
  takeWaiting(): Http2Stream | undefined {
    for (const stream of this.#waiting) {
      this.#waiting.delete(stream);
      return stream;
    }
    return undefined;
  }

  /** Whether it was open. */
  delete(stream: Http2Stream): boolean {
    this.#waiting.delete(stream);
    return this.#open.delete(stream.id);
  }

  /**
   * Undefined for a stream that is closed: what was on its way to it is passed over.
   *
   * @throws ConnectionError for one that was never opened.
   */
  find(id: number, frame: string): Http2Stream | undefined {
    const stream = this.#open.get(id);
    if (stream !== undefined || (id % 2 === 1 && id < this.#nextId)) return stream;
    throw new ConnectionError(ErrorCode.PROTOCOL_ERROR, `${frame} on stream ${id}, which nobody opened`);
  }
}
