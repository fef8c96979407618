import { type EtcdError, monotonicMs, type Reason } from '../../base/index.js';
import type {
  LeaseKeepAliveRequest,
  LeaseKeepAliveResponse,
  LeaseRevokeRequest,
  WatchRequest,
  WatchResponse,
} from '../../gen/etcdserverpb/rpc.js';
import type { MethodPath } from '../../gen/methods.js';
import {
  type CallObserver,
  type CancelFailure,
  type Interceptor,
  observeStream,
  observeUnary,
} from '../../rpc/index.js';
import type { Init } from '../../wire/index.js';
import { LatencyHistogram } from './latency-histogram.js';

const WATCH: MethodPath = '/etcdserverpb.Watch/Watch';
const KEEP_ALIVE: MethodPath = '/etcdserverpb.Lease/LeaseKeepAlive';
const REVOKE: MethodPath = '/etcdserverpb.Lease/LeaseRevoke';

/** Exponents of 2 of the bounds of `LatencyStats.buckets`, from 0.25 ms to 16.4 s. */
const BUCKET_EXPONENTS = Array.from({ length: 17 }, (_, index) => index - 2);

/** The number of recorded leases at which expired leases are first removed. */
const LEASES_BEFORE_REMOVAL = 1_000;

/** How many calls failed, by reason. Contains only reasons that have occurred. */
export type ErrorCounts = Readonly<Partial<Record<Reason, number>>>;

/**
 * How long the calls of one method took, from the call to its result or error. This includes the wait in the client's
 * queue and all retries.
 */
export interface LatencyStats {
  /** Number of calls that have ended. */
  readonly count: number;
  /** Sum of the times of these calls in milliseconds. */
  readonly sumMs: number;
  /** The longest time in milliseconds. 0 if no call has ended. */
  readonly maxMs: number;
  /**
   * The time in milliseconds that half of the calls did not exceed, and the times that 95 % and 99 % did not exceed.
   * Each value differs by at most 4.5 % from the exact time, for times from 16 µs to 4.7 h. Undefined if no call has
   * ended.
   */
  readonly p50Ms: number | undefined;
  readonly p95Ms: number | undefined;
  readonly p99Ms: number | undefined;
  /**
   * `count` is the number of calls that took at most `leMs` milliseconds, so it includes the calls of earlier buckets.
   * The bounds are the powers of two from 0.25 to 16,384. The counts are exact.
   */
  readonly buckets: readonly { readonly leMs: number; readonly count: number }[];
}

/** Counts the unary calls of one method: `started` is the sum of `succeeded`, `failed`, `inFlight` and `queued`. */
export interface CallStats {
  readonly started: number;
  readonly succeeded: number;
  readonly failed: number;
  readonly errors: ErrorCounts;
  /** Calls in progress whose request the client has begun to send at least once. */
  readonly inFlight: number;
  /** Calls in progress of which nothing was sent. They wait because of `maxInFlight`, or for a connection. */
  readonly queued: number;
  /** Attempts of all calls. A call that fails in the queue has none. */
  readonly attempts: number;
  /** Failed attempts after which the client made, or will make, another attempt. */
  readonly retries: number;
  readonly latency: LatencyStats;
}

/** Counts the streams of one method. */
export interface StreamStats {
  /** Streams that the client has opened. Each reconnect opens a stream. */
  readonly opened: number;
  readonly open: number;
  /** Streams that ended with an error, or that the client canceled because of a failure. */
  readonly failed: number;
  readonly errors: ErrorCounts;
  /** Messages sent. */
  readonly sent: number;
  /** Messages received. */
  readonly received: number;
}

/** The result of `Stats.snapshot`. It contains only numbers and names, so that it can become JSON. */
export interface StatsSnapshot {
  /** The methods that were called, by gRPC path, such as `/etcdserverpb.KV/Put`. */
  readonly calls: Readonly<Record<string, CallStats>>;
  /** The methods of which streams were opened, by gRPC path, such as `/etcdserverpb.Watch/Watch`. */
  readonly streams: Readonly<Record<string, StreamStats>>;
  /** Watches that servers have created and not ended, on streams that are open. 0 while the client reconnects. */
  readonly watches: number;
  /**
   * Leases that were renewed and that exist, according to the TTL in the latest answer. A lease counts from its first
   * renewal on. A lease that the client no longer renews counts until its TTL has passed, or until the client revokes
   * it.
   */
  readonly leases: number;
}

/** The interceptor that `collectStats` returns. */
export interface Stats extends Interceptor {
  /** Returns the current numbers. They count from the call of `collectStats`, and are never reset. */
  snapshot(): StatsSnapshot;
}

