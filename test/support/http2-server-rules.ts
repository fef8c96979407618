import { FLAG, type Frame, FrameCutter, PREFACE, SETTING, settingPairs } from './http2-frames.js';
import { BlockReader } from './http2-hpack.js';

const DEFAULT_WINDOW_BYTES = 65_535;

/** A summary of the frames that the server has sent on a stream. */
interface Response {
  /** The fields of the headers and of the trailers. */
  readonly fields: Record<string, string>;
  /** The number of header blocks. */
  blocks: number;
  ended: boolean;
  reset: boolean;
  /** The bytes that the client has allowed beyond the initial window, minus the bytes that the server has sent. */
  credit: number;
}

/**
 * Checks every frame from a server against RFC 9113: windows, frame sizes, order of frames, header blocks. The client's
 * limits apply as soon as the server has acknowledged the client's SETTINGS.
 */
export class ServerRules {
  readonly breaches: string[] = [];
  readonly #blocks = new BlockReader();
  readonly #responses = new Map<number, Response>();
  /** The streams that the client has opened, or tried to open. */
  readonly #opened = new Set<number>();
  readonly #unacknowledged: [number, number][][] = [];
  readonly #fromClient = new FrameCutter();
  #prefaceBytes = 0;
  #connectionWindow = DEFAULT_WINDOW_BYTES;
  #initialWindow = DEFAULT_WINDOW_BYTES;
  #maxFrameBytes = 16_384;
  #frames = 0;
  #lastStreamId = Number.POSITIVE_INFINITY;
  #block: { readonly streamId: number; readonly parts: Buffer[]; readonly endStream: boolean } | undefined;

  /** Records bytes that the client has sent. The first bytes are the connection preface. */
  sentByClient(bytes: Uint8Array): void {
    const skipped = Math.min(PREFACE.length - this.#prefaceBytes, bytes.length);
    this.#prefaceBytes += skipped;
    for (const { name, flags, streamId, payload } of this.#fromClient.push(bytes.subarray(skipped))) {
      if (name === 'HEADERS') this.#opened.add(streamId);
      if (name === 'SETTINGS' && (flags & FLAG.ACK) === 0 && payload.length % 6 === 0)
        this.#unacknowledged.push(settingPairs(payload));
      if (name === 'WINDOW_UPDATE' && payload.length === 4) {
        const increment = payload.readUInt32BE(0) & 0x7fff_ffff;
        if (streamId === 0) this.#connectionWindow += increment;
        else this.#response(streamId).credit += increment;
      }
    }
  }

  /** Checks a frame from the server. Adds a message to `breaches` for each violation of a rule. */
  check({ name, flags, streamId, payload }: Frame): void {
    this.#frames += 1;
    if (this.#frames === 1)
      this.#require(name === 'SETTINGS' && (flags & FLAG.ACK) === 0, `the first frame is ${name} instead of SETTINGS`);
    this.#require(payload.length <= this.#maxFrameBytes, `${name} of ${payload.length} bytes`);
    const response = this.#response(streamId);
    const isOnStream = name === 'HEADERS' || name === 'DATA' || name === 'RST_STREAM' || name === 'WINDOW_UPDATE';
    if (isOnStream && streamId !== 0) {
      this.#require(this.#opened.has(streamId), `${name} on stream ${streamId}, which the client has not opened`);
      this.#require(!response.reset, `${name} on stream ${streamId} after RST_STREAM`);
      this.#require(!response.ended || name === 'RST_STREAM', `${name} on stream ${streamId} after END_STREAM`);
    }
    if (this.#block !== undefined)
      this.#require(name === 'CONTINUATION' && streamId === this.#block.streamId, `${name} within a header block`);
    switch (name) {
      case 'HEADERS':
        this.#block = { streamId, parts: [payload], endStream: (flags & FLAG.END_STREAM) !== 0 };
        if ((flags & FLAG.END_HEADERS) !== 0) this.#headers(response);
        break;
      case 'CONTINUATION':
        this.#block?.parts.push(payload);
        if ((flags & FLAG.END_HEADERS) !== 0) this.#headers(response);
        break;
      case 'DATA':
        this.#require(response.blocks === 1, `DATA on stream ${streamId} after ${response.blocks} header blocks`);
        this.#require((flags & FLAG.END_STREAM) === 0, `stream ${streamId} ended without trailers`);
        this.#connectionWindow -= payload.length;
        response.credit -= payload.length;
        this.#require(this.#connectionWindow >= 0, `the window of the connection is ${this.#connectionWindow}`);
        this.#require(this.#initialWindow + response.credit >= 0, `the window of stream ${streamId} is negative`);
        break;
      case 'RST_STREAM':
        response.reset = true;
        break;
      case 'SETTINGS':
        if ((flags & FLAG.ACK) !== 0) this.#acknowledged();
        break;
      case 'WINDOW_UPDATE':
        this.#require(payload.readUInt32BE(0) > 0, 'WINDOW_UPDATE by 0');
        break;
      case 'GOAWAY':
        this.#require(payload.readUInt32BE(0) <= this.#lastStreamId, 'a GOAWAY that raises the last stream identifier');
        this.#lastStreamId = payload.readUInt32BE(0);
        break;
    }
  }

  /** The header and trailer fields that the server has sent on a stream. */
  fields(streamId: number): Readonly<Record<string, string>> {
    return this.#response(streamId).fields;
  }

  #response(streamId: number): Response {
    const known = this.#responses.get(streamId);
    if (known !== undefined) return known;
    const fresh = { fields: {}, blocks: 0, ended: false, reset: false, credit: 0 };
    this.#responses.set(streamId, fresh);
    return fresh;
  }

  #headers(response: Response): void {
    const { parts, endStream } = this.#block as { parts: Buffer[]; endStream: boolean };
    this.#block = undefined;
    response.blocks += 1;
    response.ended = endStream;
    const fields: Record<string, string> = {};
    try {
      for (const field of this.#blocks.read(Buffer.concat(parts)))
        if (field.kind !== 'table size') fields[field.name] = field.value;
    } catch (error) {
      this.breaches.push((error as Error).message);
    }
    this.#require(':status' in fields === (response.blocks === 1), ':status in trailers, or headers without :status');
    this.#require('grpc-status' in fields === endStream, 'headers with grpc-status, or trailers without it');
    this.#require(response.blocks <= 2 && (endStream || response.blocks === 1), 'trailers that do not end the stream');
    Object.assign(response.fields, fields);
  }

  #acknowledged(): void {
    const pairs = this.#unacknowledged.shift();
    this.#require(pairs !== undefined, 'the server acknowledged SETTINGS that the client did not send');
    for (const [setting, value] of pairs ?? []) {
      if (setting === SETTING.INITIAL_WINDOW_SIZE) this.#initialWindow = value;
      if (setting === SETTING.MAX_FRAME_SIZE) this.#maxFrameBytes = value;
      if (setting === SETTING.HEADER_TABLE_SIZE) this.#blocks.announced(value);
    }
  }

  #require(holds: boolean, breach: string): void {
    if (!holds) this.breaches.push(breach);
  }
}
