import { AsyncQueue } from './async-queue.js';
import type { CallOptions, Rpc } from './channel/rpc.js';
import { canceled } from './errors.js';
import { methods } from './gen/methods.js';
import { onAbort } from './on-abort.js';
import type { Init } from './protobuf/codec.js';
import type { Method } from './protobuf/method.js';

/** Messages read ahead of the consumer of a stream before the server is made to wait. */
const READ_AHEAD = 16;

/** Both directions of a bidirectional stream. Breaking out of the iteration cancels it. */
export interface BidiStream<Request, Response> extends AsyncIterableIterator<Response> {
  send(message: Init<Request>): void;
  /** Half-close. */
  end(): void;
  cancel(): void;
}

type Stub<M> =
  M extends Method<infer Request, infer Response, infer Kind>
    ? Kind extends 'unary'
      ? (request: Init<Request>, options?: CallOptions) => Promise<Response>
      : Kind extends 'server-streaming'
        ? (request: Init<Request>, options?: Pick<CallOptions, 'signal'>) => AsyncIterableIterator<Response>
        : (options?: Pick<CallOptions, 'signal'>) => BidiStream<Request, Response>
    : never;

/** One typed function for each RPC of each service: messages in, messages out, as they stand on the wire. */
export type Raw = {
  readonly [Service in keyof typeof methods]: {
    readonly [Name in keyof (typeof methods)[Service]]: Stub<(typeof methods)[Service][Name]>;
  };
};

export function rawStubs(rpc: Rpc): Raw {
  const services = Object.entries(methods).map(([service, table]) => {
    const stubs = Object.entries(table as Record<string, Method<unknown, unknown>>).map(([name, method]) => [
      name,
      stub(rpc, method),
    ]);
    return [service, Object.fromEntries(stubs)];
  });
  return Object.fromEntries(services) as Raw;
}

function stub(rpc: Rpc, method: Method<unknown, unknown>): unknown {
  switch (method.kind) {
    case 'unary':
      return async (request: Init<unknown>, options?: CallOptions) =>
        rpc.call(method as Method<unknown, unknown, 'unary'>, request, options);
    case 'server-streaming':
      return (request: Init<unknown>, options?: Pick<CallOptions, 'signal'>) => {
        const stream = openStream(rpc, method, options);
        stream.send(request);
        stream.end();
        return stream;
      };
    case 'bidi-streaming':
      return (options?: Pick<CallOptions, 'signal'>) => openStream(rpc, method, options);
  }
}

function openStream<Request, Response>(
  rpc: Rpc,
  method: Method<Request, Response>,
  { signal }: Pick<CallOptions, 'signal'> = {},
): BidiStream<Request, Response> {
  const messages = new AsyncQueue<Response>(() => {
    if (messages.size < READ_AHEAD) stream.resume();
  });
  let offAbort = (): void => {};
  const finish = (error?: unknown): void => {
    offAbort();
    messages.end(error);
  };
  const stream = rpc.stream(method, {
    message: (message) => {
      messages.push(message);
      if (messages.size >= READ_AHEAD) stream.pause();
    },
    end: finish,
  });
  const cancel = (error?: unknown): void => {
    stream.cancel();
    finish(error);
    messages.discard();
  };
  const abort = (): void => cancel(canceled(signal as AbortSignal, 'unknown', method.path));
  if (signal !== undefined) offAbort = onAbort(signal, abort);
  if (signal?.aborted) abort();
  const result: BidiStream<Request, Response> = {
    send: (message) => stream.send(message),
    end: () => stream.end(),
    cancel: () => cancel(),
    next: () => messages.next(),
    return: async () => {
      cancel();
      return { done: true, value: undefined };
    },
    [Symbol.asyncIterator]: () => result,
  };
  return result;
}
