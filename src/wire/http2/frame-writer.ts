import { after, NO_BYTES, writeUint32 } from '../../base/index.js';
import type { Endpoint } from '../../host/index.js';
import { MESSAGE_PREFIX_BYTES, writeMessage } from '../messages.js';
import type { Metadata } from '../transport.js';
import { CONNECTION_PREFACE, DEFAULT_WINDOW_BYTES, Flag, FRAME_HEADER_BYTES, FrameType } from './frame.js';
import {
  entryBytes,
  type FixedFields,
  fixedFields,
  type HeaderField,
  neverIndexedBytes,
  writeNeverIndexed,
} from './hpack.js';
import { CONNECTION_WINDOW_BYTES, ownSettings } from './settings.js';

const TIMEOUT_HEADER = 'grpc-timeout';
/** The maximum number in the value of `grpc-timeout`, because gRPC allows at most eight digits. */
const MAX_TIMEOUT = 99_999_999;
/** The units of `grpc-timeout` that the client uses, smallest first: milliseconds, seconds, minutes, hours. */
const TIMEOUT_UNITS: readonly (readonly [unit: string, ms: number])[] = [
  ['m', 1],
  ['S', 1_000],
  ['M', 60_000],
  ['H', 3_600_000],
];

/**
 * Metadata that many calls have in common and that is no secret. The encoder adds it to the peer's dynamic table, so
 * that it takes one octet.
 */
const SHARED: HeaderField = ['hasleader', 'true'];

/** The headers of requests. https://grpc.github.io/grpc/core/md_doc__p_r_o_t_o_c_o_l-_h_t_t_p2.html */
export class RequestHeaders {
  readonly #endpoint: Endpoint;
  /** By the path of the method, first the fields without `SHARED`, then those with it. */
  readonly #fixed = [new Map<string, FixedFields>(), new Map<string, FixedFields>()] as const;

  constructor(endpoint: Endpoint) {
    this.#endpoint = endpoint;
  }

