import { ConnectionError, ErrorCode } from './error-code.js';

/** Answers to SETTINGS and PING that a peer may ask for without reading any. */
const MAX_BACKLOG_BYTES = 1_048_576;
/** Empty frames in a row, which cost work and bring nothing. */
const MAX_EMPTY_FRAMES = 1_000;

/** A peer that shuts down gracefully sends two; each is told to every stream. */
const MAX_GOAWAYS = 10;

/** What a peer may not have of this side: memory and work for nothing. */
export class PeerLimits {
  #backlogBytes = 0;
  #emptyFrames = 0;
  #goAways = 0;

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

  /** @throws ConnectionError */
  goAway(): void {
    this.#goAways += 1;
    if (this.#goAways > MAX_GOAWAYS) throw calm('GOAWAY without end');
  }
}

function calm(problem: string): ConnectionError {
  return new ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, problem);
}
