import {
  ErrorCode,
  Flag,
  FRAME_HEADER_BYTES,
  FrameType,
  type HeaderField,
  MESSAGE_PREFIX_BYTES,
  MessageAssembler,
  neverIndexedBytes,
  writeFrameHeader,
  writeMessage,
  writeNeverIndexed,
  writeUint32,
} from '../../../../src/internal.js';
import type { DecodedFrame, StreamMethods } from '../inspect/index.js';
import type { Fault, FaultRules } from './fault-rules.js';
import type { Decision } from './frame-direction.js';

/** A request that the proxy sends again on another connection. */
export interface Copy {
  readonly delayMs: number;
  /** The header fields and the message of a gRPC request, or the text of an HTTP/1.1 request. */
  readonly request: { readonly fields: readonly HeaderField[]; readonly data: Uint8Array } | Uint8Array;
}

/** What a relay needs to choose and to cause faults. */
export interface FaultContext {
  readonly rules: FaultRules;
  readonly sendCopy: (copy: Copy) => void;
  /** Runs an action after a delay, unless the connection has no use for it then. Returns a function that cancels it. */
  readonly later: (delayMs: number, action: () => void) => () => void;
}

interface FrameWriters {
  /** Forwards a frame to the server that the relay has held back. */
  readonly forward: (frame: Uint8Array) => void;
  /** Sends a new frame to the server. */
  readonly toServer: (frame: Uint8Array) => void;
  /** Sends a new frame to the client. */
  readonly toClient: (frame: Uint8Array) => void;
}

/** A request that the client has opened, and that has not ended. */
interface OpenStream {
  /** The header fields of the request, with their secrets. */
  readonly fields: readonly HeaderField[];
  readonly messages: MessageAssembler;
  /** The frames of a delayed request. Undefined if the request is not delayed. */
  held?: Uint8Array[] | undefined;
  /** Whether the relay loses the answer. */
  isLost?: true;
  /** Whether the relay has refused the request. */
  isRefused?: true;
}

/** A fault, and the message that it concerns, with the prefix of gRPC. */
interface Met {
  readonly fault: Fault;
  readonly framed: Uint8Array;
}

/** The position of the flags in a frame: RFC 9113, section 4.1. */
const FLAGS_AT = 4;

/**
 * What a relay knows of the requests of an HTTP/2 connection, and what it does with them. The relay chooses the fault of
 * a request at the last DATA frame of its message, because only the whole message shows all keys. The relay forwards the
 * earlier DATA frames at once: etcd does nothing before it has the whole message, and a client whose frames are held
 * back may use up its flow-control window before the message is whole.
 */
export class Http2Requests {
  readonly #context: FaultContext;
  readonly #methods: StreamMethods;
  readonly #write: FrameWriters;
  readonly #open = new Map<number, OpenStream>();
  /** The fault of the message that ends in the current DATA frame. */
  #met: Met | undefined;

  constructor(context: FaultContext, methods: StreamMethods, write: FrameWriters) {
    this.#context = context;
    this.#methods = methods;
    this.#write = write;
  }

  opened(streamId: number, fields: readonly HeaderField[]): void {
    if (this.#open.has(streamId)) return;
    const messages: MessageAssembler = new MessageAssembler(Number.POSITIVE_INFINITY, {
      message: (bytes, start, end) => this.#receive(streamId, bytes.subarray(start, end)),
      // The message is compressed, so etcd refuses it.
      refused: () => messages.close(),
    });
    this.#open.set(streamId, { fields, messages });
  }

  /** Whether a frame belongs to an answer that the relay loses. */
  isLost({ streamId, type }: DecodedFrame): boolean {
    return (type === 'HEADERS' || type === 'DATA') && this.#open.get(streamId)?.isLost === true;
  }

  /** Forgets a request if the frame of its answer ends the stream. */
  answered({ streamId, type, flags }: DecodedFrame): void {
    if (type === 'RST_STREAM' || flags.includes('END_STREAM')) this.#open.delete(streamId);
  }

  decide({ streamId, type }: DecodedFrame, bytes: Uint8Array): Decision {
    const stream = this.#open.get(streamId);
    if (type === 'RST_STREAM') this.#open.delete(streamId);
    if (stream === undefined || (type !== 'DATA' && type !== 'RST_STREAM')) return 'forward';
    if (stream.isRefused) return 'hold';
    if (type === 'RST_STREAM') return 'forward';
    this.#met = undefined;
    const padded = ((bytes[FLAGS_AT] as number) & Flag.PADDED) !== 0;
    const end = bytes.length - (padded ? (bytes[FRAME_HEADER_BYTES] as number) : 0);
    stream.messages.receive(bytes, FRAME_HEADER_BYTES + (padded ? 1 : 0), end);
    if (stream.held !== undefined) {
      stream.held.push(bytes.slice());
      return 'hold';
    }
    return this.#met === undefined ? 'forward' : this.#apply(this.#met, streamId, stream, bytes);
  }

  /** Chooses the fault of a message of a request. */
  #receive(streamId: number, message: Uint8Array): void {
    const method = this.#methods.get(streamId);
    if (method === undefined || this.#met !== undefined || this.#open.get(streamId)?.held !== undefined) return;
    const fault = this.#context.rules.take(method, message);
    if (fault === undefined) return;
    const framed = new Uint8Array(MESSAGE_PREFIX_BYTES + message.length);
    writeMessage(framed, 0, message);
    this.#met = { fault, framed };
  }

  #apply({ fault, framed }: Met, streamId: number, stream: OpenStream, bytes: Uint8Array): Decision {
    const { kind, delayMs } = fault;
    switch (kind) {
      case 'cut':
        return 'cut';
      case 'silent':
        return 'silence';
      case 'drop-answer':
        stream.isLost = true;
        return 'forward';
      case 'duplicate':
        this.#context.sendCopy({ delayMs, request: { fields: stream.fields, data: framed } });
        return 'forward';
      case 'delay': {
        stream.held = [bytes.slice()];
        this.#context.later(delayMs, () => {
          const frames = stream.held ?? [];
          stream.held = undefined;
          // The client may have given up the request, or etcd may have ended the stream.
          if (this.#open.has(streamId)) for (const each of frames) this.#write.forward(each);
        });
        return 'hold';
      }
      case 'refuse':
        stream.isRefused = true;
        // The refusal comes first, so that the reset in a recording does not look like that of a client that gives up.
        this.#write.toClient(refusalFrame(streamId));
        this.#write.toServer(resetFrame(streamId));
        return 'hold';
    }
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