  /**
   * Returns the fields that are the same for every call of the method: all except the timeout and the metadata other
   * than `SHARED`.
   */
  fixed(path: string, metadata: Metadata | undefined): FixedFields {
    const known = this.#fixed[isShared(SHARED[0], metadata) ? 1 : 0];
    let fixed = known.get(path);
    if (fixed === undefined) {
      fixed = fixedFields(this.#fields(path, metadata));
      known.set(path, fixed);
    }
    return fixed;
  }

  #fields(path: string, metadata: Metadata | undefined): readonly HeaderField[] {
    const { address, tls, url } = this.#endpoint;
    return [
      [':method', 'POST'],
      [':scheme', tls ? 'https' : 'http'],
      [':path', path],
      [':authority', 'path' in address ? 'localhost' : url.replace(/^https?:\/\//, '')],
      ['te', 'trailers'],
      ['content-type', 'application/grpc'],
      ['user-agent', 'etcdwire'],
      ...(isShared(SHARED[0], metadata) ? [SHARED] : []),
    ];
  }
}

function isShared(name: string, metadata: Metadata | undefined): boolean {
  return name === SHARED[0] && metadata?.[name] === SHARED[1];
}

/** Returns the size of the fields that `writeCallFields` writes, as SETTINGS_MAX_HEADER_LIST_SIZE counts it. */
export function callListBytes(timeout: string, metadata: Metadata | undefined): number {
  let bytes = timeout === '' ? 0 : entryBytes([TIMEOUT_HEADER, timeout]);
  for (const name in metadata) if (!isShared(name, metadata)) bytes += entryBytes([name, metadata[name] as string]);
  return bytes;
}

/** Returns the number of bytes that `writeCallFields` writes. */
function callFieldsBytes(timeout: string, metadata: Metadata | undefined): number {
  let bytes = timeout === '' ? 0 : neverIndexedBytes(TIMEOUT_HEADER, timeout);
  for (const name in metadata)
    if (!isShared(name, metadata)) bytes += neverIndexedBytes(name, metadata[name] as string);
  return bytes;
}

/** Writes the fields that differ from call to call: the timeout and the metadata, which may contain a token. */
function writeCallFields(bytes: Uint8Array, at: number, timeout: string, metadata: Metadata | undefined): void {
  let end = timeout === '' ? at : writeNeverIndexed(bytes, at, TIMEOUT_HEADER, timeout);
  for (const name in metadata)
    if (!isShared(name, metadata)) end = writeNeverIndexed(bytes, end, name, metadata[name] as string);
}

/** Returns the value of `grpc-timeout`, rounded up, or an empty string for a call without a deadline. */
export function grpcTimeout(ms: number): string {
  if (ms === Number.POSITIVE_INFINITY) return '';
  for (const [unit, unitMs] of TIMEOUT_UNITS) {
    const amount = Math.max(0, Math.ceil(ms / unitMs));
    if (amount <= MAX_TIMEOUT) return `${amount}${unit}`;
  }
  return '';
}

/**
 * Least and largest size in bytes of a slab: a buffer that collects frames. A slab has room for as many bytes as the
 * last write had, within these limits. A longer frame gets its own slab.
 */
const SLAB_BYTES = 4_096;
const MAX_SLAB_BYTES = 65_536;
/** Milliseconds for which the answer to a PING waits for a write that it can join. */
const PING_ANSWER_MS = 10;

/**
 * Writes frames. The writer collects all frames until the next microtask, or longer if only an answer to a PING waits,
 * and sends them in one write. It never overwrites bytes that it has sent, because the byte stream may still be reading
 * them.
 */
export class FrameWriter {
  readonly #send: (parts: readonly Uint8Array[]) => void;
  /** The unsent parts of slabs, in the order in which the writer sends them. */
  #full: Uint8Array[] = [];
  #slab = NO_BYTES;
  /** Where the unsent part of the slab begins. */
  #start = 0;
  /** Where the unsent part of the slab ends, and the next frame begins. */
  #end = 0;
  #flushScheduled = false;
  /** Stops the timer that sends a waiting answer. Later answers share a timer that runs already. */
  #stopTimer: (() => void) | undefined;
  /** Number of bytes that the writer has collected for the next write. */
  #bytes = 0;
  /** Number of bytes of the last write. The next one is probably of a similar size. */
  #expected = 0;

  /** Sends the collected frames now, without waiting for the microtask. */
  readonly flush = (): void => {
    this.#flushScheduled = false;
    this.#finishSlab();
    if (this.#full.length === 0) return;
    const parts = this.#full;
    this.#full = [];
    this.#expected = this.#bytes;
    this.#bytes = 0;
    this.#start = this.#end;
    // An idle connection holds no large buffer.
    if (this.#slab.length > SLAB_BYTES) this.#slab = NO_BYTES;
    this.#send(parts);
  };

  readonly #answer = (): void => {
    this.#stopTimer = undefined;
    this.flush();
  };

  constructor(send: (parts: readonly Uint8Array[]) => void) {
    this.#send = send;
  }

  /** Sends the collected frames, and stops the timer. */
  close(): void {
    this.#stopTimer?.();
    this.flush();
  }

  /**
   * Writes the connection preface with this client's SETTINGS, which announce the receive window of its streams: RFC
   * 9113, section 3.4. Then enlarges the connection's window with a WINDOW_UPDATE, because SETTINGS cannot change that
   * window.
   */
  preface(windowBytes: number): void {
    const at = this.#reserve(CONNECTION_PREFACE.length);
    new TextEncoder().encodeInto(CONNECTION_PREFACE, this.#slab.subarray(at));
    this.frame(FrameType.SETTINGS, 0, 0, ownSettings(windowBytes));
    this.windowUpdate(0, CONNECTION_WINDOW_BYTES - DEFAULT_WINDOW_BYTES);
  }

  /**
   * Writes HEADERS, with CONTINUATION frames if the peer's SETTINGS_MAX_FRAME_SIZE requires them. The header block has
   * three parts: `block`, which is already encoded; the field `grpc-timeout`, unless `timeout` is empty; and the
   * metadata. `flags` are the flags of HEADERS in addition to END_HEADERS.
   */
  headers(
    streamId: number,
    block: Uint8Array,
    timeout: string,
    metadata: Metadata | undefined,
    maxFrameBytes: number,
    flags = 0,
  ): void {
    const length = block.length + callFieldsBytes(timeout, metadata);
    if (length > maxFrameBytes) {
      const whole = new Uint8Array(length);
      whole.set(block);
      writeCallFields(whole, block.length, timeout, metadata);
      for (let at = 0; at < length; at += maxFrameBytes) {
        const end = Math.min(length, at + maxFrameBytes);
        const type = at === 0 ? FrameType.HEADERS : FrameType.CONTINUATION;
        const last = end === length ? Flag.END_HEADERS : 0;
        this.frame(type, at === 0 ? flags | last : last, streamId, whole.subarray(at, end));
      }
      return;
    }
    const at = this.#header(length, FrameType.HEADERS, flags | Flag.END_HEADERS, streamId);
    this.#slab.set(block, at);
    writeCallFields(this.#slab, at + block.length, timeout, metadata);
  }

  /** Writes one whole message in one DATA frame. */
  message(streamId: number, message: Uint8Array, endStream: boolean): void {
    const length = MESSAGE_PREFIX_BYTES + message.length;
    const at = this.#header(length, FrameType.DATA, endStream ? Flag.END_STREAM : 0, streamId);
    writeMessage(this.#slab, at, message);
  }

  data(streamId: number, payload: Uint8Array, endStream: boolean): void {
    this.frame(FrameType.DATA, endStream ? Flag.END_STREAM : 0, streamId, payload);
  }

  rstStream(streamId: number, code: number): void {
    this.#words(FrameType.RST_STREAM, 0, streamId, code);
  }

  settingsAck(): void {
    this.#words(FrameType.SETTINGS, Flag.ACK, 0);
  }

  /**
   * Writes a PING, or with `flags` ACK the answer to one. Go's servers send a PING for almost each request, to measure
   * the connection. So the answer waits for the next write, which is often the next request. If other bytes wait
   * already, the answer leaves with them: a peer cannot make the client collect answers.
   */
  ping(flags: number, first: number, second: number): void {
    const waits = flags !== 0 && this.#bytes === 0;
    const at = this.#header(8, FrameType.PING, flags, 0, waits);
    writeUint32(this.#slab, at, first);
    writeUint32(this.#slab, at + 4, second);
    if (waits) this.#stopTimer ??= after(PING_ANSWER_MS, this.#answer, 'background');
  }

  windowUpdate(streamId: number, increment: number): void {
    this.#words(FrameType.WINDOW_UPDATE, 0, streamId, increment);
  }

  /**
   * Writes the GOAWAY of a client. Its last stream identifier is 0: server push is disabled, so the client has
   * processed no stream that the server opened.
   */
  goAway(code: number): void {
    this.#words(FrameType.GOAWAY, 0, 0, 0, code);
  }

  frame(type: number, flags: number, streamId: number, payload: Uint8Array): void {
    const at = this.#header(payload.length, type, flags, streamId);
    this.#slab.set(payload, at);
  }

  #words(type: number, flags: number, streamId: number, ...words: readonly number[]): void {
    let at = this.#header(words.length * 4, type, flags, streamId);
    for (const word of words) {
      writeUint32(this.#slab, at, word);
      at += 4;
    }
  }

  /** Writes a frame header. Returns where in the slab the payload goes. If the frame `waits`, no flush is scheduled. */
  #header(length: number, type: number, flags: number, streamId: number, waits = false): number {
    if (!waits && !this.#flushScheduled) {
      this.#flushScheduled = true;
      queueMicrotask(this.flush);
    }
    const at = this.#reserve(FRAME_HEADER_BYTES + length);
    writeFrameHeader(this.#slab, at, length, type, flags, streamId);
    return at + FRAME_HEADER_BYTES;
  }

  /** Reserves `length` bytes in the slab, or in a new slab. Returns where these bytes begin. */
  #reserve(length: number): number {
    if (this.#end + length > this.#slab.length) {
      this.#finishSlab();
      this.#slab = new Uint8Array(Math.max(SLAB_BYTES, Math.min(MAX_SLAB_BYTES, this.#expected), length));
      this.#start = 0;
      this.#end = 0;
    }
    const at = this.#end;
    this.#end += length;
    this.#bytes += length;
    return at;
  }

  #finishSlab(): void {
    if (this.#end > this.#start) this.#full.push(this.#slab.subarray(this.#start, this.#end));
  }
}

export function writeFrameHeader(
  bytes: Uint8Array,
  at: number,
  length: number,
  type: number,
  flags: number,
  streamId: number,
): void {
  // The length has 24 bits, and the type has 8 bits.
  writeUint32(bytes, at, (length << 8) | type);
  bytes[at + 4] = flags;
  writeUint32(bytes, at + 5, streamId);
}
