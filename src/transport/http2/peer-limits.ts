import { monotonicMs } from '../../runtime/timers.js';
import { ConnectionError, ErrorCode } from './error-code.js';

/** Answers to SETTINGS and PING that a peer may ask for without reading any. */
const MAX_BACKLOG_BYTES = 1_048_576;
/** Empty frames in a row, which cost work and bring nothing. */
const MAX_EMPTY_FRAMES = 1_000;

/** A peer that shuts down gracefully sends two; each is told to every stream. */
const MAX_GOAWAYS = 10;

/**
 * Frames that bring no call further are counted in units of about one small frame, a microsecond of work. A peer has this
 * many units to begin with, and once they are used up at most as many again for the time that has passed. Honest peers
 * come nowhere near: grpc-go, nginx, HAProxy, Envoy and node:http2 send WINDOW_UPDATE at most twice for each DATA frame
 * that they read, which `useful` makes up for; grpc-go changes its initial window some ten times while it estimates the
 * bandwidth, and the others never; none of them sends PRIORITY, frames of unknown types, or answers that nobody asked
 * for, but for a few.
 */
const MAX_USELESS = 50_000;
/** What a peer gets back by time: a rate that costs a thousandth of a processor. */
const USELESS_PER_SECOND = 1_000;
/** A change of SETTINGS_INITIAL_WINDOW_SIZE touches each open stream; so many of them cost as much as a small frame. */
const STREAMS_PER_UNIT = 16;
/** A header block is decoded even if its stream is closed; so many bytes of it cost as much as a small frame. */
const BLOCK_BYTES_PER_UNIT = 256;
/** What a new stream makes up for: its WINDOW_UPDATEs, and frames of its answer that come late. */
const UNITS_PER_STREAM = 8;
/** A peer may send WINDOW_UPDATEs for each frame of data, so many bytes of which make up for one. */
const SENT_BYTES_PER_UNIT = 256;
/** A message, or a part of one, is what all this is for. */
const UNITS_PER_DATA = 4;
/** The peer had begun to answer what is reset here: many calls that time out together are no fault of the peer. */
const MAX_AFTER_RESETS = 1_000_000;

/** What a peer may not have of this side: memory and work for nothing. */
export class PeerLimits {
  #backlogBytes = 0;
  #emptyFrames = 0;
  #goAways = 0;
  #useless = MAX_USELESS;
  /** When units were given back by time, on the monotonic clock. */
  #givenBackAt = monotonicMs();

  /** Bytes were given to a byte stream that is slow to take them. */
  wroteCongested(bytes: number): void {
    this.#backlogBytes += bytes;
  }

  drained(): void {
    this.#backlogBytes = 0;
  }

  /** The peer asks for an answer. @throws ConnectionError */
  asked(): void {
    if (this.#backlogBytes > MAX_BACKLOG_BYTES) throw calm('it asks for more answers than it reads');
  }

  /** The peer sent DATA. @throws ConnectionError */
  data(empty: boolean): void {
    this.#emptyFrames = empty ? this.#emptyFrames + 1 : 0;
    if (this.#emptyFrames > MAX_EMPTY_FRAMES) throw calm('empty DATA frames without end');
  }

  /** A stream was opened. */
  opened(): void {
    this.#useful(UNITS_PER_STREAM);
  }

  /** So many bytes of data were sent. */
  sent(bytes: number): void {
    this.#useful(bytes / SENT_BYTES_PER_UNIT);
  }

  /** Data of an open stream came. */
  received(): void {
    this.#useful(UNITS_PER_DATA);
  }

  /** A stream was reset from this side: frames for it may be on their way. */
  reset(): void {
    this.#useless = Math.min(Math.max(this.#useless, MAX_AFTER_RESETS), this.#useless + UNITS_PER_STREAM);
  }

  /** A change of the initial window was applied to this many open streams. @throws ConnectionError */
  windowsChanged(streams: number): void {
    this.#spend(1 + streams / STREAMS_PER_UNIT, 'SETTINGS that change its windows without end');
  }

  /** The peer sent HEADERS on a closed stream. @throws ConnectionError */
  lateHeaders(bytes: number): void {
    this.#spend(1 + bytes / BLOCK_BYTES_PER_UNIT, 'HEADERS on closed streams without end');
  }

  /** The peer sent a frame that brings no call further by itself. @throws ConnectionError */
  useless(frame: string): void {
    this.#spend(1, `${frame} frames without end`);
  }

  /** @throws ConnectionError */
  goAway(): void {
    this.#goAways += 1;
    if (this.#goAways > MAX_GOAWAYS) throw calm('GOAWAY without end');
  }

  #useful(units: number): void {
    if (this.#useless < MAX_USELESS) this.#useless += units;
  }

  #spend(units: number, problem: string): void {
    this.#useless -= units;
    if (this.#useless >= 0) return;
    const now = monotonicMs();
    this.#useless += Math.min(MAX_USELESS, ((now - this.#givenBackAt) / 1_000) * USELESS_PER_SECOND);
    this.#givenBackAt = now;
    if (this.#useless < 0) throw calm(problem);
  }
}

function calm(problem: string): ConnectionError {
  return new ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, problem);
}
