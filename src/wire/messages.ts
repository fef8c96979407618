import {
  amended,
  copyOf,
  EtcdError,
  Fifo,
  invalidInput,
  NO_BYTES,
  readError,
  readUint32,
  writeUint32,
} from '../base/index.js';
import { decode, Reader } from './protobuf/reader.js';
import type { Method } from './protobuf/schema.js';
import { encode, type Init } from './protobuf/writer.js';
import type { Metadata } from './transport.js';

// The messages of calls: first their encoding and their limits, for all transports, then the framing of gRPC, for HTTP/2.

/**
 * Encodes a request.
 *
 * @throws EtcdError with reason `InvalidInput` if a value does not fit the type of its field, or if the request is
 * longer than `maxRequestBytes`.
 */
export function encodeRequest<Request>(
  method: Method<Request, unknown>,
  request: Init<Request>,
  maxRequestBytes: number,
): Uint8Array {
  let bytes: Uint8Array;
  try {
    bytes = encode(method.request, request);
  } catch (cause) {
    throw new EtcdError(`${method.request.typeName}: ${readError(cause)?.message ?? 'not encodable'}`, {
      code: 'InvalidArgument',
      reason: 'InvalidInput',
      outcome: 'not-sent',
      method: method.path,
      cause,
    });
  }
  if (bytes.length <= maxRequestBytes) return bytes;
  const allowed = `at most ${maxRequestBytes} bytes (option maxRequestBytes of the client, --max-request-bytes of the server)`;
  throw invalidInput(method.request.typeName, `${bytes.length} bytes`, allowed);
}

/**
 * Decodes a response. The response is the part of `bytes` from `start` to `end`.
 *
 * @throws EtcdError with reason `MalformedMessage` if the bytes are not a valid message.
 */
export function decodeResponse<Request, Response>(
  method: Method<Request, Response>,
  endpoint: string,
  bytes: Uint8Array,
  start?: number,
  end?: number,
): Response {
  try {
    return decode(method.response, bytes, start, end);
  } catch (malformed) {
    throw amended(malformed as EtcdError, { method: method.path, endpoint });
  }
}

export function responseTooLarge(
  bytes: number | string,
  allowed: number,
  { method, endpoint }: { readonly method: string; readonly endpoint: string },
): EtcdError {
  const size = typeof bytes === 'number' ? `${bytes} bytes` : bytes;
  const toDo = method.endsWith('/Range') ? '; use scan, which reads the keys in pages, or a limit' : '';
  return new EtcdError(`the response has ${size}; allowed: at most ${allowed} bytes (option maxReceiveBytes)${toDo}`, {
    code: 'ResourceExhausted',
    reason: 'ResponseTooLarge',
    outcome: 'unknown',
    method,
    endpoint,
  });
}

/**
 * Whether all values are printable ASCII text. The gRPC transports refuse metadata with other characters, because a line
 * break in a value could inject another header.
 */
export function isPrintable(metadata: Metadata | undefined): boolean {
  for (const name in metadata) {
    const value: unknown = metadata[name];
    if (typeof value !== 'string' || !/^[\x20-\x7e]*$/.test(value)) return false;
  }
  return true;
}

/**
 * @throws EtcdError with reason `Other` unless all values are printable ASCII text. The error does not show the values,
 * because a value may be a token.
 */
export function checkMetadata(metadata: Metadata | undefined, method: string): void {
  if (isPrintable(metadata)) return;
  throw new EtcdError('a value of the metadata is not printable ASCII text', {
    code: 'Internal',
    reason: 'Other',
    outcome: 'not-sent',
    method,
  });
}

// gRPC sends messages in DATA frames. Each message has a prefix of 5 bytes: a compressed flag and the length. The
// boundaries of frames and messages are independent: a frame may contain several messages, or only a part of one
// message.
// https://grpc.github.io/grpc/core/md_doc__p_r_o_t_o_c_o_l-_h_t_t_p2.html

/** The size, in bytes, of a message's prefix: the compressed flag (1 byte) and the length (4 bytes). */
export const MESSAGE_PREFIX_BYTES = 5;
/**
 * Maximum number of bytes that the assembler reserves because of the length in a prefix. Beyond that, the buffer grows
 * only as bytes arrive.
 */
const TRUSTED_BYTES = 65_536;

/** Writes an uncompressed message with its prefix to `bytes` at the index `at`. `bytes` must have room for both. */
export function writeMessage(bytes: Uint8Array, at: number, message: Uint8Array): void {
  bytes[at] = 0;
  writeUint32(bytes, at + 1, message.length);
  bytes.set(message, at + MESSAGE_PREFIX_BYTES);
}

/**
 * The messages that a stream could not send yet, because the stream is not open, because a window is too small, or
 * because the byte stream has a long backlog.
 */
export class SendQueue {
  /** Messages with their prefixes. Undefined until the first message has to wait, which is rare. */
  #messages: Fifo<Uint8Array> | undefined;
  /** The number of bytes of the first message that the stream has already sent. */
  #sentOfFirst = 0;
  /** Whether no more messages follow those in the queue. If so, the last frame carries END_STREAM. */
  isComplete = false;

