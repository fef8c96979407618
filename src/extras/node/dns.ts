import dns from 'node:dns/promises';
import { isIP } from 'node:net';
import {
  after,
  ClientEvents,
  checkBoolean,
  checkCan,
  checkLogger,
  checkMs,
  checkName,
  checkOptions,
  EtcdError,
  environment,
  invalidInput,
  type Logger,
} from '../../base/index.js';
import type { CoreClient } from '../../client/index.js';
import { type Endpoint, parseEndpoint, parseEndpoints } from '../../host/index.js';

// Endpoints from DNS: the SRV records of a domain, and the addresses of host names.

/** An SRV record, as `node:dns` returns it. */
export interface SrvRecord {
  /** The host name of the server. */
  readonly name: string;
  readonly port: number;
  /** Records with a smaller number come first. */
  readonly priority: number;
  /** Among records of the same priority, a record with a greater weight is more likely to come first. */
  readonly weight: number;
}

/** The part of a `Resolver` of `node:dns/promises` that looks up SRV records. */
export interface SrvResolver {
  /** Resolves with the SRV records of the name. Rejects with the error code ENODATA or ENOTFOUND if there are none. */
  resolveSrv(name: string): Promise<readonly SrvRecord[]>;
}

/** The part of a `Resolver` of `node:dns/promises` that looks up addresses. */
export interface AddressResolver {
  /** Resolves with the IPv4 addresses of the host. */
  resolve4(host: string): Promise<readonly string[]>;
  /** Resolves with the IPv6 addresses of the host. */
  resolve6(host: string): Promise<readonly string[]>;
}

/** Options of `discoverSrv`. */
export interface DiscoverSrvOptions {
  /**
   * Name of the cluster, if the domain has several. The names of the records are then `_etcd-client-ssl-NAME._tcp` and
   * `_etcd-client-NAME._tcp`. The same as `--discovery-srv-name` of etcdctl. Default: none.
   */
  readonly serviceName?: string | undefined;
  /**
   * Whether to return `http:` endpoints, too. The same as `--insecure-discovery` of etcdctl. Default true.
   */
  readonly allowInsecure?: boolean | undefined;
  /** Makes the DNS requests. Default: the functions of `node:dns`. */
  readonly resolver?: SrvResolver | undefined;
}

const DISCOVER_SRV_OPTIONS = {
  serviceName: checkName,
  allowInsecure: checkBoolean,
  resolver: checkSrvResolver,
} as const;

/** Codes of DNS errors that mean that the name has no such records. */
const NO_RECORDS: ReadonlySet<string | undefined> = new Set(['ENOTFOUND', 'ENODATA']);

/** The weight that a record of weight 0 gets. Such a record should rarely come before other records: RFC 2782. */
const LEAST_WEIGHT = 0.01;

/**
 * Looks up the endpoints of a cluster in the SRV records of a domain, as `etcdctl --discovery-srv` does. The records
 * `_etcd-client-ssl._tcp.DOMAIN` give `https:` endpoints, which come first. The records `_etcd-client._tcp.DOMAIN` give
 * `http:` endpoints. Within each group, the order follows the priorities and weights of the records.
 *
 * DNS answers are usually not authenticated, so a forged answer may name another server. To accept only certificates
 * for the domain, pass the domain as `tls.serverName` to the client, and set `allowInsecure` to false.
 *
 * @throws EtcdError with reason `ConnectFailed` if there are no records, or if the lookup of the `https:` endpoints
 * fails. In the second case the function returns no `http:` endpoints, because the client would use them instead.
 * Reason `InvalidInput` means that an argument is invalid, or that a record does not contain a host name.
 *
 * @example
 * const domain = 'example.com';
 * const endpoints = await discoverSrv(domain).catch(() => ['https://10.0.0.1:2379']);
 * const etcd = new Client({ endpoints, tls: { serverName: domain } });
 */
