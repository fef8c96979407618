import { concatBytes, textOf } from '../../runtime/bytes.js';
import { ConnectionError, ErrorCode, StreamError } from './error-code.js';
import { Flag, FrameType, readUint31, readUint32 } from './frame.js';

/** Of one header block in all its frames, encoded; what etcd sends has some hundred bytes. */
const MAX_BLOCK_BYTES = 65_536;
/** CONTINUATION frames of one block: as many as a block of that length needs, and some. */
const MAX_CONTINUATIONS = 16;
/** Text that the peer adds to GOAWAY is shown up to here. */
const MAX_DEBUG_BYTES = 200;
const PRIORITY_BYTES = 5;

/** What the frames of the peer say. Bytes are there only for the time of the call. */
export interface FrameEvents {
  /** `frameBytes` counts against the windows: padding included. */
  data(streamId: number, bytes: Uint8Array, start: number, end: number, frameBytes: number, endStream: boolean): void;
  headers(streamId: number, bytes: Uint8Array, start: number, end: number, endStream: boolean): void;
  rstStream(streamId: number, code: number): void;
  settings(bytes: Uint8Array, start: number, end: number): void;
  ping(first: number, second: number): void;
  pingAck(first: number, second: number): void;
  goAway(lastStreamId: number, code: number, debug: string): void;
  windowUpdate(streamId: number, increment: number): void;
  /** A frame that says nothing: an acknowledgement of SETTINGS, PRIORITY, or a type that RFC 9113 does not know. */
  ignored(): void;
  streamError(streamId: number, error: StreamError): void;
}

/** A header block that goes on in CONTINUATION frames. */
interface OpenBlock {
  readonly streamId: number;
  readonly endStream: boolean;
  readonly parts: Uint8Array[];
  bytes: number;
}

/** Checks the frames of the peer one by one, and says what they mean: RFC 9113, section 6. */
export class FrameParser {
  readonly #events: FrameEvents;
  #block: OpenBlock | undefined;
  #settled = false;

  constructor(events: FrameEvents) {
    this.#events = events;
  }

