import { monotonicMs } from '../../runtime/timers.js';
import { ConnectionError, ErrorCode } from './frame.js';

/**
 * Maximum number of bytes that the client writes while the byte stream has a long backlog. Beyond that, another
 * SETTINGS or PING closes the connection, because the peer requests answers that it does not read.
 */
const MAX_BACKLOG_BYTES = 1_048_576;
/** Maximum number of consecutive empty DATA frames. Empty frames cost the client work, but carry no data. */
const MAX_EMPTY_FRAMES = 1_000;
/**
 * Maximum number of GOAWAY frames on a connection. For each GOAWAY, the client notifies every stream. A server that
 * shuts down gracefully sends two.
 */
const MAX_GOAWAYS = 10;

/**
 * The number of units that a connection starts with. Units limit the useless frames from a peer, that is, frames that
 * advance no call. Each useless frame costs one unit or more. One unit stands for the work on one small frame, which is
 * about a microsecond. When the units are used up, the connection gets back units for the time that has passed, but at
 * most `MAX_USELESS_UNITS`. If no units are left even then, the connection is closed.
 *
 * A well-behaved peer never comes near the limit. grpc-go, nginx, HAProxy, Envoy and node:http2 send at most two
 * WINDOW_UPDATE frames for each DATA frame that they read, and the units that calls give back (see `opened`, `sent` and
 * `received`) cover those frames. grpc-go changes its initial window about ten times while it estimates the
 * bandwidth, and the other four never change it. None of the five sends PRIORITY, frames of unknown types, or more than
 * a few unsolicited acknowledgments.
 */
const MAX_USELESS_UNITS = 50_000;
/** The units that a connection gets back per second. The work for them takes about 0.1 % of a processor's time. */
const UNITS_PER_SECOND = 1_000;
/**
 * The number of stream updates that cost one unit. A change of SETTINGS_INITIAL_WINDOW_SIZE updates every open stream.
 */
const STREAMS_PER_UNIT = 16;
/**
 * The number of bytes of a header block that cost one unit. The client decodes a block even if its stream is closed.
 */
const BLOCK_BYTES_PER_UNIT = 256;
/** The units that a connection gets back for a new stream: for its WINDOW_UPDATE frames and late response frames. */
const UNITS_PER_STREAM = 8;
/** The number of sent bytes that add one unit, because the peer may answer the data with WINDOW_UPDATE. */
const SENT_BYTES_PER_UNIT = 256;
/** The units that a connection gets back for a received DATA frame, because such a frame advances a call. */
const UNITS_PER_DATA = 4;
/**
 * Maximum number of units that a connection can have after this client has reset streams. This limit is higher than
 * `MAX_USELESS_UNITS`, because the peer may already have sent frames for those streams. If many calls time out
 * together, the late frames are not the peer's fault.
 */
const MAX_UNITS_AFTER_RESETS = 1_000_000;

/**
 * Limits the memory and the work that a peer can cost this end of a connection with frames that advance no call. The
 * client and the server in `testing/http2-server` share this class.
 */
export class PeerLimits {
  #backlogBytes = 0;
  #emptyFrames = 0;
  #goAways = 0;
  #uselessUnits = MAX_USELESS_UNITS;
  /** When the connection last got back units for the time that had passed, on the monotonic clock. */
  #refilledAt = monotonicMs();

  /** Called when the client writes bytes while the byte stream has a long backlog. */
  wroteCongested(bytes: number): void {
    this.#backlogBytes += bytes;
  }

  /** Called when the byte stream no longer has a backlog. */
  drained(): void {
    this.#backlogBytes = 0;
  }

  /**
   * Called when the peer has sent a frame that the client must answer.
   *
   * @throws ConnectionError if the peer does not read the answers.
   */
  mustAnswer(): void {
    if (this.#backlogBytes > MAX_BACKLOG_BYTES) throw tooMuch('the peer requests more answers than it reads');
  }

  /**
   * Called when the peer has sent DATA.
   *
   * @throws ConnectionError after more than `MAX_EMPTY_FRAMES` consecutive empty frames.
   */
  data(empty: boolean): void {
    this.#emptyFrames = empty ? this.#emptyFrames + 1 : 0;
    if (this.#emptyFrames > MAX_EMPTY_FRAMES) throw tooMuch('too many empty DATA frames');
  }

  /** Called when the client has opened a stream. Adds units. */
  opened(): void {
    this.#add(UNITS_PER_STREAM);
  }

  /** Called when the client has sent data. Adds units. */
  sent(bytes: number): void {
    this.#add(bytes / SENT_BYTES_PER_UNIT);
  }

  /** Called when data of an open stream has arrived. Adds units. */
  received(): void {
    this.#add(UNITS_PER_DATA);
  }

  /** Called when the client has reset a stream. Adds units, because the peer may have sent frames for that stream. */
  reset(): void {
    const most = Math.max(this.#uselessUnits, MAX_UNITS_AFTER_RESETS);
    this.#uselessUnits = Math.min(most, this.#uselessUnits + UNITS_PER_STREAM);
  }

  /**
   * Called when a change to the initial window has been applied to all open streams. `streams` is their number.
   *
   * @throws ConnectionError if no units are left.
   */
  windowsChanged(streams: number): void {
    this.#spend(1 + streams / STREAMS_PER_UNIT, 'too many SETTINGS that change the initial window');
  }

  /** Called when the peer has sent HEADERS on a closed stream. @throws ConnectionError if no units are left. */
  lateHeaders(bytes: number): void {
    this.#spend(1 + bytes / BLOCK_BYTES_PER_UNIT, 'too many HEADERS on closed streams');
  }

  /**
   * Called when the peer has sent a frame that by itself advances no call. `frame` names the kind of frame in the error
   * message.
   *
   * @throws ConnectionError if no units are left.
   */
  useless(frame: string): void {
    this.#spend(1, `too many ${frame} frames`);
  }

  /** Called when the peer has sent GOAWAY. @throws ConnectionError after more than `MAX_GOAWAYS` GOAWAY frames. */
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
