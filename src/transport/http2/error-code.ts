/** Why a connection or a stream ends, by number: RFC 9113, section 7. */
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

const NAMES: ReadonlyMap<number, string> = new Map(Object.entries(ErrorCode).map(([name, code]) => [code, name]));

/** The name, or the number in hexadecimal where RFC 9113 has none for it. */
export function errorCodeName(code: number): string {
  return NAMES.get(code) ?? `0x${code.toString(16)}`;
}

/** The peer broke a rule in a way that ends the connection: RFC 9113, section 5.4.1. */
export class ConnectionError extends Error {
  override readonly name = 'ConnectionError';
  readonly code: ErrorCode;

  constructor(code: ErrorCode, problem: string) {
    super(problem);
    this.code = code;
  }
}

/** The peer broke a rule in a way that ends one stream: RFC 9113, section 5.4.2. */
export class StreamError extends Error {
  override readonly name = 'StreamError';
  readonly code: ErrorCode;

  constructor(code: ErrorCode, problem: string) {
    super(problem);
    this.code = code;
  }
}
