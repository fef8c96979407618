import { openByteStream } from '../host/node.js';
import { http2 } from './http2/transport.js';
import type { TransportFactory } from './transport.js';

/**
 * What carries the calls where nobody says otherwise. In the package the host is `#host` of package.json, another file for
 * each kind of host.
 */
export const defaultTransport: TransportFactory = http2(openByteStream);