/**
 * Returns an interceptor that counts calls, errors, retries, streams, watches and leases, and measures how long calls
 * take. Several clients may share it. The numbers contain no key, value, token or password. Memory: about 3 kB for each
 * method that is called, and 100 bytes for each lease.
 *
 * The wait for a token is not part of a call, because the client obtains the token before the interceptors see the
 * call. If the client repeats the whole call, for example with a new token, the repetition counts as another call.
 *
 * @example
 * const stats = collectStats();
 * const etcd = new Client({ endpoints: ['http://127.0.0.1:2379'], interceptors: [stats] });
 * await etcd.put('config/color', 'blue');
 * const puts = stats.snapshot().calls['/etcdserverpb.KV/Put'];
 * console.log(puts?.succeeded, puts?.failed, puts?.inFlight); // 1 0 0
 */
export function collectStats(): Stats {
  const calls = new Map<string, MethodCalls>();
  const streams = new Map<string, MethodStreams>();
  const watches = new Watches();
  const leases = new RenewedLeases();
  const trackerOf = (path: string): MessageTracker | undefined => {
    if (path === WATCH) return new WatchTracker(watches);
    return path === KEEP_ALIVE ? new RenewalTracker(leases) : undefined;
  };
  return {
    unary: async (call, next) => {
      const { path } = call.method;
      const response = await observeUnary(new ObservedCall(entryOf(calls, path, MethodCalls)), call, next);
      if (path === REVOKE) leases.ended((call.request as Init<LeaseRevokeRequest>).id ?? 0n);
      return response;
    },
    stream: (call, handler, next) => {
      const { path } = call.method;
      const observer = new ObservedStream(entryOf(streams, path, MethodStreams), trackerOf(path));
      return observeStream(observer, call, handler, next);
    },
    snapshot: () => ({
      calls: snapshotOf(calls),
      streams: snapshotOf(streams),
      watches: watches.live,
      leases: leases.count(),
    }),
  };
}

function entryOf<T>(entries: Map<string, T>, path: string, Entry: new () => T): T {
  const found = entries.get(path);
  if (found !== undefined) return found;
  const added = new Entry();
  entries.set(path, added);
  return added;
}

function snapshotOf<T>(entries: ReadonlyMap<string, { snapshot(): T }>): Readonly<Record<string, T>> {
  return Object.fromEntries([...entries].map(([path, entry]) => [path, entry.snapshot()]));
}

class Failures {
  count = 0;
  readonly #byReason = new Map<Reason, number>();

  add(reason: Reason): void {
    this.count += 1;
    this.#byReason.set(reason, (this.#byReason.get(reason) ?? 0) + 1);
  }

