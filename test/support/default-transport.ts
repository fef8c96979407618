import { inject } from 'vitest';
import { gateway } from '../../src/transport/gateway/index.js';
import { grpcJs } from '../../src/transport/grpc-js/transport.js';
import type { TransportFactory } from '../../src/transport/transport.js';

/** Replaces src/transport/default-transport.ts in the Vitest projects that run the tests with another transport. */
export const defaultTransport: TransportFactory = inject('transport') === 'gateway' ? gateway() : grpcJs();
