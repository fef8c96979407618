import { Deadlines, type EtcdError, type Expiring, monotonicMs, type Reason } from '../../base/index.js';
import type { LeaseKeepAliveRequest, LeaseKeepAliveResponse } from '../../gen/etcdserverpb/rpc.js';
import * as leaseMethods from '../../gen/methods/lease.js';
import { type NextStream, ResumableStream, type Rpc } from '../../rpc/index.js';
import { KeepAlive, type KeepAliveScope, leaseLost, lostWithClient, Moment } from './keep-alive.js';

/**
 * The client renews a lease this many times in one TTL: a renewal is due when a third of the TTL has passed. If the
 * server does not answer a renewal in time, the client sends the renewal again on the next stream. So two renewals in a
 * row may fail before the lease expires.
 */
const RENEWALS_PER_TTL = 3;
/**
 * The client divides the interval between two renewals into this many slots, and schedules the next renewal of each
 * lease for the start of a slot.
 */
const SLOTS_PER_INTERVAL = 16;
/**
 * The minimum time in milliseconds that the client waits for an answer, because the cluster may be electing a leader.
 */
const MIN_ANSWER_TIMEOUT_MS = 500;
/** The maximum time in milliseconds that the client waits for the first answer about a lease with an unknown TTL. */
const MAX_FIRST_ANSWER_TIMEOUT_MS = 10_000;
/**
 * The grace period in milliseconds after the time for an answer has passed. If the event loop was blocked, the answer
 * may have arrived although the client has not read it yet.
 */
const GRACE_MS = 50;

const NO_ANSWER = { at: Number.NEGATIVE_INFINITY, sentAt: Number.NEGATIVE_INFINITY };

/**
 * Reasons with which a keepalive ends because the program asked for it. The client then reports no event `lease lost`.
 */
const ASKED_FOR: ReadonlySet<Reason> = new Set(['LeaseRevoked', 'KeepAliveClosed', 'ClientClosed']);

/** A lease that the client renews, with all its keepalives. */
class RenewedLease implements Expiring {
  slot = -1;
  /** When `Deadlines` calls `expire`: the time of the next renewal, or the end of the time for an answer. */
  deadline = 0;
  readonly id: bigint;
  /** Called at `deadline`. */
  readonly expire: () => void;
  readonly keepAlives = new Set<KeepAlive>();
  /** The TTL in seconds that the latest grant or renewal returned. Undefined before the client knows the TTL. */
  ttl: number | undefined;
  /** The TTL in seconds of the latest `Lease` that a caller passed. Undefined if all callers passed only the ID. */
  granted: number | undefined;
  /**
   * The state of the next or latest renewal request. A lease has at most one unanswered request, so the lease ID is
   * enough to match an answer to its request.
   *
   * - `idle`: No request is due. A timer runs until the next request.
   * - `due`: The next request waits for a stream, or for an earlier answer while the client sends one request at a
   *   time.
   * - `sent`: The request is unanswered.
   * - `overdue`: The time for the answer has passed, and the grace period `GRACE_MS` runs.
   */
  state: 'idle' | 'due' | 'sent' | 'overdue' = 'idle';
  /** When the client sent the latest request. */
  sent = new Moment();

  constructor(id: bigint, onTimer: (lease: RenewedLease) => void) {
    this.id = id;
    this.expire = () => onTimer(this);
  }
}

/**
 * Renews all leases of a client and its namespaces over one stream. The stream opens when a request is due, and stays open while the
 * client renews at least one lease.
 */
