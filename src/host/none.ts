import { failedByteStream, type OpenByteStream } from './host.js';

export { noBootClock as bootMs, noContext as asyncContext, silentChannel as diagnosticsChannel } from './host.js';
export { createSha256 } from './sha256.js';
export { overWebStreams as overCallerStream } from './web-streams.js';

/**
 * The implementation for runtimes without sockets, such as browsers. Every connection fails with an error that tells
 * the user to use the gateway transport.
 */
export const openByteStream: OpenByteStream = (_, __, events) =>
  failedByteStream('this runtime has no sockets; use transport: gateway() of etcdwire/gateway', events);
