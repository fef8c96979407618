import { amended, clientClosed, type EtcdError } from '../../errors/etcd-error.js';
import type { Init } from '../../protobuf/codec.js';
import type { Method } from '../../protobuf/schema.js';
import { decodeAnswer, encodeRequest } from '../messages.js';
import type { Metadata, OutgoingStream, StreamHandler } from '../transport.js';
import { type Exchange, type ExchangeOwner, MAX_MOVES } from './exchange.js';
import { Http2Stream, type StreamReceiver } from './stream.js';

/** One call with a stream of messages on either side. */
export class MessageExchange<Request, Response> implements OutgoingStream<Request>, Exchange {
  slot = -1;
  /** Streams have no time limit: who reads them may set one. */
  readonly deadline = Number.POSITIVE_INFINITY;
  readonly #method: Method<Request, Response>;
  readonly #maxRequestBytes: number;
  readonly #maxReceiveBytes: number;
  readonly #owner: ExchangeOwner;
  readonly #handler: StreamHandler<Response>;
  readonly #receiver: StreamReceiver;
  /** Messages given before there was a stream. */
  #early: Uint8Array[] = [];
  #halfClosed = false;
  #paused = false;
  #isIdle = false;
  #metadata: Metadata | undefined;
  #stream: Http2Stream | undefined;
  #moves = 0;
  #over = false;

  constructor(
    method: Method<Request, Response>,
    limits: { readonly maxRequestBytes: number; readonly maxReceiveBytes: number },
    owner: ExchangeOwner,
    handler: StreamHandler<Response>,
  ) {
    this.#method = method;
    this.#maxRequestBytes = limits.maxRequestBytes;
    this.#maxReceiveBytes = limits.maxReceiveBytes;
    this.#owner = owner;
    this.#handler = handler;
    this.#receiver = {
      sent: () => {},
      message: (bytes, start, end) => this.#receive(bytes, start, end),
      end: (error) => this.#end(error),
      leaving: () => {
        if (!this.#over) this.#handler.leaving?.();
      },
      unprocessed: (error) => {
        // Where it never was opened, all that was to be sent is still there.
        this.#moves += 1;
        if (this.#stream?.opened || this.#moves > MAX_MOVES) this.#end(error);
        else if (!this.#over) this.#owner.start(this);
      },
    };
  }

  /** The metadata are known. */
  start(metadata: Metadata | undefined): void {
    if (this.#over) return;
    this.#metadata = metadata;
    this.#owner.start(this);
  }

  /** Ends it, unless it has ended. */
  fail(error: EtcdError): void {
    this.#stream?.cancel();
    this.#end(error);
  }

  // ——— what the caller wants ———

  send(message: Init<Request>): void {
    if (this.#over || this.#halfClosed) return;
    const bytes = encodeRequest(this.#method, message, this.#maxRequestBytes);
    if (this.#stream === undefined) this.#early.push(bytes);
    else this.#stream.send(bytes);
  }

  end(): void {
    this.#halfClosed = true;
    this.#stream?.end();
  }

  cancel(): void {
    if (this.#over) return;
    this.#over = true;
    this.#owner.ended(this);
    this.#stream?.cancel();
  }

  pause(): void {
    this.#paused = true;
    this.#stream?.pause();
  }

  resume(): void {
    this.#paused = false;
    this.#stream?.resume();
  }

  hold(busy: boolean): void {
    this.#isIdle = !busy;
    this.#stream?.hold(busy);
  }

  // ——— what the transport tells ———

  beginStream(): Http2Stream | undefined {
    if (this.#over) return undefined;
    const head = {
      method: this.#method.path,
      endpoint: this.#owner.endpoint,
      metadata: this.#metadata,
      deadline: Number.POSITIVE_INFINITY,
      maxReceiveBytes: this.#maxReceiveBytes,
      oneAnswer: false,
    };
    this.#stream ??= new Http2Stream(head, this.#receiver);
    return this.#stream;
  }

  begun(): void {
    const stream = this.#stream as Http2Stream;
    if (this.#paused) stream.pause();
    if (this.#isIdle) stream.hold(false);
    for (const message of this.#early.splice(0)) stream.send(message);
    if (this.#halfClosed) stream.end();
  }

  notConnected(error: EtcdError): void {
    this.#end(amended(error, { method: this.#method.path }));
  }

  expire(): void {}

  close(): void {
    this.fail(clientClosed(this.#stream?.opened ? 'unknown' : 'not-sent'));
  }

  #receive(bytes: Uint8Array, start: number, end: number): void {
    if (this.#over) return;
    let message: Response;
    try {
      message = decodeAnswer(this.#method, this.#owner.endpoint, bytes, start, end);
    } catch (malformed) {
      return this.#stream?.fail(malformed as EtcdError);
    }
    this.#handler.message(message);
  }

  #end(error: EtcdError | undefined): void {
    if (this.#over) return;
    this.#over = true;
    this.#owner.ended(this);
    this.#handler.end(error);
  }
}
