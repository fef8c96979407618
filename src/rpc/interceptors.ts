import { checkList, describeType, invalidInput } from '../base/index.js';
import type { OutgoingStream, StreamCall, StreamHandler, Transport, UnaryCall } from '../wire/index.js';

/**
 * Wraps the calls of a client. An interceptor may inspect, change, repeat or answer a call, and may inspect or change
 * the result. An interceptor sees secrets: the token in the metadata, and the passwords in `Authenticate` calls and in
 * calls that add users or change passwords.
 *
 * An interceptor sees each call once, no matter how many attempts the client makes. If the client repeats the whole
 * call, the interceptor sees another call: for example with a new token, for `orderedReads`, or while a lock waits for
 * a server.
 *
 * @example
 * const timing: Interceptor = {
 *   async unary(call, next) {
 *     const startedAt = performance.now();
 *     try {
 *       return await next(call);
 *     } finally {
 *       console.log(call.method.path, performance.now() - startedAt);
 *     }
 *   },
 * };
 * const etcd = new Client({ endpoints: ['http://127.0.0.1:2379'], interceptors: [timing] });
 */
export interface Interceptor {
  /**
   * Handles every unary call, including the calls that locks make. The caller receives this method's result or error.
   */
  unary?<Request, Response>(
    call: UnaryCall<Request, Response>,
    next: (call: UnaryCall<Request, Response>) => Promise<Response>,
  ): Promise<Response>;
  /** Handles every stream that the client opens. `handler` receives the messages and the end, and must not throw. */
  stream?<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
    next: (call: StreamCall<Request, Response>, handler: StreamHandler<Response>) => OutgoingStream<Request>,
  ): OutgoingStream<Request>;
}

/** Returns a transport that passes each call through the interceptors. The first interceptor is the outermost. */
export function withInterceptors(transport: Transport, interceptors: readonly Interceptor[]): Transport {
  return interceptors.reduceRight<Transport>(withInterceptor, transport);
}

function withInterceptor(inner: Transport, interceptor: Interceptor): Transport {
  return {
    unary: async (call) => {
      if (interceptor.unary === undefined) return inner.unary(call);
      return interceptor.unary(call, (given) => inner.unary(given));
    },
    stream: (call, handler) => {
      if (interceptor.stream === undefined) return inner.stream(call, handler);
      return interceptor.stream(call, handler, (given, receiver) => inner.stream(given, receiver));
    },
    close: () => inner.close(),
  };
}

/**
 * Checks the interceptors and returns a copy of the list.
 *
 * @throws EtcdError with reason `InvalidInput` if `interceptors` is not a list, or if an element has neither a method
 * `unary` nor a method `stream`.
 */
export function checkInterceptors(interceptors: readonly Interceptor[] = []): readonly Interceptor[] {
  const list = checkList(interceptors, 'interceptors', 'a list of interceptors');
  for (const [index, each] of list.entries()) {
    if (typeof each?.unary !== 'function' && typeof each?.stream !== 'function')
      throw invalidInput(`interceptors[${index}]`, describeType(each), 'an object with a method unary or stream');
  }
  return list;
}