export async function discoverSrv(domain: string, options: DiscoverSrvOptions = {}): Promise<readonly string[]> {
  checkOptions(options, DISCOVER_SRV_OPTIONS, 'discoverSrv');
  checkName(domain, 'domain');
  const { serviceName, allowInsecure = true, resolver = dns } = options;
  const suffix = `${serviceName === undefined ? '' : `-${serviceName}`}._tcp.${domain}`;
  const [secure, insecure] = await Promise.all([
    srvLookup(resolver, `_etcd-client-ssl${suffix}`, 'https'),
    allowInsecure ? srvLookup(resolver, `_etcd-client${suffix}`, 'http') : { found: [], errors: [] },
  ]);
  const endpoints = [...new Set([...secure.found, ...insecure.found])];
  if (endpoints.length > 0 && secure.errors.every(isWithoutRecords)) return endpoints;
  const errors = [...secure.errors, ...insecure.errors];
  throw lookupFailed(`no endpoints found for the domain ${domain}`, errors, 'its SRV records name no host');
}

/** What DNS has answered to one or more requests, and the errors of the requests that have failed. */
interface Lookup<Found> {
  readonly found: readonly Found[];
  readonly errors: readonly NodeJS.ErrnoException[];
}

async function lookup<Found>(...requests: readonly Promise<readonly Found[]>[]): Promise<Lookup<Found>> {
  const answers = await Promise.allSettled(requests);
  return {
    found: answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : [])),
    errors: answers.flatMap((answer) => (answer.status === 'rejected' ? [answer.reason] : [])),
  };
}

function isWithoutRecords({ code }: NodeJS.ErrnoException): boolean {
  return NO_RECORDS.has(code);
}

function lookupFailed(problem: string, errors: Lookup<never>['errors'], nothingFound: string): EtcdError {
  const why = errors.map(({ message }) => message).join('; ') || nothingFound;
  const cause = errors.length > 1 ? new AggregateError(errors) : errors[0];
  const details = { code: 'Unavailable', reason: 'ConnectFailed', outcome: 'not-sent', cause } as const;
  return new EtcdError(`${problem}: ${why}`, details);
}

async function srvLookup(resolver: SrvResolver, name: string, scheme: 'http' | 'https'): Promise<Lookup<string>> {
  const { found: records, errors } = await lookup(resolver.resolveSrv(name));
  const found = inOrder(records)
    .map((record) => ({ ...record, name: record.name.replace(/\.$/, '') }))
    // The name is empty if the domain does not offer the service: RFC 2782.
    .filter((record) => record.name !== '')
    .map((record) => parseEndpoint(`${scheme}://${record.name}:${record.port}`, `SRV record of ${name}`).url);
  return { found, errors };
}

/** Sorts the records by priority, and those of the same priority randomly by weight: RFC 2782. */
function inOrder(records: readonly SrvRecord[]): readonly SrvRecord[] {
  // Sorting by exponential random variables gives each order the same probability as the weighted draws of RFC 2782.
  return records
    .map((record) => ({
      record,
      draw: -Math.log(1 - environment.Math.random()) / Math.max(record.weight, LEAST_WEIGHT),
    }))
    .sort((a, b) => a.record.priority - b.record.priority || a.draw - b.draw)
    .map(({ record }) => record);
}

/** Options of `resolveEndpoints`. */
export interface ResolveEndpointsOptions {
  /**
   * Makes the DNS requests. Default: `lookup` of `node:dns`, which also reads the hosts file and appends the search
   * domains of the system.
   */
  readonly resolver?: AddressResolver | undefined;
}

const RESOLVE_ENDPOINTS_OPTIONS = { resolver: checkAddressResolver } as const;

/** The result of `resolveEndpoints`. */
export interface ResolvedEndpoints {
  /** One endpoint for each address, in the order of the answers of DNS. Includes the endpoints without a host name. */
  readonly endpoints: readonly string[];
  /**
   * The host name of the `https:` endpoints, for `tls.serverName`, because the certificates contain the name and not
   * the addresses. Undefined if there is no `https:` endpoint with a host name.
   */
  readonly serverName: string | undefined;
}

