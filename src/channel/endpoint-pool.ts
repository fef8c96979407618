import { invalidInput, type Reason } from '../errors/etcd-error.js';
import { type Endpoint, parseEndpoint } from '../host/endpoint.js';
import { type Logger, log } from '../runtime/log.js';
import { backoffMs, monotonicMs } from '../runtime/timers.js';
import type { Transport } from '../transport/transport.js';

/** Minimum time that an endpoint stays parked, so that a stream that left the endpoint does not return at once. */
const PARK_MS = 1_000;

/** One endpoint with its transport and its recent failures. All times are on the monotonic clock. */
export interface PooledEndpoint {
  readonly url: string;
  readonly transport: Transport;
  /** Failures since the last success. */
  failures: number;
  /** Time of the last failure. */
  failedAt: number;
  /** The endpoint is parked until this time: calls use it only if no other endpoint is available. */
  parkedUntil: number;
  /** Failed connection attempts since the last success. */
  connectFailures: number;
  /** Time at which calls that could not connect to the endpoint try again. */
  connectAt: number;
  /** Number of calls and streams that use the endpoint or are about to use it. */
  users: number;
}

/**
 * Chooses the endpoint of each call. The pool chooses the same endpoint while that endpoint works. It parks an endpoint
 * that fails, for longer with each consecutive failure.
 */
export class EndpointPool {
  readonly #configured: readonly Endpoint[];
  readonly #transportOf: (endpoint: Endpoint) => Transport;
  readonly #logger: Logger | undefined;
  /** Endpoints in use by URL, and former endpoints that still carry calls. */
  readonly #known = new Map<string, PooledEndpoint>();
  #preferred: readonly PooledEndpoint[];
  /** Used only while all preferred endpoints are parked. */
  #spare: readonly PooledEndpoint[] = [];
  #current = 0;

  /** Calls try the endpoints in the given order. */
  constructor(configured: readonly Endpoint[], transportOf: (endpoint: Endpoint) => Transport, logger?: Logger) {
    this.#configured = configured;
    this.#transportOf = transportOf;
    this.#logger = logger;
    this.#preferred = configured.map((endpoint) => this.#pooled(endpoint));
  }

  /** URLs of the preferred endpoints. */
  get urls(): readonly string[] {
    return this.#preferred.map(({ url }) => url);
  }

