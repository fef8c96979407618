/**
 * A transport over etcd's JSON gateway, for hosts without sockets.
 *
 * @module etcdwire/gateway
 */
import { checkPositive } from '../arguments.js';
import { invalidInput } from '../errors.js';
import type { TransportFactory } from '../transport/transport-options.js';
import { type Fetch, GatewayHttp } from './http.js';
import { GatewayTransport } from './transport.js';

export type { Fetch };

/** Of the gateway. */
export interface GatewayOptions {
  /** How requests are made. Default: the host's `fetch`. One of one's own may bring certificates or a proxy. */
  readonly fetch?: Fetch | undefined;
  /**
   * Whether other headers may be sent than etcd's `--cors` allows: `hasleader` is one, by which a watch leaves a member
   * that has lost its leader. Default: everywhere but in browsers.
   */
  readonly allHeaders?: boolean | undefined;
  /**
   * Milliseconds after which a watch that has said nothing is opened anew, from where it was: over `fetch` nothing else
   * tells that its connection is dead. Default 60,000.
   */
  readonly silenceMs?: number | undefined;
}

/**
 * Carries calls over etcd's JSON gateway, by `fetch` alone, for hosts without sockets. Unary calls, watches and
 * keepalives work as elsewhere, but that each watch takes a connection of its own, of which browsers have six for one host;
 * what the gateway has not is refused with reason `NotInGateway`. TLS is the host's: `tls` of the client is refused. A
 * browser asks etcd by CORS first: `etcd --cors`.
 */
export function gateway({
  fetch,
  allHeaders = !isBrowser(),
  silenceMs = 60_000,
}: GatewayOptions = {}): TransportFactory {
  checkPositive(silenceMs, 'silenceMs', 'milliseconds');
  return (endpoint, { tls, maxRequestBytes, maxReceiveBytes }) => {
    if (!('host' in endpoint.address))
      throw invalidInput('endpoints', 'a Unix socket', 'http: and https: for the gateway');
    if (tls !== undefined) throw invalidInput('tls', 'some', 'none for the gateway: fetch trusts whom the host trusts');
    const options = {
      fetch: fetch ?? ((url: string, init: RequestInit) => globalThis.fetch(url, init)),
      maxRequestBytes,
      allHeaders,
    };
    return new GatewayTransport(new GatewayHttp(endpoint.url, options), { maxReceiveBytes, silenceMs });
  };
}

/** Workers of servers have the globals of a browser's, but say who they are. */
function isBrowser(): boolean {
  const { navigator } = globalThis as { readonly navigator?: { readonly userAgent?: string } };
  return navigator?.userAgent?.startsWith('Mozilla/') ?? false;
}
