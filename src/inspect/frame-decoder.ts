import { concatBytes, textOf } from '../bytes.js';
import { methods } from '../gen/methods.js';
import type { Method } from '../protobuf/method.js';
import { errorCodeName } from '../transport/http2/error-code.js';
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
export type StreamMethods = Map<number, Method<unknown, unknown>>;

export type DecodedFrame = Pick<WireFrame, 'streamId' | 'type' | 'flags' | 'bytes' | 'detail'>;

const TYPE_NAMES = new Map<number, string>(Object.entries(FrameType).map(([name, type]) => [type, name]));
const METHODS = new Map<string, Method<unknown, unknown>>(
  Object.values(methods).flatMap((service) =>
    Object.values(service as Record<string, Method<unknown, unknown>>).map((method) => [method.path, method]),
  ),
);

/** What one side of a connection says, frame by frame, for people to see. It trusts that side to keep the rules. */
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
    if (start < bytes.length) this.#reader.push(bytes.subarray(start));
  }

  #frame(type: number, flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void {
    const whole = new Uint8Array(FRAME_HEADER_BYTES + end - start);
    writeFrameHeader(whole, 0, end - start, type, flags, streamId);
    whole.set(bytes.subarray(start, end), FRAME_HEADER_BYTES);
    const payload = whole.subarray(FRAME_HEADER_BYTES);
    const detail = this.#detail(type, flags, streamId, payload);
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
        return { kind: 'ping', opaque: Array.from(payload, (byte) => byte.toString(16).padStart(2, '0')).join('') };
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

  /** None before the block is whole. Neither side here pads, or sends priorities. */
  #fields(flags: number, streamId: number, payload: Uint8Array): readonly HeaderField[] {
    this.#block.push(payload.slice());
    if ((flags & Flag.END_HEADERS) === 0) return [];
    const block = concatBytes(...this.#block);
    this.#block = [];
    const fields = this.#hpack.decode(block, 0, block.length).fields.map(shown);
    if (fields.some(isSecretField)) payload.fill(0);
    const method = METHODS.get(fields.find(([name]) => name === ':path')?.[1] ?? '');
    if (this.#side === 'client' && method !== undefined) this.#streams.set(streamId, method);
    return fields;
  }

  #messages(streamId: number, payload: Uint8Array): readonly WireMessage[] {
    const method = this.#streams.get(streamId);
    if (method === undefined) return [];
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
