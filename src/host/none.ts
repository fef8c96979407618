import { type AsyncContext, failedByteStream, type OpenByteStream } from './host.js';

// The implementation for runtimes that the client does not know: browsers, QuickJS and others. It imports nothing of the
// runtime. Each function does what the rest of the client needs if the runtime lacks a feature of Node.js.

export { createSha256 } from './sha256.js';
export { overWebStreams as overCallerStream } from './web-streams.js';

/** Every connection fails with an error that says which transports work. */
export const openByteStream: OpenByteStream = (_, __, events) =>
  failedByteStream(
    'this bundle has no code for sockets; bundle with the condition node or workerd, or use transport: gateway() of etcdwire/gateway, or http2({ connect })',
    events,
  );

/**
 * Returns a channel without subscribers, because there is no `node:diagnostics_channel`. `publish` of a channel does not
 * throw even if a subscriber throws.
 */
export function diagnosticsChannel(): { readonly hasSubscribers: boolean; publish(message: unknown): void } {
  return { hasSubscribers: false, publish: () => {} };
}

/** Returns a context that never has a value, because there is no `AsyncLocalStorage`. */
export function asyncContext(): AsyncContext<never> {
  return { run: (_, action) => action(), getStore: () => undefined };
}

/** Returns undefined, because there is no boot clock that the client can use. */
export function bootMs(): number | undefined {
  return undefined;
}
