import type { TransportFactory } from '../../src/wire/transport.js';

// Replaces src/wire/default-transport.ts in the Vitest projects that run the tests with another transport. The file
// imports nothing, because the door of `wire` imports this file, and the other transports import that door.

let chosen: TransportFactory | undefined;

/** Sets the transport that all clients of this process use from now on, unless their options name another one. */
export function chooseTransport(transport: TransportFactory): void {
  chosen = transport;
}

export const defaultTransport: TransportFactory = (endpoint, options) => {
  if (chosen === undefined) throw new Error('test/support/choose-transport.ts has not run');
  return chosen(endpoint, options);
};
