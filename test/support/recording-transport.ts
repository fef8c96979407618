import { defaultTransport } from '../../src/wire/default-transport.js';
import type { TransportFactory } from '../../src/wire/transport.js';
import { forwardStream } from '../../src/wire/transport.js';

export interface Recording {
  readonly transport: TransportFactory;
  /** The path and the message of every unary request and of every message on a stream, in order. */
  readonly sent: { readonly path: string; readonly request: unknown }[];
}

/** Returns the default transport, wrapped so that it also records everything that the client sends. */
export function recordingTransport(): Recording {
  const sent: Recording['sent'] = [];
  const transport: TransportFactory = (endpoint, options) => {
    const real = defaultTransport(endpoint, options);
    return {
      unary: (call) => {
        sent.push({ path: call.method.path, request: call.request });
        return real.unary(call);
      },
      stream: (call, handler) => {
        const stream = real.stream(call, handler) as ReturnType<typeof real.stream>;
        return forwardStream(stream, {
          send: (message) => {
            sent.push({ path: call.method.path, request: message });
            stream.send(message as never);
          },
        });
      },
      close: () => real.close(),
    };
  };
  return { transport, sent };
}
