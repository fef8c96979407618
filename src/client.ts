import { AuthenticatedTransport } from './channel/authenticated.js';
import { AutoSync } from './channel/auto-sync.js';
import { Channel } from './channel/channel.js';
import { type Credentials, checkCredentials } from './channel/credentials.js';
import { Diagnosed } from './channel/diagnostics.js';
import { checkInterceptors, type Interceptor, intercepted } from './channel/interceptors.js';
import { MemberSync } from './channel/member-sync.js';
import { OrderedReads } from './channel/ordered-reads.js';
import { type CallOptions, checkTimeout, Rpc } from './channel/rpc.js';
import { invalidInput } from './errors/etcd-error.js';
import { type Endpoint, parseEndpoint } from './host/endpoint.js';
import { checkTls, type TlsSource } from './host/tls.js';
import { Keyspace } from './keyspace.js';
import { type Raw, rawStubs } from './raw.js';
import { checkCount, checkOptions, checkPositive, show } from './runtime/arguments.js';
import { describeType } from './runtime/bytes.js';
import type { Logger } from './runtime/log.js';
import { once } from './runtime/signals.js';
import { Auth } from './services/auth.js';
import { Cluster } from './services/cluster.js';
import { ElectionService } from './services/election.js';
import { LockService } from './services/lock.js';
import { Maintenance } from './services/maintenance.js';
import { defaultTransport } from './transport/default-transport.js';
import { TRANSPORT_DEFAULTS, type TransportFactory, type TransportOptions } from './transport/transport.js';

/** Where the cluster is, who is asking, and how long calls may take. */
export interface ClientOptions {
  /** URLs of the members: `http://host:port`, `https://host:port` or `unix:///path`; the port defaults to 2379. */
  readonly endpoints: readonly string[];
  /**
   * For `https` endpoints. Certificates are verified, each against its own endpoint's name. A function is called for each
   * new connection: what it gives is used for that one.
   */
  readonly tls?: TlsSource | undefined;
  /**
   * Milliseconds for a call without `timeoutMs` of its own, retries included. Default 15,000: more than it takes to find
   * out that a connection is dead, so that a read can still go elsewhere.
   */
  readonly timeoutMs?: number | undefined;
  /** Milliseconds for a connection to come about. Default 3,000. */
  readonly connectTimeoutMs?: number | undefined;
  /**
   * Milliseconds between probes of a connection that has open calls or streams; at least 5,000, which etcd enforces.
   * Default 6,000. A request that gets no byte of an answer for 1 s is followed by a probe sooner, as far as etcd allows.
   */
  readonly pingIntervalMs?: number | undefined;
  /**
   * Milliseconds for a probe to be answered; after that the connection is closed. Default 2,500. While other data keeps
   * arriving, the answer may take up to three times as long, because it may be queued behind that data.
   */
  readonly pingTimeoutMs?: number | undefined;
  /** Longest request in bytes. Default 1,572,864, as the server's `--max-request-bytes`. */
  readonly maxRequestBytes?: number | undefined;
  /** Longest response in bytes. Default 2^31 - 1: the server sends what was asked for. */
  readonly maxReceiveBytes?: number | undefined;
  /** Operations in a transaction. Default 128, as the server's `--max-txn-ops`. */
  readonly maxTxnOps?: number | undefined;
  /** Who the client is, for clusters with authentication. */
  readonly auth?: Credentials | undefined;
  /**
   * Let no serializable read be older than what the answer to an earlier call told of, whichever member answers; one
   * that is, is put to the others. What watches tell does not count. Default false.
   */
  readonly orderedReads?: boolean | undefined;
  /**
   * Milliseconds between looks at the cluster's list of members, whose endpoints are then used in place of those given:
   * see `sync`. The first look is at the first call; one that fails changes nothing. Default: the endpoints stay as
   * given.
   */
  readonly autoSyncIntervalMs?: number | undefined;
  /**
   * Whether an endpoint that a member advertises may be used, by its URL, such as `https://10.0.0.3:2379`. One that may
   * not is never dialled, and never gets the token; an answer that is no boolean fails `sync`. Default: all.
   */
  readonly allowEndpoint?: ((url: string) => boolean) | undefined;
  /**
   * Told of what happens by itself: endpoints that fail and work again, calls that are repeated, watches and keepalives
   * that wait for a server and go on, leases that are lost, endpoints that change. `console` is one; `objectFirst` makes
   * one of a logger such as pino. Default: none.
   */
  readonly logger?: Logger | undefined;
  /**
   * Have the stack of each error show where its call was made, also where nobody awaits it: that is how to find a
   * forgotten `await`. Costs several microseconds of CPU a call (`npm run bench -- --only hooks`), so it is meant for
   * the search. The callers that await a call show in any case. Default false.
   */
  readonly callSites?: boolean | undefined;
  /** Around every call, the first outermost. Default: none. */
  readonly interceptors?: readonly Interceptor[] | undefined;
  /** What carries the calls. Default: HTTP/2 of this package's own; `grpcJs()` of `etcdwire/grpc-js` is another. */
  readonly transport?: TransportFactory | undefined;
}

