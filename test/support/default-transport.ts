import { inject } from 'vitest';
import { gateway } from '../../src/gateway.js';
import { grpcJs } from '../../src/transport/grpc-js/transport.js';
import type { TransportFactory } from '../../src/transport/transport.js';

let chosen: TransportFactory | undefined;

/**
 * Replaces src/transport/default-transport.ts in the Vitest projects that run the tests with another transport. Chooses
 * the transport at the first call, because a global setup, which imports this file, cannot call `inject`.
 */
export const defaultTransport: TransportFactory = (endpoint, options) => {
  chosen ??= inject('transport') === 'gateway' ? gateway() : grpcJs();
  return chosen(endpoint, options);
};
