import { gateway } from '../../src/transport/gateway/index.js';
import type { TransportFactory } from '../../src/transport/transport.js';

export const defaultTransport: TransportFactory = gateway();