const CLIENT_OPTIONS = {
  endpoints: true,
  tls: true,
  timeoutMs: true,
  connectTimeoutMs: true,
  pingIntervalMs: true,
  pingTimeoutMs: true,
  maxRequestBytes: true,
  maxReceiveBytes: true,
  maxTxnOps: true,
  auth: true,
  orderedReads: true,
  autoSyncIntervalMs: true,
  allowEndpoint: true,
  logger: true,
  callSites: true,
  interceptors: true,
  transport: true,
} as const;
/** As etcd3, another client of etcd, names it. */
const CLIENT_HINTS = { hosts: 'did you mean endpoints?' } as const;

/** The server's own minimum between pings: faster ones are answered with GOAWAY. */
const MIN_PING_INTERVAL_MS = 5_000;

/**
 * A client of one etcd cluster. Nothing is dialled before the first call. Close it, or `await using` it: until then its
 * open watches and kept leases keep the process alive.
 */
export class Client extends Keyspace {
  /** Users, roles, permissions. */
  readonly auth: Auth;
  /** The members. */
  readonly cluster: Cluster;
  /** Status, alarms, defragmentation, snapshots. */
  readonly maintenance: Maintenance;
  /** The server's own locks; see there why `Mutex` is the better one. */
  readonly lockService: LockService;
  /** The server's own elections; see there why `Election` is the better one. */
  readonly electionService: ElectionService;
  /** Every RPC, as it stands on the wire. */
  readonly raw: Raw;
  readonly #channel: Channel;
  readonly #memberSync: MemberSync;
  readonly #close: () => Promise<void>;

