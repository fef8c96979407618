/** Length, type, flags, stream identifier: RFC 9113, section 4.1. */
export const FRAME_HEADER_BYTES = 9;
/** SETTINGS_MAX_FRAME_SIZE where it was not changed, and what is taken here: RFC 9113, section 6.5.2. */
export const DEFAULT_MAX_FRAME_BYTES = 16_384;
/** A flow-control window never exceeds it: RFC 9113, section 6.9.1. */
export const MAX_WINDOW_BYTES = 2 ** 31 - 1;
/** Every window before anything is said about it: RFC 9113, section 6.9.2. */
export const DEFAULT_WINDOW_BYTES = 65_535;
/** RFC 9113, section 5.1.1. */
export const MAX_STREAM_ID = 2 ** 31 - 1;

/** RFC 9113, section 6. */
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

export const Flag = {
  /** Of SETTINGS and PING. */
  ACK: 0x1,
  /** Of DATA and HEADERS. */
  END_STREAM: 0x1,
  END_HEADERS: 0x4,
  PADDED: 0x8,
  PRIORITY: 0x20,
} as const;

/** What a client says first: RFC 9113, section 3.4. */
export const CONNECTION_PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';

export function writeFrameHeader(
  bytes: Uint8Array,
  at: number,
  length: number,
  type: number,
  flags: number,
  streamId: number,
): void {
  bytes[at] = length >>> 16;
  bytes[at + 1] = length >>> 8;
  bytes[at + 2] = length;
  bytes[at + 3] = type;
  bytes[at + 4] = flags;
  writeUint32(bytes, at + 5, streamId);
}

export function writeUint32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >>> 24;
  bytes[at + 1] = value >>> 16;
  bytes[at + 2] = value >>> 8;
  bytes[at + 3] = value;
}

export function readUint32(bytes: Uint8Array, at: number): number {
  return (
    (((bytes[at] as number) << 24) |
      ((bytes[at + 1] as number) << 16) |
      ((bytes[at + 2] as number) << 8) |
      (bytes[at + 3] as number)) >>>
    0
  );
}

/** Stream identifiers and window sizes: the first bit is reserved, and ignored. */
export function readUint31(bytes: Uint8Array, at: number): number {
  return readUint32(bytes, at) & 0x7fff_ffff;
}