  snapshot(): { readonly failed: number; readonly errors: ErrorCounts } {
    return { failed: this.count, errors: Object.fromEntries(this.#byReason) };
  }
}

/** Returns the reason of an `EtcdError`, also of another copy of this package, and `Other` for any other error. */
function reasonOf(error: unknown): Reason {
  const { name, reason } = { ...(error as Partial<EtcdError> | null) };
  return name === 'EtcdError' && reason !== undefined ? reason : 'Other';
}

class MethodCalls {
  started = 0;
  succeeded = 0;
  inFlight = 0;
  queued = 0;
  attempts = 0;
  retries = 0;
  readonly failures = new Failures();
  readonly latency = new LatencyHistogram();

  snapshot(): CallStats {
    const { started, succeeded, inFlight, queued, attempts, retries, failures, latency } = this;
    const { count, sumMs, maxMs } = latency;
    return {
      ...{ started, succeeded, ...failures.snapshot(), inFlight, queued, attempts, retries },
      latency: {
        ...{ count, sumMs, maxMs },
        ...{ p50Ms: latency.quantileMs(0.5), p95Ms: latency.quantileMs(0.95), p99Ms: latency.quantileMs(0.99) },
        buckets: BUCKET_EXPONENTS.map((exponent) => ({ leMs: 2 ** exponent, count: latency.countUpTo(exponent) })),
      },
    };
  }
}

class ObservedCall implements CallObserver {
  readonly #method: MethodCalls;
  readonly #startedAt = monotonicMs();
  #state: 'queued' | 'inFlight' | 'ended' = 'queued';

  constructor(method: MethodCalls) {
    this.#method = method;
    method.started += 1;
    method.queued += 1;
  }

  attempt(): void {
    this.#method.attempts += 1;
  }

  sent(): void {
    if (this.#state !== 'queued') return;
    this.#state = 'inFlight';
    this.#method.queued -= 1;
    this.#method.inFlight += 1;
  }

  retry(): void {
    this.#method.retries += 1;
  }

  ended(error: unknown): void {
    if (this.#state !== 'ended') this.#method[this.#state] -= 1;
    this.#state = 'ended';
    this.#method.latency.add(monotonicMs() - this.#startedAt);
    if (error === undefined) this.#method.succeeded += 1;
    else this.#method.failures.add(reasonOf(error));
  }
}

class MethodStreams {
  opened = 0;
  open = 0;
  sent = 0;
  received = 0;
  readonly failures = new Failures();

  snapshot(): StreamStats {
    const { opened, open, failures, sent, received } = this;
    return { opened, open, ...failures.snapshot(), sent, received };
  }
}

class ObservedStream implements CallObserver {
  readonly #method: MethodStreams;
  readonly #tracker: MessageTracker | undefined;

  constructor(method: MethodStreams, tracker: MessageTracker | undefined) {
    this.#method = method;
    this.#tracker = tracker;
    method.opened += 1;
    method.open += 1;
  }

  request(message: unknown): void {
    this.#method.sent += 1;
    this.#tracker?.request(message);
  }

  response(message: unknown): void {
    this.#method.received += 1;
    this.#tracker?.response(message);
  }

  ended(error: unknown): void {
    this.#over(error === undefined ? undefined : reasonOf(error));
  }

  canceled(failure: CancelFailure | undefined): void {
    this.#over(failure?.reason);
  }

  #over(reason: Reason | undefined): void {
    this.#method.open -= 1;
    this.#tracker?.ended();
    if (reason !== undefined) this.#method.failures.add(reason);
  }
}

/** Tracks objects on the server, such as watches, by the messages of one stream. */
interface MessageTracker {
  request(message: unknown): void;
  response(message: unknown): void;
  ended(): void;
}

/** Counts the watches on all streams. */
class Watches {
  live = 0;
}

/** Follows the watches on one stream. Their IDs are valid only on this stream. */
class WatchTracker implements MessageTracker {
  readonly #watches: Watches;
  readonly #live = new Set<bigint>();
  /** Number of unanswered requests to create a watch. A server cannot add more IDs than the client asks for. */
  #requested = 0;

  constructor(watches: Watches) {
    this.#watches = watches;
  }

  request(message: unknown): void {
    if ((message as Init<WatchRequest>).requestUnion?.case === 'createRequest') this.#requested += 1;
  }

  response(message: unknown): void {
    const { watchId, created, canceled } = message as WatchResponse;
    const before = this.#live.size;
    // The answer to a refused request says both that the watch was created and that it was canceled.
    if (canceled) this.#live.delete(watchId);
    else if (created && this.#requested > 0) this.#live.add(watchId);
    if (created) this.#requested = Math.max(0, this.#requested - 1);
    this.#watches.live += this.#live.size - before;
  }

  ended(): void {
    this.#watches.live -= this.#live.size;
    this.#live.clear();
  }
}

/** The leases that were renewed, on all streams. */
class RenewedLeases {
  /** When the TTL of each lease ends, by lease ID, in milliseconds on the monotonic clock. */
  readonly #endMs = new Map<bigint, number>();
  /** The number of leases at which `renewed` removes the expired leases. */
  #removeAt = LEASES_BEFORE_REMOVAL;

  renewed(id: bigint, endMs: number): void {
    this.#endMs.set(id, endMs);
    // The number of leases doubles between two removals, so the time per renewal is constant on average.
    if (this.#endMs.size >= this.#removeAt) this.#removeAt = Math.max(LEASES_BEFORE_REMOVAL, 2 * this.count());
  }

  ended(id: bigint): void {
    this.#endMs.delete(id);
  }

  /** Removes the expired leases. Returns the number of the remaining leases. */
  count(): number {
    const now = monotonicMs();
    for (const [id, endMs] of this.#endMs) if (endMs <= now) this.#endMs.delete(id);
    return this.#endMs.size;
  }
}

class RenewalTracker implements MessageTracker {
  readonly #leases: RenewedLeases;
  /** When the latest unanswered request for each lease was sent, by lease ID. `response` ignores any other answer. */
  readonly #sentAt = new Map<bigint, number>();

  constructor(leases: RenewedLeases) {
    this.#leases = leases;
  }

  request(message: unknown): void {
    this.#sentAt.set((message as Init<LeaseKeepAliveRequest>).id ?? 0n, monotonicMs());
  }

  response(message: unknown): void {
    const { id, ttl } = message as LeaseKeepAliveResponse;
    const sentAt = this.#sentAt.get(id);
    if (sentAt === undefined) return;
    this.#sentAt.delete(id);
    if (ttl > 0n) this.#leases.renewed(id, sentAt + Number(ttl) * 1_000);
    else this.#leases.ended(id);
  }

  ended(): void {
    this.#sentAt.clear();
  }
}
