import type { Duplex } from 'node:stream';
import {
  CONNECTION_PREFACE,
  ConnectionError,
  concatBytes,
  Flag,
  FRAME_HEADER_BYTES,
  FrameReader,
  FrameType,
} from '../../../../src/internal.js';
import type { DecodedFrame, FrameDecoder } from '../inspect/index.js';

/** Forwards the bytes of one direction. `push` returns false if the receiver is too slow. */
export interface Direction {
  push(bytes: Uint8Array): boolean;
}

/**
 * What the direction does with a frame.
 *
 * - `forward`: Sends the frame to the receiver.
 * - `hold`: Does not send the frame.
 * - `cut`: Closes the connection, and ignores the frames that follow.
 * - `silence`: Ignores the frames that follow, and leaves the connection open.
 */
export type Decision = 'forward' | 'hold' | 'cut' | 'silence';

/** How a part of a relay ends its connection. */
export interface Ends {
  readonly cut: () => void;
  readonly silence: () => void;
  readonly problem: (problem: string) => void;
}

interface FrameHandlers extends Ends {
  readonly report: (frame: DecodedFrame) => void;
  /** Decides about a frame. `bytes` is the whole frame, and is valid only during the call. */
  readonly decide: (frame: DecodedFrame, bytes: Uint8Array) => Decision;
}

/** Forwards the HTTP/2 frames of one direction. */
export class FrameDirection implements Direction {
  readonly #to: Duplex;
  readonly #decoder: FrameDecoder;
  readonly #handlers: FrameHandlers;
  readonly #reader = new FrameReader(this);
  #prefaceLeft: number;
  #current: DecodedFrame | undefined;
  /** The piece that is being read, and the part of it that is to be forwarded. */
  #piece: Uint8Array = new Uint8Array(0);
  #start = 0;
  #end = 0;
  #out: Uint8Array[] = [];
  /** Frames that wait for the end of a header block, which frames of other streams must not interrupt. */
  #added: Uint8Array[] = [];
  #isInBlock = false;
  #isReading = false;

  constructor(to: Duplex, decoder: (onFrame: (frame: DecodedFrame) => void) => FrameDecoder, handlers: FrameHandlers) {
    this.#to = to;
    this.#handlers = handlers;
    this.#decoder = decoder((frame) => {
      this.#current = frame;
      handlers.report(frame);
    });
    this.#prefaceLeft = this.#decoder.side === 'client' ? CONNECTION_PREFACE.length : 0;
  }

  push(bytes: Uint8Array): boolean {
    const preface = Math.min(this.#prefaceLeft, bytes.length);
    this.#piece = bytes;
    this.#start = 0;
    this.#end = preface;
    if (preface > 0) this.#decoder.push(bytes.subarray(0, preface));
    this.#prefaceLeft -= preface;
    this.#isReading = true;
    try {
      if (preface < bytes.length) this.#reader.push(preface === 0 ? bytes : bytes.subarray(preface));
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error;
      // The proxy cannot tell where the next frame begins.
      this.#handlers.problem(`closed, because its frames are malformed: ${error.message}`);
      this.#endWith('cut');
    }
    this.#isReading = false;
    return this.#flush();
  }

  /** Reports and sends a frame that the peer has not sent. */
  addNew(frame: Uint8Array): void {
    this.#decoder.push(frame);
    this.add(frame);
  }

  /** Sends a frame as soon as no header block is open. */
  add(frame: Uint8Array): void {
    if (this.#isInBlock) this.#added.push(frame);
    else this.#append(frame);
    if (!this.#isReading) this.#flush();
  }

  /** Receives a frame from the reader. */
  frame(type: number, flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void {
    this.#decoder.frame(type, flags, streamId, bytes, start, end);
    const at = start - FRAME_HEADER_BYTES;
    const decision = this.#handlers.decide(this.#current as DecodedFrame, bytes.subarray(at, end));
    if (type === FrameType.HEADERS || type === FrameType.CONTINUATION)
      this.#isInBlock = (flags & Flag.END_HEADERS) === 0;
    if (decision === 'cut' || decision === 'silence') this.#endWith(decision);
    if (decision !== 'forward') return;
    // Frames that follow each other in the piece are forwarded with one write.
    if (bytes.buffer === this.#piece.buffer) {
      const offset = bytes.byteOffset - this.#piece.byteOffset;
      if (this.#end !== offset + at) {
        this.#closeRun();
        this.#start = offset + at;
      }
      this.#end = offset + end;
    } else this.#append(bytes.slice(at, end));
    if (!this.#isInBlock) for (const added of this.#added.splice(0)) this.#append(added);
  }

  /** Sends the frames before the current frame, and reads no further frames. */
  #endWith(decision: 'cut' | 'silence'): void {
    this.#flush();
    this.#reader.stop();
    this.#handlers[decision]();
  }

  #append(frame: Uint8Array): void {
    this.#closeRun();
    this.#out.push(frame);
  }

  #closeRun(): void {
    if (this.#end > this.#start) this.#out.push(this.#piece.subarray(this.#start, this.#end));
    this.#start = this.#end;
  }

  #flush(): boolean {
    this.#closeRun();
    const out = this.#out;
    this.#out = [];
    if (out.length === 0) return true;
    return this.#to.write(out.length === 1 ? (out[0] as Uint8Array) : concatBytes(...out));
  }
}
