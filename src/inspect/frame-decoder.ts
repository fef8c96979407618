import { type AnyMethod, methodByPath } from '../protobuf/method-table.js';
import { concatBytes, hexOf, textOf } from '../runtime/bytes.js';
import { ConnectionError, errorCodeName } from '../transport/http2/error-code.js';
import {
  CONNECTION_PREFACE,
  Flag,
  FRAME_HEADER_BYTES,
  FrameType,
  readUint31,
  readUint32,
  writeFrameHeader,
} from '../transport/http2/frame.js';
import { FrameReader } from '../transport/http2/frame-reader.js';
import { HpackDecoder } from '../transport/http2/hpack/decoder.js';
import type { HeaderField } from '../transport/http2/hpack/static-table.js';
import { MessageAssembler } from '../transport/http2/message-assembler.js';
import type { FrameDetail, WireFrame, WireMessage } from './frame.js';
import { blanked, isSecretField, mayHoldSecrets } from './secrets.js';
import { settingsIn } from './settings-in.js';

/** The methods of the streams of one connection, which the headers of requests name. */
export type StreamMethods = Map<number, AnyMethod>;

export type DecodedFrame = Pick<WireFrame, 'streamId' | 'type' | 'flags' | 'bytes' | 'detail'>;

const PRIORITY_BYTES = 5;
const TYPE_NAMES = new Map<number, string>(Object.entries(FrameType).map(([name, type]) => [type, name]));

/**
 * What one side of a connection says, frame by frame, for people to see. Of a side that breaks the rules nothing more
 * is told: to say which it broke is the connection's affair.
 */
export class FrameDecoder {
  readonly #side: 'client' | 'server';
  readonly #streams: StreamMethods;
  readonly #tell: (frame: DecodedFrame) => void;
  readonly #hpack = new HpackDecoder(Number.POSITIVE_INFINITY);
  readonly #reader = new FrameReader({ frame: (...given) => this.#frame(...given) });
  readonly #assemblers = new Map<number, Assembler>();
  /** A header block that goes on in CONTINUATION frames. */
  #block: Uint8Array[] = [];
  #prefaceLeft: number;

  constructor(side: 'client' | 'server', streams: StreamMethods, tell: (frame: DecodedFrame) => void) {
    this.#side = side;
    this.#streams = streams;
    this.#tell = tell;
    this.#prefaceLeft = side === 'client' ? CONNECTION_PREFACE.length : 0;
  }

