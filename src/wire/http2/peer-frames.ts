import { concatBytes, readUint32, textOf } from '../../base/index.js';
import { type PeerLimits, ReceiveWindow, type Sender, type SendFlow } from './flow-control.js';
import { ConnectionError, ErrorCode, errorCodeName, Flag, FrameType, readUint31, StreamError } from './frame.js';
import type { FrameWriter } from './frame-writer.js';
import type { HeaderReader } from './header-reader.js';
import type { HpackEncoder } from './hpack.js';
import { CONNECTION_WINDOW_BYTES, type PeerSettings } from './settings.js';

/** Maximum length in bytes of a header block with its CONTINUATION frames. etcd sends a few hundred bytes. */
const MAX_BLOCK_BYTES = 65_536;
/** Maximum number of frames of one header block. A block of the maximum length fits into five frames. */
const MAX_BLOCK_FRAMES = 16;
/** Maximum number of bytes that an error message shows of the debug data in a GOAWAY frame. */
const MAX_DEBUG_BYTES = 200;
/** The size, in bytes, of the priority fields in HEADERS and of a PRIORITY frame's payload. */
const PRIORITY_BYTES = 5;
/**
 * One GOAWAY counts as this many useless frames (see `PeerLimits`), because the client looks at every stream for it. The
 * two GOAWAY frames of a graceful shutdown stay below the limit.
 */
const GOAWAY_COST = 5_000;
/** A SETTINGS frame counts as one more useless frame for each group of this many streams whose windows it changes. */
const STREAMS_PER_COST = 16;
/** A useless HEADERS frame counts as one more useless frame for each group of this many bytes. */
const BLOCK_BYTES_PER_COST = 256;
/**
 * A DATA frame for a closed stream is useless if it has fewer bytes than this. Longer frames do not count, because a
 * peer may have sent megabytes before it learns that the client has canceled a stream.
 */
const SMALL_DATA_BYTES = 256;

/** The methods of a stream that `PeerFrames` calls. The first three throw StreamError on a protocol violation. */
export interface PeerStream<Fields> extends Sender {
  /** Returns whether the frame advances the call. An interim response does not. */
  headers(fields: Fields, endStream: boolean): boolean;
  /** Receives the data in `bytes` from `start` to `end`. `frameBytes` includes the padding. */
  data(bytes: Uint8Array, start: number, end: number, frameBytes: number, endStream: boolean): void;
  /** The peer has sent RST_STREAM with this error code. */
  resetByPeer(code: number): void;
  /** A frame has violated the protocol. The stream sends RST_STREAM with the error's code. */
  violated(error: StreamError): void;
}

/**
 * The parts of a connection that `PeerFrames` uses, and the callbacks for SETTINGS and GOAWAY. `Fields` is the type of
 * a decoded header block.
 */
export interface FrameTarget<Fields> {
  readonly streams: {
    /** The number of open streams. */
    readonly size: number;
    all(): readonly PeerStream<Fields>[];
    /**
     * Finds the open stream to which a received frame belongs. `frame` is the frame's type. Returns undefined for a
     * closed stream. If the peer may open the stream with this frame, opens it.
     *
     * @throws ConnectionError if the peer must not send the frame, because the stream is idle.
     */
    find(id: number, frame: string): PeerStream<Fields> | undefined;
  };
  readonly settings: PeerSettings;
  readonly limits: PeerLimits;
  readonly headerReader: HeaderReader<Fields>;
  /** Encodes the headers that this end of the connection sends. */
  readonly encoder: HpackEncoder;
  readonly writer: FrameWriter;
  readonly flow: SendFlow;
  readonly pinger: {
    receivedHeadersOrData(): void;
    /** The peer has sent PING with ACK. `opaque` is the second half of its payload. */
    acknowledged(opaque: number): void;
  };
  settingsApplied(): void;
  /**
   * The peer has sent GOAWAY. It processes no stream with an ID above `lastStreamId`. `problem` is for error messages.
   */
  goAway(lastStreamId: number, problem: string): void;
}

/** A header block whose CONTINUATION frames have not all arrived. */
interface PartialBlock {
  readonly streamId: number;
  readonly endStream: boolean;
  readonly parts: Uint8Array[];
  bytes: number;
}

/**
 * Checks the peer's frames and acts on them, as RFC 9113, section 6, requires. A protocol violation either ends the
 * frame's stream or throws a ConnectionError. The client and the server in `testing/http2-server` share this class.
 */
export class PeerFrames<Fields> {
  readonly #target: FrameTarget<Fields>;
  readonly #window = new ReceiveWindow(CONNECTION_WINDOW_BYTES);
  #block: PartialBlock | undefined;
  #hasSettings = false;

  constructor(target: FrameTarget<Fields>) {
    this.#target = target;
  }

