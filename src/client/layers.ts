import {
  type BytesLike,
  ClientEvents,
  checkBoolean,
  checkedLater,
  checkLogger,
  checkMs,
  checkPositiveCount,
  clientClosed,
  invalidInput,
  type Logger,
  NO_BYTES,
  oneOf,
  orAborted,
  show,
  textOf,
} from '../base/index.js';
import { checkTls, type Endpoint, parseEndpoints, type TlsSource } from '../host/index.js';
import {
  AuthenticatedTransport,
  askForCredentials,
  BALANCES,
  type Balance,
  Channel,
  type Credentials,
  type CredentialsSource,
  checkCredentials,
  checkInterceptors,
  checkTimeout,
  type Interceptor,
  isPermission,
  MAX_IN_FLIGHT,
  type PlaintextPermission,
  PlaintextRule,
  withInterceptors,
} from '../rpc/index.js';
import {
  defaultTransport,
  type EmbeddedTransportFactory,
  TRANSPORT_DEFAULTS,
  type Transport,
  type TransportFactory,
  type TransportOptions,
} from '../wire/index.js';
import { Closers } from './closers.js';
import { type Denied, naming, withDenied } from './denied.js';
import type { KeyspaceCore } from './keyspace.js';
import { checkKey, GUARD_PREFIX } from './kv/keys.js';

/**
 * Options of `CoreClient`. All are optional.
 *
 * @example
 * const options: CoreClientOptions = { endpoints: ['http://127.0.0.1:2379'], timeoutMs: 5_000 };
 */
