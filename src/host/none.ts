import type { OpenByteStream } from './host.js';

export { silentChannel as diagnosticsChannel } from './host.js';
export { createSha256 } from './sha256.js';

/** For hosts without sockets, such as browsers: every connection fails, and says what there is instead. */
export const openByteStream: OpenByteStream = (_, __, events) => {
  queueMicrotask(() => events.closed('there are no sockets here; transport: gateway() of etcdwire/gateway needs none'));
  return { write: () => true, hold: () => {}, close: () => {} };
};
