import { openByteStream } from '../host/node.js';
import { http2 } from './http2/transport.js';
import type { TransportFactory } from './transport.js';

/**
 * The transport of a client whose options contain no transport. In the built package, the import `#host` of
 * package.json replaces the import of `host/node.js`, so that each runtime (Node.js, workerd, browsers) loads its own
 * file.
 */
export const defaultTransport: TransportFactory = http2(openByteStream);
