/**
 * A transport over etcd's JSON gateway, for hosts without sockets.
 *
 * @module etcdwire/gateway
 */

import { invalidInput } from '../../errors/etcd-error.js';
import { checkOptions, checkPositive } from '../../runtime/arguments.js';
import { type BytesLike, toBytes } from '../../runtime/bytes.js';
import type { TransportFactory, TransportOptions } from '../transport.js';
import { type Fetch, GatewayHttp } from './http.js';
import { GatewayTransport } from './transport.js';
import { WriteGuards } from './write-guards.js';

export type { Fetch };

/** The server's own default. */
const DEFAULT_MAX_TXN_OPS = 128;

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
   * Whether the host may send a POST again by itself, so that writes need a guard. Browsers and Deno do so when a
   * kept-alive connection is reset before the headers of the answer; Node.js, Bun and workerd never do. Set it if `fetch`
   * is your own, or if a proxy in front of etcd repeats requests. Default: false on Node.js, Bun and workerd, else true.
   *
   * A guarded put, deletion or transaction goes as one transaction with a key of the client's own, whose mod revision it
   * compares and moves: however often the request arrives, and however late, it is applied once. This costs
   *
   * - one more key in the history for each write, also if the write itself changes nothing;
   * - a lease and a key at first and every five minutes, and for each further write under way at the same time;
   * - two operations of the `maxTxnOps` of each transaction;
   * - time: measured on one machine with two cores, 520 puts a second in place of 570 with one in flight, and 830 in
   *   place of 900 with 16 in flight.
   *
   * While the cluster has no space left (`NoSpace`), the server refuses guarded deletions, too.
   *
   * If the answer that arrives is that of a second copy, a put succeeds all the same, unless it asked for `prevKv`. Any
   * other write rejects with outcome `unknown`. A request that acts again at each arrival, and that no key can guard, is
   * refused: see `allowRepeatedWrites`.
   */
  readonly guardWrites?: boolean | undefined;
  /**
   * Prefix of the guard keys. With authentication, the user needs the permission `readwrite` on it. Keys under it are
   * gone ten minutes after their client created them; a write rejects with outcome `unknown` if somebody deletes its
   * guard key before. A `namespace` does not come before it. Default `etcdwire/gateway-guards/`.
   */
  readonly guardPrefix?: BytesLike | undefined;
  /**
   * Whether calls may be made that take effect each time the host sends their request, at any later time: changes of
   * users, roles and passwords, `memberAdd`, `memberUpdate`, `moveLeader`, alarms, downgrades, and those of the server's
   * own locks and elections but `resign`, `leader` and `observe`. Such a copy can undo what happened in between, such as
   * restore an old password. Without `guardWrites` it has no effect. Default false: refused with reason `NotInGateway`.
   */
  readonly allowRepeatedWrites?: boolean | undefined;
  /**
   * Milliseconds after which a watch that has said nothing is opened anew, from where it was: over `fetch` nothing else
   * tells that its connection is dead. A watch that is not even created is opened anew after 10,000, or after `silenceMs` if
   * that is less. Default 60,000.
   */
  readonly silenceMs?: number | undefined;
}

const GATEWAY_OPTIONS = {
  fetch: true,
  allHeaders: true,
  guardWrites: true,
  guardPrefix: true,
  allowRepeatedWrites: true,
  silenceMs: true,
} as const;

/**
 * Carries calls over etcd's JSON gateway, by `fetch` alone, for hosts without sockets. Unary calls, watches and
 * keepalives work as elsewhere, but that each watch takes a connection of its own, of which browsers have six for one host;
 * what the gateway has not is refused with reason `NotInGateway`. Where the host may send a request again by itself, writes
 * are guarded, and some calls are refused: see `guardWrites`. TLS is the host's: `tls` of the client is refused. A
 * browser asks etcd by CORS first: `etcd --cors`.
 */
export function gateway(options: GatewayOptions = {}): TransportFactory {
  checkOptions(options, GATEWAY_OPTIONS, 'gateway');
  const {
    fetch,
    allHeaders = !isBrowser(),
    guardWrites = !sendsOnce(),
    guardPrefix = 'etcdwire/gateway-guards/',
    allowRepeatedWrites = false,
    silenceMs = 60_000,
  } = options;
  checkPositive(silenceMs, 'silenceMs', 'milliseconds');
  const prefix = toBytes(guardPrefix, 'guardPrefix');
  /** One for each client: its endpoints lead to the same keys, and an attempt may follow another elsewhere. */
  const guardsOf = new WeakMap<TransportOptions, WriteGuards>();
  return (endpoint, clientOptions) => {
    const { tls, maxRequestBytes, maxReceiveBytes, maxTxnOps = DEFAULT_MAX_TXN_OPS } = clientOptions;
    if (!('host' in endpoint.address))
      throw invalidInput('endpoints', 'a Unix socket', 'http: and https: for the gateway');
    if (tls !== undefined) throw invalidInput('tls', 'some', 'none for the gateway: fetch trusts whom the host trusts');
    const httpOptions = {
      fetch: fetch ?? ((url: string, init: RequestInit) => globalThis.fetch(url, init)),
      maxRequestBytes,
      allHeaders,
      mayRepeat: guardWrites,
    };
    const http = new GatewayHttp(endpoint.url, httpOptions);
    if (!guardWrites) return new GatewayTransport(http, { maxReceiveBytes, silenceMs });
    const guards = guardsOf.get(clientOptions) ?? new WriteGuards(prefix, maxTxnOps);
    guardsOf.set(clientOptions, guards);
    const repetitions = { guards, allowHarmful: allowRepeatedWrites };
    return new GatewayTransport(http, { maxReceiveBytes, silenceMs }, repetitions);
  };
}

/** Hosts whose `fetch` never sends a request again, by the names that they give themselves; Node.js 20 gives none. */
function sendsOnce(): boolean {
  const { navigator, process } = globalThis as {
    readonly navigator?: { readonly userAgent?: string };
    readonly process?: { readonly release?: { readonly name?: string } };
  };
  const agent = navigator?.userAgent;
  if (agent !== undefined) return /^(?:Node\.js\/|Bun\/|Cloudflare-Workers$)/.test(agent);
  return process?.release?.name === 'node' && !('Deno' in globalThis);
}

/** Workers of servers have the globals of a browser's, but say who they are. */
function isBrowser(): boolean {
  const { navigator } = globalThis as { readonly navigator?: { readonly userAgent?: string } };
  return navigator?.userAgent?.startsWith('Mozilla/') ?? false;
}
