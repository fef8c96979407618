import type { Duplex } from 'node:stream';
import {
  type DecodedFrame,
  FrameDecoder,
  messagesIn,
  type StreamMethods,
  type WireFrame,
} from '../../inspect/frames.js';
import { Http1Decoder, Http1Requests } from '../../inspect/http1.js';
import { concatBytes } from '../../runtime/bytes.js';
import { after, monotonicMs } from '../../runtime/timers.js';
import type { Fault, FaultRules } from './fault-rules.js';
import { type Direction, FrameDirection } from './frame-direction.js';
import { type Copy, Http2Requests, REFUSAL, UNAVAILABLE } from './http2-requests.js';

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
  /** Reports an answer of HTTP/1.1 that ends with its connection. */
  #endAnswers = (): void => {};

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
    this.#endAnswers();
    this.#onClosed();
  }

  /** Stops forwarding. Both sides stay open until the client closes its side. */
  #silence(): void {
    this.#isSilent = true;
    for (const cancel of this.#cancelTimers) cancel();
  }

  #report(direction: WireFrame['direction'], frame: DecodedFrame): void {
    const { connection, endpoint, onFrame } = this.#options;
    onFrame({ atMs: monotonicMs(), connection, endpoint, direction, ...frame });
  }

  /** Runs `action` after the delay, unless the relay is closed or silent before. */
  #later(delayMs: number, action: () => void): void {
    const cancel = after(delayMs, () => {
      this.#cancelTimers.delete(cancel);
      action();
    });
    this.#cancelTimers.add(cancel);
  }

  #http2(): readonly [Direction, Direction] {
    const { client, server, rules, sendCopy } = this.#options;
    const streams: StreamMethods = new Map();
    const ends = { cut: () => this.close(), silence: () => this.#silence() };
    const toClient = new FrameDirection(client, (onFrame) => new FrameDecoder('server', streams, onFrame), {
      // The client does not get a lost answer. Its beginning shows that etcd has processed the request, but a status
      // would look like the end of the call.
      report: (frame) => {
        if (!requests.isLost(frame) || !frame.flags.includes('END_STREAM')) this.#report('received', frame);
      },
      decide: (frame) => {
        if (requests.isLost(frame)) return 'cut';
        requests.answered(frame);
        return 'forward';
      },
      ...ends,
    });
    const later = (delayMs: number, action: () => void): void => this.#later(delayMs, action);
    const requests = new Http2Requests(later, rules, sendCopy, streams, {
      forward: (bytes) => toServer.add(bytes),
      toServer: (bytes) => toServer.addNew(bytes),
      toClient: (bytes) => toClient.addNew(bytes),
    });
    const decoder = (onFrame: (frame: DecodedFrame) => void): FrameDecoder =>
      new FrameDecoder('client', streams, onFrame, (streamId, fields) => requests.opened(streamId, fields));
    const toServer: FrameDirection = new FrameDirection(server, decoder, {
      report: (frame) => this.#report('sent', frame),
      decide: (frame, bytes) => requests.decide(frame, bytes),
      ...ends,
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
      this.#report('sent', frame);
      const [message] = messagesIn(frame);
      const method = message === undefined ? undefined : open.open.at(-1)?.method;
      if (message !== undefined && method !== undefined) fault = rules.take(method, message.bytes) ?? fault;
    });
    const responses = new Http1Decoder('server', open, (frame) => this.#report('received', frame));
    this.#endAnswers = () => responses.end();
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
            this.#silence();
            return true;
          case 'refuse': {
            const refusal = http1Refusal();
            responses.push(refusal);
            client.write(refusal);
            return true;
          }
          case 'delay':
            this.#later(found.delayMs, () => server.write(all));
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
    // The client of a silent connection does not notice that the server closes its side.
    const close = (): void => {
      if (!this.#isSilent || from === this.#options.client) this.close();
    };
    from.on('end', () => {
      hasEnded = true;
      if (this.#isSilent) close();
      // The receiver first gets all bytes that are on their way.
      else to.end(() => this.close());
    });
    from.on('error', close);
    from.on('close', () => {
      if (!hasEnded) close();
    });
  }
}

function http1Refusal(): Uint8Array {
  const body = JSON.stringify({ code: Number(UNAVAILABLE), message: REFUSAL, details: [] });
  const head = `HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
  return new TextEncoder().encode(head + body);
}
