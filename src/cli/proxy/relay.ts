import type { Duplex } from 'node:stream';
import { type DecodedFrame, FrameDecoder, messagesIn, type StreamMethods, type WireFrame } from '../../inspect/frames.js';
import { Http1Decoder, Http1Requests } from '../../inspect/http1.js';
import { concatBytes } from '../../runtime/bytes.js';
import { after, monotonicMs } from '../../runtime/timers.js';
import {
  CONNECTION_PREFACE,
  ConnectionError,
  ErrorCode,
  Flag,
  FRAME_HEADER_BYTES,
  FrameType,
  writeFrameHeader,
  writeUint32,
} from '../../transport/http2/frame.js';
import { FrameReader } from '../../transport/http2/frame-reader.js';
import { neverIndexedBytes, writeNeverIndexed } from '../../transport/http2/hpack/encoder.js';
import type { HeaderField } from '../../transport/http2/hpack/tables.js';
import { MESSAGE_PREFIX_BYTES } from '../../transport/http2/message-framing.js';
import type { Fault, FaultRules } from './fault-rules.js';

/** A request that the proxy sends again on another connection. */
export interface Copy {
  readonly delayMs: number;
  /** The header fields and the message of a gRPC request, or the text of an HTTP/1.1 request. */
  readonly request: { readonly fields: readonly HeaderField[]; readonly data: Uint8Array } | Uint8Array;
}

export interface RelayOptions {
  readonly client: Duplex;
  readonly server: Duplex;
  readonly isHttp2: boolean;
  /** The number of the connection, counted from 1. */
  readonly connection: number;
  readonly endpoint: string;
  readonly rules: FaultRules;
  readonly onFrame: (frame: WireFrame) => void;
  /** Runs after each piece of bytes that the relay has received. */
  readonly onPiece: () => void;
  readonly sendCopy: (copy: Copy) => void;
}

/**
 * Forwards the bytes of one connection in both directions, reports all its frames, and causes the faults of the rules.
 * The relay changes no byte of a frame. It forwards whole frames, so that a fault can hold back the frames of one
 * stream, and add frames. It forwards the header of each HTTP/2 request at once, because a header block changes the
 * dynamic table of the connection.
 */
export class Relay {
  readonly #options: RelayOptions;
  #isSilent = false;
  #isClosed = false;
  readonly #cancelTimers = new Set<() => void>();
  readonly #onClosed: () => void;

  constructor(options: RelayOptions, onClosed: () => void) {
    this.#options = options;
    this.#onClosed = onClosed;
    const { client, server, isHttp2 } = options;
    const [toServer, toClient] = isHttp2 ? this.#http2() : this.#http1();
    this.#connect(client, server, toServer);
    this.#connect(server, client, toClient);
  }

  /** Closes both sides. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const cancel of this.#cancelTimers) cancel();
    this.#options.client.destroy();
    this.#options.server.destroy();
    this.#onClosed();
  }

  /** Stops forwarding. Both sides stay open. */
  silence(): void {
    this.#isSilent = true;
  }

  report(direction: WireFrame['direction'], frame: DecodedFrame): WireFrame {
    const { connection, endpoint, onFrame } = this.#options;
    const whole = { atMs: monotonicMs(), connection, endpoint, direction, ...frame };
    onFrame(whole);
    return whole;
  }

  /** Runs `action` after the delay, unless the relay is closed before. */
  later(delayMs: number, action: () => void): () => void {
    const cancel = after(delayMs, () => {
      this.#cancelTimers.delete(cancel);
      action();
    });
    this.#cancelTimers.add(cancel);
    return cancel;
  }

