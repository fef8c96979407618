import { backoffMs, type ClientEvents, environment, invalidInput, monotonicMs, type Reason } from '../base/index.js';
import { type Endpoint, parseEndpoint } from '../host/index.js';
import type { Transport } from '../wire/index.js';

/**
 * Minimum time in milliseconds for which the pool parks a failed endpoint (see `parkedUntil`), unless an attempt at the
 * endpoint succeeds sooner.
 */
const PARK_MS = 1_000;

/**
 * A class of calls. For each class except `blocking`, the number of calls in flight at an endpoint has a separate
 * bound.
 *
 * - normal: Most calls.
 * - urgent: Calls that must not wait behind normal calls, such as releases of locks.
 * - blocking: The calls `Lock` and `Campaign`, which wait for other clients by design. If the bound of the normal calls
 *   applied to them, waiting calls could use it up, and the calls of the lock's holder would wait behind them.
 */
export type CallClass = 'normal' | 'urgent' | 'blocking';

/**
 * How a client chooses the endpoint of a call.
 *
 * - sticky: The client starts at a random endpoint and uses it until the endpoint fails. The client then uses another
 *   random endpoint. If a fleet has many clients, their load spreads over all members.
 * - round-robin: Unary calls use all available endpoints in turn. Streams, which carry watches and keepalives, use one
 *   endpoint, as with `sticky`. Use `round-robin` if a few clients cause most of the load. Serializable reads then see
 *   the data of different members, so a read may return older data than the read before it; `orderedReads` prevents
 *   that.
 * - in-order: As `sticky`, but the client starts at the first endpoint of the list, for example the nearest, and goes
 *   on to the next one in the list when an endpoint fails. The client does not return to an earlier endpoint while the
 *   endpoint in use works.
 *
 * @example
 * const balance: Balance = 'round-robin';
 */
export type Balance = 'sticky' | 'round-robin' | 'in-order';

export const BALANCES = {
  sticky: 'sticky',
  'round-robin': 'round-robin',
  'in-order': 'in-order',
} as const satisfies Record<Balance, Balance>;

/** One endpoint with its transport and its recent failures. All times are on the monotonic clock. */
export interface PooledEndpoint {
  readonly url: string;
  readonly transport: Transport;
  /** Number of failures since the last success, without failures while the endpoint was parked. */
  failures: number;
  failedAt: number;
  /**
   * The endpoint is parked until this time: calls that do not name it use it only if no other endpoint is available.
   */
  parkedUntil: number;
  /**
   * When the first attempt began that has timed out since the endpoint last answered a linearizable call. Infinity if no
   * attempt has timed out since.
   */
  unansweredSince: number;
  /** Number of failed connection attempts since the last success. */
  connectFailures: number;
  /** Time until which calls wait before they try to connect to the endpoint again. */
  connectAt: number;
  /**
   * Whether etcd has answered at this endpoint. If so, the client assumes that a later answer that is not etcd's comes
   * from a proxy in front of etcd.
   */
  isEtcd: boolean;
  /** Number of calls and streams that use the endpoint or are about to use it. */
  users: number;
  /** Number of unary calls of each class that use the endpoint. `CallQueue` counts them. */
  readonly inFlight: Record<CallClass, number>;
}

/**
 * Chooses the endpoint of each call, see `Balance`. The pool parks an endpoint that fails, and parks the endpoint for
 * longer after each consecutive failure.
 */
export class EndpointPool {
  /** The endpoints of the options, or those of the latest `reset`. */
  configured: readonly Endpoint[];
  readonly #transportOf: (endpoint: Endpoint) => Transport;
  readonly #balance: Balance;
  readonly #events: ClientEvents | undefined;
  /**
   * The preferred and spare endpoints, and former endpoints that calls or streams still use. Each key is the endpoint's
   * URL.
   */
  readonly #known = new Map<string, PooledEndpoint>();
  #preferred: readonly PooledEndpoint[];
  /** Configured endpoints that are not preferred. Used only while no preferred endpoint is available. */
  #spare: readonly PooledEndpoint[] = [];
  /**
   * Index of the current endpoint in `#preferred`. Streams use it, and so do calls, unless the balance is
   * `round-robin`.
   */
  #current: number;
  /** For `round-robin`: modulo the number of preferred endpoints, the index of the endpoint whose turn is next. */
  #next: number;

