import { UniqueQueue } from '../../runtime/queues.js';
import { ConnectionError, ErrorCode } from './error-code.js';
import { DEFAULT_WINDOW_BYTES, MAX_WINDOW_BYTES } from './frame.js';
import type { PeerSettings } from './settings.js';

/** A stream that has data to send. */
interface Sender {
  /** What the peer lets the stream send; below 0 after the peer has made its windows smaller. */
  sendWindowBytes: number;
  /** Sends a frame of at most so many bytes. False: that was all, or the stream's own window allows no frame. */
  sendFrame(maxBytes: number): boolean;
}

/** Who may send how much: the windows of the connection and of its streams, and what the byte stream takes. */
export class SendFlow {
  readonly #settings: PeerSettings;
  readonly #onSent: (bytes: number) => void;
  /** Streams with data that waits for the connection, in turn; those that wait for their own window are not among them. */
  readonly #waiting = new UniqueQueue<Sender>();
  #windowBytes = DEFAULT_WINDOW_BYTES;
  /** More waits to be written than the byte stream likes. */
  congested = false;

  /** `onSent` is called for each frame of data. */
  constructor(settings: PeerSettings, onSent: (bytes: number) => void) {
    this.#settings = settings;
    this.#onSent = onSent;
  }

  /** Bytes of data that the stream may put into a frame now. */
  allowance(stream: Sender): number {
    if (this.congested) return 0;
    return Math.min(this.#windowBytes, stream.sendWindowBytes, this.#settings.maxFrameBytes);
  }

  sent(stream: Sender, bytes: number): void {
    this.#windowBytes -= bytes;
    stream.sendWindowBytes -= bytes;
    this.#onSent(bytes);
  }

  /** The stream has data that could not be sent. Called again when its own window grows. */
  wait(stream: Sender): void {
    if (stream.sendWindowBytes > 0) this.#waiting.add(stream);
  }

  forget(stream: Sender): void {
    this.#waiting.delete(stream);
  }

  /** @throws ConnectionError where the window grows beyond what the protocol knows. */
  grow(increment: number): void {
    this.#windowBytes += increment;
    if (this.#windowBytes > MAX_WINDOW_BYTES) {
      throw new ConnectionError(ErrorCode.FLOW_CONTROL_ERROR, 'a window of the connection beyond 2^31 - 1');
    }
    this.pump();
  }

  /** Lets those that wait send, a frame each in turn. */
  pump(): void {
    while (!this.congested && this.#windowBytes > 0) {
      const stream = this.#waiting.take();
      if (stream === undefined) return;
      // To the end of the line: the next one is first when the window opens again.
      if (stream.sendFrame(this.allowance(stream))) this.#waiting.add(stream);
    }
  }
}