  /** Handles one frame from the peer. @throws ConnectionError on a protocol violation that ends the connection. */
  frame(type: number, flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void {
    if (!this.#hasSettings && (type !== FrameType.SETTINGS || (flags & Flag.ACK) !== 0)) {
      throw protocolError('the peer does not use HTTP/2: its first frame is not SETTINGS');
    }
    if (this.#block !== undefined && (type !== FrameType.CONTINUATION || streamId !== this.#block.streamId)) {
      throw protocolError('a frame within a header block');
    }
    try {
      this.#act(type, flags, streamId, bytes, start, end);
    } catch (error) {
      if (!(error instanceof StreamError)) throw error;
      this.#target.streams.find(streamId, 'a malformed frame')?.violated(error);
    }
  }

  /** Handles one frame by its type. @throws StreamError on a protocol violation that ends only the stream. */
  #act(type: number, flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void {
    switch (type) {
      case FrameType.DATA:
        return this.#data(flags, streamId, bytes, start, end);
      case FrameType.HEADERS:
        return this.#headers(flags, streamId, bytes, start, end);
      case FrameType.CONTINUATION:
        return this.#continuation(flags, bytes, start, end);
      case FrameType.WINDOW_UPDATE:
        return this.#windowUpdate(streamId, bytes, start, end);
      case FrameType.PING:
        return this.#ping(flags, streamId, bytes, start, end);
      case FrameType.SETTINGS:
        return this.#settings(flags, streamId, bytes, start, end);
      case FrameType.RST_STREAM:
        return this.#rstStream(streamId, bytes, start, end);
      case FrameType.GOAWAY:
        return this.#goAway(streamId, bytes, start, end);
      case FrameType.PRIORITY:
        requireStream('PRIORITY', streamId);
        if (end - start === PRIORITY_BYTES) break;
        throw new StreamError(ErrorCode.FRAME_SIZE_ERROR, `PRIORITY of ${end - start} bytes, not 5`);
      case FrameType.PUSH_PROMISE:
        throw protocolError('PUSH_PROMISE, although push is off');
    }
    // Ignore PRIORITY, and also frames of unknown types, as section 5.5 requires.
    this.#target.limits.useless('ignored');
  }

