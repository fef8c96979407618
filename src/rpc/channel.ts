import {
  amended,
  type ClientEvents,
  callTimedOut,
  canceled,
  clientClosed,
  EtcdError,
  type Failures,
  monotonicMs,
  noteFailure,
  type Outcome,
  pauseUntil,
  withCallers,
} from '../base/index.js';
import type { Endpoint } from '../host/index.js';
import {
  forwardStream,
  type OutgoingStream,
  type StreamCall,
  type StreamHandler,
  type Transport,
  type UnaryCall,
} from '../wire/index.js';
import {
  type FailedAttempts,
  isEndpointFailure,
  isFinalAt,
  isMomentaryRefusal,
  isOverloadRefusal,
  isRetried,
  isUnsuitableEndpoint,
  type Verdict,
  verdict,
} from './attempts.js';
import { CallQueue, classOf } from './call-queue.js';
import { ClusterIdentity, headerOf, isLinearizable } from './cluster-identity.js';
import { type Balance, type CallClass, EndpointPool, type PooledEndpoint } from './endpoint-pool.js';
import type { PlaintextRule } from './plaintext-rule.js';
import { withProof } from './proofs.js';

/**
 * A timeout counts as a failure of the endpoint if attempts have been without an answer for more than this many
 * milliseconds: this attempt, or attempts in a row. A member that is cut off from its peers still answers pings and
 * serializable reads, so only other answers end the row.
 */
const SILENCE_MS = 1_000;

/**
 * Default of `maxInFlight`. This many calls keep a server on the same machine busy all the time. The number is far
 * below 5,000, the number of unapplied entries above which etcd refuses writes.
 */
export const MAX_IN_FLIGHT = 512;

interface ChannelOptions {
  /** Maximum number of unary calls of each class in flight at one endpoint: see `CallClass`. */
  readonly maxInFlight?: number | undefined;
  readonly balance?: Balance | undefined;
  readonly events?: ClientEvents | undefined;
  readonly secrets?: PlaintextRule | undefined;
}

interface Failed extends Verdict {
  readonly last: EtcdError;
  readonly failures: Failures;
  /** The delay in milliseconds that the call's `retryAfter` returned. Undefined if the channel chooses the delay. */
  readonly delayMs: number | undefined;
}

const NO_ATTEMPTS: FailedAttempts = { count: 0, momentaryRefusals: 0, outcome: 'not-sent' };

/**
 * A transport over several endpoints. If an attempt of a unary call fails because of its endpoint, the channel makes
 * another attempt, unless the server may already have processed a request that is unsafe to resend. The next attempt
 * goes to another endpoint if possible, unless the same member will probably answer soon. The channel opens each stream
 * once, and never reopens a stream that has ended.
 */
export class Channel implements Transport {
  readonly #endpoints: EndpointPool;
  readonly #queue: CallQueue;
  readonly #secrets: PlaintextRule | undefined;
  readonly #closed = new AbortController();
  readonly cluster: ClusterIdentity;
  /** Where the program has closed the client. The cause of the errors of the calls that were in flight then. */
  closedAt: Error | undefined;

  constructor(
    endpoints: readonly Endpoint[],
    transportOf: (endpoint: Endpoint) => Transport,
    { maxInFlight = MAX_IN_FLIGHT, balance = 'in-order', events, secrets }: ChannelOptions = {},
  ) {
    this.#secrets = secrets;
    this.#endpoints = new EndpointPool(endpoints, transportOf, { balance, events });
    this.#queue = new CallQueue(this.#endpoints, maxInFlight);
    this.cluster = new ClusterIdentity(({ problem, endpoint }) =>
      events?.report({ type: 'cluster restored', problem, endpoint }),
    );
  }

  /** The endpoints of the options, or those of the latest `reset`. */
  get configured(): readonly Endpoint[] {
    return this.#endpoints.configured;
  }

  /** URLs of the endpoints in use. */
  get endpoints(): readonly string[] {
    return this.#endpoints.urls;
  }

  /** URLs of the endpoints in use that are parked, or whose connection does not answer. */
  get unavailable(): readonly string[] {
    return this.#endpoints.unavailable;
  }

  /** The number of streams that the endpoint in use allows on a connection. */
  get maxStreams(): number {
    return this.#endpoints.current.transport.maxStreams ?? Number.POSITIVE_INFINITY;
  }

