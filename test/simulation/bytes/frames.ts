import { readUint32 } from '../../../src/base/bytes.js';
import {
  CONNECTION_PREFACE,
  ErrorCode,
  errorCodeName,
  FRAME_HEADER_BYTES,
  FrameType,
} from '../../../src/wire/http2/frame.js';

/** The names of the frame types, by type. */
const FRAME_NAMES = new Map<number, string>(Object.entries(FrameType).map(([name, type]) => [type, name]));

/** The codes with which a peer may reset a stream although both peers obey the protocol. */
const ALLOWED_RESETS: ReadonlySet<number> = new Set([ErrorCode.NO_ERROR, ErrorCode.REFUSED_STREAM, ErrorCode.CANCEL]);

/** Reads the frames that one peer sends. Finds the frames by which this peer reports an error of the other peer. */
export class FrameLog {
  readonly #report: (problem: string) => void;
  #rest: Uint8Array = new Uint8Array(0);
  #prefaceBytes: number;

  /** `hasPreface` is true for a client. `report` receives the description of each error. */
  constructor(hasPreface: boolean, report: (problem: string) => void) {
    this.#prefaceBytes = hasPreface ? CONNECTION_PREFACE.length : 0;
    this.#report = report;
  }

  /** Reads sent bytes. Returns a description: the number of bytes, and the frames that they complete. */
  push(parts: readonly Uint8Array[]): string {
    let length = this.#rest.length;
    for (const part of parts) length += part.length;
    const bytes = new Uint8Array(length);
    bytes.set(this.#rest);
    let end = this.#rest.length;
    for (const part of parts) {
      bytes.set(part, end);
      end += part.length;
    }
    let text = `${length - this.#rest.length} bytes`;
    let at = Math.min(this.#prefaceBytes, length);
    this.#prefaceBytes -= at;
    while (length - at >= FRAME_HEADER_BYTES) {
      const payload = at + FRAME_HEADER_BYTES;
      const next = payload + (readUint32(bytes, at) >>> 8);
      if (next > length) break;
      text += `, ${this.#frame(bytes, at, payload)}`;
      at = next;
    }
    this.#rest = bytes.subarray(at);
    return text;
  }

  #frame(bytes: Uint8Array, at: number, payload: number): string {
    const type = bytes[at + 3] as number;
    const streamId = readUint32(bytes, at + 5);
    const name = FRAME_NAMES.get(type) ?? `frame of type ${type}`;
    if (type !== FrameType.GOAWAY && type !== FrameType.RST_STREAM) return `${name} ${streamId}`;
    const code = readUint32(bytes, type === FrameType.GOAWAY ? payload + 4 : payload);
    const isError = type === FrameType.GOAWAY ? code !== ErrorCode.NO_ERROR : !ALLOWED_RESETS.has(code);
    const text = `${name} ${streamId} ${errorCodeName(code)}`;
    if (isError) this.#report(text);
    return text;
  }
}
