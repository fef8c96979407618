import { failedByteStream, type OpenByteStream } from './host.js';

export { silentChannel as diagnosticsChannel } from './host.js';
export { createSha256 } from './sha256.js';

/** The byte streams of hosts without sockets, such as browsers. Every connection fails, and the error names the gateway. */
export const openByteStream: OpenByteStream = (_, __, events) =>
  failedByteStream('this host has no sockets; use transport: gateway() of etcdwire/gateway', events);