  /**
   * Replaces the configured endpoints. Streams, and attempts of unary calls, that are in progress stay at their
   * endpoints.
   */
  reset(endpoints: readonly Endpoint[]): void {
    if (this.#closed.signal.aborted) throw clientClosed('not-sent');
    this.#endpoints.reset(endpoints);
  }

  /**
   * Makes calls prefer these endpoints. Calls that name no endpoint use the other configured endpoints only while none
   * of these endpoints is available.
   */
  follow(endpoints: readonly Endpoint[]): void {
    if (!this.#closed.signal.aborted) this.#endpoints.replace(endpoints);
  }

  /**
   * Makes attempts until one succeeds or must not be retried. If too many calls are in flight, first waits for room.
   */
  unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    const callClass = classOf(call);
    try {
      const endpoint = this.#queue.enter(call, callClass);
      return endpoint === undefined ? this.#waitForRoom(call, callClass) : this.#attempts(call, callClass, endpoint);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  /**
   * This method is separate from `#attempts`, because each waiting call keeps the frame of its async method in memory,
   * and the frame of `#attempts` is larger.
   */
  async #waitForRoom<Request, Response>(call: UnaryCall<Request, Response>, callClass: CallClass): Promise<Response> {
    const endpoint = await this.#queue.wait(call, callClass).catch((error: unknown) => {
      throw this.#withPlace(error);
    });
    return this.#attempts(call, callClass, endpoint);
  }

