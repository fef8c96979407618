import { checkFunction, checkGivenOptions, describeType, invalidInput, readError, show } from '../../base/index.js';
import {
  type ByteStream,
  type CallerStream,
  type DuplexStream,
  type Endpoint,
  isWebStreams,
  type OpenByteStream,
} from '../../host/index.js';
import { openByteStream, overCallerStream } from '../../host/node.js';
import type { TransportFactory } from '../transport.js';
import { MAX_WINDOW_BYTES } from './frame.js';
import { http2Over } from './http2-transport.js';

/** Options of `http2`. */
export interface Http2Options {
  /**
   * Opens a connection to an endpoint, and returns it as a `Duplex` stream of Node.js (a socket, a channel of an SSH
   * connection) or as a pair of web streams (`{ readable, writable }`). Each call must return a new stream, which
   * then belongs to the client. For an `https:` endpoint, the client does TLS on top of the stream, with the option
   * `tls`.
   *
   * `signal` aborts if the client gives up before the function has returned a stream, for example because
   * `connectTimeoutMs` has passed. If the function throws an error, or if the stream fails with an error, the client
   * treats the endpoint as failed. The client's error then has that error as its `cause` and contains its message.
   * Therefore the message must not contain a secret.
   */
  readonly connect?:
    | ((endpoint: Endpoint, options: { readonly signal: AbortSignal }) => CallerStream | Promise<CallerStream>)
    | undefined;
  /**
   * How many bytes of one call or stream a member may send before the client has taken them: HTTP/2's receive window of
   * a stream. From 1,024 to 2,147,483,647. Default: 4 MiB. With a small window, a slow consumer holds less memory, and
   * large answers need more round trips.
   */
  readonly windowBytes?: number | undefined;
}

const HTTP2_OPTIONS = {
  connect: checkFunction,
  windowBytes: checkWindow,
} as const;

function checkWindow(value: number, argument: string): void {
  if (Number.isSafeInteger(value) && value >= 1_024 && value <= MAX_WINDOW_BYTES) return;
  throw invalidInput(argument, show(value), `a whole number from 1024 to ${MAX_WINDOW_BYTES}`);
}

/**
 * Creates the default transport, HTTP/2, with options. With `connect`, it runs over connections that the caller opens:
 * through an HTTP or SOCKS proxy, an SSH tunnel or a service mesh, or to a server in the same process. By default, the
 * client itself opens TCP connections and Unix sockets.
 *
 * On workerd and in browsers, `connect` must return web streams, and an `https:` endpoint fails with reason
 * `ConnectFailed`, because the client cannot do TLS there.
 *
 * @throws EtcdError with reason `InvalidInput` if an option is unknown or invalid.
 *
 * @example
 * import { connect } from 'node:net';
 *
 * // A port of this machine that `ssh -L` forwards to the member.
 * const transport = http2({ connect: () => connect(2379, '127.0.0.1') });
 * const etcd = new Client({ endpoints: ['http://etcd.internal:2379'], transport });
 */
export function http2(options: Http2Options): TransportFactory {
  checkGivenOptions(options, HTTP2_OPTIONS, 'http2');
  const { connect, windowBytes } = options;
  return http2Over(connect === undefined ? openByteStream : overCaller(connect), { windowBytes });
}

function overCaller(connect: NonNullable<Http2Options['connect']>): OpenByteStream {
  /** The streams that `connect` has returned. If two connections used one stream, their bytes would mix. */
  const used = new WeakSet<CallerStream>();
  return (endpoint, tls, events) => {
    const gaveUp = new AbortController();
    let bytes: ByteStream | undefined;
    let closed = false;
    const dial = async (): Promise<void> => {
      const stream = await connect(endpoint, { signal: gaveUp.signal });
      checkStream(stream);
      if (used.has(stream))
        throw new Error('connect returned the same stream twice; allowed: a new stream for each call');
      used.add(stream);
      if (closed) return discard(stream);
      try {
        bytes = overCallerStream(stream, endpoint, tls, events);
      } catch (error) {
        discard(stream);
        throw error;
      }
    };
    dial().catch((error: unknown) => {
      const reason = readError(error)?.message ?? `connect threw ${describeType(error)}`;
      if (!closed) events.closed(reason, error);
    });
    return {
      write: (parts) => bytes?.write(parts),
      keepProcessAlive: (busy) => bytes?.keepProcessAlive(busy),
      close() {
        if (closed) return;
        closed = true;
        if (bytes === undefined) gaveUp.abort();
        else bytes.close();
      },
    };
  };
}

/** @throws EtcdError with reason `InvalidInput` if the value is neither a `Duplex` nor a pair of web streams. */
function checkStream(stream: CallerStream | undefined): asserts stream is CallerStream {
  const { on, write, destroy } = (stream ?? {}) as Partial<DuplexStream>;
  if (typeof on === 'function' && typeof write === 'function' && typeof destroy === 'function') return;
  if (stream && isWebStreams(stream) && typeof stream.writable?.getWriter === 'function') return;
  throw invalidInput(
    'the result of connect',
    show(stream),
    'a Duplex stream of Node.js, or { readable, writable } of web streams',
  );
}

/** Closes a stream that the caller has opened, but that the client does not use. */
function discard(stream: CallerStream): void {
  if (!isWebStreams(stream)) {
    stream.on('error', () => {});
    stream.destroy();
    return;
  }
  // The promises reject if the stream is locked or has failed. The client ignores this, because it cannot close such a
  // stream.
  stream.readable.cancel().catch(() => {});
  stream.writable.abort().catch(() => {});
}
