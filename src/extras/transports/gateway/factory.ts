import { checkBoolean, checkFunction, checkMs, checkOptions, invalidInput } from '../../../base/index.js';
import type { Guarding, TransportFactory } from '../../../wire/index.js';
import { type Fetch, GatewayHttp } from './http.js';
import { GatewayTransport } from './transport.js';

export type { Fetch };

/** Options of the gateway transport. */
export interface GatewayOptions {
  /**
   * Function that sends the requests. Default: the runtime's `fetch`. Pass your own function to add client certificates
   * or a proxy. The function must check the certificates of servers. Without this option, the client sends nothing to
   * `https:` endpoints while the environment variable `NODE_TLS_REJECT_UNAUTHORIZED` turns off the checks of the
   * runtime's `fetch`.
   */
  readonly fetch?: Fetch | undefined;
  /**
   * Whether the client sends headers besides `content-type` and `authorization`. etcd's CORS support allows none of the
   * other headers, so a browser cannot send them. One of them is the header `hasleader` of watches: it makes a member
   * that has lost its leader end the watch, and the client then reopens the watch on another member. Default: false in
   * browsers, true everywhere else.
   */
  readonly allHeaders?: boolean | undefined;
  /**
   * Whether the client adds an extra key, the guard key, to each write, so that the write takes effect at most once
   * even if the runtime resends the POST request. Browsers and Deno resend a POST when a kept-alive connection is reset
   * before the response headers arrive. Node.js, Bun and workerd never resend a POST. Set this option to true if you
   * pass a `fetch` that may resend requests, or if a proxy in front of etcd may do so. Default: false on Node.js, Bun
   * and workerd, true everywhere else.
   *
   * The client then guards every write and repeats it, as with the option `retryWrites` of `Client`, even if the client
   * is a `CoreClient`: see `docs/failures.md`. If a request would take effect each time it arrives, and
   * a guard cannot prevent this, the client refuses to send the request: see `allowRepeatedWrites`.
   */
  readonly guardWrites?: boolean | undefined;
  /**
   * Whether the client sends requests that take effect each time they reach the server, however late: changes of users,
   * roles and passwords, enabling and disabling authentication, `memberAdd`, `memberUpdate`, `moveLeader`, changes of
   * alarms and downgrades, calls to the server's own locks and elections, except `resign`, `leader` and `observe`, and
   * writes without a guard. A copy that arrives late can undo a later change, for example restore an old password.
   * Without `guardWrites`, this option has no effect. Default: false, so that such calls reject with reason
   * `NotInGateway`.
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
  allowRepeatedWrites: checkBoolean,
  silenceMs: checkMs,
} as const;

/**
 * Returns a factory of transports to the JSON gateway. With the option `guardWrites`, the client guards its writes with
 * `guarding`.
 *
 * @throws EtcdError with reason `InvalidInput` if an option is not valid.
 */
export function gatewayTransport(options: GatewayOptions, guarding: Guarding): TransportFactory {
  checkOptions(options, GATEWAY_OPTIONS, 'gateway');
  const {
    fetch,
    allHeaders = !isBrowser(),
    guardWrites = !sendsOnce(),
    allowRepeatedWrites = false,
    silenceMs = 60_000,
  } = options;
  const transport: TransportFactory = (endpoint, clientOptions) => {
    const { tls, maxRequestBytes, maxReceiveBytes } = clientOptions;
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
    return new GatewayTransport(http, limits, guardWrites ? { allowHarmful: allowRepeatedWrites } : undefined);
  };
  return guardWrites ? Object.assign(transport, { guarding }) : transport;
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