export interface CoreClientOptions {
  /**
   * URLs of the members: `http://host:port`, `https://host:port` or `unix:///path`. The default port is 2379. The text
   * `host:port` means `https://host:port` if the option `tls` is given, and `http://host:port` otherwise. Default:
   * `127.0.0.1:2379`.
   */
  readonly endpoints?: readonly string[] | undefined;
  /**
   * TLS settings for `https` endpoints. The client verifies each server certificate against `serverName` or the host
   * name of its endpoint. If `tls` is a function, the client calls it for each new connection, so that certificates can
   * be rotated.
   */
  readonly tls?: TlsSource | undefined;
  /**
   * Time limit in milliseconds for calls without `timeoutMs`, retries included. Default 15,000. That is longer than the
   * client needs to detect a dead connection, so a read can still be retried at another endpoint. The limit also ends a
   * call whose bytes are still arriving: over a slow link, give a call with a large request or response as much time as
   * its bytes take.
   */
  readonly timeoutMs?: number | undefined;
  /** Time limit in milliseconds for opening a connection. Default 3,000. */
  readonly connectTimeoutMs?: number | undefined;
  /**
   * Milliseconds between PINGs on a connection with open calls or streams. Default 6,000. Minimum 5,000, because etcd
   * closes connections on which PINGs arrive more often. If a request gets no byte of its response for 1 s, the client
   * sends a PING before the interval ends, unless etcd would count the PING as too frequent.
   */
  readonly pingIntervalMs?: number | undefined;
  /**
   * Time limit in milliseconds for the answer to a PING. When the limit is exceeded, new calls use another connection,
   * and the client closes this connection. Default 2,500. On a slow link, the answer may be queued behind other data,
   * so the client keeps the connection while at least 16 KiB arrive in three times the limit. While a request of 64 KiB
   * or more is unanswered, the client keeps the connection for as long as a link of 32 KiB/s needs for the request.
   */
  readonly pingTimeoutMs?: number | undefined;
  /** Maximum size of a request in bytes. Default 1,572,864, the default of the server's `--max-request-bytes`. */
  readonly maxRequestBytes?: number | undefined;
  /** Maximum size of a response in bytes. Default 2^31 - 1. */
  readonly maxReceiveBytes?: number | undefined;
  /** Maximum number of operations in a transaction. Default 128, the default of the server's `--max-txn-ops`. */
  readonly maxTxnOps?: number | undefined;
  /**
   * Prefix of the guards: the keys that make writes safe to repeat, see `docs/locks.md`. Locks, elections, queues,
   * barriers, registrations and writes with `retryWrites` put guards. The prefix is relative to the namespace of the
   * write. With authentication, the user needs the permission `readwrite` on the prefix. Default `etcdwire/guards/`.
   */
  readonly guardPrefix?: BytesLike | undefined;
  /**
   * Maximum number of unary calls in flight at one endpoint. Further calls wait in the client, in the order in which
   * they were made; `timeoutMs` and `signal` apply while they wait. Streams do not count, nor do the calls of etcd's
   * lock and election services that wait for other clients. Releases of locks and revocations of leases have a separate
   * bound, so that they do not wait behind calls of other kinds. Default 512.
   */
  readonly maxInFlight?: number | undefined;
  /**
   * How the client chooses the endpoint of each call: `sticky` uses one random endpoint until it fails, `round-robin`
   * uses all endpoints in turn for unary calls, and `in-order` starts at the first endpoint of the list. Default
   * `sticky`.
   */
  readonly balance?: Balance | undefined;
  /**
   * Credentials for a cluster that has authentication enabled, or a function that returns them, or only the permission
   * to send the passwords of `auth.userAdd` and similar methods over `http:`.
   */
  readonly auth?: CredentialsSource | PlaintextPermission | undefined;
  /**
   * Receives a log line for each event; see `ClientEvent`. `console` is a logger. For pino and similar loggers, use
   * `objectFirst`. `onEvent` of the client passes the same events to a function. Default: no logging.
   */
  readonly logger?: Logger | undefined;
  /**
   * Whether the stack of each error shows where its call was made, even if nothing awaits the call. Use this option to
   * find a missing `await`. It costs several microseconds of CPU time per call (`npm run bench -- --only hooks`).
   * Without the option, the stack shows only the callers that await the call. Default false.
   */
  readonly callSites?: boolean | undefined;
  /** Interceptors around every call. The first interceptor is the outermost. Default: none. */
  readonly interceptors?: readonly Interceptor[] | undefined;
  /**
   * Creates the transport of each endpoint. Default: HTTP/2. `http2` runs HTTP/2 over connections that the program
   * opens. `etcdwire/grpc-js` and `etcdwire/gateway` export other transports.
   */
  readonly transport?: TransportFactory | undefined;
}

/**
 * `Options` of a client whose transport defines the endpoints, such as `memory(server)` of `etcdwire/testing`.
 *
 * @example
 * const options: Embedded<CoreClientOptions> = { transport: memory(server) };
 */
export type Embedded<Options extends CoreClientOptions> = Omit<Options, 'endpoints' | 'transport'> & {
  /** Creates the transport of each endpoint, and defines the endpoints. */
  readonly transport: EmbeddedTransportFactory;
  /** Not allowed, because the transport defines the endpoints. */
  readonly endpoints?: undefined;
};

export const CORE_CLIENT_OPTIONS = {
  endpoints: checkedLater,
  tls: checkedLater,
  timeoutMs: checkTimeout,
  connectTimeoutMs: checkMs,
  pingIntervalMs: checkPingInterval,
  pingTimeoutMs: checkMs,
  maxRequestBytes: checkPositiveCount,
  maxReceiveBytes: checkPositiveCount,
  maxTxnOps: checkPositiveCount,
  guardPrefix: checkKey,
  maxInFlight: checkPositiveCount,
  balance: oneOf(BALANCES),
  auth: checkedLater,
  logger: checkLogger,
  callSites: checkBoolean,
  interceptors: checkedLater,
  transport: checkTransport,
} as const;
/** The default endpoint of etcd, etcdctl and npm's etcd3. */
const DEFAULT_ENDPOINTS = ['127.0.0.1:2379'];
/** Hints for option names of the npm package etcd3, and for `connect`, an option of `http2`. */
export const CLIENT_HINTS = {
  hosts: 'did you mean endpoints?',
  username: 'pass auth: { username, password }',
  credentials: 'pass certificates as tls, and a user name and password as auth',
  connect: 'use transport: http2({ connect })',
} as const;