  push(bytes: Uint8Array): void {
    const start = Math.min(this.#prefaceLeft, bytes.length);
    this.#prefaceLeft -= start;
    if (start > 0 && this.#prefaceLeft === 0) {
      const preface = new TextEncoder().encode(CONNECTION_PREFACE);
      this.#tell({ streamId: 0, type: 'PREFACE', flags: [], bytes: preface, detail: { kind: 'other' } });
    }
    if (start === bytes.length) return;
    try {
      this.#reader.push(bytes.subarray(start));
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error;
      this.#reader.stop();
    }
  }

  #frame(type: number, flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void {
    const whole = new Uint8Array(FRAME_HEADER_BYTES + end - start);
    writeFrameHeader(whole, 0, end - start, type, flags, streamId);
    whole.set(bytes.subarray(start, end), FRAME_HEADER_BYTES);
    const payload = whole.subarray(FRAME_HEADER_BYTES);
    const detail = this.#detail(type, flags, streamId, unpadded(type, flags, payload));
    const name = TYPE_NAMES.get(type) ?? `0x${type.toString(16)}`;
    this.#tell({ streamId, type: name, flags: flagNames(type, flags), bytes: whole, detail });
    const ends = type === FrameType.RST_STREAM || (type <= FrameType.HEADERS && (flags & Flag.END_STREAM) !== 0);
    if (ends) this.#assemblers.delete(streamId);
    if (ends && (this.#side === 'server' || type === FrameType.RST_STREAM)) this.#streams.delete(streamId);
  }

  #detail(type: number, flags: number, streamId: number, payload: Uint8Array): FrameDetail {
    switch (type) {
      case FrameType.DATA:
        return { kind: 'data', messages: this.#messages(streamId, payload) };
      case FrameType.HEADERS:
      case FrameType.CONTINUATION:
        return { kind: 'headers', fields: this.#fields(flags, streamId, payload) };
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
          lastStreamId: readUint31(payload, 0),
          code: errorCodeName(readUint32(payload, 4)),
          debug: textOf(payload.subarray(8)),
        };
      default:
        return { kind: 'other' };
    }
  }

  /** None before the block is whole. */
  #fields(flags: number, streamId: number, payload: Uint8Array): readonly HeaderField[] {
    this.#block.push(payload.slice());
    if ((flags & Flag.END_HEADERS) === 0) {
      // What is in it is not known before the block is whole.
      payload.fill(0);
      return [];
    }
    const block = concatBytes(...this.#block);
    this.#block = [];
    const fields = this.#hpack.decode(block, 0, block.length).fields.map(shown);
    if (fields.some(isSecretField)) payload.fill(0);
    const method = methodByPath.get(fields.find(([name]) => name === ':path')?.[1] ?? '');
    if (this.#side === 'client' && method !== undefined) this.#streams.set(streamId, method);
    return fields;
  }

  #messages(streamId: number, payload: Uint8Array): readonly WireMessage[] {
    const method = this.#streams.get(streamId);
    if (method === undefined) {
      // Of a stream that was reset: what was on its way may be anything, a token too.
      payload.fill(0);
      return [];
    }
    let assembler = this.#assemblers.get(streamId);
    if (assembler === undefined) {
      assembler = new Assembler();
      this.#assemblers.set(streamId, assembler);
    }
    const { typeName } = this.#side === 'client' ? method.request : method.response;
    const whole = assembler.take(payload).map((bytes) => ({ method: method.path, typeName, bytes }));
    // A password is as readable in the frame.
    if (mayHoldSecrets(typeName)) payload.fill(0);
    return whole.map(blanked);
  }
}

/** The messages in the data of one stream. */
class Assembler {
  readonly #assembler: MessageAssembler;
  #messages: Uint8Array[] = [];

  constructor() {
    this.#assembler = new MessageAssembler(2 ** 32, {
      message: (bytes, start, end) => void this.#messages.push(bytes.slice(start, end)),
      refused: () => {},
    });
  }

  take(payload: Uint8Array): readonly Uint8Array[] {
    this.#messages = [];
    this.#assembler.receive(payload, 0, payload.length);
    return this.#messages;
  }
}

/** Without padding and priority: RFC 9113, sections 6.1 and 6.2. */
function unpadded(type: number, flags: number, payload: Uint8Array): Uint8Array {
  if (type !== FrameType.DATA && type !== FrameType.HEADERS) return payload;
  const padded = (flags & Flag.PADDED) !== 0;
  const prioritized = type === FrameType.HEADERS && (flags & Flag.PRIORITY) !== 0;
  const start = (padded ? 1 : 0) + (prioritized ? PRIORITY_BYTES : 0);
  return payload.subarray(start, payload.length - (padded ? (payload[0] as number) : 0));
}

function shown(field: HeaderField): HeaderField {
  return isSecretField(field) ? [field[0], '(not shown)'] : field;
}

function flagNames(type: number, flags: number): readonly string[] {
  const names: string[] = [];
  const has = (flag: number, name: string): void => void ((flags & flag) !== 0 && names.push(name));
  if (type === FrameType.SETTINGS || type === FrameType.PING) has(Flag.ACK, 'ACK');
  if (type === FrameType.DATA || type === FrameType.HEADERS) has(Flag.END_STREAM, 'END_STREAM');
  if (type === FrameType.HEADERS || type === FrameType.CONTINUATION) has(Flag.END_HEADERS, 'END_HEADERS');
  return names;
}