  /** @throws EtcdError, reason `InvalidInput`. */
  constructor(options: ClientOptions) {
    checkClientOptions(options);
    const endpoints = checkEndpoints(options.endpoints);
    const maxTxnOps = checkCount(options.maxTxnOps ?? 128, 'maxTxnOps', 1);
    const transportOptions = { ...checkTransportOptions(options), maxTxnOps };
    const timeoutMs = checkTimeout(options.timeoutMs ?? 15_000, 'timeoutMs');
    const kv = {
      maxTxnOps,
      maxReceiveBytes: transportOptions.maxReceiveBytes,
    };
    const { autoSyncIntervalMs, allowEndpoint } = options;
    if (autoSyncIntervalMs !== undefined) checkPositive(autoSyncIntervalMs, 'autoSyncIntervalMs', 'milliseconds');
    if (allowEndpoint !== undefined && typeof allowEndpoint !== 'function')
      throw invalidInput('allowEndpoint', describeType(allowEndpoint), 'a function of a URL');
    const credentials = options.auth === undefined ? undefined : checkCredentials(options.auth, endpoints);
    const factory = options.transport ?? defaultTransport;
    const channel = new Channel(endpoints, (endpoint) => factory(endpoint, transportOptions), options.logger);
    const reached = intercepted(new Diagnosed(channel), checkInterceptors(options.interceptors));
    const authenticated = credentials && new AuthenticatedTransport(reached, credentials);
    const closing = new AbortController();
    const settings = {
      timeoutMs,
      renewsTokens: authenticated?.renewsTokens ?? false,
      closed: closing.signal,
      logger: options.logger,
      callSites: options.callSites,
      cluster: channel.cluster,
    };
    const ordered = options.orderedReads ?? false;
    const direct = authenticated ?? reached;
    const inner = ordered ? new OrderedReads(direct, () => channel.endpoints, channel.cluster) : direct;
    const memberSync = new MemberSync(new Rpc(inner, settings), channel, endpoints, allowEndpoint);
    const transport =
      autoSyncIntervalMs === undefined ? inner : new AutoSync(inner, () => memberSync.sync(), autoSyncIntervalMs);
    const closers = new Set<() => Promise<void>>();
    super({ transport, settings, kv, closers });
    this.#close = once(async () => {
      await this.closeAfter(closers);
      closing.abort();
      await transport.close();
    });
    const rpc = new Rpc(transport, settings);
    this.#memberSync = memberSync;
    this.#channel = channel;
    this.auth = new Auth(rpc);
    this.cluster = new Cluster(rpc);
    this.maintenance = new Maintenance(rpc, () => channel.endpoints);
    this.lockService = new LockService(rpc);
    this.electionService = new ElectionService(rpc);
    this.raw = rawStubs(rpc);
  }

  /** URLs of the members, as calls may name one. */
  get endpoints(): readonly string[] {
    return this.#channel.endpoints;
  }

  /**
   * Asks the cluster for its members, and from now on uses the endpoints that those advertise which vote; what is under
   * way goes on where it is. Left out are those that `allowEndpoint` refuses, and those without TLS where all endpoints
   * given to the client have it. Endpoints given to the client that no member advertises are tried last. Gives the
   * endpoints; where the list has none that may be used they stay.
   */
  sync(options?: CallOptions): Promise<readonly string[]> {
    return this.#memberSync.sync(options);
  }

  /**
   * Ends all calls, watches and keepalives with reason `ClientClosed`, and lets the connections go. Sessions are closed,
   * those of namespaces included, so that their locks are free at once; a server that is not there is waited for no
   * longer than 2 s.
   */
  override close(): Promise<void> {
    return this.#close();
  }
}

function checkClientOptions(options: ClientOptions): void {
  const given: unknown = options;
  if (typeof given !== 'object' || given === null || Array.isArray(given)) {
    const isEndpoint = typeof given === 'string' || Array.isArray(given);
    const hint = isEndpoint ? "; did you mean new Client({ endpoints: ['http://host:2379'] })?" : '';
    throw invalidInput('options', show(given), `{ endpoints: [...] }${hint}`);
  }
  checkOptions(options, CLIENT_OPTIONS, 'Client', CLIENT_HINTS);
}

function checkEndpoints(endpoints: readonly string[]): Endpoint[] {
  if (!Array.isArray(endpoints) || endpoints.length === 0) {
    throw invalidInput(
      'endpoints',
      Array.isArray(endpoints) ? 'an empty list' : show(endpoints),
      'a list of at least one URL',
    );
  }
  return endpoints.map((endpoint, index) => parseEndpoint(endpoint, `endpoints[${index}]`));
}

function checkTransportOptions(options: ClientOptions): TransportOptions {
  const ms = (name: 'connectTimeoutMs' | 'pingIntervalMs' | 'pingTimeoutMs'): number =>
    checkPositive(options[name] ?? TRANSPORT_DEFAULTS[name], name, 'milliseconds');
  const bytes = (name: 'maxRequestBytes' | 'maxReceiveBytes'): number =>
    checkCount(options[name] ?? TRANSPORT_DEFAULTS[name], name, 1);
  const pingIntervalMs = ms('pingIntervalMs');
  if (pingIntervalMs < MIN_PING_INTERVAL_MS) {
    throw invalidInput(
      'pingIntervalMs',
      show(pingIntervalMs),
      `${MIN_PING_INTERVAL_MS} or more: etcd drops clients that ping more often`,
    );
  }
  return {
    tls: checkTls(options.tls),
    connectTimeoutMs: ms('connectTimeoutMs'),
    pingIntervalMs,
    pingTimeoutMs: ms('pingTimeoutMs'),
    maxRequestBytes: bytes('maxRequestBytes'),
    maxReceiveBytes: bytes('maxReceiveBytes'),
  };
}
