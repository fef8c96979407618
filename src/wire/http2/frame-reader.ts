import { readUint32 } from '../../base/index.js';
import { ConnectionError, DEFAULT_MAX_FRAME_BYTES, ErrorCode, FRAME_HEADER_BYTES, readUint31 } from './frame.js';

/** The letters "HTT", read as the length field of a frame. An answer that begins with these letters is in HTTP/1. */
const HTTP1_LENGTH = 0x485454;

interface FrameSink {
  /** Receives one frame. The payload is `bytes` from `start` to `end`, and is valid only during the call. */
  frame(type: number, flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void;
}

/**
 * Splits received bytes into frames. The reader passes on a frame that lies entirely in one chunk without copying it.
 * The reader first copies the pieces of a frame that is split over several chunks into one buffer.
 */
export class FrameReader {
  readonly #sink: FrameSink;
  /** The beginning of a frame whose rest has not arrived. */
  #partial: Uint8Array | undefined;
  #partialLength = 0;
  #closed = false;

  constructor(sink: FrameSink) {
    this.#sink = sink;
  }

  /** Passes on no more frames, not even from the rest of the current chunk. */
  stop(): void {
    this.#closed = true;
  }

  /**
   * Passes on each frame that the received bytes complete, and keeps the beginning of an incomplete frame.
   *
   * @throws ConnectionError if a frame is longer than SETTINGS_MAX_FRAME_SIZE, or if the peer answers in HTTP/1.
   */
  push(chunk: Uint8Array): void {
    let at = this.#partialLength === 0 ? 0 : this.#complete(chunk);
    const { length } = chunk;
    while (!this.#closed && length - at >= FRAME_HEADER_BYTES) {
      const end = at + FRAME_HEADER_BYTES + payloadLength(chunk, at);
      if (end > length) break;
      this.#pass(chunk, at, end);
      at = end;
    }
    if (!this.#closed && at < length) this.#keep(chunk, at, length);
    // An idle connection keeps no buffer.
    else if (this.#partialLength === 0) this.#partial = undefined;
  }

  /**
   * Appends bytes of the chunk to the partial frame, and passes the frame on if it is now complete. Returns the
   * position in the chunk after those bytes.
   */
  #complete(chunk: Uint8Array): number {
    const partial = this.#partial as Uint8Array;
    let at = 0;
    if (this.#partialLength < FRAME_HEADER_BYTES) {
      at = Math.min(FRAME_HEADER_BYTES - this.#partialLength, chunk.length);
      this.#keep(chunk, 0, at);
      if (this.#partialLength < FRAME_HEADER_BYTES) return at;
    }
    const frameLength = FRAME_HEADER_BYTES + payloadLength(partial, 0);
    const end = Math.min(at + frameLength - this.#partialLength, chunk.length);
    this.#keep(chunk, at, end);
    if (this.#partialLength < frameLength) return end;
    this.#partialLength = 0;
    this.#pass(partial, 0, frameLength);
    return end;
  }

  #pass(bytes: Uint8Array, at: number, end: number): void {
    const type = bytes[at + 3] as number;
    const flags = bytes[at + 4] as number;
    this.#sink.frame(type, flags, readUint31(bytes, at + 5), bytes, at + FRAME_HEADER_BYTES, end);
  }

  #keep(chunk: Uint8Array, start: number, end: number): void {
    this.#partial ??= new Uint8Array(FRAME_HEADER_BYTES + DEFAULT_MAX_FRAME_BYTES);
    this.#partial.set(chunk.subarray(start, end), this.#partialLength);
    this.#partialLength += end - start;
  }
}

function payloadLength(bytes: Uint8Array, at: number): number {
  // The length has 24 bits. The type follows.
  const length = readUint32(bytes, at) >>> 8;
  if (length <= DEFAULT_MAX_FRAME_BYTES) return length;
  if (length === HTTP1_LENGTH) throw new ConnectionError(ErrorCode.PROTOCOL_ERROR, 'the peer answers in HTTP/1');
  const problem = `a frame of ${length} bytes; allowed: at most ${DEFAULT_MAX_FRAME_BYTES} bytes`;
  throw new ConnectionError(ErrorCode.FRAME_SIZE_ERROR, problem);
}
