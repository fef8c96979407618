import { readUint32 } from '../../base/index.js';

/** The size of a frame header, which contains length, type, flags and stream identifier. RFC 9113, section 4.1. */
export const FRAME_HEADER_BYTES = 9;
/** The initial SETTINGS_MAX_FRAME_SIZE, which this client never raises. RFC 9113, section 6.5.2. */
export const DEFAULT_MAX_FRAME_BYTES = 16_384;
/** The maximum size of a flow-control window. RFC 9113, section 6.9.1. */
export const MAX_WINDOW_BYTES = 2 ** 31 - 1;
/** The initial size of every flow-control window. RFC 9113, section 6.9.2. */
export const DEFAULT_WINDOW_BYTES = 65_535;
/** The largest stream identifier. RFC 9113, section 5.1.1. */
export const MAX_STREAM_ID = 2 ** 31 - 1;

/** Frame types. RFC 9113, section 6. */
export const FrameType = {
  DATA: 0x0,
  HEADERS: 0x1,
  PRIORITY: 0x2,
  RST_STREAM: 0x3,
  SETTINGS: 0x4,
  PUSH_PROMISE: 0x5,
  PING: 0x6,
  GOAWAY: 0x7,
  WINDOW_UPDATE: 0x8,
  CONTINUATION: 0x9,
} as const;

/** Frame flags. RFC 9113, section 6. */
export const Flag = {
  /** Used on SETTINGS and PING frames. */
  ACK: 0x1,
  /** Used on DATA and HEADERS frames. */
  END_STREAM: 0x1,
  END_HEADERS: 0x4,
  PADDED: 0x8,
  PRIORITY: 0x20,
} as const;

/** Error codes of RST_STREAM and GOAWAY. RFC 9113, section 7. */
export const ErrorCode = {
  NO_ERROR: 0x0,
  PROTOCOL_ERROR: 0x1,
  INTERNAL_ERROR: 0x2,
  FLOW_CONTROL_ERROR: 0x3,
  SETTINGS_TIMEOUT: 0x4,
  STREAM_CLOSED: 0x5,
  FRAME_SIZE_ERROR: 0x6,
  REFUSED_STREAM: 0x7,
  CANCEL: 0x8,
  COMPRESSION_ERROR: 0x9,
  CONNECT_ERROR: 0xa,
  ENHANCE_YOUR_CALM: 0xb,
  INADEQUATE_SECURITY: 0xc,
  HTTP_1_1_REQUIRED: 0xd,
} as const;

export type ErrorCode = (typeof ErrorCode)[keyof typeof ErrorCode];

/** Returns the name of an error code, or its number in hexadecimal if RFC 9113 does not define the code. */
export function errorCodeName(code: number): string {
  return Object.entries(ErrorCode).find((entry) => entry[1] === code)?.[0] ?? `0x${code.toString(16)}`;
}

class ProtocolViolation extends Error {
  readonly code: ErrorCode;

  constructor(code: ErrorCode, problem: string) {
    super(problem);
    this.code = code;
  }
}

/** A protocol violation by the peer that ends the whole connection. RFC 9113, section 5.4.1. */
export class ConnectionError extends ProtocolViolation {
  override readonly name = 'ConnectionError';
}

/** A protocol violation by the peer that ends one stream. RFC 9113, section 5.4.2. */
export class StreamError extends ProtocolViolation {
  override readonly name = 'StreamError';
}

/** The first bytes that a client sends. RFC 9113, section 3.4. */
export const CONNECTION_PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';

/** Reads a stream identifier or a window size. Ignores the first bit, which is reserved. */
export function readUint31(bytes: Uint8Array, at: number): number {
  return readUint32(bytes, at) & 0x7fff_ffff;
}
