import { after } from '../runtime/timers.js';
import type { OutgoingStream, StreamCall, StreamHandler, Transport, UnaryCall } from '../transport/transport.js';

/** A transport that has its endpoints looked up every so often: when the first call is made, and after each interval. */
export class AutoSync implements Transport {
  readonly #inner: Transport;
  readonly #sync: () => Promise<unknown>;
  readonly #intervalMs: number;
  #begun = false;
  #closed = false;
  #stopTimer: () => void = () => {};

  /** What `sync` rejects with is nobody's concern: the next one may do better. */
  constructor(inner: Transport, sync: () => Promise<unknown>, intervalMs: number) {
    this.#inner = inner;
    this.#sync = sync;
    this.#intervalMs = intervalMs;
  }

  unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    this.#begin();
    return this.#inner.unary(call);
  }

  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request> {
    this.#begin();
    return this.#inner.stream(call, handler);
  }

  close(): Promise<void> {
    this.#closed = true;
    this.#stopTimer();
    return this.#inner.close();
  }

  #begin(): void {
    if (this.#begun || this.#closed) return;
    this.#begun = true;
    void this.#look();
  }

  async #look(): Promise<void> {
    await this.#sync().catch(() => {});
    if (!this.#closed) this.#stopTimer = after(this.#intervalMs, () => void this.#look(), 'background');
  }
}
