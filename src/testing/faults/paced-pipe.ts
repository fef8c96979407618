import type { Socket } from 'node:net';
import { eventLoopTurn, monotonicMs, NO_BYTES, pauseUntil } from '../../base/index.js';

/** Direction of bytes through a proxy. */
export type Direction = 'to-server' | 'to-client';

/** How the proxy forwards bytes. */
export interface Pace {
  /** Milliseconds between reading bytes and writing them; undefined for no delay. */
  readonly delayMs: number | undefined;
  /** Maximum number of bytes in one write; undefined for no limit. */
  readonly sliceBytes: number | undefined;
  /** How fast the proxy forwards the bytes of one direction of one connection; undefined for no limit. */
  readonly rate: ThrottleOptions | undefined;
  /** Whether the proxy has stopped reading from both sides. */
  readonly paused: boolean;
  /** Aborts when another pace replaces this one. */
  readonly replaced: AbortSignal;
}

/**
 * Options of `FaultProxy.throttle`.
 *
 * @example
 * const modem: ThrottleOptions = { bytesPerSecond: 64_000, direction: 'to-client' };
 */
export interface ThrottleOptions {
  /** How many bytes the proxy forwards in a second. */
  readonly bytesPerSecond: number;
  /**
   * How many bytes the proxy reads ahead of what it has forwarded. A large buffer acts like the buffers of kernels,
   * routers and modems: the sender has written its bytes long before they arrive. Default: 4 MiB.
   */
  readonly bufferBytes?: number | undefined;
  /** The direction that is slow. Default: both directions. */
  readonly direction?: Direction | undefined;
}

const DEFAULT_BUFFER_BYTES = 4 * 1024 * 1024;
/** How many times a second the proxy writes in a throttled direction. */
const WRITES_PER_SECOND = 100;
/** If a write of a throttled proxy is late by up to this many milliseconds, the next writes make up for it. */
const MAX_LATENESS_MS = 100;

/** @internal What a pipe connects, and when it ends. */
export interface PipeOptions {
  readonly direction: Direction;
  readonly from: Socket;
  readonly to: Socket;
  readonly paceNow: () => Pace;
  /** Aborts when the proxy ends the connection. */
  readonly ended: AbortSignal;
}

/** Bytes that were read, and not yet written. */
interface WaitingBytes {
  bytes: Uint8Array;
  /** When the bytes were read, on the monotonic clock. */
  readonly arrivedAt: number;
}

/**
 * @internal Forwards the bytes of one direction of a connection in the order of their arrival, at the present pace.
 * Stops reading from the socket `from` while the receiver is slower than the sender, or while the buffer of a throttled
 * direction is full.
 */
export class PacedPipe {
  readonly #options: PipeOptions;
  readonly #waiting: WaitingBytes[] = [];
  #waitingBytes = 0;
  /** When the latest bytes were due, on the monotonic clock. */
  #lastDueAt = 0;
  #isWriting = false;
  /** Whether the sender has sent its last bytes. */
  #isSenderDone = false;

  constructor(options: PipeOptions) {
    this.#options = options;
    // `#write` pauses reading when the buffer of `to` is full. Reading resumes when that buffer is empty again.
    options.to.on('drain', () => this.resume());
  }

  /** Forwards bytes. */
  push(bytes: Uint8Array): void {
    this.#waiting.push({ bytes, arrivedAt: monotonicMs() });
    this.#waitingBytes += bytes.length;
    if (!this.#hasRoom()) this.#options.from.pause();
    if (!this.#isWriting) void this.#writeAll();
  }

  /** Ends the socket `to` after the bytes that are waiting. */
  end(): void {
    this.#isSenderDone = true;
    this.push(NO_BYTES);
  }

  /** Reads from the socket `from` again, unless the pace or the receiver does not allow that yet. */
  resume(): void {
    const { from, to, paceNow } = this.#options;
    if (!paceNow().paused && !to.writableNeedDrain && this.#hasRoom()) from.resume();
  }

  /** Writes the waiting bytes in steps. The present pace says how long each step is, and when it is due. */
  async #writeAll(): Promise<void> {
    const { to, paceNow, ended } = this.#options;
    this.#isWriting = true;
    for (let first = this.#waiting[0]; first !== undefined && !to.destroyed; first = this.#waiting[0]) {
      const { delayMs = 0, sliceBytes, replaced } = paceNow();
      const bytesPerSecond = this.#rate()?.bytesPerSecond ?? Number.POSITIVE_INFINITY;
      const stepBytes = Math.min(Math.ceil(bytesPerSecond / WRITES_PER_SECOND), sliceBytes ?? first.bytes.length);
      const step = first.bytes.subarray(0, stepBytes);
      const dueAt = Math.max(first.arrivedAt + delayMs, this.#lastDueAt) + (1_000 * step.length) / bytesPerSecond;
      const now = monotonicMs();
      if (now < dueAt) {
        await pauseUntil(dueAt, replaced, ended);
        continue;
      }
      this.#lastDueAt = Math.max(dueAt, now - MAX_LATENESS_MS);
      // A receiver in this process reads the slice before in this turn of the event loop.
      if (sliceBytes !== undefined) await eventLoopTurn();
      this.#write(first, step);
    }
    this.#isWriting = false;
    if (this.#isSenderDone) to.end();
  }

  #write(first: WaitingBytes, step: Uint8Array): void {
    first.bytes = first.bytes.subarray(step.length);
    if (first.bytes.length === 0) this.#waiting.shift();
    this.#waitingBytes -= step.length;
    if (!this.#options.to.write(step)) this.#options.from.pause();
    else if (this.#rate() !== undefined) this.resume();
  }

  /** The limit of this direction; undefined for no limit. */
  #rate(): ThrottleOptions | undefined {
    const { rate } = this.#options.paceNow();
    return rate?.direction === undefined || rate.direction === this.#options.direction ? rate : undefined;
  }

  #hasRoom(): boolean {
    const rate = this.#rate();
    return rate === undefined || this.#waitingBytes < (rate.bufferBytes ?? DEFAULT_BUFFER_BYTES);
  }
}