  get hasMessages(): boolean {
    return this.#messages !== undefined && this.#messages.length > 0;
  }

  push(message: Uint8Array): void {
    const framed = new Uint8Array(MESSAGE_PREFIX_BYTES + message.length);
    writeMessage(framed, 0, message);
    this.#messages ??= new Fifo();
    this.#messages.push(framed);
  }

  /**
   * Removes the payload of the next DATA frame from the queue and returns it. Returns undefined if there is nothing to
   * send, or if `maxBytes` allows no byte of a waiting message.
   */
  take(maxBytes: number): { readonly bytes: Uint8Array; readonly endStream: boolean } | undefined {
    const first = this.#messages?.first;
    if (first === undefined) return this.isComplete ? { bytes: NO_BYTES, endStream: true } : undefined;
    const start = this.#sentOfFirst;
    const end = Math.min(first.length, start + maxBytes);
    if (end <= start) return undefined;
    this.#sentOfFirst = end === first.length ? 0 : end;
    if (end === first.length) this.#messages?.shift();
    return { bytes: first.subarray(start, end), endStream: this.isComplete && !this.hasMessages };
  }

  clear(): void {
    this.#messages = undefined;
  }
}

export interface MessageReceiver {
  /** Receives a whole message: the bytes from `start` to `end`. `bytes` is valid only during the call. */
  message(bytes: Uint8Array, start: number, end: number): void;
  /**
   * Receives the next whole fields of a message that is longer than the assembler's `pieceBytes`. `isLast` says whether
   * they complete the message. `bytes` is valid only during the call.
   */
  piece?(bytes: Uint8Array, start: number, end: number, isLast: boolean): void;
  /**
   * The assembler cannot read the next message. `flag` is the first byte of the prefix, and `length` is the length in
   * the prefix. If the flag is 0, the message is too large. If the flag is 1, the message is compressed. Any other flag
   * is invalid.
   */
  refused(flag: number, length: number): void;
}

/**
 * Splits the data of a stream into messages, and cuts a message longer than `pieceBytes` into pieces while it arrives.
 * The assembler cuts between two fields, so each piece is a protobuf message of the same type. The assembler does not
 * copy a message that lies entirely in one frame. While the receiver is paused, the assembler stores the data.
 */
export class MessageAssembler {
  readonly #maxBytes: number;
  readonly #receiver: MessageReceiver;
  readonly #pieceBytes: number;
  /** The beginning of a message, or of its next piece, whose rest has not arrived. */
  #partial: Uint8Array = NO_BYTES;
  #partialLength = 0;
  /**
   * If the data so far ends within a message that the assembler passes on in pieces, the number of bytes of this
   * message that have not arrived. 0 otherwise.
   */
  #missing = 0;
  /** Data that arrived while the receiver was paused. Most streams never store any data. */
  #stored: Fifo<Uint8Array> | undefined;
  /** The number of bytes of the first element of `#stored` that the assembler has already split into messages. */
  #splitOfFirst = 0;
  #paused = false;
  /** Whether `#split` is running. The receiver may then call the assembler, and this call must not split more data. */
  #busy = false;
  #closed = false;

  constructor(maxBytes: number, receiver: MessageReceiver, pieceBytes: number = Number.POSITIVE_INFINITY) {
    this.#maxBytes = maxBytes;
    this.#receiver = receiver;
    this.#pieceBytes = pieceBytes;
  }

  /** Whether the data so far ends within a message. */
  get isMidMessage(): boolean {
    return this.#partialLength > 0 || this.#missing > 0;
  }

  /** Whether the receiver may still get messages from data that has arrived. */
  get hasPending(): boolean {
    return !this.#closed && (this.#busy || this.#stored !== undefined);
  }

