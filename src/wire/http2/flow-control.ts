import { monotonicMs, UniqueQueue } from '../../base/index.js';
import { MESSAGE_PREFIX_BYTES } from '../messages.js';
import { ConnectionError, DEFAULT_WINDOW_BYTES, ErrorCode, MAX_WINDOW_BYTES, StreamError } from './frame.js';
import type { PeerSettings } from './settings.js';

// Flow control: RFC 9113, sections 5.2 and 6.9. A DATA frame counts against two windows, the window of its stream and
// the window of the connection. The sender sends at most as much data as the smaller window allows. After the receiver
// has consumed data, it enlarges the window with WINDOW_UPDATE. Only DATA frames count against the windows.
//
// Receiving. The window has 100 bytes.
//   40 bytes arrive and are consumed: 60 are left. The receiver sends no WINDOW_UPDATE, because 40 bytes are less than
//   half of the window.
//   20 bytes arrive and are consumed: 40 are left. A WINDOW_UPDATE of 60 restores the window to 100.
//
// Sending. The connection's window has 65,535 bytes, each stream's window 50,000, and a frame takes at most 16,384.
//   Stream 1 has 60,000 bytes to send: 3 frames of 16,384 and one of 848 leave at once. Then the stream's window has 0
//   left, and the connection's window has 15,535. The other 10,000 bytes wait for a WINDOW_UPDATE on stream 1.
//   Stream 3 has 20,000 bytes to send: 15,535 leave at once. Then the connection's window has 0 left. The other 4,465
//   bytes wait in the queue of `SendFlow` for a WINDOW_UPDATE on the connection.

/** Counts how many bytes the peer may still send on one stream, or on the connection. */
export class ReceiveWindow {
  readonly #size: number;
  #left: number;
  /** Consumed bytes that no WINDOW_UPDATE has returned to the peer yet. */
  #consumed = 0;

  constructor(size: number) {
    this.#size = size;
    this.#left = size;
  }

  /** Subtracts received bytes from the window. Returns false if the peer sent more than the window allowed. */
  receive(bytes: number): boolean {
    this.#left -= bytes;
    return this.#left >= 0;
  }

  /**
   * Counts bytes as consumed. Returns the increment of the WINDOW_UPDATE to send now, or 0 for none. An update is due
   * once half of the window has been consumed. A fast peer then rarely has to wait, and few updates are needed.
   */
  consume(bytes: number): number {
    this.#consumed += bytes;
    if (this.#consumed * 2 < this.#size) return 0;
    const increment = this.#consumed;
    this.#consumed = 0;
    this.#left += increment;
    return increment;
  }
}

/** A stream that sends data. */
export interface Sender {
  /**
   * The stream's own window. Can be negative after the peer has reduced SETTINGS_INITIAL_WINDOW_SIZE: section 6.9.2.
   */
  sendWindowBytes: number;
  /** Sends one frame of at most `maxBytes`. Returns whether the stream could send another frame. */
  sendFrame(maxBytes: number): boolean;
}

/** Decides which streams of a connection may send data, and how much. */
export class SendFlow {
  readonly #settings: PeerSettings;
  readonly #onSent: (bytes: number) => void;
  /**
   * Streams that wait until the connection's window grows or `isCongested` becomes false, but not for their own window.
   */
  readonly #waiting = new UniqueQueue<Sender>();
  #windowBytes = DEFAULT_WINDOW_BYTES;
  /** Whether the byte stream has a long backlog of unsent bytes. No stream may send until the backlog is gone. */
  isCongested = false;

  /** Calls `onSent` with the number of payload bytes for each DATA frame sent. */
  constructor(settings: PeerSettings, onSent: (bytes: number) => void) {
    this.#settings = settings;
    this.#onSent = onSent;
  }

  /** Returns the maximum payload, in bytes, of a DATA frame that the stream may send now. */
  allowance(stream: Sender): number {
    if (this.isCongested) return 0;
    return Math.min(this.#windowBytes, stream.sendWindowBytes, this.#settings.maxFrameBytes);
  }

  /** Returns whether the stream may send the whole message in one DATA frame now. If so, counts the message as sent. */
  take(stream: Sender, message: Uint8Array): boolean {
    const bytes = MESSAGE_PREFIX_BYTES + message.length;
    if (bytes > this.allowance(stream)) return false;
    this.sent(stream, bytes);
    return true;
  }

  sent(stream: Sender, bytes: number): void {
    this.#windowBytes -= bytes;
    stream.sendWindowBytes -= bytes;
    this.#onSent(bytes);
  }

  /**
   * Queues a stream that has data left, unless the stream's own window is used up. When that window grows, `growStream`
   * queues the stream again.
   */
  wait(stream: Sender): void {
    if (stream.sendWindowBytes > 0) this.#waiting.add(stream);
  }

  forget(stream: Sender): void {
    this.#waiting.delete(stream);
  }

  /**
   * Enlarges the window of one stream, or reduces it if `increment` is negative: RFC 9113, section 6.9.2.
   *
   * @throws StreamError if the window would exceed 2^31 - 1.
   */
  growStream(stream: Sender, increment: number): void {
    stream.sendWindowBytes += increment;
    if (stream.sendWindowBytes > MAX_WINDOW_BYTES) {
      throw new StreamError(ErrorCode.FLOW_CONTROL_ERROR, 'the window of the stream exceeds 2^31 - 1');
    }
    // A stream without data sends nothing when its turn comes.
    this.wait(stream);
    this.pump();
  }

  /** @throws ConnectionError if the window would exceed 2^31 - 1. */
  grow(increment: number): void {
    this.#windowBytes += increment;
    if (this.#windowBytes > MAX_WINDOW_BYTES) {
      throw new ConnectionError(ErrorCode.FLOW_CONTROL_ERROR, 'the window of the connection exceeds 2^31 - 1');
    }
    this.pump();
  }

  /** Lets the waiting streams send in turn, one frame at a time, as far as the connection's window allows. */
  pump(): void {
    while (!this.isCongested && this.#windowBytes > 0) {
      const stream = this.#waiting.take();
      if (stream === undefined) return;
      if (stream.sendFrame(this.allowance(stream))) this.#waiting.add(stream);
    }
  }
}

// Frames other than DATA have no window. `PeerLimits` limits the frames that cost work or memory and advance no call.

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
