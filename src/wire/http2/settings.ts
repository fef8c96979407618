import { readUint32, writeUint32 } from '../../base/index.js';
import type { TransportOptions } from '../transport.js';
import {
  ConnectionError,
  DEFAULT_MAX_FRAME_BYTES,
  DEFAULT_WINDOW_BYTES,
  ErrorCode,
  MAX_WINDOW_BYTES,
} from './frame.js';
import type { HpackEncoder } from './hpack.js';

/** Setting identifiers. RFC 9113, section 6.5.2. */
export const Setting = {
  HEADER_TABLE_SIZE: 0x1,
  ENABLE_PUSH: 0x2,
  MAX_CONCURRENT_STREAMS: 0x3,
  INITIAL_WINDOW_SIZE: 0x4,
  MAX_FRAME_SIZE: 0x5,
  MAX_HEADER_LIST_SIZE: 0x6,
} as const;

export const SETTING_BYTES = 6;
const LARGEST_MAX_FRAME_BYTES = 2 ** 24 - 1;

/** Default receive window of a stream, in bytes. It is as large as the intended size of a page of a scan. */
export const STREAM_WINDOW_BYTES = 4 * 1024 * 1024;
/**
 * The receive window of the connection, in bytes. For this window, data counts as consumed on arrival, so a slow reader
 * of one stream does not block the other streams.
 */
export const CONNECTION_WINDOW_BYTES = 16 * 1024 * 1024;
/** Maximum size in bytes of a response's header list. etcd sends a few hundred bytes, mainly for error messages. */
export const MAX_HEADER_LIST_BYTES = 65_536;

/**
 * Returns the payload of the SETTINGS frame that this end of a connection sends: the receive window of its streams,
 * `first`, and the settings that client and server have in common. By default, `first` is the client's ENABLE_PUSH = 0.
 */
export function ownSettings(
  windowBytes: number,
  first: readonly [setting: number, value: number] = [Setting.ENABLE_PUSH, 0],
): Uint8Array {
  const settings = [
    first,
    [Setting.INITIAL_WINDOW_SIZE, windowBytes],
    [Setting.MAX_HEADER_LIST_SIZE, MAX_HEADER_LIST_BYTES],
  ] as const;
  const bytes = new Uint8Array(settings.length * SETTING_BYTES);
  for (const [index, [setting, value]] of settings.entries()) {
    bytes[index * SETTING_BYTES + 1] = setting;
    writeUint32(bytes, index * SETTING_BYTES + 2, value);
  }
  return bytes;
}

/** Options of a transport of this package's own HTTP/2. */
export interface Http2TransportOptions extends TransportOptions {
  /** The receive window of each stream, in bytes. */
  readonly windowBytes: number;
}

/** The peer's settings. The initial values apply until the peer's first SETTINGS frame arrives. */
export class PeerSettings {
  maxConcurrentStreams = Number.POSITIVE_INFINITY;
  initialWindowBytes: number = DEFAULT_WINDOW_BYTES;
  maxFrameBytes: number = DEFAULT_MAX_FRAME_BYTES;
  maxHeaderListBytes = Number.POSITIVE_INFINITY;

  /**
   * Applies the SETTINGS payload in `bytes` from `start` to `end`. Ignores unknown settings. Calls
   * `encoder.resize` for each SETTINGS_HEADER_TABLE_SIZE, because the encoder must also signal a size that a later value
   * in the same frame replaces.
   *
   * @throws ConnectionError on a value that RFC 9113 does not allow.
   */
  apply(bytes: Uint8Array, start: number, end: number, encoder: HpackEncoder): void {
    if ((end - start) % SETTING_BYTES !== 0) {
      throw new ConnectionError(ErrorCode.FRAME_SIZE_ERROR, `SETTINGS of ${end - start} bytes`);
    }
    for (let at = start; at < end; at += SETTING_BYTES) {
      const setting = readUint32(bytes, at) >>> 16;
      const value = readUint32(bytes, at + 2);
      switch (setting) {
        case Setting.HEADER_TABLE_SIZE:
          encoder.resize(value);
          break;
        case Setting.ENABLE_PUSH:
          // Section 6.5.2: a server must not send any value but 0.
          if (value !== 0) throw notAllowed('ENABLE_PUSH', value);
          break;
        case Setting.MAX_CONCURRENT_STREAMS:
          this.maxConcurrentStreams = value;
          break;
        case Setting.INITIAL_WINDOW_SIZE:
          if (value > MAX_WINDOW_BYTES) throw notAllowed('INITIAL_WINDOW_SIZE', value, ErrorCode.FLOW_CONTROL_ERROR);
          this.initialWindowBytes = value;
          break;
        case Setting.MAX_FRAME_SIZE:
          if (value < DEFAULT_MAX_FRAME_BYTES || value > LARGEST_MAX_FRAME_BYTES)
            throw notAllowed('MAX_FRAME_SIZE', value);
          this.maxFrameBytes = value;
          break;
        case Setting.MAX_HEADER_LIST_SIZE:
          this.maxHeaderListBytes = value;
          break;
      }
    }
  }
}

function notAllowed(name: string, value: number, code: ErrorCode = ErrorCode.PROTOCOL_ERROR): ConnectionError {
  return new ConnectionError(code, `SETTINGS_${name} of ${value}`);
}
