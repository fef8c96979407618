import { type DecodedFrame, messagesIn, type StreamMethods } from '../../inspect/frames.js';
import {
  ErrorCode,
  Flag,
  FRAME_HEADER_BYTES,
  FrameType,
  writeFrameHeader,
  writeUint32,
} from '../../transport/http2/frame.js';
import { neverIndexedBytes, writeNeverIndexed } from '../../transport/http2/hpack/encoder.js';
import type { HeaderField } from '../../transport/http2/hpack/tables.js';
import { MESSAGE_PREFIX_BYTES } from '../../transport/http2/message-framing.js';
import type { Fault, FaultRules } from './fault-rules.js';
import type { Decision } from './frame-direction.js';

/** A request that the proxy sends again on another connection. */
export interface Copy {
  readonly delayMs: number;
  /** The header fields and the message of a gRPC request, or the text of an HTTP/1.1 request. */
  readonly request: { readonly fields: readonly HeaderField[]; readonly data: Uint8Array } | Uint8Array;
}

/** What the faults of one stream need of the whole connection. */
interface FaultyConnection {
  silence(): void;
  later(delayMs: number, action: () => void): void;
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
export class Http2Requests {
  readonly #relay: FaultyConnection;
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
    relay: FaultyConnection,
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
        // The refusal comes first, so that the reset in a recording does not look like that of a client that gives up.
        this.#write.toClient(refusalFrame(streamId));
        this.#write.toServer(resetFrame(streamId));
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

export const UNAVAILABLE = '14';
export const REFUSAL = 'etcdwire proxy: a fault refuses this request';

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
