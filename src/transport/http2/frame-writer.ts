import type { Metadata } from '../transport.js';
import {
  CONNECTION_PREFACE,
  DEFAULT_WINDOW_BYTES,
  Flag,
  FRAME_HEADER_BYTES,
  FrameType,
  writeFrameHeader,
  writeUint32,
} from './frame.js';
import { MESSAGE_PREFIX_BYTES, writeMessage } from './message-prefix.js';
import { Outbox } from './outbox.js';
import { callFieldsBytes, writeCallFields } from './request-headers.js';
import { CONNECTION_WINDOW_BYTES, ownSettings } from './settings.js';

/** Writes frames; all of one turn of the event loop are sent together. */
export class FrameWriter {
  readonly #outbox = new Outbox();
  readonly #send: (parts: readonly Uint8Array[]) => void;
  #scheduled = false;

  constructor(send: (parts: readonly Uint8Array[]) => void) {
    this.#send = send;
  }

  /** RFC 9113, section 3.4; the connection's window, which SETTINGS cannot change, is opened at once. */
  preface(): void {
    const at = this.#outbox.reserve(CONNECTION_PREFACE.length);
    for (let index = 0; index < CONNECTION_PREFACE.length; index += 1) {
      this.#outbox.bytes[at + index] = CONNECTION_PREFACE.charCodeAt(index);
    }
    this.#frame(FrameType.SETTINGS, 0, 0, ownSettings());
    this.windowUpdate(0, CONNECTION_WINDOW_BYTES - DEFAULT_WINDOW_BYTES);
  }

  /** HEADERS of a request, and CONTINUATION where one frame does not take them. */
  headers(
    streamId: number,
    block: Uint8Array,
    timeout: string,
    metadata: Metadata | undefined,
    maxFrameBytes: number,
  ): void {
    const length = block.length + callFieldsBytes(timeout, metadata);
    if (length > maxFrameBytes) {
      const whole = new Uint8Array(length);
      whole.set(block);
      writeCallFields(whole, block.length, timeout, metadata);
      for (let at = 0; at < length; at += maxFrameBytes) {
        const end = Math.min(length, at + maxFrameBytes);
        const type = at === 0 ? FrameType.HEADERS : FrameType.CONTINUATION;
        this.#frame(type, end === length ? Flag.END_HEADERS : 0, streamId, whole.subarray(at, end));
      }
      return;
    }
    const at = this.#begin(length, FrameType.HEADERS, Flag.END_HEADERS, streamId);
    const { bytes } = this.#outbox;
    bytes.set(block, at);
    writeCallFields(bytes, at + block.length, timeout, metadata);
  }

  /** One whole gRPC message in one frame. */
  message(streamId: number, message: Uint8Array, endStream: boolean): void {
    const length = MESSAGE_PREFIX_BYTES + message.length;
    const at = this.#begin(length, FrameType.DATA, endStream ? Flag.END_STREAM : 0, streamId);
    writeMessage(this.#outbox.bytes, at, message);
  }

  data(streamId: number, payload: Uint8Array, endStream: boolean): void {
    this.#frame(FrameType.DATA, endStream ? Flag.END_STREAM : 0, streamId, payload);
  }

  rstStream(streamId: number, code: number): void {
    this.#words(FrameType.RST_STREAM, 0, streamId, code);
  }

  settingsAck(): void {
    this.#words(FrameType.SETTINGS, Flag.ACK, 0);
  }

  ping(opaque: number): void {
    this.#words(FrameType.PING, 0, 0, 0, opaque);
  }

  pingAck(first: number, second: number): void {
    this.#words(FrameType.PING, Flag.ACK, 0, first, second);
  }

  windowUpdate(streamId: number, increment: number): void {
    this.#words(FrameType.WINDOW_UPDATE, 0, streamId, increment);
  }

  goAway(code: number): void {
    // No stream of the peer's was ever processed: push is off.
    this.#words(FrameType.GOAWAY, 0, 0, 0, code);
  }

  /** Sends now what waits for the end of the turn. */
  flush(): void {
    this.#scheduled = false;
    if (this.#outbox.length > 0) this.#send(this.#outbox.take());
  }

  #frame(type: number, flags: number, streamId: number, payload: Uint8Array): void {
    const at = this.#begin(payload.length, type, flags, streamId);
    this.#outbox.bytes.set(payload, at);
  }

  #words(type: number, flags: number, streamId: number, ...words: readonly number[]): void {
    let at = this.#begin(words.length * 4, type, flags, streamId);
    for (const word of words) {
      writeUint32(this.#outbox.bytes, at, word);
      at += 4;
    }
  }

  /** Where the payload goes. */
  #begin(length: number, type: number, flags: number, streamId: number): number {
    if (!this.#scheduled) {
      this.#scheduled = true;
      queueMicrotask(() => this.flush());
    }
    const at = this.#outbox.reserve(FRAME_HEADER_BYTES + length);
    writeFrameHeader(this.#outbox.bytes, at, length, type, flags, streamId);
    return at + FRAME_HEADER_BYTES;
  }
}