  #data(flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void {
    requireStream('DATA', streamId);
    const isPadded = (flags & Flag.PADDED) !== 0;
    const from = isPadded ? start + 1 : start;
    const to = isPadded ? end - paddingBytes('DATA', bytes, start, end) : end;
    const endStream = (flags & Flag.END_STREAM) !== 0;
    const { streams, pinger, limits, writer } = this.#target;
    const stream = streams.find(streamId, 'DATA');
    pinger.receivedHeadersOrData();
    // The padding counts against the flow-control windows, too.
    const frameBytes = end - start;
    if (!this.#window.receive(frameBytes)) {
      throw new ConnectionError(ErrorCode.FLOW_CONTROL_ERROR, 'more data than the window of the connection allows');
    }
    const increment = this.#window.consume(frameBytes);
    if (increment > 0) writer.windowUpdate(0, increment);
    if (from === to && !endStream) limits.useless('empty DATA');
    if (stream === undefined) return frameBytes < SMALL_DATA_BYTES ? limits.useless('late DATA') : undefined;
    stream.data(bytes, from, to, frameBytes, endStream);
  }

  #headers(flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void {
    requireStream('HEADERS', streamId);
    let from = start;
    let to = end;
    if ((flags & Flag.PADDED) !== 0) {
      to = end - paddingBytes('HEADERS', bytes, start, end);
      from += 1;
    }
    if ((flags & Flag.PRIORITY) !== 0) from += PRIORITY_BYTES;
    if (from > to) throw frameSizeError('HEADERS too short for its flags');
    const endStream = (flags & Flag.END_STREAM) !== 0;
    if ((flags & Flag.END_HEADERS) !== 0) return this.#headerBlock(streamId, bytes, from, to, endStream);
    this.#block = { streamId, endStream, parts: [bytes.slice(from, to)], bytes: to - from };
  }

  #continuation(flags: number, bytes: Uint8Array, start: number, end: number): void {
    const block = this.#block;
    if (block === undefined) throw protocolError('CONTINUATION without HEADERS');
    block.parts.push(bytes.slice(start, end));
    block.bytes += end - start;
    if (block.bytes > MAX_BLOCK_BYTES || block.parts.length > MAX_BLOCK_FRAMES) {
      throw new ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, 'a header block too long');
    }
    if ((flags & Flag.END_HEADERS) === 0) return;
    this.#block = undefined;
    this.#headerBlock(block.streamId, concatBytes(...block.parts), 0, block.bytes, block.endStream);
  }

  #headerBlock(streamId: number, bytes: Uint8Array, start: number, end: number, endStream: boolean): void {
    const stream = this.#target.streams.find(streamId, 'HEADERS');
    this.#target.pinger.receivedHeadersOrData();
    // The decoder must read even a block for a closed stream, because the block may change the dynamic table.
    const fields = this.#target.headerReader.read(bytes, start, end);
    if (stream?.headers(fields, endStream)) return;
    const kind = stream === undefined ? 'late HEADERS' : 'interim HEADERS';
    this.#target.limits.useless(kind, 1 + (end - start) / BLOCK_BYTES_PER_COST);
  }

  #rstStream(streamId: number, bytes: Uint8Array, start: number, end: number): void {
    requireStream('RST_STREAM', streamId);
    requireLength('RST_STREAM', end - start, 4);
    const stream = this.#target.streams.find(streamId, 'RST_STREAM');
    if (stream === undefined) this.#target.limits.useless('RST_STREAM');
    else stream.resetByPeer(readUint32(bytes, start));
  }

  #settings(flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void {
    const { streams, settings, limits, flow, encoder, writer } = this.#target;
    requireConnection('SETTINGS', streamId);
    if ((flags & Flag.ACK) !== 0) {
      requireLength('SETTINGS with ACK', end - start, 0);
      return limits.useless('ignored');
    }
    limits.mustAnswer();
    const before = settings.initialWindowBytes;
    settings.apply(bytes, start, end, encoder);
    const growth = settings.initialWindowBytes - before;
    // The ACK precedes any data that the new windows allow, because the peer applies the old windows until the ACK
    // arrives.
    writer.settingsAck();
    // Section 6.9.2: the change also applies to the windows of open streams.
    if (growth !== 0) {
      limits.useless('SETTINGS', 1 + streams.size / STREAMS_PER_COST);
      for (const stream of streams.all()) {
        try {
          flow.growStream(stream, growth);
        } catch (error) {
          if (!(error instanceof StreamError)) throw error;
          throw new ConnectionError(error.code, error.message);
        }
      }
    }
    this.#target.settingsApplied();
    this.#hasSettings = true;
  }

  #ping(flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void {
    const { limits, writer, pinger } = this.#target;
    requireConnection('PING', streamId);
    requireLength('PING', end - start, 8);
    const second = readUint32(bytes, start + 4);
    if ((flags & Flag.ACK) !== 0) {
      limits.useless('PING with ACK');
      return pinger.acknowledged(second);
    }
    limits.mustAnswer();
    writer.ping(Flag.ACK, readUint32(bytes, start), second);
  }

  #goAway(streamId: number, bytes: Uint8Array, start: number, end: number): void {
    requireConnection('GOAWAY', streamId);
    if (end - start < 8) throw frameSizeError(`GOAWAY of ${end - start} bytes`);
    this.#target.limits.useless('GOAWAY', GOAWAY_COST);
    const debug = textOf(bytes.subarray(start + 8, Math.min(end, start + 8 + MAX_DEBUG_BYTES)));
    const suffix = debug === '' ? '' : ` (${debug.replace(/[^\x20-\x7e]/g, '?')})`;
    const problem = `the peer ends the connection with GOAWAY, ${errorCodeName(readUint32(bytes, start + 4))}${suffix}`;
    this.#target.goAway(readUint31(bytes, start), problem);
  }

  #windowUpdate(streamId: number, bytes: Uint8Array, start: number, end: number): void {
    requireLength('WINDOW_UPDATE', end - start, 4);
    const increment = readUint31(bytes, start);
    if (increment === 0 && streamId === 0) throw protocolError('WINDOW_UPDATE by 0');
    if (increment === 0) throw new StreamError(ErrorCode.PROTOCOL_ERROR, 'WINDOW_UPDATE by 0');
    this.#target.limits.useless('WINDOW_UPDATE');
    if (streamId === 0) return this.#target.flow.grow(increment);
    const stream = this.#target.streams.find(streamId, 'WINDOW_UPDATE');
    if (stream !== undefined) this.#target.flow.growStream(stream, increment);
  }
}

/** Returns the length of the padding at the end of a padded frame (RFC 9113, section 6.1). */
function paddingBytes(name: string, bytes: Uint8Array, start: number, end: number): number {
  if (end === start) throw frameSizeError(`padded ${name} without the length of the padding`);
  const length = bytes[start] as number;
  if (length >= end - start) throw protocolError(`${name} with more padding than payload`);
  return length;
}

function requireStream(name: string, streamId: number): void {
  if (streamId === 0) throw protocolError(`${name} on stream 0`);
}

function requireConnection(name: string, streamId: number): void {
  if (streamId !== 0) throw protocolError(`${name} on stream ${streamId}`);
}

function requireLength(name: string, length: number, allowed: number): void {
  if (length !== allowed) throw frameSizeError(`${name} of ${length} bytes, not ${allowed}`);
}

function protocolError(problem: string): ConnectionError {
  return new ConnectionError(ErrorCode.PROTOCOL_ERROR, problem);
}

function frameSizeError(problem: string): ConnectionError {
  return new ConnectionError(ErrorCode.FRAME_SIZE_ERROR, problem);
}