  /** @throws ConnectionError on what ends the connection. */
  frame(type: number, flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void {
    if (!this.#settled && (type !== FrameType.SETTINGS || (flags & Flag.ACK) !== 0)) {
      throw protocolError('the first frame is not SETTINGS: no HTTP/2 server');
    }
    if (this.#block !== undefined && (type !== FrameType.CONTINUATION || streamId !== this.#block.streamId)) {
      throw protocolError('another frame within a header block');
    }
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
        onStream('RST_STREAM', streamId);
        checkLength('RST_STREAM', end - start, 4);
        return this.#events.rstStream(streamId, readUint32(bytes, start));
      case FrameType.GOAWAY:
        return this.#goAway(streamId, bytes, start, end);
      case FrameType.PRIORITY:
        onStream('PRIORITY', streamId);
        if (end - start === PRIORITY_BYTES) return this.#events.ignored();
        return this.#events.streamError(
          streamId,
          new StreamError(ErrorCode.FRAME_SIZE_ERROR, 'PRIORITY of another length'),
        );
      case FrameType.PUSH_PROMISE:
        throw protocolError('PUSH_PROMISE, though push is off');
    }
    // Section 5.5: frames of unknown types are passed over.
    this.#events.ignored();
  }

  #data(flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void {
    onStream('DATA', streamId);
    const from = (flags & Flag.PADDED) === 0 ? start : start + 1;
    const to = (flags & Flag.PADDED) === 0 ? end : end - padding('DATA', bytes, start, end);
    this.#events.data(streamId, bytes, from, to, end - start, (flags & Flag.END_STREAM) !== 0);
  }

  #headers(flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void {
    onStream('HEADERS', streamId);
    let from = start;
    let to = end;
    if ((flags & Flag.PADDED) !== 0) {
      to = end - padding('HEADERS', bytes, start, end);
      from += 1;
    }
    if ((flags & Flag.PRIORITY) !== 0) from += PRIORITY_BYTES;
    if (from > to) throw frameSizeError('HEADERS too short for its flags');
    const endStream = (flags & Flag.END_STREAM) !== 0;
    if ((flags & Flag.END_HEADERS) !== 0) return this.#events.headers(streamId, bytes, from, to, endStream);
    this.#block = { streamId, endStream, parts: [bytes.slice(from, to)], bytes: to - from };
  }

  #continuation(flags: number, bytes: Uint8Array, start: number, end: number): void {
    const block = this.#block;
    if (block === undefined) throw protocolError('CONTINUATION without HEADERS');
    block.parts.push(bytes.slice(start, end));
    block.bytes += end - start;
    if (block.bytes > MAX_BLOCK_BYTES || block.parts.length > MAX_CONTINUATIONS) {
      throw new ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, 'a header block without end');
    }
    if ((flags & Flag.END_HEADERS) === 0) return;
    this.#block = undefined;
    this.#events.headers(block.streamId, concatBytes(...block.parts), 0, block.bytes, block.endStream);
  }

  #windowUpdate(streamId: number, bytes: Uint8Array, start: number, end: number): void {
    checkLength('WINDOW_UPDATE', end - start, 4);
    const increment = readUint31(bytes, start);
    if (increment > 0) return this.#events.windowUpdate(streamId, increment);
    const problem = 'WINDOW_UPDATE by 0';
    if (streamId === 0) throw protocolError(problem);
    this.#events.streamError(streamId, new StreamError(ErrorCode.PROTOCOL_ERROR, problem));
  }

  #ping(flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void {
    onConnection('PING', streamId);
    checkLength('PING', end - start, 8);
    const [first, second] = [readUint32(bytes, start), readUint32(bytes, start + 4)];
    if ((flags & Flag.ACK) === 0) this.#events.ping(first, second);
    else this.#events.pingAck(first, second);
  }

  #settings(flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void {
    onConnection('SETTINGS', streamId);
    if ((flags & Flag.ACK) !== 0) {
      checkLength('SETTINGS with ACK', end - start, 0);
      return this.#events.ignored();
    }
    this.#events.settings(bytes, start, end);
    this.#settled = true;
  }

  #goAway(streamId: number, bytes: Uint8Array, start: number, end: number): void {
    onConnection('GOAWAY', streamId);
    if (end - start < 8) throw frameSizeError(`GOAWAY of ${end - start} bytes`);
    const debug = textOf(bytes.subarray(start + 8, Math.min(end, start + 8 + MAX_DEBUG_BYTES)));
    this.#events.goAway(readUint31(bytes, start), readUint32(bytes, start + 4), printable(debug));
  }
}

/** Bytes of padding at the end of a padded frame: section 6.1. */
function padding(name: string, bytes: Uint8Array, start: number, end: number): number {
  if (end === start) throw frameSizeError(`padded ${name} without a length of the padding`);
  const length = bytes[start] as number;
  if (length >= end - start) throw protocolError(`${name} with more padding than payload`);
  return length;
}

function onStream(name: string, streamId: number): void {
  if (streamId === 0) throw protocolError(`${name} on stream 0`);
}

function onConnection(name: string, streamId: number): void {
  if (streamId !== 0) throw protocolError(`${name} on stream ${streamId}`);
}

function checkLength(name: string, length: number, allowed: number): void {
  if (length !== allowed) throw frameSizeError(`${name} of ${length} bytes, not ${allowed}`);
}

function printable(text: string): string {
  return text.replace(/[^\x20-\x7e]/g, '?');
}

function protocolError(problem: string): ConnectionError {
  return new ConnectionError(ErrorCode.PROTOCOL_ERROR, problem);
}

function frameSizeError(problem: string): ConnectionError {
  return new ConnectionError(ErrorCode.FRAME_SIZE_ERROR, problem);
}
