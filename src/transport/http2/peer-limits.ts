import { monotonicMs } from '../../runtime/timers.js';
import { ConnectionError, ErrorCode } from './frame.js';

/** Unsent answers to SETTINGS and PING that the client holds for a peer that does not read them. */
const MAX_BACKLOG_BYTES = 1_048_576;
/** Empty DATA frames in a row. They cost work and carry nothing. */
const MAX_EMPTY_FRAMES = 1_000;
/** A peer that shuts down gracefully sends two GOAWAY frames. The client passes each of them on to every stream. */
const MAX_GOAWAYS = 10;

/**
 * A useless frame is one that advances no call. The client counts such frames in units of about one small frame, which is
 * a microsecond of work. A connection starts with this many units. When they are used up, it gets back a number of units
 * for the time that has passed, at most this many. A well-behaved peer never comes near the limit: grpc-go, nginx, HAProxy,
 * Envoy and node:http2 send WINDOW_UPDATE at most twice for each DATA frame that they read, and the units that a DATA
 * frame adds cover that. grpc-go changes its initial window some ten times while it estimates the bandwidth, and the others
 * never do. None of them sends PRIORITY or frames of unknown types, or more than a few unsolicited acknowledgements.
 */
const MAX_USELESS_UNITS = 50_000;
/** The units that a connection gets back per second. They cost a thousandth of a processor. */
const UNITS_PER_SECOND = 1_000;
/** A change of SETTINGS_INITIAL_WINDOW_SIZE updates every open stream. This many updates cost as much as a small frame. */
const STREAMS_PER_UNIT = 16;
/** The client decodes a header block even if its stream is closed. This many bytes cost as much as a small frame. */
const BLOCK_BYTES_PER_UNIT = 256;
/** The units that a new stream adds. They cover its WINDOW_UPDATE frames, and late frames of its response. */
const UNITS_PER_STREAM = 8;
/** Every time this many bytes of data are sent, the connection gets a unit, because the peer may send WINDOW_UPDATE. */
const SENT_BYTES_PER_UNIT = 256;
/** The units that a received DATA frame adds, because it carries a message or a part of one. */
const UNITS_PER_DATA = 4;
/**
 * The limit of the units that resets by this client add. It is higher, because the peer may have begun to answer the calls:
 * if many calls time out together, that is not the peer's fault.
 */
const MAX_UNITS_AFTER_RESETS = 1_000_000;

/** Limits the memory and the work that a peer can cost this client without advancing a call. */
export class PeerLimits {
  #backlogBytes = 0;
  #emptyFrames = 0;
  #goAways = 0;
  #uselessUnits = MAX_USELESS_UNITS;
  /** When the connection last got units back for time, on the monotonic clock. */
  #refilledAt = monotonicMs();

  /** The client wrote to a byte stream that has a long backlog. */
  wroteCongested(bytes: number): void {
    this.#backlogBytes += bytes;
  }

  drained(): void {
    this.#backlogBytes = 0;
  }

  /** The peer sent a frame that the client must answer. @throws ConnectionError */
  mustAnswer(): void {
    if (this.#backlogBytes > MAX_BACKLOG_BYTES) throw tooMuch('the peer requests more answers than it reads');
  }

  /** The peer sent DATA. @throws ConnectionError */
  data(empty: boolean): void {
    this.#emptyFrames = empty ? this.#emptyFrames + 1 : 0;
    if (this.#emptyFrames > MAX_EMPTY_FRAMES) throw tooMuch('too many empty DATA frames');
  }

  /** The client opened a stream. */
  opened(): void {
    this.#add(UNITS_PER_STREAM);
  }

  /** The client sent data. */
  sent(bytes: number): void {
    this.#add(bytes / SENT_BYTES_PER_UNIT);
  }

  /** Data of an open stream arrived. */
  received(): void {
    this.#add(UNITS_PER_DATA);
  }

  /** The client reset a stream. The peer may have sent frames for it already. */
  reset(): void {
    const most = Math.max(this.#uselessUnits, MAX_UNITS_AFTER_RESETS);
    this.#uselessUnits = Math.min(most, this.#uselessUnits + UNITS_PER_STREAM);
  }

  /** A change of the initial window was applied to open streams. @throws ConnectionError */
  windowsChanged(streams: number): void {
    this.#spend(1 + streams / STREAMS_PER_UNIT, 'too many SETTINGS that change the initial window');
  }

  /** The peer sent HEADERS on a closed stream. @throws ConnectionError */
  lateHeaders(bytes: number): void {
    this.#spend(1 + bytes / BLOCK_BYTES_PER_UNIT, 'too many HEADERS on closed streams');
  }

  /** The peer sent a frame that by itself advances no call. @throws ConnectionError */
  useless(frame: string): void {
    this.#spend(1, `too many ${frame} frames`);
  }

  /** The peer sent GOAWAY. @throws ConnectionError */
  goAway(): void {
    this.#goAways += 1;
    if (this.#goAways > MAX_GOAWAYS) throw tooMuch('too many GOAWAY frames');
  }

  #add(units: number): void {
    if (this.#uselessUnits < MAX_USELESS_UNITS) this.#uselessUnits += units;
  }

  #spend(units: number, problem: string): void {
    this.#uselessUnits -= units;
    if (this.#uselessUnits >= 0) return;
    const now = monotonicMs();
    this.#uselessUnits += Math.min(MAX_USELESS_UNITS, ((now - this.#refilledAt) / 1_000) * UNITS_PER_SECOND);
    this.#refilledAt = now;
    if (this.#uselessUnits < 0) throw tooMuch(problem);
  }
}

function tooMuch(problem: string): ConnectionError {
  return new ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, problem);
}
