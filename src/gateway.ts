/// <reference path="./base/globals.ts" preserve="true" />

/**
 * A transport over etcd's JSON gateway, for runtimes without sockets, such as browsers.
 *
 * @module etcdwire/gateway
 */

import { type GatewayOptions, gatewayTransport } from './extras/transports/gateway/index.js';
import { retriedWrites } from './extras/writes/index.js';
import type { TransportFactory } from './wire/index.js';

export type { Fetch, GatewayOptions } from './extras/transports/gateway/index.js';

/**
 * Creates a transport that uses `fetch` to send calls to etcd's JSON gateway, for runtimes without sockets.
 *
 * - Unary calls, watches and keepalives work as over the other transports. A call that the gateway does not offer
 *   rejects with reason `NotInGateway`, and `requestProgress` of a watch throws an error with this reason.
 * - Each watch uses its own HTTP request, and over HTTP/1.1 its own connection. Browsers open at most six connections
 *   to one server.
 * - In a browser, a watch stays on a member that has lost its leader, because the browser cannot send `hasleader` (see
 *   `allHeaders`). The watch delivers no events until the member has a leader again, or until the client reopens the
 *   watch after `silenceMs`.
 * - If the runtime may resend a request, the client guards writes and refuses some calls: see `guardWrites`.
 * - The runtime handles TLS, so the client rejects the option `tls`.
 * - A browser allows the requests only if etcd permits the page's origin through CORS, so start etcd with `--cors`.
 *
 * @throws EtcdError, reason `InvalidInput`, if an option is not valid. The client throws the same error for an endpoint
 * that is a Unix socket, and for the option `tls`.
 * @example
 * import { Client } from 'etcdwire';
 * import { gateway } from 'etcdwire/gateway';
 *
 * const etcd = new Client({ endpoints: ['http://127.0.0.1:2379'], transport: gateway() });
 * await etcd.put('greeting', 'hello');
 */
export function gateway(options: GatewayOptions = {}): TransportFactory {
  return gatewayTransport(options, retriedWrites);
}