export class RenewalStream extends ResumableStream<LeaseKeepAliveRequest, LeaseKeepAliveResponse> {
  readonly #leases = new Map<bigint, RenewedLease>();
  readonly #timers = new Deadlines<RenewedLease>();
  readonly #deadlines = new Deadlines<Expiring>();
  /**
   * The unanswered requests on this stream: for each lease ID, the leases whose renewal the client has requested, in the
   * order of the requests. The server answers the requests for one ID in this order. A request has no owner if all
   * keepalives of its lease have ended since: `#leases` then contains another lease with this ID, or none.
   */
  readonly #unanswered = new Map<bigint, RenewedLease[]>();
  /**
   * `at`: when the latest answer arrived on this stream. `sentAt`: when the client sent the latest answered request.
   */
  #answer = NO_ANSWER;
  /** Number of consecutive streams that the client has canceled because an answer was late. */
  #lateAnswers = 0;
  /**
   * Whether the client sends one request at a time. It does so after the server has refused one of several unanswered
   * requests, to learn which request the server refuses. A request without an owner does not delay the next request.
   */
  #oneByOne = false;
  /** Whether the latest stream has ended with unanswered requests. */
  #endedUnanswered = false;

  constructor(rpc: Rpc) {
    super(rpc, leaseMethods.leaseKeepAlive, 'keepalives');
  }