  #http2(): readonly [Direction, Direction] {
    const { client, server, rules, sendCopy } = this.#options;
    const streams: StreamMethods = new Map();
    const toClient = new FrameDirection(client, (onFrame) => new FrameDecoder('server', streams, onFrame), {
      report: (frame) => this.report('received', frame),
      decide: (frame) => (requests.isLost(frame) ? 'cut' : 'forward'),
      cut: () => this.close(),
    });
    const requests = new Http2Requests(this, rules, sendCopy, streams, {
      forward: (bytes) => toServer.add(bytes),
      toServer: (bytes) => toServer.addNew(bytes),
      toClient: (bytes) => toClient.addNew(bytes),
    });
    const decoder = (onFrame: (frame: DecodedFrame) => void): FrameDecoder =>
      new FrameDecoder('client', streams, onFrame, (streamId, fields) => requests.opened(streamId, fields));
    const toServer: FrameDirection = new FrameDirection(server, decoder, {
      report: (frame) => this.report('sent', frame),
      decide: (frame, bytes) => requests.decide(frame, bytes),
      cut: () => this.close(),
    });
    return [toServer, toClient];
  }

  #http1(): readonly [Direction, Direction] {
    const { client, server, rules, sendCopy } = this.#options;
    const open = new Http1Requests();
    let isLost = false;
    /** Bytes of a request that is not complete. */
    let held: Uint8Array[] = [];
    let fault: Fault | undefined;
    const requests = new Http1Decoder('client', open, (frame) => {
      this.report('sent', frame);
      const [message] = messagesIn(frame);
      const method = message === undefined ? undefined : open.open.at(-1)?.method;
      if (message !== undefined && method !== undefined) fault = rules.take(method, message.bytes) ?? fault;
    });
    const responses = new Http1Decoder('server', open, (frame) => void this.report('received', frame));
    const toServer: Direction = {
      push: (bytes) => {
        requests.push(bytes);
        held.push(bytes);
        // A client that waits for its answer sends nothing more, so the held bytes are one request.
        if (!rules.isEmpty && fault === undefined && requests.isInMessage) return true;
        const all = concatBytes(...held);
        held = [];
        const found = fault;
        fault = undefined;
        switch (found?.kind) {
          case 'cut':
            this.close();
            return true;
          case 'silent':
            this.silence();
            return true;
          case 'refuse': {
            const refusal = http1Refusal();
            responses.push(refusal);
            client.write(refusal);
            return true;
          }
          case 'delay':
            this.later(found.delayMs, () => server.write(all));
            return true;
          case 'drop-answer':
            isLost = true;
            return server.write(all);
          case 'duplicate':
            sendCopy({ delayMs: found.delayMs, request: all });
            return server.write(all);
          default:
            return server.write(all);
        }
      },
    };
    const toClient: Direction = {
      push: (bytes) => {
        if (isLost) this.close();
        else responses.push(bytes);
        return isLost || client.write(bytes);
      },
    };
    return [toServer, toClient];
  }

  #connect(from: Duplex, to: Duplex, direction: Direction): void {
    from.on('data', (bytes: Uint8Array) => {
      if (this.#isSilent) return;
      if (!direction.push(bytes)) {
        from.pause();
        to.once('drain', () => from.resume());
      }
      this.#options.onPiece();
    });
    let hasEnded = false;
    from.on('end', () => {
      hasEnded = true;
      // The receiver first gets all bytes that are on their way.
      if (!this.#isSilent) to.end(() => this.close());
    });
    from.on('error', () => this.close());
    from.on('close', () => {
      if (!hasEnded) this.close();
    });
  }
}

/** Forwards the bytes of one direction. `push` returns false if the receiver is too slow. */
interface Direction {
  push(bytes: Uint8Array): boolean;
}

type Decision = 'forward' | 'hold' | 'cut';

interface FrameHandlers {
  readonly report: (frame: DecodedFrame) => void;
  /** Decides about a frame. `bytes` is the whole frame, and is valid only during the call. */
  readonly decide: (frame: DecodedFrame, bytes: Uint8Array) => Decision;
  readonly cut: () => void;
}

/** Forwards the HTTP/2 frames of one direction. */
class FrameDirection implements Direction {
  readonly #to: Duplex;
  readonly #decoder: FrameDecoder;
  readonly #handlers: FrameHandlers;
  readonly #reader = new FrameReader(this);
  #prefaceLeft: number;
  #current: DecodedFrame | undefined;
  /** The piece that is being read, and the part of it that is to be forwarded. */
  #piece: Uint8Array = new Uint8Array(0);
  #start = 0;
  #end = 0;
  #out: Uint8Array[] = [];
  /** Frames that wait for the end of a header block, which frames of other streams must not interrupt. */
  #added: Uint8Array[] = [];
  #isInBlock = false;
  #isReading = false;

