import { UniqueQueue } from '../../base/index.js';
import { ConnectionError, ErrorCode, MAX_STREAM_ID } from './frame.js';
import type { Http2Stream } from './stream.js';

/** The length of the array of recent streams. Must be a power of two, because `indexOf` uses `RECENT - 1` as a mask. */
const RECENT = 1_024;

/** The streams of a connection: the open streams by identifier, and the queues of idle streams that cannot open yet. */
export class StreamTable {
  /**
   * Open streams, by the low bits of their identifiers (see `indexOf`). `Deadlines` in src/base/timers.ts says
   * why this is an array rather than a Map.
   */
  readonly #recent = new Array<Http2Stream | undefined>(RECENT).fill(undefined);
  /** Open streams whose slot in `#recent` a newer stream has taken, by identifier. */
  readonly #old = new Map<number, Http2Stream>();
  #size = 0;
  /** The number of open streams of streaming calls, which have no time limit. */
  #endless = 0;
  /** Open streams that do not keep the process alive. */
  readonly #background = new Set<Http2Stream>();
  readonly #waiting = new UniqueQueue<Http2Stream>();
  readonly #urgent = new UniqueQueue<Http2Stream>();
  nextId: number;

  constructor(firstId: number) {
    this.nextId = firstId;
  }

  /** The number of open streams. */
  get size(): number {
    return this.#size;
  }

  /**
   * Says which streams take all `limit` places that the peer allows, if no place becomes free soon, because no open
   * stream belongs to a unary call. Undefined otherwise.
   */
  crowdedAt(limit: number): string | undefined {
    if (this.#size < limit || this.#endless < this.#size) return undefined;
    const counts = new Map<string, number>();
    for (const { head } of this.all()) counts.set(head.method, (counts.get(head.method) ?? 0) + 1);
    const uses = [...counts].map(([method, count]) => `${count} of ${method}`).join(', ');
    return `the server allows ${limit} streams on a connection, and streams without a time limit take them all: ${uses}`;
  }

  get hasWaiting(): boolean {
    return this.#waiting.size > 0 || this.#urgent.size > 0;
  }

  /** Whether an open stream keeps the process alive, or a stream waits to be opened. */
  get keepsProcessAlive(): boolean {
    return this.#size > this.#background.size || this.hasWaiting;
  }

  /** Whether the connection has used all stream identifiers. They cannot be reused: RFC 9113, section 5.1.1. */
  get isExhausted(): boolean {
    return this.nextId > MAX_STREAM_ID;
  }

  /** The open streams in the order of their identifiers. */
  all(): readonly Http2Stream[] {
    const recent = this.#recent.filter((stream) => stream !== undefined);
    return [...this.#old.values(), ...recent].sort((a, b) => a.id - b.id);
  }

  /** Adds an open stream. Returns its identifier. */
  add(stream: Http2Stream): number {
    const id = this.nextId;
    this.nextId += 2;
    const before = this.#recent[indexOf(id)];
    if (before !== undefined) this.#old.set(before.id, before);
    this.#recent[indexOf(id)] = stream;
    this.#size += 1;
    if (isEndless(stream)) this.#endless += 1;
    return id;
  }

  /** Sets whether an open stream lets the process exit. */
  setBackground(stream: Http2Stream, isBackground: boolean): void {
    if (isBackground) this.#background.add(stream);
    else this.#background.delete(stream);
  }

  wait(stream: Http2Stream): void {
    (stream.head.urgent ? this.#urgent : this.#waiting).add(stream);
  }

  /** Removes and returns the stream that has waited longest. Urgent streams come before all other streams. */
  takeWaiting(): Http2Stream | undefined {
    return this.#urgent.take() ?? this.#waiting.take();
  }

  /** Removes a stream. Returns whether the stream was open. */
  delete(stream: Http2Stream): boolean {
    if (this.#waiting.delete(stream) || this.#urgent.delete(stream)) return false;
    if (this.#recent[indexOf(stream.id)] === stream) this.#recent[indexOf(stream.id)] = undefined;
    else if (!this.#old.delete(stream.id)) return false;
    this.#size -= 1;
    if (isEndless(stream)) this.#endless -= 1;
    this.#background.delete(stream);
    return true;
  }

  /**
   * Finds the open stream to which a received frame belongs. `frame` is the frame's type, for the error. Returns
   * undefined for a closed stream rather than throwing, because the peer may have sent the frame before it learned that
   * the stream was closed.
   *
   * @throws ConnectionError if the stream is idle, that is, if the client has never opened it.
   */
  find(id: number, frame: string): Http2Stream | undefined {
    const recent = this.#recent[indexOf(id)];
    const stream = recent?.id === id ? recent : this.#old.get(id);
    if (stream !== undefined || (id % 2 === 1 && id < this.nextId)) return stream;
    throw new ConnectionError(ErrorCode.PROTOCOL_ERROR, `${frame} on stream ${id}, which is idle`);
  }
}

function isEndless({ head }: Http2Stream): boolean {
  return head.request === undefined;
}

function indexOf(id: number): number {
  return (id >>> 1) & (RECENT - 1);
}
