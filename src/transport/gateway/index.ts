/// <reference path="../../runtime/globals.ts" preserve="true" />

/**
 * A transport over etcd's JSON gateway, for runtimes without sockets, such as browsers.
 *
 * @module etcdwire/gateway
 */

import { invalidInput } from '../../errors/etcd-error.js';
import { checkBoolean, checkFunction, checkMs, checkOptions } from '../../runtime/arguments.js';
import { type BytesLike, toBytes } from '../../runtime/bytes.js';
import type { TransportFactory, TransportOptions } from '../transport.js';
import { type Fetch, GatewayHttp } from './http.js';
import { GatewayTransport } from './transport.js';
import { WriteGuards } from './write-guards.js';

export type { Fetch };

/** The server's default for `--max-txn-ops`, the maximum number of operations in a transaction. */
const DEFAULT_MAX_TXN_OPS = 128;

/** Options of the gateway transport. */
export interface GatewayOptions {
  /**
   * Function that sends the requests. Default: the runtime's `fetch`. Pass your own function to add client certificates
   * or a proxy.
   */
  readonly fetch?: Fetch | undefined;
  /**
   * Whether the client sends headers besides `content-type` and `authorization`. etcd's CORS support allows only these
   * two headers, so a browser cannot send any other. If a watch has the header `hasleader`, a member that has lost its
   * leader ends the watch, and the client reopens it on another member. Default: false in browsers, true everywhere
   * else.
   */
  readonly allHeaders?: boolean | undefined;
  /**
   * Whether the client adds an extra key, the guard key, to each write, so that the write takes effect at most once
   * even if the runtime resends the POST request by itself. Browsers and Deno resend a POST when a kept-alive
   * connection is reset before the response headers arrive. Node.js, Bun and workerd never resend a POST. Set this
   * option to true if you pass a `fetch` that may resend requests, or if a proxy in front of etcd may do so. Default:
   * false on Node.js, Bun and workerd, true everywhere else.
   *
   * The client sends each put, deletion or transaction as one transaction that also writes a guard key. Only this
   * client writes that key. The transaction takes effect only if the guard key's mod revision is still the one that the
   * client knows, and it changes that revision. The write is therefore applied at most once, no matter how often or how
   * late its request arrives. Guard keys cost:
   *
   * - one more key change in the history for each write, even if the write itself changes nothing;
   * - one lease and one key when the client starts and every five minutes, and for each further concurrent write;
   * - up to two of the `maxTxnOps` operations that each transaction may have;
   * - time: on a machine with two cores, 520 puts a second instead of 570 with one call in flight, and 830 instead of
   *   900 with 16 calls in flight.
   *
   * While the cluster has no space left (`NoSpace`), the server also refuses guarded deletions, because a guarded
   * deletion puts the guard key.
   *
   * The response that arrives may be the response to a second copy of the request. If the first copy was applied, a put
   * without `prevKv` succeeds, and any other write rejects with outcome `unknown`. If a request would take effect each
   * time it arrives, and a guard key cannot prevent this, the client refuses to send it: see `allowRepeatedWrites`.
   */
  readonly guardWrites?: boolean | undefined;
  /**
   * Prefix of the guard keys. If the cluster uses authentication, the user needs the permission `readwrite` on this
   * prefix. A guard key expires ten minutes after the client has created it. A write rejects with outcome `unknown` if
   * another client deletes the write's guard key earlier. The client does not add its `namespace` to this prefix.
   * Default: `etcdwire/gateway-guards/`.
   */
  readonly guardPrefix?: BytesLike | undefined;
  /**
   * Whether the client sends requests that take effect each time they reach the server, however late: changes of users,
   * roles and passwords, `memberAdd`, `memberUpdate`, `moveLeader`, alarms, downgrades, and calls to the server's own
   * locks and elections, except `resign`, `leader` and `observe`. A late copy can undo a change made in the meantime,
   * for example restore an old password. This option has no effect without `guardWrites`. Default: false, so that such
   * calls reject with reason `NotInGateway`.
   */
  readonly allowRepeatedWrites?: boolean | undefined;
  /**
   * How long, in milliseconds, a watch may receive no message before the client reopens it at the revision that it has
   * reached. The client does so because `fetch` gives no other sign of a dead connection. For the server's confirmation
   * of a new watch, the client waits 10,000 ms, or `silenceMs` if that is shorter. Default: 60,000.
   */
  readonly silenceMs?: number | undefined;
}