  constructor(to: Duplex, decoder: (onFrame: (frame: DecodedFrame) => void) => FrameDecoder, handlers: FrameHandlers) {
    this.#to = to;
    this.#handlers = handlers;
    this.#decoder = decoder((frame) => {
      this.#current = frame;
      handlers.report(frame);
    });
    this.#prefaceLeft = this.#decoder.side === 'client' ? CONNECTION_PREFACE.length : 0;
  }

  push(bytes: Uint8Array): boolean {
    const preface = Math.min(this.#prefaceLeft, bytes.length);
    this.#piece = bytes;
    this.#start = 0;
    this.#end = preface;
    if (preface > 0) this.#decoder.push(bytes.subarray(0, preface));
    this.#prefaceLeft -= preface;
    this.#isReading = true;
    try {
      if (preface < bytes.length) this.#reader.push(preface === 0 ? bytes : bytes.subarray(preface));
    } catch (error) {
      if (!(error instanceof ConnectionError)) throw error;
      // The proxy cannot tell where the next frame begins.
      this.#handlers.cut();
    }
    this.#isReading = false;
    return this.#flush();
  }

  /** Reports and sends a frame that the peer has not sent. */
  addNew(frame: Uint8Array): void {
    this.#decoder.push(frame);
    this.add(frame);
  }

  /** Sends a frame as soon as no header block is open. */
  add(frame: Uint8Array): void {
    if (this.#isInBlock) this.#added.push(frame);
    else this.#append(frame);
    if (!this.#isReading) this.#flush();
  }

  /** Receives a frame from the reader. */
  frame(type: number, flags: number, streamId: number, bytes: Uint8Array, start: number, end: number): void {
    this.#decoder.frame(type, flags, streamId, bytes, start, end);
    const at = start - FRAME_HEADER_BYTES;
    const decision = this.#handlers.decide(this.#current as DecodedFrame, bytes.subarray(at, end));
    if (type === FrameType.HEADERS || type === FrameType.CONTINUATION)
      this.#isInBlock = (flags & Flag.END_HEADERS) === 0;
    if (decision === 'cut') this.#handlers.cut();
    if (decision !== 'forward') return;
    // Frames that follow each other in the piece are forwarded with one write.
    if (bytes.buffer === this.#piece.buffer) {
      const offset = bytes.byteOffset - this.#piece.byteOffset;
      if (this.#end !== offset + at) {
        this.#closeRun();
        this.#start = offset + at;
      }
      this.#end = offset + end;
    } else this.#append(bytes.slice(at, end));
    if (!this.#isInBlock) for (const added of this.#added.splice(0)) this.#append(added);
  }

  #append(frame: Uint8Array): void {
    this.#closeRun();
    this.#out.push(frame);
  }

  #closeRun(): void {
    if (this.#end > this.#start) this.#out.push(this.#piece.subarray(this.#start, this.#end));
    this.#start = this.#end;
  }

  #flush(): boolean {
    this.#closeRun();
    const out = this.#out;
    this.#out = [];
    if (out.length === 0) return true;
    return this.#to.write(out.length === 1 ? (out[0] as Uint8Array) : concatBytes(...out));
  }
}

interface FrameWriters {
  /** Forwards a frame to the server that the relay has held back. */
  readonly forward: (frame: Uint8Array) => void;
  /** Sends a new frame to the server. */
  readonly toServer: (frame: Uint8Array) => void;
  /** Sends a new frame to the client. */
  readonly toClient: (frame: Uint8Array) => void;
}

/** What a relay knows of the requests of an HTTP/2 connection, and what it does with them. */
class Http2Requests {
  readonly #relay: Relay;
  readonly #rules: FaultRules;
  readonly #sendCopy: (copy: Copy) => void;
  readonly #streams: StreamMethods;
  readonly #write: FrameWriters;
  /** The header fields of the open requests, with their secrets. */
  readonly #fields = new Map<number, readonly HeaderField[]>();
  /** Streams of unary calls whose request has begun. */
  readonly #begun = new Set<number>();
  /** Streams whose answers the relay loses. */
  readonly #lost = new Set<number>();
  /** Frames of delayed requests. */
  readonly #held = new Map<number, Uint8Array[]>();
  /** Streams that the relay has refused. */
  readonly #refused = new Set<number>();

  constructor(
    relay: Relay,
    rules: FaultRules,
    sendCopy: (copy: Copy) => void,
    streams: StreamMethods,
    write: FrameWriters,
  ) {
    this.#relay = relay;
    this.#rules = rules;
    this.#sendCopy = sendCopy;
    this.#streams = streams;
    this.#write = write;
  }

  opened(streamId: number, fields: readonly HeaderField[]): void {
    this.#fields.set(streamId, fields);
  }

  /** Whether a frame belongs to an answer that the relay loses. Forgets the request if the frame ends the stream. */
  isLost({ streamId, type, flags }: DecodedFrame): boolean {
    if ((type === 'HEADERS' || type === 'DATA') && this.#lost.has(streamId)) return true;
    if (type === 'RST_STREAM' || flags.includes('END_STREAM')) this.#forget(streamId);
    return false;
  }

  decide(frame: DecodedFrame, bytes: Uint8Array): Decision {
    const { streamId, type, flags } = frame;
    if (type === 'RST_STREAM') {
      const isRefused = this.#refused.has(streamId);
      this.#forget(streamId);
      return isRefused ? 'hold' : 'forward';
    }
    if (type !== 'DATA') return 'forward';
    if (this.#refused.has(streamId)) return 'hold';
    const held = this.#held.get(streamId);
    if (held !== undefined) {
      held.push(bytes.slice());
      return 'hold';
    }
    if (this.#rules.isEmpty) return 'forward';
    const method = this.#streams.get(streamId);
    if (method === undefined || (this.#begun.has(streamId) && method.kind === 'unary')) return 'forward';
    this.#begun.add(streamId);
    const isPadded = flags.includes('PADDED');
    const start = FRAME_HEADER_BYTES + (isPadded ? 1 : 0) + MESSAGE_PREFIX_BYTES;
    const [message] = messagesIn(frame);
    const fault = this.#rules.take(method, message?.bytes ?? bytes.subarray(start));
    return fault === undefined ? 'forward' : this.#apply(fault, streamId, bytes);
  }

  #apply({ kind, delayMs }: Fault, streamId: number, bytes: Uint8Array): Decision {
    switch (kind) {
      case 'cut':
        return 'cut';
      case 'silent':
        this.#relay.silence();
        return 'hold';
      case 'drop-answer':
        this.#lost.add(streamId);
        return 'forward';
      case 'duplicate': {
        const fields = this.#fields.get(streamId) ?? [];
        this.#sendCopy({ delayMs, request: { fields, data: bytes.slice(FRAME_HEADER_BYTES) } });
        return 'forward';
      }
      case 'delay': {
        this.#held.set(streamId, [bytes.slice()]);
        this.#relay.later(delayMs, () => {
          const frames = this.#held.get(streamId) ?? [];
          this.#held.delete(streamId);
          for (const each of frames) this.#write.forward(each);
        });
        return 'hold';
      }
      case 'refuse':
        this.#refused.add(streamId);
        this.#write.toServer(resetFrame(streamId));
        this.#write.toClient(refusalFrame(streamId));
        return 'hold';
    }
  }

  #forget(streamId: number): void {
    this.#fields.delete(streamId);
    this.#begun.delete(streamId);
    this.#lost.delete(streamId);
    this.#held.delete(streamId);
    this.#refused.delete(streamId);
  }
}

const UNAVAILABLE = '14';
const REFUSAL = 'etcdwire proxy: a fault refuses this request';

/** Returns an answer without messages: "Trailers-Only" in gRPC's protocol. Its fields change no dynamic table. */
function refusalFrame(streamId: number): Uint8Array {
  const fields = [
    ['content-type', 'application/grpc'],
    ['grpc-status', UNAVAILABLE],
    ['grpc-message', REFUSAL],
  ] as const;
  const length = fields.reduce((sum, [name, value]) => sum + neverIndexedBytes(name, value), 1);
  const frame = new Uint8Array(FRAME_HEADER_BYTES + length);
  writeFrameHeader(frame, 0, length, FrameType.HEADERS, Flag.END_HEADERS | Flag.END_STREAM, streamId);
  // The entry of the static table for `:status: 200`.
  frame[FRAME_HEADER_BYTES] = 0x88;
  let at = FRAME_HEADER_BYTES + 1;
  for (const [name, value] of fields) at = writeNeverIndexed(frame, at, name, value);
  return frame;
}

function resetFrame(streamId: number): Uint8Array {
  const frame = new Uint8Array(FRAME_HEADER_BYTES + 4);
  writeFrameHeader(frame, 0, 4, FrameType.RST_STREAM, 0, streamId);
  writeUint32(frame, FRAME_HEADER_BYTES, ErrorCode.CANCEL);
  return frame;
}

function http1Refusal(): Uint8Array {
  const body = JSON.stringify({ code: Number(UNAVAILABLE), message: REFUSAL, details: [] });
  const head = `HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
  return new TextEncoder().encode(head + body);
}
