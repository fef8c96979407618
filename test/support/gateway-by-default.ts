import { gateway } from '../../src/gateway/index.js';
import type { TransportFactory } from '../../src/transport/transport-options.js';

export const defaultTransport: TransportFactory = gateway();