const GATEWAY_OPTIONS = {
  fetch: checkFunction,
  allHeaders: checkBoolean,
  guardWrites: checkBoolean,
  guardPrefix: toBytes,
  allowRepeatedWrites: checkBoolean,
  silenceMs: checkMs,
} as const;

/**
 * Creates a transport that uses `fetch` to send calls to etcd's JSON gateway, for runtimes without sockets.
 *
 * - Unary calls, watches and keepalives work as over the other transports. A call that the gateway does not offer
 *   rejects with reason `NotInGateway`.
 * - Each watch uses its own HTTP request, and over HTTP/1.1 its own connection. Browsers open at most six connections
 *   to one server.
 * - In a browser, a watch stays on a member that has lost its leader, because the browser cannot send `hasleader` (see
 *   `allHeaders`). The watch delivers no events until the member has a leader again, or until the client reopens the
 *   watch after `silenceMs`.
 * - If the runtime may resend a request by itself, the client guards writes and refuses some calls: see `guardWrites`.
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
  checkOptions(options, GATEWAY_OPTIONS, 'gateway');
  const {
    fetch = (url: string, init: RequestInit) => globalThis.fetch(url, init),
    allHeaders = !isBrowser(),
    guardWrites = !sendsOnce(),
    guardPrefix = 'etcdwire/gateway-guards/',
    allowRepeatedWrites = false,
    silenceMs = 60_000,
  } = options;
  const prefix = toBytes(guardPrefix, 'guardPrefix');
  /** Each client's guards. All endpoints of a client share them, because a retry may use another endpoint. */
  const guardsByClient = new WeakMap<TransportOptions, WriteGuards>();
  return (endpoint, clientOptions) => {
    const { tls, maxRequestBytes, maxReceiveBytes, maxTxnOps = DEFAULT_MAX_TXN_OPS } = clientOptions;
    if (!('host' in endpoint.address))
      throw invalidInput(
        'endpoints',
        'a Unix socket',
        'http: and https: URLs, because the JSON gateway transport uses fetch',
      );
    if (tls !== undefined)
      throw invalidInput(
        'tls',
        'TLS options together with gateway()',
        'only one of the two, because fetch handles TLS',
      );
    const http = new GatewayHttp(endpoint.url, { fetch, maxRequestBytes, allHeaders, mayRepeat: guardWrites });
    const limits = { maxReceiveBytes, silenceMs };
    if (!guardWrites) return new GatewayTransport(http, limits);
    const guards = guardsByClient.get(clientOptions) ?? new WriteGuards(prefix, maxTxnOps);
    guardsByClient.set(clientOptions, guards);
    return new GatewayTransport(http, limits, { guards, allowHarmful: allowRepeatedWrites });
  };
}

/**
 * Whether the `fetch` of this runtime never resends a request. Recognizes the runtime by its user agent. Node.js 20 has
 * no user agent, so `process.release` identifies it.
 */
function sendsOnce(): boolean {
  const { navigator, process } = globalThis as {
    readonly navigator?: { readonly userAgent?: string };
    readonly process?: { readonly release?: { readonly name?: string } };
  };
  const agent = navigator?.userAgent;
  if (agent !== undefined) return /^(?:Node\.js\/|Bun\/|Cloudflare-Workers$)/.test(agent);
  return process?.release?.name === 'node' && !('Deno' in globalThis);
}

/** Whether the runtime is a browser. Server-side workers have the globals of a browser, but another user agent. */
function isBrowser(): boolean {
  const { navigator } = globalThis as { readonly navigator?: { readonly userAgent?: string } };
  return navigator?.userAgent?.startsWith('Mozilla/') ?? false;
}
