import type { Duplex } from 'node:stream';
import { after, monotonicMs } from '../../../../src/internal.js';
import { type DecodedFrame, FrameDecoder, type StreamMethods, type WireFrame } from '../inspect/index.js';
import type { FaultRules } from './fault-rules.js';
import { type Direction, type Ends, FrameDirection } from './frame-direction.js';
import { Http1Relay } from './http1-relay.js';
import { type Copy, type FaultContext, Http2Requests } from './http2-requests.js';
import type { RequestGate } from './request-gate.js';
import type { Traffic } from './traffic.js';

export interface RelayOptions {
  readonly client: Duplex;
  readonly server: Duplex;
  readonly isHttp2: boolean;
  /** The number of the connection, counted from 1. */
  readonly connection: number;
  readonly endpoint: string;
  readonly rules: FaultRules;
  readonly gate: RequestGate;
  /** Time limit in milliseconds for the head of a request, from its first byte. */
  readonly headTimeoutMs: number;
  readonly traffic: Traffic;
  readonly sendCopy: (copy: Copy) => void;
  readonly onProblem: (problem: string) => void;
}

/** How long the proxy waits, in milliseconds, until the client has read a refusal. */
const REFUSAL_MS = 1_000;

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
  readonly #faults: FaultContext;
  readonly #ends: Ends = {
    cut: () => this.close(),
    silence: () => this.#silence(),
    problem: (problem) => this.#problem(problem),
  };
  /** Reports what HTTP/1.1 leaves incomplete when its connection ends. */
  #endDecoders = (): void => {};

  constructor(options: RelayOptions, onClosed: () => void) {
    this.#options = options;
    this.#onClosed = onClosed;
    const { client, server, isHttp2, rules, sendCopy } = options;
    this.#faults = { rules, sendCopy, later: (delayMs, action) => this.#later(delayMs, action) };
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
    this.#endDecoders();
    this.#onClosed();
  }

  /** Stops forwarding. Both sides stay open until the client closes its side. */
  #silence(): void {
    this.#isSilent = true;
    for (const cancel of this.#cancelTimers) cancel();
  }

  #report(direction: WireFrame['direction'], frame: DecodedFrame): void {
    const { connection, endpoint, traffic } = this.#options;
    try {
      traffic.frame({ atMs: monotonicMs(), connection, endpoint, direction, ...frame });
    } catch (error) {
      // The clients choose what the frame contains. The proxy forwards it nevertheless.
      this.#problem(`cannot show a frame: ${(error as Error).name}`);
    }
  }

  #problem(problem: string): void {
    const { connection, onProblem } = this.#options;
    onProblem(`connection ${connection}: ${problem}`);
  }

  /**
   * Runs `action` after the delay, unless the relay is closed or silent before. Returns a function that cancels the
   * timer.
   */
  #later(delayMs: number, action: () => void): () => void {
    const cancel = after(delayMs, () => {
      this.#cancelTimers.delete(stop);
      action();
    });
    const stop = (): void => {
      this.#cancelTimers.delete(stop);
      cancel();
    };
    this.#cancelTimers.add(stop);
    return stop;
  }

  /** Refuses a request of the client. Sends the answer, if there is one, and closes the connection. */
  #refuse(reason: string, answer: Uint8Array | undefined): void {
    this.#problem(refusedBecause(reason));
    if (answer === undefined) return this.close();
    this.#silence();
    this.#options.client.end(answer);
    this.#later(REFUSAL_MS, () => this.close());
  }

  #http2(): readonly [Direction, Direction] {
    const { client, server, gate } = this.#options;
    const streams: StreamMethods = new Map();
    let refusal: string | undefined;
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
      ...this.#ends,
    });
    const requests = new Http2Requests(this.#faults, streams, {
      forward: (bytes) => toServer.add(bytes),
      toServer: (bytes) => toServer.addNew(bytes),
      toClient: (bytes) => toClient.addNew(bytes),
    });
    const decoder = (onFrame: (frame: DecodedFrame) => void): FrameDecoder =>
      new FrameDecoder('client', streams, onFrame, (streamId, fields) => {
        // A browser speaks HTTP/2 only with TLS, so it has compared the host with the certificate of the proxy.
        refusal = gate(fields.filter(([name]) => name !== 'host'));
        requests.opened(streamId, fields);
      });
    const toServer: FrameDirection = new FrameDirection(server, decoder, {
      report: (frame) => this.#report('sent', frame),
      decide: (frame, bytes) => {
        if (refusal === undefined) return requests.decide(frame, bytes);
        this.#problem(refusedBecause(refusal));
        return 'cut';
      },
      ...this.#ends,
    });
    return [toServer, toClient];
  }

  #http1(): readonly [Direction, Direction] {
    const { client, server, gate, headTimeoutMs } = this.#options;
    const relay = new Http1Relay({
      ...this.#faults,
      gate,
      headTimeoutMs,
      report: (direction, frame) => this.#report(direction, frame),
      write: { toServer: (bytes) => server.write(bytes), toClient: (bytes) => client.write(bytes) },
      ends: { ...this.#ends, refuse: (reason, answer) => this.#refuse(reason, answer) },
    });
    this.#endDecoders = () => relay.end();
    return [relay.toServer, relay.toClient];
  }

  #connect(from: Duplex, to: Duplex, direction: Direction): void {
    from.on('data', (bytes: Uint8Array) => {
      if (this.#isSilent || this.#isClosed) return;
      try {
        if (!direction.push(bytes)) {
          from.pause();
          to.once('drain', () => from.resume());
        }
      } catch (error) {
        // A defect of the proxy ends this connection, and not the connections of other clients.
        this.#problem(`closed, because the proxy has failed: ${(error as Error).name}`);
        this.close();
      }
      this.#options.traffic.pieceEnded?.();
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

function refusedBecause(reason: string): string {
  return `refused a request, because ${reason}`;
}