  #withPlace(error: unknown): unknown {
    const isClosed = error instanceof EtcdError && error.reason === 'ClientClosed' && error.cause === undefined;
    return isClosed ? amended(error, { cause: this.closedAt }) : error;
  }

  async #attempts<Request, Response>(
    call: UnaryCall<Request, Response>,
    callClass: CallClass,
    picked: PooledEndpoint,
  ): Promise<Response> {
    let endpoint = picked;
    try {
      for (let failed: Failed | undefined; ; ) {
        if (failed !== undefined) {
          endpoint = this.#queue.move(call, callClass, endpoint, failed.stays);
          await this.#waitBeforeRetry(call, endpoint, failed);
        }
        const startedAt = monotonicMs();
        if (call.deadline <= startedAt) throw callTimedOut(call, failed?.outcome ?? 'not-sent', failed?.failures);
        const revisionBefore = this.cluster.revision;
        call.observer?.attempt?.(endpoint.url);
        try {
          const permitted = this.#secrets?.unary(call, endpoint.url);
          if (permitted !== undefined) await permitted;
          const response = await endpoint.transport.unary(call);
          const header = headerOf(response);
          if (header !== undefined) {
            this.cluster.answered(call, header, revisionBefore, endpoint.url);
            endpoint.isEtcd = true;
          }
          if (isLinearizable(call)) endpoint.unansweredSince = Number.POSITIVE_INFINITY;
          this.#endpoints.succeeded(endpoint, startedAt);
          call.observer?.answered?.();
          return response;
        } catch (error) {
          failed = this.#judge(call, endpoint, startedAt, error, failed);
        }
      }
    } catch (error) {
      throw this.#withPlace(error);
    } finally {
      this.#queue.leaveEndpoint(endpoint, callClass);
    }
  }

  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request> {
    const endpoint = this.#endpoints.pick(call.endpoint);
    call.observer?.attempt?.(endpoint.url);
    const startedAt = monotonicMs();
    let ended = false;
    const release = (): void => {
      if (ended) return;
      ended = true;
      this.#endpoints.release(endpoint);
    };
    const permitted = this.#secrets?.stream(call, endpoint.url) ?? call;
    const stream = endpoint.transport.stream<Request, Response>(permitted, {
      message: (message) => {
        if (ended) return;
        try {
          const header = headerOf(message);
          const isCreated = (message as { readonly created?: boolean }).created === true;
          if (header !== undefined) {
            this.cluster.streamed(call.method.path, header, endpoint.url, isCreated);
            endpoint.isEtcd = true;
          }
        } catch (error) {
          // The endpoint belongs to another cluster.
          stream.cancel();
          this.#endpoints.failed(endpoint, 'ClusterChanged', (error as EtcdError).problem);
          release();
          return handler.end(error as EtcdError);
        }
        this.#endpoints.succeeded(endpoint, startedAt);
        handler.message(message);
      },
      end: (error) => {
        if (error !== undefined && isEndpointFailure(error) && !isMomentaryRefusal(error))
          this.#endpoints.failed(endpoint, error.reason, error.problem);
        release();
        if (error === undefined || !isUnsuitableEndpoint(error)) return handler.end(error);
        // Servers use different status codes for this refusal. The channel replaces the code, so that the code tells
        // the caller whether another endpoint may accept the stream.
        const isFinal = isFinalAt(error, this.#isOnlyFor(call, endpoint), endpoint.isEtcd);
        handler.end(amended(error, { code: isFinal ? 'FailedPrecondition' : 'Unavailable' }));
      },
      leaving: () => {
        this.#endpoints.failed(endpoint, 'StreamRefused', 'the connection closes soon, or is silent');
        handler.leaving?.();
      },
    });
    return forwardStream(stream, {
      cancel: (why) => {
        if (why === 'unresponsive')
          this.#endpoints.failed(endpoint, 'DeadlineExceeded', 'the server did not answer in time');
        stream.cancel(why);
        release();
      },
    });
  }

  /** Resolves when no call is in flight or waits for room. See `CallQueue.idle`. */
  idle(): Promise<void> {
    return this.#queue.idle();
  }

  async close(): Promise<void> {
    this.#closed.abort();
    this.#queue.close();
    await this.#endpoints.close();
  }

  /**
   * Waits for `delayMs` milliseconds, if it is defined. Otherwise, waits only if the last attempt got a momentary
   * refusal or an overload refusal, or if the pool has parked the endpoint of the next attempt.
   */
  async #waitBeforeRetry(
    call: UnaryCall<unknown, unknown>,
    endpoint: PooledEndpoint,
    { count, last, outcome, delayMs }: Failed,
  ): Promise<void> {
    const wasRefused = isMomentaryRefusal(last) || isOverloadRefusal(last);
    if (delayMs === undefined && !wasRefused && endpoint.parkedUntil <= monotonicMs()) return;
    const wantedMs = delayMs ?? this.#endpoints.pauseMs(endpoint, count);
    await this.#pauseUntil(Math.min(monotonicMs() + wantedMs, call.deadline), call, outcome);
    // If a connection attempt has failed during the wait, all calls to this endpoint wait until the time of the next
    // connection attempt.
    await this.#pauseUntil(Math.min(endpoint.connectAt, call.deadline), call, outcome);
  }

  async #pauseUntil(dueMs: number, call: UnaryCall<unknown, unknown>, outcome: Outcome): Promise<void> {
    // If the deadline has passed, a timer would only delay the end of the call.
    if (dueMs > monotonicMs()) await pauseUntil(dueMs, call.signal, this.#closed.signal);
    if (this.#closed.signal.aborted) throw clientClosed(outcome, call.method.path);
    if (call.signal?.aborted) throw canceled(call.signal, outcome, call.method.path);
  }

  /**
   * Records a failed attempt. Returns a summary of the failures if the call may be retried, and throws otherwise, for
   * example if `reset` has removed the endpoint that the call names.
   */
  #judge(
    call: UnaryCall<unknown, unknown>,
    endpoint: PooledEndpoint,
    startedAt: number,
    thrown: unknown,
    before: Failed | undefined,
  ): Failed {
    if (!(thrown instanceof EtcdError)) throw thrown;
    const error = withProof(call, thrown);
    call.observer?.failed?.(error);
    const isTimeout = error.reason === 'DeadlineExceeded';
    // A call that waits for other clients says nothing about the endpoint.
    const isUnanswered = isTimeout && classOf(call) !== 'blocking';
    if (isUnanswered) endpoint.unansweredSince = Math.min(endpoint.unansweredSince, startedAt);
    const decided = verdict(call, error, before ?? NO_ATTEMPTS, {
      isAlone: this.#endpoints.all.length === 1,
      isOnlyForCall: this.#isOnlyFor(call, endpoint),
      isEtcd: endpoint.isEtcd,
      isSilent: isUnanswered && monotonicMs() - endpoint.unansweredSince > SILENCE_MS,
    });
    const { isSafe, outcome, count } = decided;
    if (decided.parks) this.#endpoints.failed(endpoint, error.reason, error.problem);
    const failures = new Map(before?.failures);
    noteFailure(failures, error);
    const delayMs = call.retryAfter?.(error, count, isSafe);
    const isRemoved = call.endpoint !== undefined && !this.#endpoints.all.includes(endpoint);
    if (isRemoved || !isRetried(call.method, isSafe, delayMs)) {
      // The server received the caller's deadline with the request, and timed out before the client did.
      if (error.reason === 'Timeout' && monotonicMs() >= call.deadline) throw callTimedOut(call, outcome, failures);
      if (isTimeout && before !== undefined) throw callTimedOut(call, outcome, before.failures);
      // The refusal of the last attempt proves nothing about the attempts before it.
      throw withCallers(error.outcome === outcome ? error : amended(error, { outcome }));
    }
    call.observer?.retry?.(error);
    return { ...decided, last: error, failures, delayMs };
  }

  /** Whether the call can use no other endpoint than `endpoint`. */
  #isOnlyFor({ endpoint: named }: { readonly endpoint?: string | undefined }, endpoint: PooledEndpoint): boolean {
    // If there is only one endpoint, it may differ from `endpoint`, because `reset` may have replaced `endpoint`.
    return named !== undefined || this.#endpoints.all.every((other) => other === endpoint);
  }
}
