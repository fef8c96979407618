import { concatBytes, NO_BYTES } from '../../../../src/internal.js';
import {
  ByteQueue,
  type DecodedFrame,
  Http1Decoder,
  Http1Requests,
  messagesIn,
  type WireFrame,
} from '../inspect/index.js';
import type { Fault } from './fault-rules.js';
import type { Direction, Ends } from './frame-direction.js';
import { type FaultContext, REFUSAL, UNAVAILABLE } from './http2-requests.js';
import type { RequestGate } from './request-gate.js';

interface Http1RelayOptions extends FaultContext {
  readonly gate: RequestGate;
  readonly headTimeoutMs: number;
  readonly report: (direction: WireFrame['direction'], frame: DecodedFrame) => void;
  /** Writes bytes. Each method returns false if the receiver is too slow. */
  readonly write: {
    readonly toServer: (bytes: Uint8Array) => boolean;
    readonly toClient: (bytes: Uint8Array) => boolean;
  };
  readonly ends: Ends & { readonly refuse: (reason: string, answer: Uint8Array | undefined) => void };
}

/** The longest incomplete request that the relay holds. The decoder reads no message of this length. */
const MAX_HELD_BYTES = 2 ** 27;

/**
 * Forwards the bytes of an HTTP/1.1 connection. The relay forwards a request after it has read the whole head, and if
 * there are faults, after it has read the whole request, because only the whole request shows all keys.
 */
export class Http1Relay {
  readonly toServer: Direction = { push: (bytes) => this.#fromClient(bytes) };
  readonly toClient: Direction = { push: (bytes) => this.#fromServer(bytes) };
  readonly #options: Http1RelayOptions;
  readonly #open = new Http1Requests();
  readonly #requests: Http1Decoder;
  readonly #responses: Http1Decoder;
  /** Bytes of a request that is not complete. */
  readonly #held = new ByteQueue();
  /** Bytes that follow a delayed request. Undefined if no request is delayed. */
  #delayed: Uint8Array[] | undefined;
  #fault: Fault | undefined;
  #refusal: string | undefined;
  /** Whether the relay loses the answer. */
  #isLost = false;
  /** Whether a fault or a refusal has ended the connection. */
  #isOver = false;
  #hasRoom = true;
  #stopTimer: (() => void) | undefined;

  constructor(options: Http1RelayOptions) {
    this.#options = options;
    const { report, gate } = options;
    this.#requests = new Http1Decoder('client', this.#open, {
      frame: (frame) => {
        report('sent', frame);
        this.#chooseFault(frame);
      },
      refuses: (fields) => {
        this.#refusal = gate(fields);
        return this.#refusal !== undefined;
      },
      passed: (bytes, isWhole) => this.#pass(bytes, isWhole),
    });
    this.#responses = new Http1Decoder('server', this.#open, { frame: (frame) => report('received', frame) });
  }

  /** Reports what is incomplete when the connection ends. */
  end(): void {
    this.#requests.end();
    this.#responses.end();
  }

  #fromClient(bytes: Uint8Array): boolean {
    this.#hasRoom = true;
    this.#requests.push(bytes);
    if (this.#refusal !== undefined && !this.#isOver) this.#refuse(this.#refusal);
    if (!this.#requests.isInHead || this.#isOver) this.#stopTimer = void this.#stopTimer?.();
    else
      this.#stopTimer ??= this.#options.later(this.#options.headTimeoutMs, () => {
        this.#options.ends.problem('closed, because the head of a request has not arrived in time');
        this.#options.ends.cut();
      });
    return this.#hasRoom;
  }

  #fromServer(bytes: Uint8Array): boolean {
    if (this.#isLost) this.#options.ends.cut();
    else this.#responses.push(bytes);
    return this.#isLost || this.#options.write.toClient(bytes);
  }

  #chooseFault(frame: DecodedFrame): void {
    const method = this.#open.open.at(-1)?.method;
    if (frame.detail.kind !== 'http1' || method === undefined) return;
    const [message] = messagesIn(frame);
    // A fault without a prefix also concerns a request that the proxy cannot decode.
    if (message === undefined && (frame.undecoded === undefined || !frame.detail.isEnd)) return;
    this.#fault ??= this.#options.rules.take(method, message?.bytes ?? NO_BYTES);
  }

  #pass(bytes: Uint8Array, isWhole: boolean): void {
    if (this.#isOver) return;
    this.#held.add(bytes);
    const { rules, ends, later, write, sendCopy } = this.#options;
    const mayMeetFault = !rules.isEmpty && this.#fault === undefined && !isWhole;
    if (mayMeetFault && this.#held.length <= MAX_HELD_BYTES) return;
    const all = this.#held.take();
    const fault = this.#fault;
    this.#fault = undefined;
    switch (fault?.kind) {
      case 'cut':
        this.#isOver = true;
        return ends.cut();
      case 'silent':
        this.#isOver = true;
        return ends.silence();
      case 'refuse': {
        const body = JSON.stringify({ code: Number(UNAVAILABLE), message: REFUSAL, details: [] });
        const refusal = answerOf('503 Service Unavailable', 'application/json', body);
        this.#responses.push(refusal);
        write.toClient(refusal);
        return;
      }
      case 'delay':
        if (this.#delayed === undefined)
          later(fault.delayMs, () => {
            for (const each of this.#delayed ?? []) write.toServer(each);
            this.#delayed = undefined;
          });
        this.#delayed ??= [];
        break;
      case 'drop-answer':
        this.#isLost = true;
        break;
      case 'duplicate':
        sendCopy({ delayMs: fault.delayMs, request: all });
        break;
    }
    if (this.#delayed === undefined) this.#hasRoom = write.toServer(all) && this.#hasRoom;
    else this.#delayed.push(all);
  }

  #refuse(reason: string): void {
    this.#isOver = true;
    const text = `etcdwire proxy: the request is refused, because ${reason}\n`;
    const answer = answerOf('403 Forbidden', 'text/plain; charset=utf-8', text, 'Connection: close\r\n');
    // Answers to earlier requests come first, and the proxy does not have them yet.
    const isNext = this.#open.open.length === 1;
    if (isNext) this.#responses.push(answer);
    this.#options.ends.refuse(reason, isNext ? answer : undefined);
  }
}

function answerOf(status: string, type: string, body: string, fields = ''): Uint8Array {
  const bytes = new TextEncoder().encode(body);
  const head = `HTTP/1.1 ${status}\r\nContent-Type: ${type}\r\n${fields}Content-Length: ${bytes.length}\r\n\r\n`;
  return concatBytes(new TextEncoder().encode(head), bytes);
}
