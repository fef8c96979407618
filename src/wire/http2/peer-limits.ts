import { monotonicMs } from '../../base/index.js';
import { ConnectionError, ErrorCode } from './frame.js';

/**
 * Maximum number of bytes that the client writes while the byte stream has a long backlog. Above this number, a frame
 * that the client must answer closes the connection, because the peer requests answers that it does not read.
 */
const MAX_BACKLOG_BYTES = 1_048_576;
/**
 * Maximum number of useless frames that a peer may send in `WINDOW_MS`. A useless frame advances no call, and costs the
 * client about a microsecond. grpc-go, nginx, HAProxy, Envoy and node:http2 never come near this number.
 */
const MAX_USELESS_FRAMES = 50_000;
const WINDOW_MS = 30_000;
/**
 * Number of useless frames that do not count (excused frames) for each stream that the client opens, and again for each
 * stream that it resets.
 */
const EXCUSED_PER_CALL = 8;
/** Number of sent bytes of data that excuse one useless frame, because the peer may answer with WINDOW_UPDATE. */
const BYTES_PER_EXCUSED = 256;
/**
 * Maximum number of excused frames. Together with `MAX_USELESS_FRAMES`, a peer may send a million useless frames in a
 * row. If many calls time out together, the frames that arrive for them later are not the peer's fault.
 */
const MAX_EXCUSED = 1_000_000 - MAX_USELESS_FRAMES;

/**
 * Limits the memory and the work that a peer can cost this end of a connection with frames that advance no call. The
 * client and the server in `testing/http2-server` share this class.
 */
export class PeerLimits {
  #backlogBytes = 0;
  /** The useless frames since `#countedSince`, minus those that are excused. */
  #useless = 0;
  #countedSince = monotonicMs();

  /** Counts bytes that the client writes while the byte stream has a long backlog. */
  wroteCongested(bytes: number): void {
    this.#backlogBytes += bytes;
  }

  /** The byte stream no longer has a backlog. */
  drained(): void {
    this.#backlogBytes = 0;
  }

  /**
   * The peer has sent a frame that the client must answer.
   *
   * @throws ConnectionError if the peer does not read the answers.
   */
  mustAnswer(): void {
    if (this.#backlogBytes > MAX_BACKLOG_BYTES) throw tooMuch('the peer requests more answers than it reads');
  }

  /** The client has opened or reset a stream. Frames of the peer for this stream may arrive after it has closed. */
  called(): void {
    this.#excuse(EXCUSED_PER_CALL);
  }

  sent(bytes: number): void {
    this.#excuse(bytes / BYTES_PER_EXCUSED);
  }

  /**
   * The peer has sent a frame that advances no call. `frame` names the kind of frame in the error message. `cost` is
   * the number of small frames that take as much work.
   *
   * @throws ConnectionError if the peer has sent too many such frames.
   */
  useless(frame: string, cost = 1): void {
    this.#useless += cost;
    if (this.#useless <= MAX_USELESS_FRAMES) return;
    const now = monotonicMs();
    if (now - this.#countedSince < WINDOW_MS) throw tooMuch(`too many ${frame} frames`);
    this.#countedSince = now;
    this.#useless = 0;
  }

  #excuse(frames: number): void {
    this.#useless = Math.max(this.#useless - frames, -MAX_EXCUSED);
  }
}

function tooMuch(problem: string): ConnectionError {
  return new ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, problem);
}
