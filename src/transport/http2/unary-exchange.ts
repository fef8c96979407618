import { amended, canceled, clientClosed, type EtcdError, type Outcome, timedOut } from '../../errors/etcd-error.js';
import { onAbort } from '../../runtime/signals.js';
import { monotonicMs } from '../../runtime/timers.js';
import { decodeAnswer } from '../messages.js';
import type { UnaryCall } from '../transport.js';
import { type Exchange, type ExchangeOwner, MAX_MOVES } from './exchange.js';
import { badAnswer } from './response-status.js';
import { Http2Stream, type StreamReceiver } from './stream.js';

/** One unary call, from its request to its answer. It moves to another connection where the first did nothing for it. */
export class UnaryExchange<Request, Response> implements StreamReceiver, Exchange {
  slot = -1;
  readonly #call: UnaryCall<Request, Response>;
  readonly #request: Uint8Array;
  readonly #owner: ExchangeOwner;
  readonly #resolve: (response: Response) => void;
  readonly #reject: (error: EtcdError) => void;
  #stream: Http2Stream | undefined;
  #offAbort: (() => void) | undefined;
  #response: Response | undefined;
  #over = false;
  #moves = 0;

  constructor(
    call: UnaryCall<Request, Response>,
    request: Uint8Array,
    owner: ExchangeOwner,
    resolve: (response: Response) => void,
    reject: (error: EtcdError) => void,
  ) {
    this.#call = call;
    this.#request = request;
    this.#owner = owner;
    this.#resolve = resolve;
    this.#reject = reject;
    const { signal } = call;
    if (signal !== undefined) this.#offAbort = onAbort(signal, () => this.abort());
  }

  get deadline(): number {
    return this.#call.deadline;
  }

  beginStream(): Http2Stream | undefined {
    if (this.#over) return undefined;
    const { method, metadata, deadline } = this.#call;
    const { endpoint, maxReceiveBytes } = this.#owner;
    this.#stream = new Http2Stream(
      { method: method.path, endpoint, metadata, deadline, maxReceiveBytes, oneAnswer: true },
      this,
    );
    return this.#stream;
  }

  begun(): void {
    this.#stream?.send(this.#request, true);
  }

  notConnected(error: EtcdError): void {
    this.#fail(amended(error, { method: this.#call.method.path }));
  }

  // ——— what ends it from this side ———

  expire(): void {
    this.#stream?.expired();
    this.#cancel(timedOut('call', this.#call.timeoutMs, this.#outcome(), this.#call.method.path));
  }

  abort(): void {
    this.#cancel(canceled(this.#call.signal as AbortSignal, this.#outcome(), this.#call.method.path));
  }

  close(): void {
    this.#cancel(clientClosed(this.#outcome(), this.#call.method.path));
  }

  #outcome(): Outcome {
    return this.#stream?.opened ? 'unknown' : 'not-sent';
  }

  #cancel(error: EtcdError): void {
    this.#fail(error);
    this.#stream?.cancel();
  }

  // ——— what its stream tells ———

  mayOpen(now: number): boolean {
    if (this.#call.signal?.aborted) this.abort();
    else if (now >= this.deadline) this.expire();
    return !this.#over;
  }

  sent(): void {
    this.#call.onSent?.();
  }

  message(bytes: Uint8Array, start: number, end: number): void {
    const { method } = this.#call;
    if (this.#response !== undefined) {
      return this.#stream?.fail(this.#badAnswer('a second message in answer to a unary call'));
    }
    try {
      this.#response = decodeAnswer(method, this.#owner.endpoint, bytes, start, end);
    } catch (malformed) {
      this.#stream?.fail(malformed as EtcdError);
    }
  }

  end(error: EtcdError | undefined): void {
    // The server has heard of the time limit too, and may be the first to act on it.
    const late = error?.code === 'Canceled' || error?.code === 'DeadlineExceeded';
    if (late && error.outcome === 'unknown' && monotonicMs() >= this.deadline) this.expire();
    else if (error !== undefined) this.#fail(error);
    else if (this.#response === undefined) this.#fail(this.#badAnswer('status OK without a message'));
    else if (this.#finish()) this.#resolve(this.#response);
  }

  unprocessed(error: EtcdError): void {
    if (this.#over) return;
    this.#moves += 1;
    if (this.#moves > MAX_MOVES) return this.#fail(error);
    this.#stream = undefined;
    this.#owner.start(this);
  }

  #badAnswer(problem: string): EtcdError {
    return badAnswer(problem, 'MalformedMessage', { method: this.#call.method.path, endpoint: this.#owner.endpoint });
  }

  #fail(error: EtcdError): void {
    if (this.#finish()) this.#reject(error);
  }

  #finish(): boolean {
    if (this.#over) return false;
    this.#over = true;
    this.#offAbort?.();
    this.#owner.ended(this);
    return true;
  }
}