  constructor(
    configured: readonly Endpoint[],
    transportOf: (endpoint: Endpoint) => Transport,
    { balance, events }: { readonly balance: Balance; readonly events?: ClientEvents | undefined },
  ) {
    this.configured = configured;
    this.#transportOf = transportOf;
    this.#balance = balance;
    this.#events = events;
    this.#preferred = configured.map((endpoint) => this.#pooled(endpoint));
    this.#current = this.#chooseIndex(this.#preferred);
    this.#next = this.#current;
  }

  /** URLs of the preferred endpoints. */
  get urls(): readonly string[] {
    return this.#preferred.map(({ url }) => url);
  }

  /** URLs of the preferred endpoints that are parked, or whose connection does not answer. */
  get unavailable(): readonly string[] {
    const now = monotonicMs();
    return this.#preferred.filter((endpoint) => !isAvailable(endpoint, now)).map(({ url }) => url);
  }

  /** The endpoint of the next stream. */
  get current(): PooledEndpoint {
    return this.#preferred[this.#current] as PooledEndpoint;
  }

  get all(): readonly PooledEndpoint[] {
    return [...this.#preferred, ...this.#spare];
  }

  /**
   * Replaces the preferred endpoints. Keeps the current endpoint if the new list still contains it. Configured
   * endpoints that are not in the new list become spare endpoints.
   *
   * @throws the error of a transport that refuses its endpoint. The pool is unchanged then.
   */
  replace(endpoints: readonly Endpoint[], configured = this.configured): void {
    const before = this.urls;
    const { current } = this;
    // A transport may refuse its endpoint, so all transports are created before the pool changes.
    const preferred = new Set(endpoints.map((endpoint) => this.#pooled(endpoint)));
    const all = configured.map((endpoint) => this.#pooled(endpoint));
    this.configured = configured;
    this.#preferred = [...preferred];
    this.#spare = all.filter((endpoint) => !preferred.has(endpoint));
    const index = this.#preferred.indexOf(current);
    this.#current = index >= 0 ? index : this.#chooseIndex(this.#preferred);
    for (const endpoint of [...this.#known.values()]) this.#forgetUnused(endpoint);
    if (endpoints.some(({ url }) => !before.includes(url)) || endpoints.length !== before.length)
      this.#events?.report({ type: 'endpoints changed', endpoints: endpoints.map(({ url }) => url) });
  }

  /** Replaces the preferred and the configured endpoints. */
  reset(endpoints: readonly Endpoint[]): void {
    this.replace(endpoints, endpoints);
  }

  /**
   * Returns the endpoint for a stream, and counts the stream as a user of the endpoint until `release` is called. If no
   * endpoint is available, returns the endpoint whose parking ends first.
   *
   * @throws EtcdError, reason `InvalidInput`, if `url` is given and no endpoint has this URL.
   */
  pick(url?: string): PooledEndpoint {
    const endpoint = url === undefined ? this.#currentOrNext() : this.#named(url);
    endpoint.users += 1;
    return endpoint;
  }

  /** Does the same as `pick` for an attempt of a unary call. With `round-robin`, prefers an endpoint that has room. */
  pickForCall(url: string | undefined, callClass: CallClass, maxInFlight: number): PooledEndpoint {
    const takesTurn = url === undefined && this.#balance === 'round-robin';
    const turn = takesTurn ? this.#inTurn(callClass, maxInFlight) : undefined;
    if (turn === undefined) return this.pick(url);
    turn.users += 1;
    return turn;
  }

  /** Whether calls may use the endpoint: it is still preferred, and works as far as the client knows. */
  isAvailable(endpoint: PooledEndpoint): boolean {
    return this.#preferred.includes(endpoint) && isAvailable(endpoint, monotonicMs());
  }

  /** Removes one user. Closes the transport of a former endpoint without users. */
  release(endpoint: PooledEndpoint): void {
    endpoint.users -= 1;
    this.#forgetUnused(endpoint);
  }

  /**
   * Makes the endpoint available again after an attempt that succeeded. Ignores an attempt that started before the last
   * failure, because it does not prove that the endpoint is available now.
   */
  succeeded(endpoint: PooledEndpoint, startedAt: number): void {
    if (endpoint.failures === 0 || startedAt < endpoint.failedAt) return;
    endpoint.failures = 0;
    endpoint.parkedUntil = 0;
    endpoint.connectFailures = 0;
    endpoint.connectAt = 0;
    this.#events?.report({ type: 'endpoint available again', endpoint: endpoint.url });
  }

  /**
   * Parks the endpoint, and leaves it if it is the current one. Does not count failures of a parked endpoint, because a
   * broken connection makes all its calls fail at once.
   */
  failed(endpoint: PooledEndpoint, reason: Reason, problem: string): void {
    const now = monotonicMs();
    if (reason === 'ConnectFailed' && endpoint.connectAt <= now) {
      endpoint.connectAt = now + backoffMs(endpoint.connectFailures);
      endpoint.connectFailures += 1;
    }
    if (endpoint.parkedUntil > now) return;
    const wasAvailable = endpoint.failures === 0;
    endpoint.parkedUntil = now + PARK_MS + backoffMs(endpoint.failures);
    endpoint.failedAt = now;
    endpoint.failures += 1;
    // Choose another endpoint now. A client whose next call comes after the parking would otherwise use the endpoint
    // again.
    this.#currentOrNext();
    if (wasAvailable) this.#events?.report({ type: 'endpoint unavailable', endpoint: endpoint.url, reason, problem });
  }

  /**
   * Returns the milliseconds that a call waits before its next attempt. While an endpoint refuses connections, all
   * calls to the endpoint wait until the same time, so that they share one connection attempt.
   */
  pauseMs(endpoint: PooledEndpoint, attempt: number): number {
    const now = monotonicMs();
    if (endpoint.connectAt > now) return endpoint.connectAt - now;
    const delayMs = backoffMs(attempt);
    // The next calls wait until the same time.
    if (endpoint.connectFailures > 0) endpoint.connectAt = now + delayMs;
    return delayMs;
  }

  async close(): Promise<void> {
    await Promise.all([...this.#known.values()].map(({ transport }) => transport.close()));
  }

  /** Returns the next available preferred endpoint with room. Returns undefined if no such endpoint exists. */
  #inTurn(callClass: CallClass, maxInFlight: number): PooledEndpoint | undefined {
    const now = monotonicMs();
    const preferred = this.#preferred;
    for (let tried = 0; tried < preferred.length; tried += 1) {
      const endpoint = preferred[this.#next++ % preferred.length] as PooledEndpoint;
      if (isAvailable(endpoint, now) && hasRoom(endpoint, callClass, maxInFlight)) return endpoint;
    }
    return undefined;
  }

  #currentOrNext(): PooledEndpoint {
    const now = monotonicMs();
    const { current } = this;
    if (isAvailable(current, now)) return current;
    const next = [...this.#preferred.slice(this.#current), ...this.#preferred.slice(0, this.#current)];
    const others = next.filter((endpoint) => isAvailable(endpoint, now));
    if (others.length > 0) {
      const endpoint = others[this.#chooseIndex(others)] as PooledEndpoint;
      this.#current = this.#preferred.indexOf(endpoint);
      return endpoint;
    }
    const spare = this.#spare.find((endpoint) => isAvailable(endpoint, now));
    return spare ?? this.all.reduce((best, other) => (other.parkedUntil < best.parkedUntil ? other : best));
  }

  /**
   * Chooses an endpoint, and returns its index. Unless the balance is `in-order`, the choice is random, so that many
   * clients, or the clients of a failed member, spread over the endpoints.
   */
  #chooseIndex(endpoints: readonly PooledEndpoint[]): number {
    return this.#balance === 'in-order' ? 0 : Math.floor(environment.Math.random() * endpoints.length);
  }

  #named(given: string): PooledEndpoint {
    const all = this.all;
    const { url } = parseEndpoint(given, 'endpoint', all[0]?.url.startsWith('https:') ? 'https' : 'http');
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
    const unansweredSince = Number.POSITIVE_INFINITY;
    const inFlight = { normal: 0, urgent: 0, blocking: 0 };
    const pooled: PooledEndpoint = { url, transport, ...counters, unansweredSince, isEtcd: false, inFlight };
    this.#known.set(url, pooled);
    return pooled;
  }

  #forgetUnused(endpoint: PooledEndpoint): void {
    if (endpoint.users > 0 || this.#preferred.includes(endpoint) || this.#spare.includes(endpoint)) return;
    this.#known.delete(endpoint.url);
    void endpoint.transport.close().catch(() => {});
  }
}

export function hasRoom({ inFlight }: PooledEndpoint, callClass: CallClass, maxInFlight: number): boolean {
  return callClass === 'blocking' || inFlight[callClass] < maxInFlight;
}

function isAvailable({ parkedUntil, transport }: PooledEndpoint, now: number): boolean {
  return parkedUntil <= now && !transport.suspect;
}
