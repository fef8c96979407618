import {
  type AnyMethod,
  CONNECTION_PREFACE,
  ConnectionError,
  concatBytes,
  errorCodeName,
  Flag,
  FRAME_HEADER_BYTES,
  FrameReader,
  FrameType,
  type HeaderField,
  HpackDecoder,
  hexOf,
  MESSAGE_PREFIX_BYTES,
  MessageAssembler,
  methodByPath,
  readUint31,
  readUint32,
  SETTING_BYTES,
  Setting,
  textOf,
  writeFrameHeader,
} from '../../../../src/internal.js';
import { pathOf, shownPathOf } from './http1-head.js';
import { mayContainSecrets, withoutSecret, withoutSecrets, withoutSecretValues } from './secrets.js';

/** One HTTP/2 frame that a connection sent or received, with its decoded content. */
export interface WireFrame {
  /** Time when the frame was sent or received, in milliseconds on the monotonic clock. */
  readonly atMs: number;
  /** Number of the connection, counted from 1. */
  readonly connection: number;
  /** URL of the endpoint. */
  readonly endpoint: string;
  readonly direction: 'sent' | 'received';
  /** HTTP/2 stream identifier; 0 for frames that belong to the whole connection. */
  readonly streamId: number;
  /**
   * Name of the frame type in RFC 9113, section 6, or `PREFACE` for the preface of section 3.4, which is not a frame.
   * For a type without a name, its number, such as `0x10`. `HTTP/1.1` for a message of the JSON gateway, which is not a
   * frame either; its stream ID is the number of the request on the connection.
   */
  readonly type: string;
  readonly flags: readonly string[];
  /**
   * The whole frame, including the frame header. A secret in a header field, or in a message of HTTP/1.1, is replaced
   * by as many asterisks, and so are all bytes of HTTP/1.1 that could not be decoded. The bytes of other secrets are 0.
   */
  readonly bytes: Uint8Array;
  readonly detail: FrameDetail;
  /** Why the decoder could not decode the frame, or a part of it. Undefined if it could. */
  readonly undecoded?: string;
}

export type FrameDetail =
  | { readonly kind: 'settings'; readonly settings: readonly (readonly [name: string, value: number])[] }
  | {
      readonly kind: 'headers';
      readonly headers: readonly HeaderField[];
      /** The sender's dynamic table after the frame, the newest entry first. Its indices begin at 62. */
      readonly table: readonly HeaderField[];
    }
  | { readonly kind: 'data'; readonly messages: readonly WireMessage[] }
  | {
      /** A message of HTTP/1.1, or a part of one, with messages of etcd's JSON gateway. */
      readonly kind: 'http1';
      /**
       * The first line without the version and the query, such as `POST /v3/kv/put` or `200 OK`. Empty after the first
       * part.
       */
      readonly line: string;
      /** The messages as Protobuf. */
      readonly messages: readonly WireMessage[];
      /** The error of a response. Empty for any other message. */
      readonly problem: string;
      /** Whether the request or its answer ends here. An interim response such as `100 Continue` ends none. */
      readonly isEnd: boolean;
    }
  | { readonly kind: 'windowUpdate'; readonly increment: number }
  | { readonly kind: 'ping'; readonly opaque: string }
  | { readonly kind: 'goAway'; readonly lastStream: number; readonly code: string; readonly debug: string }
  | { readonly kind: 'reset'; readonly code: string }
  | { readonly kind: 'other' };

/** A gRPC message whose last byte is in the frame. */
export interface WireMessage {
  /** gRPC path of the call, such as `/etcdserverpb.KV/Put`. */
  readonly method: string;
  /** Full name of the message type. */
  readonly typeName: string;
  /** The message without its gRPC prefix. The bytes of secrets are 0. */
  readonly bytes: Uint8Array;
}

/** Names the stream of a frame by the numbers of its connection and of the stream. */
export function streamOf({ connection, streamId }: Pick<WireFrame, 'connection' | 'streamId'>): string {
  return `${connection}:${streamId}`;
}

