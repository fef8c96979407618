import type { Socket } from 'node:net';
import { eventLoopTurn, monotonicMs, pause } from '../../base/index.js';

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

/**
 * @internal Returns a function that forwards bytes to the socket `to`. The function writes the bytes in the order of
 * their arrival, even if the delay changes. Stops reading from the socket `from` while the receiver is slower than the
 * sender, or while the buffer of a throttled direction is full.
 */
export function pacedPipe(
  direction: Direction,
  from: Socket,
  to: Socket,
  paceNow: () => Pace,
): (bytes: Uint8Array) => void {
  /** Settles when the latest delayed bytes are written; undefined if no bytes are waiting. */
  let last: Promise<void> | undefined;
  /** Number of bytes that were read and not yet written. */
  let waitingBytes = 0;
  /** When a throttled direction may write the next bytes, on the monotonic clock. */
  let freeAt = 0;
  const rateNow = (): ThrottleOptions | undefined => {
    const { rate } = paceNow();
    return rate?.direction === undefined || rate.direction === direction ? rate : undefined;
  };
  const hasRoom = (): boolean => waitingBytes < (rateNow()?.bufferBytes ?? DEFAULT_BUFFER_BYTES);
  const resume = (): void => {
    if (!paceNow().paused && !to.writableNeedDrain && (rateNow() === undefined || hasRoom())) from.resume();
  };
  const write = (bytes: Uint8Array): void => {
    if (!to.destroyed && !to.write(bytes)) from.pause();
  };
  // `write` pauses reading when the buffer of `to` is full. Reading resumes when that buffer is empty again.
  to.on('drain', resume);
  /** Writes the bytes in steps, as fast as the pace allows at each step. */
  const writePaced = async (bytes: Uint8Array): Promise<void> => {
    let at = 0;
    while (at < bytes.length && !to.destroyed) {
      const { sliceBytes } = paceNow();
      const rate = rateNow();
      const stepBytes = rate === undefined ? bytes.length : Math.ceil(rate.bytesPerSecond / WRITES_PER_SECOND);
      const step = bytes.subarray(at, at + Math.min(stepBytes, sliceBytes ?? bytes.length));
      if (rate !== undefined) {
        const now = monotonicMs();
        freeAt = Math.max(now - MAX_LATENESS_MS, freeAt) + (1_000 * step.length) / rate.bytesPerSecond;
        await pause(freeAt - now);
      } else if (at > 0) await eventLoopTurn();
      write(step);
      at += step.length;
      waitingBytes -= step.length;
      if (rate !== undefined) resume();
    }
  };
  return (bytes) => {
    const { delayMs, sliceBytes } = paceNow();
    const isPlain = delayMs === undefined && sliceBytes === undefined && rateNow() === undefined;
    if (last === undefined && isPlain) return write(bytes);
    const arrivedAt = monotonicMs();
    waitingBytes += bytes.length;
    if (rateNow() !== undefined && !hasRoom()) from.pause();
    const sent = (last ?? Promise.resolve()).then(async () => {
      await pause(arrivedAt + (delayMs ?? 0) - monotonicMs());
      await writePaced(bytes);
      if (last === sent) last = undefined;
    });
    last = sent;
  };
}
