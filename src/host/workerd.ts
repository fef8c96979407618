import { connect } from 'cloudflare:sockets';
import { type ByteStream, type ByteStreamEvents, failedByteStream, type OpenByteStream } from './host.js';
import { webByteStream } from './web-streams.js';

export { asyncContext, bootMs, createSha256, diagnosticsChannel, overCallerStream } from './none.js';

/** Matches the error of workerd for I/O on a socket that another request has opened. */
const OTHER_REQUEST = /(on behalf of a different request).*/;

/**
 * Opens a byte stream with the TCP sockets of workerd:
 * https://developers.cloudflare.com/workers/runtime-apis/tcp-sockets/
 */
export const openByteStream: OpenByteStream = (endpoint, tls, events) => {
  const { address } = endpoint;
  if ('path' in address) return failedByteStream('workerd has no Unix sockets', events);
  if (endpoint.tls && tls !== undefined && Object.values(tls).some((value) => value !== undefined))
    return failedByteStream('workerd supports no TLS options: it trusts only the authorities of the platform', events);
  try {
    const secureTransport = endpoint.tls ? 'on' : 'off';
    const socket = connect({ hostname: address.host, port: address.port }, { secureTransport, allowHalfOpen: false });
    return overSocket(socket, events);
  } catch (error) {
    return failedByteStream((error as Error).message, events);
  }
};

function overSocket(socket: ReturnType<typeof connect>, events: ByteStreamEvents): ByteStream {
  const closed = (problem?: string, cause?: unknown): void => {
    socket.close().catch(() => {});
    events.closed(problem?.replace(OTHER_REQUEST, '$1; create a client in each request'), cause);
  };
  return webByteStream(socket, { ...events, closed });
}