/** Minimum interval between PINGs, in milliseconds. The server answers more frequent PINGs with GOAWAY. */
const MIN_PING_INTERVAL_MS = 5_000;

/**
 * Builds the channel of a client, and the layers around it. Each layer takes a call, may change, repeat or observe it,
 * and passes it to the next one. From the outermost layer to the channel, with the layers of `Client` and of namespaces:
 *
 * - `retriedWrites`: guards writes and repeats them. For calls with `retryWrites`, and for a transport that may send a
 *   request twice.
 * - `namespaceTransport`: adds the prefix of a namespace to keys, and removes it from the keys in responses.
 * - `withAutoSync`: replaces the endpoints from time to time, with `autoSyncIntervalMs`.
 * - `withOrderedReads`: repeats a read whose response is too old, with `orderedReads`.
 * - `withDenied`: says in the error of a denied permission which permission is missing.
 * - `AuthenticatedTransport`: adds the token, and repeats a call whose token was refused, with credentials.
 * - `withInterceptors`: calls the interceptors, once for all attempts that the channel makes.
 * - `diagnosed`: `withDiagnostics`, which publishes calls on the diagnostics channels of Node.js, for a `Client`.
 * - `Channel`: chooses the endpoint, and makes the attempts.
 *
 * `options` is an object whose properties are checked already, except those in `CORE_CLIENT_OPTIONS` with
 * `checkedLater`.
 *
 * @throws EtcdError, reason `InvalidInput`, if one of these properties is not allowed.
 */
export function coreLayers(
  options: CoreClientOptions | Embedded<CoreClientOptions>,
  diagnosed = (channel: Transport) => channel,
): KeyspaceCore {
  const { auth, logger, callSites, timeoutMs = 15_000, maxTxnOps = 128, maxInFlight = MAX_IN_FLIGHT } = options;
  const scheme = options.tls === undefined ? 'http' : 'https';
  const closed = new AbortController();
  const guardPrefix = checkKey(options.guardPrefix ?? GUARD_PREFIX, 'guardPrefix').slice();
  const denied: Denied = (error, request) =>
    naming(error, request, known && 'username' in known ? known.username : undefined, textOf(guardPrefix));
  const transportOptions = transportOptionsOf(options);
  const interceptors = checkInterceptors(options.interceptors);
  const transportOf = options.transport ?? defaultTransport;

  const events = new ClientEvents();
  events.addLogger(logger);
  // The channel chooses the endpoint of each call and retries the call. Every other feature is a layer around it.
  const secrets = new PlaintextRule(
    () => known ?? (typeof credentials === 'function' ? credentials() : permission),
    () => channel.configured,
  );
  const opened = (endpoint: Endpoint): Transport => {
    const onCrowded = (problem: string): void =>
      events.report({ type: 'streams used up', endpoint: endpoint.url, problem });
    return transportOf(endpoint, { ...transportOptions, onCrowded });
  };
  const channel: Channel = new Channel(parseEndpoints(endpointsOf(options), scheme), opened, {
    maxInFlight,
    balance: BALANCES[options.balance ?? 'sticky'],
    events,
    secrets,
  });
  const permission = auth !== undefined && typeof auth !== 'function' && isPermission(auth) ? auth : undefined;
  /** A copy of the credentials that the option `auth` contains, or that its function returned last. */
  let known: Credentials | undefined;
  // Checks the credentials against the current endpoints, and sets them in the same step. From then on, `setEndpoints`
  // checks its endpoints against these credentials.
  const learn = (given: Credentials): Credentials => (known = checkCredentials(given, channel.configured));
  const credentials =
    typeof auth === 'function'
      ? async () => learn(await orAborted(askForCredentials(auth), closed.signal))
      : auth === undefined || permission !== undefined
        ? undefined
        : learn(auth as Credentials);
  // The diagnostics describe each call as the interceptors have changed it. An interceptor sees a call once, however
  // often the channel retries the call. If an outer layer repeats the call, for example with a new token, the
  // interceptor sees another call. Interceptors also see the tokens and the `Authenticate` calls.
  let transport: Transport = withInterceptors(diagnosed(channel), interceptors);
  if (credentials !== undefined) transport = new AuthenticatedTransport(transport, credentials);
  // This layer is the outermost, because interceptors and diagnostics must not pass on keys, such as in spans. Only a
  // server that knows its users denies a permission.
  if (credentials !== undefined || options.tls !== undefined) transport = withDenied(transport, denied);

  const closers = new Closers();
  return {
    channel,
    transport,
    settings: {
      timeoutMs,
      renewsTokens: credentials !== undefined && !('token' in credentials),
      rotatesSecrets: typeof auth === 'function',
      closed: closed.signal,
      closers,
      events,
      callSites,
      denied,
      cluster: channel.cluster,
      maxStreams: () => channel.maxStreams,
    },
    abortClosed: () => closed.abort(clientClosed('not-sent')),
    setEndpoints: (urls) => {
      const list = parseEndpoints(urls, scheme);
      if (known !== undefined) checkCredentials(known, list);
      // Reports the change to listeners, so this call comes last.
      channel.reset(list);
    },
    prefix: NO_BYTES,
    maxTxnOps,
    maxReceiveBytes: transportOptions.maxReceiveBytes,
    isIntercepted: interceptors.length > 0,
    closers,
    leaseHolders: new Map(),
    guardPrefix,
    guarding: transportOf.guarding as KeyspaceCore['guarding'],
  };
}