  /**
   * Returns a new keepalive for the lease. `granted` contains the time when the client sent the grant request, and
   * the granted TTL in seconds. `granted` is undefined if the caller knows only the lease ID.
   */
  keepAlive(id: bigint, granted?: { readonly sent: Moment; readonly ttl: number }, scope?: KeepAliveScope): KeepAlive {
    const keepAlive = new KeepAlive(id, this.#deadlines, scope);
    if (this.isClosed || scope?.isClosed) {
      keepAlive.lose(lostWithClient(id));
      return keepAlive;
    }
    this.use();
    keepAlive.onLost(() => this.#release(keepAlive));
    const lease = this.#leases.get(id) ?? new RenewedLease(id, (due) => this.#onTimer(due));
    this.#leases.set(id, lease);
    lease.keepAlives.add(keepAlive);
    if (granted !== undefined) {
      lease.granted = granted.ttl;
      lease.ttl = granted.ttl;
      keepAlive.acknowledged(granted.sent, granted.ttl);
    }
    if (lease.state === 'idle') {
      if (granted === undefined) this.#schedule(lease, 0);
      else this.#scheduleNext(lease, granted.sent, granted.ttl);
    } else if (lease.state === 'sent') {
      // The unanswered renewal also counts for this keepalive. If the client has just learned the TTL, the time limit
      // for the answer changes.
      this.#scheduleAt(lease, lease.sent.monotonic + this.#answerTimeoutMs(lease));
    }
    this.limitBackoff(maxBackoffMs(lease));
    return keepAlive;
  }

  /** Ends every keepalive of a keyspace that is closed. */
  closeScope(scope: KeepAliveScope): void {
    const own = [...this.#leases.values()]
      .flatMap(({ keepAlives }) => [...keepAlives])
      .filter((one) => one.scope === scope);
    for (const keepAlive of own) keepAlive.lose(lostWithClient(keepAlive.id));
  }

  /** Ends every keepalive of a lease with `reason`, for example because the client is about to revoke the lease. */
  lose(id: bigint, reason: EtcdError): void {
    const lease = this.#leases.get(id);
    if (lease === undefined) return;
    this.#drop(lease);
    for (const keepAlive of lease.keepAlives) keepAlive.lose(reason);
  }

  protected get userCount(): { readonly leases: number } {
    return { leases: this.#leases.size };
  }

  protected endAll(error: EtcdError): void {
    for (const id of [...this.#leases.keys()])
      this.lose(id, error.reason === 'ClientClosed' ? lostWithClient(id) : error);
  }

  #release(keepAlive: KeepAlive): void {
    const { reason, problem } = keepAlive.lostBy as EtcdError;
    if (!ASKED_FOR.has(reason))
      this.rpc.settings.events.report({ type: 'lease lost', lease: keepAlive.id.toString(16), reason, problem });
    const lease = this.#leases.get(keepAlive.id);
    lease?.keepAlives.delete(keepAlive);
    if (lease?.keepAlives.size === 0) this.#drop(lease);
  }

  #drop(lease: RenewedLease): void {
    this.#timers.delete(lease);
    this.#leases.delete(lease.id);
    if (this.#leases.size === 0) this.release();
    else if (this.#oneByOne && isUnanswered(lease)) {
      // Send the next request in a microtask, because the caller may close several keepalives at once, and the request
      // should be for a lease that is still kept alive.
      queueMicrotask(() => {
        if (!this.isWaiting) this.goOn();
      });
    }
  }

  #schedule(lease: RenewedLease, delayMs: number): void {
    this.#scheduleAt(lease, monotonicMs() + delayMs);
  }

  #scheduleAt(lease: RenewedLease, due: number): void {
    this.#timers.delete(lease);
    lease.deadline = due;
    this.#timers.add(lease);
  }

  /**
   * Schedules the next renewal. The client sent the previous request at the given `Moment`, and the server granted
   * `ttl` seconds. The renewal is up to a sixteenth of the interval early, so that leases with the same TTL are renewed
   * together: their requests share one write, and usually one packet.
   */
  #scheduleNext(lease: RenewedLease, { monotonic }: Moment, ttl: number): void {
    lease.ttl = ttl;
    const slotMs = intervalMs(ttl) / SLOTS_PER_INTERVAL;
    this.#scheduleAt(lease, Math.floor((monotonic + intervalMs(ttl)) / slotMs) * slotMs);
  }

  #onTimer(lease: RenewedLease): void {
    // After a suspension of the machine, the deadline of a keepalive may have passed although its timer has not fired.
    // Reading `lostBy` checks the deadline.
    for (const keepAlive of lease.keepAlives) void keepAlive.lostBy;
    if (!this.#leases.has(lease.id)) return;
    if (isUnanswered(lease)) return this.#checkAnswer(lease);
    lease.state = 'due';
    if (this.isWaiting) return;
    if (this.#oneByOne) this.goOn();
    else this.#send(lease);
  }

  /**
   * Acts after the time for an answer has passed: waits longer, starts the grace period, or replaces the stream.
   *
   * The server answers in order. While the server is still answering earlier requests, a later request has to wait, and
   * a new stream would not help. If the server has answered a later request, it has skipped the request for this lease,
   * so the client waits only for the grace period.
   */
  #checkAnswer(lease: RenewedLease): void {
    const isPassedOver = this.#answer.sentAt > lease.sent.monotonic;
    const leftMs = isPassedOver ? 0 : this.#answer.at + this.#answerTimeoutMs(lease) - monotonicMs();
    if (leftMs > 0) {
      lease.state = 'sent';
      this.#schedule(lease, leftMs);
    } else if (lease.state === 'sent') {
      lease.state = 'overdue';
      this.#schedule(lease, GRACE_MS);
    } else {
      this.#lateAnswers += 1;
      this.reopen({ problem: 'the server did not answer in time' }, 'unresponsive');
    }
  }

  /** Sends all requests that are due, or only the first of them while the client sends one request at a time. */
  protected goOn(): void {
    const all = [...this.#leases.values()];
    const due = all.filter(({ state }) => state === 'due');
    const hasUnanswered = all.some(isUnanswered);
    if (due.length === 0 && !hasUnanswered) this.#oneByOne = false;
    if (!this.#oneByOne) for (const lease of due) this.#send(lease);
    else if (!hasUnanswered && due[0] !== undefined) this.#send(due[0]);
  }

  #send(lease: RenewedLease): void {
    if (this.isWaiting) return;
    const stream = this.stream ?? this.open();
    // An interceptor may have ended the stream, or the keepalives of the lease, while the stream opened.
    if (stream === undefined || this.#leases.get(lease.id) !== lease) return;
    lease.state = 'sent';
    lease.sent = new Moment();
    this.#unanswered.set(lease.id, [...(this.#unanswered.get(lease.id) ?? []), lease]);
    this.#schedule(lease, this.#answerTimeoutMs(lease));
    stream.send({ id: lease.id });
  }

  /**
   * Returns how long the client waits for an answer: half of the time between two renewals, but at least
   * `MIN_ANSWER_TIMEOUT_MS`. If the TTL is unknown, the client cannot tell how soon the lease ends, so it gives a slow
   * server more time after each late answer.
   */
  #answerTimeoutMs({ ttl }: RenewedLease): number {
    if (ttl === undefined) return Math.min(MIN_ANSWER_TIMEOUT_MS * 2 ** this.#lateAnswers, MAX_FIRST_ANSWER_TIMEOUT_MS);
    return Math.max(intervalMs(ttl) / 2, MIN_ANSWER_TIMEOUT_MS);
  }

  protected message({ id, ttl }: LeaseKeepAliveResponse): void {
    this.#lateAnswers = 0;
    this.accepted();
    const [lease, ...later] = this.#unanswered.get(id) ?? [];
    if (later.length > 0) this.#unanswered.set(id, later);
    else this.#unanswered.delete(id);
    if (lease === undefined || this.#leases.get(id) !== lease) return;
    this.#answer = { at: monotonicMs(), sentAt: Math.max(lease.sent.monotonic, this.#answer.sentAt) };
    lease.state = 'idle';
    if (ttl > 0n) this.#renewed(lease, Number(ttl));
    else this.lose(id, leaseLost(id, 'LeaseExpired', 'does not exist on the server'));
    if (this.#oneByOne) this.goOn();
  }

  /**
   * Records a renewal and schedules the next one. etcd renews a lease by the TTL that it granted. If a proxy or a
   * faulty server answers with a larger TTL, the client does not use that TTL, because the lease may expire before a
   * deadline that is computed from it.
   */
  #renewed(lease: RenewedLease, answeredTtl: number): void {
    const ttl = Math.min(answeredTtl, lease.granted ?? answeredTtl);
    for (const keepAlive of lease.keepAlives) keepAlive.acknowledged(lease.sent, ttl);
    // If the answer came too late for every keepalive, all of them have ended, and the lease is no longer in `#leases`.
    if (this.#leases.get(lease.id) === lease) this.#scheduleNext(lease, lease.sent, ttl);
  }

  /**
   * Makes the unanswered requests due again.
   *
   * If the user may not write all keys that are attached to a lease, the server refuses to renew the lease. The server
   * then ends the stream, which all leases share, and does not name the lease. So the client sends the unanswered
   * requests again, one at a time. If only one request was unanswered when the server ended the stream, with or without
   * an owner, the server has refused that request. If the request has an owner, its lease is lost.
   */
  protected detached(error: EtcdError | undefined): void {
    this.#answer = NO_ANSWER;
    const unanswered = [...this.#unanswered.values()].flat();
    this.#unanswered.clear();
    this.#endedUnanswered = unanswered.length > 0;
    const owned = unanswered.filter((lease) => this.#leases.get(lease.id) === lease);
    for (const lease of owned) {
      lease.state = 'due';
      this.#timers.delete(lease);
    }
    if (error?.reason !== 'PermissionDenied') return;
    this.#oneByOne = true;
    const [only] = owned;
    if (only !== undefined && unanswered.length === 1) this.lose(only.id, error);
  }

  protected nextStream({ reason }: EtcdError): NextStream {
    // A proxy or an interceptor may refuse the stream itself. The next stream must then wait.
    if (reason === 'PermissionDenied' && this.#endedUnanswered) return 'at once';
    return reason === 'ClusterChanged' ? 'never' : 'after a backoff';
  }

  protected override maxBackoffMs(): number {
    let maxMs = Number.POSITIVE_INFINITY;
    for (const lease of this.#leases.values()) maxMs = Math.min(maxMs, maxBackoffMs(lease));
    return maxMs;
  }
}

function isUnanswered({ state }: RenewedLease): boolean {
  return state === 'sent' || state === 'overdue';
}

/**
 * Returns the maximum backoff in milliseconds before the client opens a stream for this lease. The backoff is short
 * compared with the TTL, because the server may become reachable again shortly before the lease expires.
 */
function maxBackoffMs({ ttl }: RenewedLease): number {
  return ttl === undefined ? Number.POSITIVE_INFINITY : intervalMs(ttl) / 4;
}

/** Returns the time between two renewals of a lease, in milliseconds. `ttl` is in seconds. */
function intervalMs(ttl: number): number {
  return (ttl * 1000) / RENEWALS_PER_TTL;
}
