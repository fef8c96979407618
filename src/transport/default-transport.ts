import { openByteStream } from '../host/node.js';
import { http2Over } from './http2/transport.js';
import type { TransportFactory } from './transport.js';

/**
 * The transport of a client whose options contain no `transport`. In the built package, `#host` (an entry of `imports`
 * in package.json) replaces `host/node.js` in the import above, so that each runtime (Node.js, workerd, browsers) loads
 * its own file.
 */
export const defaultTransport: TransportFactory = http2Over(openByteStream);