/** Returns the value of a header field in a frame. Undefined if the frame does not contain the field. */
export function headerIn({ detail }: Pick<WireFrame, 'detail'>, wanted: string): string | undefined {
  return detail.kind === 'headers' ? detail.headers.find(([name]) => name === wanted)?.[1] : undefined;
}

/** Returns the gRPC messages that end in a frame. */
export function messagesIn({ detail }: Pick<WireFrame, 'detail'>): readonly WireMessage[] {
  return detail.kind === 'data' || detail.kind === 'http1' ? detail.messages : [];
}

/** The gRPC methods of the open streams on one connection, by stream ID. They come from the request headers. */
export type StreamMethods = Map<number, AnyMethod>;

export type DecodedFrame = Pick<WireFrame, 'streamId' | 'type' | 'flags' | 'bytes' | 'detail' | 'undecoded'>;

const PRIORITY_BYTES = 5;
const TYPE_NAMES = new Map<number, string>(Object.entries(FrameType).map(([name, type]) => [type, name]));
const SETTING_NAMES = new Map<number, string>(Object.entries(Setting).map(([name, number]) => [number, name]));
const MAX_MESSAGE_BYTES = 2 ** 32;

/**
 * Decodes the frames that one side of a connection sends. Silently ignores all bytes after an HTTP/2 protocol error,
 * which the connection itself reports.
 */
export class FrameDecoder {
  readonly side: 'client' | 'server';
  readonly #streams: StreamMethods;
  readonly #onFrame: (frame: DecodedFrame) => void;
  readonly #onHeaders: (streamId: number, fields: readonly HeaderField[]) => void;
  readonly #hpack = new HpackDecoder(Number.POSITIVE_INFINITY);
  /** The entries of the dynamic table without secrets, and the version of the table that they belong to. */
  #tableEntries: { readonly version: number; readonly entries: readonly HeaderField[] } = { version: 0, entries: [] };
  readonly #reader = new FrameReader(this);
  readonly #assemblers = new Map<number, MessageAssembler>();
  /** The gRPC messages that end in the current DATA frame. */
  #completed: Uint8Array[] = [];
  /** The received fragments of a header block that is not complete yet. */
  #block: Uint8Array[] = [];
  /** The header block of the current frame without secrets. Undefined if the block contains no secret. */
  #publicBlock: Uint8Array | undefined;
  /** Why the current frame is not decoded as a whole. */
  #undecoded: string | undefined;
  #prefaceLeft: number;

  /** `onHeaders` receives the fields of each whole header block, with their secrets. */
  constructor(
    side: 'client' | 'server',
    streams: StreamMethods,
    onFrame: (frame: DecodedFrame) => void,
    onHeaders: (streamId: number, fields: readonly HeaderField[]) => void = () => {},
  ) {
    this.side = side;
    this.#streams = streams;
    this.#onFrame = onFrame;
    this.#onHeaders = onHeaders;
    this.#prefaceLeft = side === 'client' ? CONNECTION_PREFACE.length : 0;
  }

