import { ConnectionError, ErrorCode } from './error-code.js';
import { DEFAULT_MAX_FRAME_BYTES, FRAME_HEADER_BYTES, readUint31 } from './frame.js';

/** What "HTT" is, read as the length of a frame. */
const HTTP1_LENGTH = 0x485454;

interface FrameSink {
  /** Takes one frame; its payload stands in `bytes` from `start` to `end`, and only for the time of the call. */
  frame(type: number, flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void;
}

/**
 * Cuts what arrives into frames. A frame that lies whole in a chunk is handed on where it lies; only one that is split
 * over chunks is put together here first.
 */
export class FrameReader {
  readonly #sink: FrameSink;
  /** The beginning of a frame that is not all there. */
  #partial: Uint8Array | undefined;
  #partialLength = 0;
  #stopped = false;

  constructor(sink: FrameSink) {
    this.#sink = sink;
  }

  /** Takes no more frames, also not the rest of the chunk at hand. */
  stop(): void {
    this.#stopped = true;
  }

  /** @throws ConnectionError on a frame longer than this side takes. */
  push(chunk: Uint8Array): void {
    let at = this.#partialLength === 0 ? 0 : this.#complete(chunk);
    const { length } = chunk;
    while (!this.#stopped && length - at >= FRAME_HEADER_BYTES) {
      const end = at + FRAME_HEADER_BYTES + payloadLength(chunk, at);
      if (end > length) break;
      this.#hand(chunk, at, end);
      at = end;
    }
    if (!this.#stopped && at < length) this.#keep(chunk, at, length);
  }

  /** Adds to the frame that is not all there what is missing; gives where in the chunk the next one begins. */
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
    this.#hand(partial, 0, frameLength);
    return end;
  }

  #hand(bytes: Uint8Array, at: number, end: number): void {
    this.#sink.frame(
      bytes[at + 3] as number,
      bytes[at + 4] as number,
      readUint31(bytes, at + 5),
      bytes,
      at + FRAME_HEADER_BYTES,
      end,
    );
  }

  #keep(chunk: Uint8Array, start: number, end: number): void {
    this.#partial ??= new Uint8Array(FRAME_HEADER_BYTES + DEFAULT_MAX_FRAME_BYTES);
    this.#partial.set(chunk.subarray(start, end), this.#partialLength);
    this.#partialLength += end - start;
  }
}

function payloadLength(bytes: Uint8Array, at: number): number {
  const length = ((bytes[at] as number) << 16) | ((bytes[at + 1] as number) << 8) | (bytes[at + 2] as number);
  if (length <= DEFAULT_MAX_FRAME_BYTES) return length;
  if (length === HTTP1_LENGTH) throw new ConnectionError(ErrorCode.PROTOCOL_ERROR, 'the peer answers in HTTP/1');
  throw new ConnectionError(
    ErrorCode.FRAME_SIZE_ERROR,
    `a frame of ${length} bytes, where at most ${DEFAULT_MAX_FRAME_BYTES} are taken`,
  );
}