  /** Splits received data. Returns how many of these bytes were split or discarded, and stores the rest. */
  receive(bytes: Uint8Array, start: number, end: number): number {
    if (this.#closed || start === end) return end - start;
    const stopped = this.#paused || this.hasPending ? start : this.#split(bytes, start, end);
    if (stopped < end && !this.#closed) {
      this.#stored ??= new Fifo();
      this.#stored.push(copyOf(bytes, stopped, end));
    }
    return stopped - start;
  }

  pause(): void {
    this.#paused = true;
  }

  /** Ends the pause, and passes on messages from the stored data. Returns how many of the stored bytes were split. */
  resume(): number {
    this.#paused = false;
    let consumed = 0;
    while (this.#stored !== undefined && !this.#paused && !this.#busy) {
      const first = this.#stored.first as Uint8Array;
      const stopped = this.#split(first, this.#splitOfFirst, first.length);
      consumed += stopped - this.#splitOfFirst;
      this.#splitOfFirst = stopped;
      if (stopped === first.length) this.#dropFirst();
    }
    return consumed;
  }

  /** Passes on no more messages, and discards the stored data. */
  close(): void {
    this.#closed = true;
    this.#stored = undefined;
  }

  #dropFirst(): void {
    this.#splitOfFirst = 0;
    this.#stored?.shift();
    if (this.#stored?.length === 0) this.#stored = undefined;
  }

  /**
   * Passes on the messages in `bytes` from `start` to `end`, or until the receiver pauses or closes the assembler.
   * Returns the position after the last byte that it has read.
   */
  #split(bytes: Uint8Array, start: number, end: number): number {
    this.#busy = true;
    let at = start;
    while (at < end && !this.#paused && !this.#closed) at = this.#next(bytes, at, end);
    this.#busy = false;
    return at;
  }

  /** Reads one message, or the beginning of a message. Returns the position after the bytes that it has read. */
  #next(bytes: Uint8Array, at: number, end: number): number {
    if (this.#missing > 0) return this.#cut(bytes, at, end);
    if (this.#partialLength > 0) return this.#complete(bytes, at, end);
    if (end - at < MESSAGE_PREFIX_BYTES) return this.#keep(bytes, at, end, MESSAGE_PREFIX_BYTES);
    const length = this.#readLength(bytes, at);
    if (length < 0) return end;
    const messageEnd = at + MESSAGE_PREFIX_BYTES + length;
    if (length > this.#pieceBytes) return this.#beginPieces(length, bytes, at + MESSAGE_PREFIX_BYTES, end);
    if (messageEnd > end) return this.#keep(bytes, at, end, MESSAGE_PREFIX_BYTES + length);
    this.#receiver.message(bytes, messageEnd - length, messageEnd);
    return messageEnd;
  }

  /**
   * Appends bytes to the partial message, and passes on the message if it is now complete. Returns the position after
   * the appended bytes.
   */
  #complete(bytes: Uint8Array, start: number, end: number): number {
    let at = start;
    if (this.#partialLength < MESSAGE_PREFIX_BYTES) {
      at = Math.min(end, start + MESSAGE_PREFIX_BYTES - this.#partialLength);
      this.#keep(bytes, start, at, MESSAGE_PREFIX_BYTES);
      if (this.#partialLength < MESSAGE_PREFIX_BYTES) return at;
    }
    const length = this.#readLength(this.#partial, 0);
    if (length < 0) return end;
    if (length > this.#pieceBytes) return this.#beginPieces(length, bytes, at, end);
    const total = MESSAGE_PREFIX_BYTES + length;
    const next = Math.min(end, at + total - this.#partialLength);
    this.#keep(bytes, at, next, total);
    if (this.#partialLength < total) return next;
    const message = this.#partial;
    this.#partialLength = 0;
    this.#partial = NO_BYTES;
    this.#receiver.message(message, MESSAGE_PREFIX_BYTES, total);
    return next;
  }

  #beginPieces(length: number, bytes: Uint8Array, start: number, end: number): number {
    this.#partialLength = 0;
    this.#missing = length;
    return this.#cut(bytes, start, end);
  }

  /**
   * Appends bytes to the next piece of a message. If the piece is long enough or the last one, passes on its whole
   * fields. Returns the position after the appended bytes.
   */
  #cut(bytes: Uint8Array, start: number, end: number): number {
    const next = Math.min(end, start + this.#missing);
    this.#keep(bytes, start, next, this.#pieceBytes + this.#missing);
    this.#missing -= next - start;
    const isLast = this.#missing === 0;
    const length = this.#partialLength;
    if (!isLast && length < this.#pieceBytes) return next;
    const piece = this.#partial;
    const cut = isLast ? length : endOfFields(piece, length);
    if (cut === 0) return next;
    this.#receiver.piece?.(piece, 0, cut, isLast);
    piece.copyWithin(0, cut, length);
    this.#partialLength = length - cut;
    if (isLast) this.#partial = NO_BYTES;
    return next;
  }

  /** Reads the length from a prefix. Returns -1 after notifying the receiver if the client cannot read the message. */
  #readLength(bytes: Uint8Array, at: number): number {
    const length = readUint32(bytes, at + 1);
    const flag = bytes[at] as number;
    if (flag === 0 && length <= this.#maxBytes) return length;
    this.#partialLength = 0;
    this.#receiver.refused(flag, length);
    return -1;
  }

  #keep(bytes: Uint8Array, start: number, end: number, expected: number): number {
    const needed = this.#partialLength + end - start;
    if (needed > this.#partial.length) {
      const trusted = Math.min(expected, Math.max(Math.min(TRUSTED_BYTES, this.#pieceBytes), 2 * this.#partial.length));
      const grown = new Uint8Array(Math.max(needed, trusted));
      grown.set(this.#partial.subarray(0, this.#partialLength));
      this.#partial = grown;
    }
    this.#partial.set(bytes.subarray(start, end), this.#partialLength);
    this.#partialLength = needed;
    return end;
  }
}

/** Returns the end of the last whole field of a protobuf message of which only the first `length` bytes are known. */
function endOfFields(bytes: Uint8Array, length: number): number {
  const reader = new Reader(bytes, 'piece', 0, length);
  let end = 0;
  try {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      reader.skip(tag);
      end = reader.at;
    }
  } catch {
    // The next field is not complete. If it is malformed, decoding the last piece throws.
  }
  return end;
}