  push(bytes: Uint8Array): void {
    const start = Math.min(this.#prefaceLeft, bytes.length);
    this.#prefaceLeft -= start;
    if (start > 0 && this.#prefaceLeft === 0) {
      const preface = new TextEncoder().encode(CONNECTION_PREFACE);
      this.#onFrame({ streamId: 0, type: 'PREFACE', flags: [], bytes: preface, detail: { kind: 'other' } });
    }
    if (start === bytes.length) return;
    try {
      this.#reader.push(bytes.subarray(start));
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error;
      this.#reader.stop();
    }
  }

  /** Decodes a frame. The payload is `bytes` from `start` to `end`. The decoder keeps a copy. */
  frame(type: number, flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void {
    const whole = frameBytes(type, flags, streamId, bytes.subarray(start, end));
    const payload = whole.subarray(FRAME_HEADER_BYTES);
    this.#publicBlock = undefined;
    this.#undecoded = undefined;
    const detail = this.#detail(type, flags, streamId, unpadded(type, flags, payload));
    const name = TYPE_NAMES.get(type) ?? `0x${type.toString(16)}`;
    const shown =
      this.#publicBlock === undefined
        ? whole
        : frameBytes(type, flags & ~(Flag.PADDED | Flag.PRIORITY), streamId, this.#publicBlock);
    const decoded = { streamId, type: name, flags: flagNames(type, flags), bytes: shown, detail };
    this.#onFrame(this.#undecoded === undefined ? decoded : { ...decoded, undecoded: this.#undecoded });
    const ends = type === FrameType.RST_STREAM || (type <= FrameType.HEADERS && (flags & Flag.END_STREAM) !== 0);
    if (ends) this.#assemblers.delete(streamId);
    if (ends && (this.side === 'server' || type === FrameType.RST_STREAM)) this.#streams.delete(streamId);
  }

  /** Returns the decoded content of a frame. Replaces the bytes of secrets in `payload` with 0. */
  #detail(type: number, flags: number, streamId: number, payload: Uint8Array): FrameDetail {
    switch (type) {
      case FrameType.DATA:
        return { kind: 'data', messages: this.#messages(streamId, payload) };
      case FrameType.HEADERS:
      case FrameType.CONTINUATION:
        return { kind: 'headers', headers: this.#headers(flags, streamId, payload), table: this.#entries() };
      case FrameType.SETTINGS:
        return { kind: 'settings', settings: settingsIn(payload) };
      case FrameType.WINDOW_UPDATE:
        return { kind: 'windowUpdate', increment: readUint31(payload, 0) };
      case FrameType.PING:
        return { kind: 'ping', opaque: hexOf(payload) };
      case FrameType.RST_STREAM:
        return { kind: 'reset', code: errorCodeName(readUint32(payload, 0)) };
      case FrameType.GOAWAY:
        return {
          kind: 'goAway',
          lastStream: readUint31(payload, 0),
          code: errorCodeName(readUint32(payload, 4)),
          debug: textOf(payload.subarray(8)),
        };
      default:
        return { kind: 'other' };
    }
  }

  /**
   * Returns the header fields of the block that ends with this frame, or an empty array if the block continues in
   * another frame. Sets all of `payload` to 0 if the block has several frames and may contain a secret.
   */
  #headers(flags: number, streamId: number, payload: Uint8Array): readonly HeaderField[] {
    this.#block.push(payload.slice());
    if ((flags & Flag.END_HEADERS) === 0) {
      // An incomplete block cannot be decoded. The block may contain a secret, so hide all its bytes.
      payload.fill(0);
      return [];
    }
    const isWhole = this.#block.length === 1;
    const block = concatBytes(...this.#block);
    this.#block = [];
    const { fields } = this.#hpack.decode(block, 0, block.length);
    this.#onHeaders(streamId, fields);
    const shown = fields.map(withoutSecret);
    if (shown.some((field, index) => field !== fields[index])) {
      if (isWhole) this.#publicBlock = withoutSecretValues(block, fields);
      else payload.fill(0);
    }
    const path = shown.find(([name]) => name === ':path')?.[1];
    if (this.side === 'server' || path === undefined) return shown;
    const method = methodByPath.get(pathOf(path));
    if (method !== undefined) this.#streams.set(streamId, method);
    else {
      // A client that uses a stream ID again could send a password to another path.
      this.#streams.delete(streamId);
      this.#undecoded = `etcd has no RPC ${shownPathOf(path)}`;
    }
    return shown;
  }

  #entries(): readonly HeaderField[] {
    const { table } = this.#hpack;
    const { version, length } = table;
    if (this.#tableEntries.version !== version) {
      const entries = Array.from({ length }, (_, index) => withoutSecret(table.get(index) as HeaderField));
      this.#tableEntries = { version, entries };
    }
    return this.#tableEntries.entries;
  }

  /**
   * Returns the messages that end in this frame. Replaces secrets in `payload`, or all of `payload` if it may contain a
   * part of a secret.
   */
  #messages(streamId: number, payload: Uint8Array): readonly WireMessage[] {
    const method = this.#streams.get(streamId);
    if (method === undefined) {
      // The message type is unknown, for example because the stream was reset before this frame arrived. The message
      // may contain a token.
      payload.fill(0);
      return [];
    }
    this.#completed = [];
    this.#assemblerOf(streamId).receive(payload, 0, payload.length);
    const { typeName } = this.side === 'client' ? method.request : method.response;
    const messages = this.#completed.map((bytes) => withoutSecrets({ method: method.path, typeName, bytes }));
    if (mayContainSecrets(typeName)) {
      const total = messages.reduce((sum, { bytes }) => sum + MESSAGE_PREFIX_BYTES + bytes.length, 0);
      if (total !== payload.length) payload.fill(0);
      else {
        let at = 0;
        for (const { bytes } of messages) {
          payload.set(bytes, at + MESSAGE_PREFIX_BYTES);
          at += MESSAGE_PREFIX_BYTES + bytes.length;
        }
      }
    }
    return messages;
  }

  #assemblerOf(streamId: number): MessageAssembler {
    let assembler = this.#assemblers.get(streamId);
    if (assembler === undefined) {
      assembler = new MessageAssembler(MAX_MESSAGE_BYTES, {
        message: (bytes, start, end) => void this.#completed.push(bytes.slice(start, end)),
        refused: () => {
          this.#undecoded = 'the message is compressed, or has an invalid prefix';
        },
      });
      this.#assemblers.set(streamId, assembler);
    }
    return assembler;
  }
}

function frameBytes(type: number, flags: number, streamId: number, payload: Uint8Array): Uint8Array {
  const whole = new Uint8Array(FRAME_HEADER_BYTES + payload.length);
  writeFrameHeader(whole, 0, payload.length, type, flags, streamId);
  whole.set(payload, FRAME_HEADER_BYTES);
  return whole;
}

/** Returns the payload without padding and priority fields: RFC 9113, sections 6.1 and 6.2. */
function unpadded(type: number, flags: number, payload: Uint8Array): Uint8Array {
  if (type !== FrameType.DATA && type !== FrameType.HEADERS) return payload;
  const padded = (flags & Flag.PADDED) !== 0;
  const prioritized = type === FrameType.HEADERS && (flags & Flag.PRIORITY) !== 0;
  const start = (padded ? 1 : 0) + (prioritized ? PRIORITY_BYTES : 0);
  return payload.subarray(start, payload.length - (padded ? (payload[0] as number) : 0));
}

function flagNames(type: number, flags: number): readonly string[] {
  const names: string[] = [];
  const has = (flag: number, name: string): void => void ((flags & flag) !== 0 && names.push(name));
  if (type === FrameType.SETTINGS || type === FrameType.PING) has(Flag.ACK, 'ACK');
  if (type === FrameType.DATA || type === FrameType.HEADERS) has(Flag.END_STREAM, 'END_STREAM');
  if (type === FrameType.HEADERS || type === FrameType.CONTINUATION) has(Flag.END_HEADERS, 'END_HEADERS');
  return names;
}

/** Returns the settings in a SETTINGS payload. For a setting without a name in RFC 9113, the name is its number. */
function settingsIn(payload: Uint8Array): readonly (readonly [name: string, value: number])[] {
  const settings: (readonly [string, number])[] = [];
  for (let at = 0; at + SETTING_BYTES <= payload.length; at += SETTING_BYTES) {
    const setting = ((payload[at] as number) << 8) | (payload[at + 1] as number);
    settings.push([SETTING_NAMES.get(setting) ?? `0x${setting.toString(16)}`, readUint32(payload, at + 2)]);
  }
  return settings;
}
