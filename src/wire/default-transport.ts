import { openByteStream } from '../host/node.js';
import { http2Over } from './http2/http2-transport.js';
import type { TransportFactory } from './transport.js';

/**
 * The transport of a client without the option `transport`. In the built package, `#host` replaces `host/node.js`.
 * `#host` is an entry of `imports` in package.json, which selects the file of src/host/ for the kind of runtime.
 */
export const defaultTransport: TransportFactory = http2Over(openByteStream);
