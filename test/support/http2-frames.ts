// Encodes and decodes the frames that RFC 9113, sections 4 and 6, defines, for the scripted peer in the tests. This
// file shares no code with the client.

/** The frame types, by number. */
const FRAME_NAMES = [
  'DATA',
  'HEADERS',
  'PRIORITY',
  'RST_STREAM',
  'SETTINGS',
  'PUSH_PROMISE',
  'PING',
  'GOAWAY',
  'WINDOW_UPDATE',
  'CONTINUATION',
] as const;

export type FrameName = (typeof FRAME_NAMES)[number];

/** The error codes, by number. */
export const ERROR_NAMES = [
  'NO_ERROR',
  'PROTOCOL_ERROR',
  'INTERNAL_ERROR',
  'FLOW_CONTROL_ERROR',
  'SETTINGS_TIMEOUT',
  'STREAM_CLOSED',
  'FRAME_SIZE_ERROR',
  'REFUSED_STREAM',
  'CANCEL',
  'COMPRESSION_ERROR',
  'CONNECT_ERROR',
  'ENHANCE_YOUR_CALM',
  'INADEQUATE_SECURITY',
  'HTTP_1_1_REQUIRED',
] as const;

export type ErrorName = (typeof ERROR_NAMES)[number];

export const SETTING = {
  HEADER_TABLE_SIZE: 1,
  ENABLE_PUSH: 2,
  MAX_CONCURRENT_STREAMS: 3,
  INITIAL_WINDOW_SIZE: 4,
  MAX_FRAME_SIZE: 5,
  MAX_HEADER_LIST_SIZE: 6,
} as const;

export type Settings = { readonly [Name in keyof typeof SETTING]?: number };

export const FLAG = { ACK: 0x1, END_STREAM: 0x1, END_HEADERS: 0x4, PADDED: 0x8, PRIORITY: 0x20 } as const;

export const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';
export const FRAME_HEADER_BYTES = 9;

export interface Frame {
  /** Undefined for a type that RFC 9113 does not define. */
  readonly name: FrameName | undefined;
  readonly flags: number;
  readonly streamId: number;
  readonly payload: Buffer;
}

/** Encodes any frame, including invalid frames. */
export function frame(type: FrameName | number, flags: number, streamId: number, payload: Uint8Array = none): Buffer {
  const header = Buffer.alloc(FRAME_HEADER_BYTES);
  header.writeUIntBE(payload.length, 0, 3);
  header[3] = typeof type === 'number' ? type : FRAME_NAMES.indexOf(type);
  header[4] = flags;
  header.writeUInt32BE(streamId, 5);
  return Buffer.concat([header, payload]);
}

const none = new Uint8Array();

export interface HeadersOptions {
  readonly endStream?: boolean;
  /** Whether a CONTINUATION frame follows. The frame then lacks END_HEADERS. */
  readonly open?: boolean;
  readonly padding?: number;
  readonly priority?: boolean;
}

export function headers(streamId: number, block: Uint8Array, options: HeadersOptions = {}): Buffer {
  const { endStream, open, padding, priority } = options;
  const flags =
    (endStream ? FLAG.END_STREAM : 0) |
    (open ? 0 : FLAG.END_HEADERS) |
    (padding === undefined ? 0 : FLAG.PADDED) |
    (priority ? FLAG.PRIORITY : 0);
  const body = priority ? Buffer.concat([Buffer.from([0, 0, 0, 0, 15]), block]) : block;
  return frame('HEADERS', flags, streamId, padded(body, padding));
}

export function continuation(streamId: number, block: Uint8Array, last = true): Buffer {
  return frame('CONTINUATION', last ? FLAG.END_HEADERS : 0, streamId, block);
}

export function data(
  streamId: number,
  bytes: Uint8Array,
  { endStream, padding }: { readonly endStream?: boolean; readonly padding?: number } = {},
): Buffer {
  const flags = (endStream ? FLAG.END_STREAM : 0) | (padding === undefined ? 0 : FLAG.PADDED);
  return frame('DATA', flags, streamId, padded(bytes, padding));
}

export function settings(values: Settings | readonly (readonly [setting: number, value: number])[] = {}): Buffer {
  const pairs = Array.isArray(values)
    ? (values as readonly (readonly [number, number])[])
    : Object.entries(values).map(([name, value]) => [SETTING[name as keyof typeof SETTING], value] as const);
  const payload = Buffer.alloc(pairs.length * 6);
  for (const [index, [setting, value]] of pairs.entries()) {
    payload.writeUInt16BE(setting, index * 6);
    payload.writeUInt32BE(value, index * 6 + 2);
  }
  return frame('SETTINGS', 0, 0, payload);
}

export const settingsAck: Buffer = frame('SETTINGS', FLAG.ACK, 0);

/** @param opaque Eight octets. */
export function ping(opaque: Uint8Array, flags = 0): Buffer {
  return frame('PING', flags, 0, opaque);
}

export function windowUpdate(streamId: number, increment: number): Buffer {
  return frame('WINDOW_UPDATE', 0, streamId, words(increment));
}

export function rstStream(streamId: number, code: ErrorName | number): Buffer {
  return frame('RST_STREAM', 0, streamId, words(errorNumber(code)));
}

export function goAway(lastStreamId: number, code: ErrorName | number = 'NO_ERROR', debug = ''): Buffer {
  return frame('GOAWAY', 0, 0, Buffer.concat([words(lastStreamId, errorNumber(code)), Buffer.from(debug)]));
}

/** Encodes 32-bit unsigned numbers, most significant octet first. */
export function words(...values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 4);
  for (const [index, value] of values.entries()) bytes.writeUInt32BE(value, index * 4);
  return bytes;
}

/** Returns a gRPC message with its prefix. A `flag` of 1 marks the message as compressed. */
export function grpcMessage(bytes: Uint8Array, flag = 0): Buffer {
  return Buffer.concat([Buffer.from([flag]), words(bytes.length), bytes]);
}

/** Splits a stream of bytes into frames. */
export class FrameCutter {
  #rest: Buffer = Buffer.alloc(0);

  push(bytes: Uint8Array): Frame[] {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    const frames: Frame[] = [];
    while (this.#rest.length >= FRAME_HEADER_BYTES) {
      const end = FRAME_HEADER_BYTES + this.#rest.readUIntBE(0, 3);
      if (this.#rest.length < end) break;
      frames.push({
        name: FRAME_NAMES[this.#rest[3] as number],
        flags: this.#rest[4] as number,
        streamId: this.#rest.readUInt32BE(5) & 0x7fff_ffff,
        payload: this.#rest.subarray(FRAME_HEADER_BYTES, end),
      });
      this.#rest = this.#rest.subarray(end);
    }
    return frames;
  }
}

/** Returns the settings of a SETTINGS frame, in order. */
export function settingPairs(payload: Buffer): [setting: number, value: number][] {
  return Array.from({ length: payload.length / 6 }, (_, index) => [
    payload.readUInt16BE(index * 6),
    payload.readUInt32BE(index * 6 + 2),
  ]);
}

export function errorName(code: number): ErrorName {
  return ERROR_NAMES[code] as ErrorName;
}

function errorNumber(code: ErrorName | number): number {
  return typeof code === 'number' ? code : ERROR_NAMES.indexOf(code);
}

function padded(bytes: Uint8Array, padding: number | undefined): Uint8Array {
  return padding === undefined ? bytes : Buffer.concat([Buffer.from([padding]), bytes, Buffer.alloc(padding)]);
}
