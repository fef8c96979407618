import { invalidInput } from '../errors/etcd-error.js';
import { describeType } from '../runtime/bytes.js';
import type { OutgoingStream, StreamCall, StreamHandler, Transport, UnaryCall } from '../transport/transport.js';

/**
 * Stands around calls: it may look at them, change them, make them again or in another way, and do the same with what
 * comes of them. What it is given is what goes out: metadata with the token, and of `Authenticate` the password. The
 * choice among endpoints and the repetition of calls are within; a token that is renewed makes another call.
 */
export interface Interceptor {
  /** Every unary call, those that locks and watches make included. What it throws is what the caller gets. */
  unary?<Request, Response>(
    call: UnaryCall<Request, Response>,
    next: (call: UnaryCall<Request, Response>) => Promise<Response>,
  ): Promise<Response>;
  /** Every stream, when it is opened; the handler hears its messages and its end. It must not throw. */
  stream?<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
    next: (call: StreamCall<Request, Response>, handler: StreamHandler<Response>) => OutgoingStream<Request>,
  ): OutgoingStream<Request>;
}

/** The transport with these around it, the first of them outermost. */
export function intercepted(transport: Transport, interceptors: readonly Interceptor[]): Transport {
  return interceptors.reduceRight<Transport>((inner, interceptor) => new Intercepted(inner, interceptor), transport);
}

/** @throws EtcdError, reason `InvalidInput`. */
export function checkInterceptors(interceptors: readonly Interceptor[] = []): readonly Interceptor[] {
  if (!Array.isArray(interceptors)) throw invalidInput('interceptors', describeType(interceptors), 'a list');
  for (const [index, each] of interceptors.entries()) {
    if (typeof each?.unary !== 'function' && typeof each?.stream !== 'function')
      throw invalidInput(`interceptors[${index}]`, describeType(each), 'an object with a function unary or stream');
  }
  return [...interceptors];
}

class Intercepted implements Transport {
  readonly #inner: Transport;
  readonly #interceptor: Interceptor;

  constructor(inner: Transport, interceptor: Interceptor) {
    this.#inner = inner;
    this.#interceptor = interceptor;
  }

  async unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    if (this.#interceptor.unary === undefined) return this.#inner.unary(call);
    return this.#interceptor.unary(call, (given) => this.#inner.unary(given));
  }

  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request> {
    const next = (given: StreamCall<Request, Response>, heard: StreamHandler<Response>): OutgoingStream<Request> =>
      this.#inner.stream(given, heard);
    return this.#interceptor.stream === undefined ? next(call, handler) : this.#interceptor.stream(call, handler, next);
  }

  close(): Promise<void> {
    return this.#inner.close();
  }
}
