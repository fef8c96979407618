import { inject } from 'vitest';
import { gateway } from '../../src/gateway.js';
import { grpcJs } from '../../src/grpc-js.js';
import { chooseTransport } from './default-transport.js';

// A setup file of the Vitest projects that run the tests with another transport than the default one.

chooseTransport(inject('transport') === 'gateway' ? gateway() : grpcJs());
