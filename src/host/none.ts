import { failedByteStream, type OpenByteStream } from './host.js';

export { noBootClock as bootMs, noContext as asyncContext, silentChannel as diagnosticsChannel } from './host.js';
export { createSha256 } from './sha256.js';
export { overWebStreams as overCallerStream } from './web-streams.js';

/**
 * The implementation for runtimes whose sockets the client does not know: browsers, QuickJS and others. It imports
 * nothing of the runtime. Every connection fails with an error that says which transports work.
 */
export const openByteStream: OpenByteStream = (_, __, events) =>
  failedByteStream(
    'this bundle has no code for sockets; bundle with the condition node or workerd, or use transport: gateway() of etcdwire/gateway, or http2({ connect })',
    events,
  );