/** Throws unless the options of a client are an object. The error has a hint for a caller that passed an endpoint. */
export function checkIsObject(given: unknown): void {
  const isList = Array.isArray(given);
  if (typeof given !== 'object' || given === null || isList) {
    const isEndpoint = typeof given === 'string' || isList;
    const hint = isEndpoint ? " (did you mean new Client({ endpoints: ['http://host:2379'] })?)" : '';
    throw invalidInput('options', show(given) + hint, '{ endpoints: [...] }');
  }
}

function checkTransport(transport: TransportFactory, argument: string): void {
  if (typeof transport !== 'function')
    throw invalidInput(argument, show(transport), 'a transport, such as grpcJs() or memory(server)');
}

function checkPingInterval(value: number, argument: string): void {
  if (checkMs(value, argument) >= MIN_PING_INTERVAL_MS) return;
  const allowed = `${MIN_PING_INTERVAL_MS} or more, because etcd closes connections that send PINGs more often`;
  throw invalidInput(argument, show(value), allowed);
}

function endpointsOf({ endpoints, transport }: CoreClientOptions | Embedded<CoreClientOptions>): readonly string[] {
  if (endpoints !== undefined) return endpoints;
  return (transport as Partial<EmbeddedTransportFactory> | undefined)?.endpoints ?? DEFAULT_ENDPOINTS;
}

function transportOptionsOf(options: CoreClientOptions | Embedded<CoreClientOptions>): TransportOptions {
  const given = <Name extends keyof typeof TRANSPORT_DEFAULTS>(name: Name) => options[name] ?? TRANSPORT_DEFAULTS[name];
  return {
    tls: checkTls(options.tls),
    connectTimeoutMs: given('connectTimeoutMs'),
    pingIntervalMs: given('pingIntervalMs'),
    pingTimeoutMs: given('pingTimeoutMs'),
    maxRequestBytes: given('maxRequestBytes'),
    maxReceiveBytes: given('maxReceiveBytes'),
  };
}