  get all(): readonly PooledEndpoint[] {
    return [...this.#preferred, ...this.#spare];
  }

  /**
   * Replaces the preferred endpoints. Keeps the current endpoint if the new list still contains it. Configured
   * endpoints that are not in the new list become spare endpoints.
   */
  replace(endpoints: readonly Endpoint[]): void {
    const before = this.urls;
    if (endpoints.some(({ url }) => !before.includes(url)) || endpoints.length !== before.length)
      log(this.#logger, 'info', 'endpoints changed', { endpoints: endpoints.map(({ url }) => url) });
    const current = this.#preferred[this.#current] as PooledEndpoint;
    this.#preferred = [...new Set(endpoints.map((endpoint) => this.#pooled(endpoint)))];
    this.#spare = this.#configured
      .map((endpoint) => this.#pooled(endpoint))
      .filter((endpoint) => !this.#preferred.includes(endpoint));
    this.#current = Math.max(0, this.#preferred.indexOf(current));
    for (const endpoint of [...this.#known.values()]) this.#forgetUnused(endpoint);
  }

  /**
   * Returns the endpoint for the next attempt, and counts the attempt as a user until `release`. If all endpoints are
   * parked, returns the endpoint whose parking ends first.
   *
   * @throws EtcdError, reason `InvalidInput`, if `url` is given and no endpoint has this URL.
   */
  pick(url?: string): PooledEndpoint {
    const endpoint = url === undefined ? this.#available() : this.#named(url);
    endpoint.users += 1;
    return endpoint;
  }

  /** Ends one use of the endpoint. If this was the last use and `replace` has removed it, closes its transport. */
  release(endpoint: PooledEndpoint): void {
    endpoint.users -= 1;
    this.#forgetUnused(endpoint);
  }

  /** Records that an attempt succeeded. Ignores an attempt that started before the last failure: it proves nothing. */
  succeeded(endpoint: PooledEndpoint, startedAt: number): void {
    if (startedAt < endpoint.failedAt) return;
    const { failures } = endpoint;
    endpoint.failures = 0;
    endpoint.parkedUntil = 0;
    endpoint.connectFailures = 0;
    endpoint.connectAt = 0;
    if (failures > 0) log(this.#logger, 'info', 'endpoint available again', { endpoint: endpoint.url });
  }

  /**
   * Records that an attempt failed, and parks the endpoint. Does not count failures of an endpoint that is already
   * parked, because all calls of a connection fail together when the connection breaks.
   */
  failed(endpoint: PooledEndpoint, reason: Reason, problem: string): void {
    const now = monotonicMs();
    if (reason === 'ConnectFailed' && endpoint.connectAt <= now) {
      endpoint.connectAt = now + backoffMs(endpoint.connectFailures);
      endpoint.connectFailures += 1;
    }
    if (endpoint.failures === 0)
      log(this.#logger, 'warn', 'endpoint unavailable', { endpoint: endpoint.url, reason, problem });
    if (endpoint.parkedUntil > now) return;
    endpoint.parkedUntil = now + PARK_MS + backoffMs(endpoint.failures);
    endpoint.failedAt = now;
    endpoint.failures += 1;
  }

  /**
   * Milliseconds that a call waits before its next attempt. While an endpoint refuses connections, all calls to it wait
   * for the same moment, so that they make one connection together.
   */
  pauseMs(endpoint: PooledEndpoint, attempt: number): number {
    const leftMs = endpoint.connectAt - monotonicMs();
    return leftMs > 0 ? leftMs : backoffMs(attempt);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#known.values()].map(({ transport }) => transport.close()));
  }

  #available(): PooledEndpoint {
    const now = monotonicMs();
    const preferred = this.#preferred;
    for (let offset = 0; offset < preferred.length; offset += 1) {
      const index = (this.#current + offset) % preferred.length;
      const endpoint = preferred[index] as PooledEndpoint;
      if (!isAvailable(endpoint, now)) continue;
      this.#current = index;
      return endpoint;
    }
    const spare = this.#spare.find((endpoint) => isAvailable(endpoint, now));
    return spare ?? this.all.reduce((best, other) => (other.parkedUntil < best.parkedUntil ? other : best));
  }

  #named(given: string): PooledEndpoint {
    const { url } = parseEndpoint(given, 'endpoint');
    const all = this.all;
    const named = all.find((endpoint) => endpoint.url === url);
    if (named !== undefined) return named;
    throw invalidInput('endpoint', url, `one of the client's endpoints: ${all.map((other) => other.url).join(', ')}`);
  }

  #pooled(endpoint: Endpoint): PooledEndpoint {
    const { url } = endpoint;
    const known = this.#known.get(url);
    if (known !== undefined) return known;
    const transport = this.#transportOf(endpoint);
    const counters = { failures: 0, failedAt: 0, parkedUntil: 0, connectFailures: 0, connectAt: 0, users: 0 };
    const pooled: PooledEndpoint = { url, transport, ...counters };
    this.#known.set(url, pooled);
    return pooled;
  }

  #forgetUnused(endpoint: PooledEndpoint): void {
    if (endpoint.users > 0 || this.#preferred.includes(endpoint) || this.#spare.includes(endpoint)) return;
    this.#known.delete(endpoint.url);
    void endpoint.transport.close();
  }
}

function isAvailable({ parkedUntil, transport }: PooledEndpoint, now: number): boolean {
  return parkedUntil <= now && !transport.suspect;
}