/**
 * Replaces the host names of endpoints with all their addresses, so that the client treats each address as a member.
 * Without this function, a client connects to one address of a host name, and fails over only to other endpoints of its
 * list. Does not change endpoints with IP addresses and Unix sockets. `followDns` repeats the lookups while a client is
 * open.
 *
 * @throws EtcdError with reason `ConnectFailed` if the lookup of a host name fails or finds no address. Reason
 * `InvalidInput` means that an argument is invalid, or that the `https:` endpoints have several hosts that are not all
 * IP addresses. A client cannot check different names, because `tls.serverName` applies to all endpoints.
 *
 * @example
 * const { endpoints, serverName } = await resolveEndpoints(['https://localhost:2379']);
 * const etcd = new Client({ endpoints, tls: { ca: await readFile('ca.pem'), serverName } });
 */
export async function resolveEndpoints(
  endpoints: readonly string[],
  options: ResolveEndpointsOptions = {},
): Promise<ResolvedEndpoints> {
  checkOptions(options, RESOLVE_ENDPOINTS_OPTIONS, 'resolveEndpoints');
  const { resolver } = options;
  const { parsed, serverName } = checkResolvable(endpoints);
  const urls = await Promise.all(parsed.map((endpoint) => urlsOf(endpoint, resolver)));
  return { endpoints: [...new Set(urls.flat())], serverName };
}

function checkResolvable(endpoints: readonly string[]): {
  readonly parsed: readonly Endpoint[];
  readonly serverName: string | undefined;
} {
  const parsed = parseEndpoints(endpoints);
  const hosts = [...new Set(parsed.filter(({ tls }) => tls).map(hostOf))];
  const serverName = hosts.find((host) => isIP(host) === 0);
  if (serverName !== undefined && hosts.length > 1)
    throw invalidInput(
      'endpoints',
      `https: endpoints of ${hosts.length} hosts`,
      'https: endpoints of one host name, because tls.serverName applies to all endpoints',
    );
  return { parsed, serverName };
}

const RESOLVER = 'a Resolver of node:dns/promises';

export function checkSrvResolver(resolver: SrvResolver, argument: string): void {
  checkCan(resolver, 'resolveSrv', argument, RESOLVER);
}

function checkAddressResolver(resolver: AddressResolver, argument: string): void {
  checkCan(resolver, 'resolve4', argument, RESOLVER);
  checkCan(resolver, 'resolve6', argument, RESOLVER);
}

/** Returns an empty string for a Unix socket. */
function hostOf({ address }: Endpoint): string {
  return 'host' in address ? address.host : '';
}

async function urlsOf(endpoint: Endpoint, resolver: AddressResolver | undefined): Promise<readonly string[]> {
  const { address, tls, url } = endpoint;
  if (!('host' in address) || isIP(address.host) !== 0) return [url];
  const scheme = tls ? 'https' : 'http';
  return (await addressesOf(address.host, resolver)).map(
    (ip) => parseEndpoint(`${scheme}://${ip.includes(':') ? `[${ip}]` : ip}:${address.port}`, 'address').url,
  );
}

async function addressesOf(host: string, resolver: AddressResolver | undefined): Promise<readonly string[]> {
  const { found, errors } = await (resolver === undefined
    ? lookup(dns.lookup(host, { all: true }).then((all) => all.map(({ address }) => address)))
    : lookup(resolver.resolve4(host), resolver.resolve6(host)));
  // If the lookup of one address family fails, the result may lack members that the client uses. The client would then
  // drop these members.
  const failures = errors.filter((error) => !isWithoutRecords(error));
  if (found.length > 0 && failures.length === 0) return found;
  throw lookupFailed(`cannot resolve ${host}`, failures.length > 0 ? failures : errors, 'it has no addresses');
}

/** Options of `followDns`. */
export interface FollowDnsOptions extends ResolveEndpointsOptions {
  /** Milliseconds between the lookups. Default 30,000. */
  readonly intervalMs?: number | undefined;
  /** Receives a log line when lookups begin to fail, and when they succeed again. Default: no logging. */
  readonly logger?: Logger | undefined;
}

const FOLLOW_DNS_OPTIONS = { ...RESOLVE_ENDPOINTS_OPTIONS, intervalMs: checkMs, logger: checkLogger } as const;
const DEFAULT_INTERVAL_MS = 30_000;

