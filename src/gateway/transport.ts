import { canceled, clientClosed, type EtcdError, type Outcome, timedOut } from '../errors.js';
import { onAbort } from '../on-abort.js';
import { after, monotonicMs } from '../time.js';
import type {
  Metadata,
  OutgoingStream,
  StreamCall,
  StreamHandler,
  Transport,
  UnaryCall,
} from '../transport/transport.js';
import type { GatewayHttp } from './http.js';
import { GatewayStream, type StreamLimits } from './stream.js';

/** Calls over the JSON gateway of one member. */
export class GatewayTransport implements Transport {
  readonly #http: GatewayHttp;
  readonly #limits: StreamLimits;
  /** How to end each call under way. */
  readonly #live = new Set<(error: EtcdError) => void>();
  #closed = false;

  constructor(http: GatewayHttp, limits: StreamLimits) {
    this.#http = http;
    this.#limits = limits;
  }

  async unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    const { method, signal, metadata = {} } = call;
    const body = this.#http.body(method, call.request);
    let outcome: Outcome = 'not-sent';
    const ended = new AbortController();
    let why: EtcdError | undefined;
    const end = (error: EtcdError): void => {
      why ??= error;
      ended.abort();
    };
    if (this.#closed) throw clientClosed('not-sent', method.path);
    if (signal?.aborted) throw canceled(signal, 'not-sent', method.path);
    const offAbort =
      signal === undefined ? () => {} : onAbort(signal, () => end(canceled(signal, outcome, method.path)));
    const stopTimer = after(call.deadline - monotonicMs(), () =>
      end(timedOut('call', call.timeoutMs, outcome, method.path)),
    );
    this.#live.add(end);
    try {
      call.onSent?.();
      outcome = 'unknown';
      const response = await this.#http.post(method, body, metadata, ended.signal);
      return await this.#http.answer(response, method, this.#limits.maxReceiveBytes);
    } catch (error) {
      throw why ?? error;
    } finally {
      offAbort();
      stopTimer();
      this.#live.delete(end);
    }
  }

  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request> {
    const metadata: Promise<Metadata> = Promise.resolve(call.metadata ?? {});
    const maxReceiveBytes = Math.min(call.maxReceiveBytes ?? Number.POSITIVE_INFINITY, this.#limits.maxReceiveBytes);
    const stream = new GatewayStream(
      this.#http,
      call.method,
      metadata,
      { ...this.#limits, maxReceiveBytes },
      {
        message: (message) => handler.message(message),
        end: (error) => {
          this.#live.delete(fail);
          handler.end(error);
        },
        canceled: () => this.#live.delete(fail),
      },
    );
    const fail = (error: EtcdError): void => stream.fail(error);
    if (this.#closed) queueMicrotask(() => fail(clientClosed('not-sent', call.method.path)));
    else this.#live.add(fail);
    return stream;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const end of [...this.#live]) end(clientClosed());
  }
}
