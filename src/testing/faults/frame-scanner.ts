import { concatBytes, NO_BYTES } from '../../base/index.js';
import { CONNECTION_PREFACE, FRAME_HEADER_BYTES, readUint31 } from '../../wire/index.js';
import type { Direction } from './paced-pipe.js';

/** The part of a frame of HTTP/2 that one read from a socket contains. */
export interface FramePart {
  readonly type: number;
  readonly streamId: number;
  /** Whether the header of the frame ends in this read. */
  readonly begins: boolean;
  readonly bytes: Uint8Array;
}

/**
 * @internal Finds the frames in the bytes of one direction of a connection, wherever the reads from the socket divide
 * the frames. Does not check the frames. A connection that does not use HTTP/2 without TLS yields arbitrary frames.
 */
export class FrameScanner {
  /** The header of the current frame. At first, the connection preface counts as the payload of a frame of stream 0. */
  readonly #header = new Uint8Array(FRAME_HEADER_BYTES);
  /** How many bytes of the current frame's header have arrived. */
  #headerBytes: number;
  /** How many bytes of the current frame's payload have not arrived. */
  #missingBytes: number;

  constructor(direction: Direction) {
    this.#missingBytes = direction === 'to-server' ? CONNECTION_PREFACE.length : 0;
    this.#headerBytes = direction === 'to-server' ? FRAME_HEADER_BYTES : 0;
  }

  /** Returns the parts of frames in the bytes of the next read. Leaves out a header whose end has not arrived. */
  scan(bytes: Uint8Array): readonly FramePart[] {
    const parts: FramePart[] = [];
    for (let start = 0, end = 0; start < bytes.length; start = end) {
      const header = bytes.subarray(start, start + FRAME_HEADER_BYTES - this.#headerBytes);
      this.#header.set(header, this.#headerBytes);
      this.#headerBytes += header.length;
      if (this.#headerBytes < FRAME_HEADER_BYTES) break;
      const begins = header.length > 0;
      if (begins) this.#missingBytes = new DataView(this.#header.buffer).getUint32(0) >>> 8;
      end = Math.min(start + header.length + this.#missingBytes, bytes.length);
      this.#missingBytes -= end - start - header.length;
      if (this.#missingBytes === 0) this.#headerBytes = 0;
      const [type, streamId] = [this.#header[3] as number, readUint31(this.#header, 5)];
      parts.push({ type, streamId, begins, bytes: bytes.subarray(start, end) });
    }
    return parts;
  }
}

/** @internal Returns the bytes of each stream in one read. Leaves out stream 0, which stands for the connection. */
export function bytesOfStreams(parts: readonly FramePart[]): ReadonlyMap<number, Uint8Array> {
  const streams = new Map<number, Uint8Array>();
  for (const { streamId, bytes } of parts)
    if (streamId !== 0) streams.set(streamId, concatBytes(streams.get(streamId) ?? NO_BYTES, bytes));
  return streams;
}