/**
 * Looks up the addresses of endpoints now and repeatedly, as `resolveEndpoints` does, and passes them to
 * `client.setEndpoints`. Watches, leases and locks continue. If a lookup fails, the client keeps its endpoints. Does not
 * keep the process alive. Call `close` of the result to end the lookups. Otherwise, they end with the first lookup after
 * the client is closed.
 *
 * The client needs `tls.serverName` for `https:` endpoints; `resolveEndpoints` returns it. Do not combine this function
 * with `autoSyncIntervalMs`, which replaces the endpoints, too.
 *
 * @throws EtcdError with reason `InvalidInput` if an argument is invalid, as for `resolveEndpoints`.
 *
 * @example
 * const members = ['http://localhost:2379'];
 * const { endpoints } = await resolveEndpoints(members);
 * await using client = new Client({ endpoints });
 * using following = followDns(client, members, { intervalMs: 10_000 });
 */
export function followDns(
  client: Pick<CoreClient, 'setEndpoints'>,
  endpoints: readonly string[],
  options: FollowDnsOptions = {},
): DnsFollower {
  checkOptions(options, FOLLOW_DNS_OPTIONS, 'followDns');
  checkCan(client, 'setEndpoints', 'client', 'a Client');
  const { resolver, intervalMs = DEFAULT_INTERVAL_MS, logger } = options;
  checkResolvable(endpoints);
  const urls = [...endpoints];
  return new DnsFollower(client, () => resolveEndpoints(urls, { resolver }), intervalMs, logger);
}

function sorted(endpoints: readonly string[]): string {
  return [...endpoints].sort().join();
}

/**
 * Updates the endpoints of a client from DNS, see `followDns`.
 *
 * @example
 * const following = followDns(etcd, ['http://localhost:2379']);
 * following.close();
 */
export class DnsFollower implements Disposable {
  readonly #client: Pick<CoreClient, 'setEndpoints'>;
  readonly #resolve: () => Promise<ResolvedEndpoints>;
  readonly #intervalMs: number;
  readonly #events = new ClientEvents();
  /** The endpoints that this object has set last. Empty before the first update. */
  #current: readonly string[] = [];
  #running: Promise<void> | undefined;
  #stopTimer = (): void => {};
  #isFailing = false;
  #closed = false;

  /** @internal */
  constructor(
    client: Pick<CoreClient, 'setEndpoints'>,
    resolve: () => Promise<ResolvedEndpoints>,
    intervalMs: number,
    logger: Logger | undefined,
  ) {
    this.#client = client;
    this.#resolve = resolve;
    this.#intervalMs = intervalMs;
    this.#events.addLogger(logger);
    void this.update();
  }

  /**
   * Looks up the addresses now. Resolves when the client uses them, or when the lookup has failed. If a lookup is under
   * way, waits for that lookup instead.
   */
  update(): Promise<void> {
    this.#running ??= this.#update().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Ends the updates. The client keeps its endpoints. */
  close(): void {
    this.#closed = true;
    this.#stopTimer();
  }

  /** Calls `close`. */
  [Symbol.dispose](): void {
    this.close();
  }

  async #update(): Promise<void> {
    this.#stopTimer();
    if (this.#closed) return;
    try {
      const { endpoints } = await this.#resolve();
      if (this.#closed) return;
      if (this.#isFailing) this.#events.report({ type: 'endpoints resolved again', endpoints });
      this.#isFailing = false;
      // DNS servers answer in varying order, which is not a change.
      if (sorted(endpoints) !== sorted(this.#current)) this.#current = endpoints;
      // If the client has these endpoints already, this call changes nothing. If the client is closed, the call throws,
      // and the lookups end.
      this.#client.setEndpoints(this.#current);
    } catch (error) {
      if (error instanceof EtcdError && error.reason === 'ClientClosed') return this.close();
      const problem = (error as Error).message;
      if (!this.#isFailing) this.#events.report({ type: 'endpoints could not be resolved', problem });
      this.#isFailing = true;
    }
    if (!this.#closed) this.#stopTimer = after(this.#intervalMs, () => void this.update(), 'background');
  }
}
