import {
  after,
  backoffMs,
  type ClientEvent,
  causeOf,
  clientClosed,
  EtcdError,
  monotonicMs,
  onAbort,
  type WaitCause,
} from '../base/index.js';
import type { Method, OutgoingStream, StreamCall } from '../wire/index.js';
import { concernsToken, mayUseAnotherToken } from './attempts.js';
import { REQUIRE_LEADER, type Rpc } from './rpc.js';

/** If an attempt lasted longer than this many milliseconds, its failure starts the backoff from the shortest delay. */
const STEADY_MS = 1_000;

/** When the client opens the next stream: never, if the next stream would fail for the same reason. */
export type NextStream = 'at once' | 'after a backoff' | 'never';

/**
 * A stream that the client opens again after it ends, as long as the stream has users. The users of a stream are the
 * watches that it carries, or the leases that the client renews over it. The subclass sends the requests of the users,
 * and sends them again on the next stream.
 *
 * ```text
 *           open              the stream ended
 *    idle ────────▶ open ─────────────────────────▶ waiting
 *     ▲              │ ▲      the backoff is over    │   │
 *     │              │ └─────────────────────────────┘   │
 *     └── unused ────┴──────────── unused ───────────────┘
 *   every state ─▶ closed
 * ```
 *
 * - idle: There is no stream. The subclass opens the stream when it has a request to send.
 * - open: The subclass sends requests, and receives the responses in `message`. This class drops responses of earlier
 *   streams. If the connection is about to close, the client cancels the stream, and the state becomes `waiting`.
 * - waiting: The client opens the next stream after a backoff. The backoff doubles with each failure. It starts again
 *   from the shortest delay after a stream that lasted for more than `STEADY_MS`. If the client could not connect, the
 *   backoff ends when an endpoint that had failed answers a call. If the server refused the token, the next stream gets
 *   another token. `mayUseAnotherToken` limits how many times in a row the client tries another token.
 * - unused: The last user has left. The client closes the stream at once, or after `lingerMs`.
 * - closed: The keyspace or the client is closed. The subclass refuses new users.
 *
 * All users end if the keyspace or the client is closed, if the store goes back to an older revision, or if the next
 * stream would fail for the same reason.
 */
export abstract class ResumableStream<Request, Response> {
  protected readonly rpc: Rpc;
  readonly #method: Method<Request, Response>;
  readonly #lingerMs: number;
  readonly #users: 'watches' | 'keepalives';
  /**
   * Whether the client has reported that the users wait. The client reports a wait once, however many attempts fail.
   */
  #reportedWait = false;
  #stream: OutgoingStream<Request> | undefined;
  /** Identifies the stream that is open, or that `open` is opening. Undefined without such a stream. */
  #current: object | undefined;
  /** When the backoff ends, on the monotonic clock. Undefined unless the state is `waiting`. */
  #reopenAt: number | undefined;
  #stopReopening: () => void = () => {};
  #stopLingering: () => void = () => {};
  /** Removes the listeners at the client. Undefined if the stream is unused. */
  #unsubscribe: (() => void) | undefined;
  #closed = false;
  /** Number of consecutive failed attempts since the latest attempt that lasted for more than `STEADY_MS`. */
  #failures = 0;
  /** Whether the latest attempt has failed because the client could not connect. */
  #isUnreached = false;
  /** When the latest attempt began, or the next one begins, on the monotonic clock. */
  #attemptAt = 0;
  /** Number of consecutive streams that the server has ended because it refused the token. */
  #tokenRefusals = 0;

  /**
   * The types of the client's events about this stream begin with `users`, for example `watches go on`. An unused
   * stream stays open for `lingerMs` milliseconds.
   */
  constructor(rpc: Rpc, method: Method<Request, Response>, users: 'watches' | 'keepalives', lingerMs = 0) {
    this.rpc = rpc;
    this.#method = method;
    this.#lingerMs = lingerMs;
    this.#users = users;
  }

  /** The fields of events that say how many users the stream has. */
  protected abstract get userCount(): { readonly watches: number } | { readonly leases: number };
  /** Handles a message of the open stream. */
  protected abstract message(response: Response): void;
  /** Prepares the users for the next stream. Called when the stream has ended, or the client has canceled it. */
  protected abstract detached(error: EtcdError | undefined): void;
  /**
   * Says how the client continues after `error` has ended the stream. Not called if the error concerns a token, or if
   * its reason is `ClientClosed`.
   */
  protected abstract nextStream(error: EtcdError): NextStream;
  /** Opens the next stream, if the users have requests to send. */
  protected abstract goOn(): void;
  /** Ends and releases all users. The reason of `error` is `ClientClosed` if the keyspace or the client is closed. */
  protected abstract endAll(error: EtcdError): void;

  /** Returns the longest backoff that the users allow, in milliseconds. */
  protected maxBackoffMs(): number {
    return Number.POSITIVE_INFINITY;
  }

  /** Ends all users because the keyspace or the client is closed. */
  close(): void {
    this.#closed = true;
    this.#endAll(clientClosed());
  }

  protected get isClosed(): boolean {
    return this.#closed || this.rpc.settings.closed.aborted;
  }

  /** The stream, if it is open. */
  protected get stream(): OutgoingStream<Request> | undefined {
    return this.#stream;
  }

  /** How long the latest attempt has lasted, in milliseconds. Negative if the next attempt waits for its time. */
  protected get lastedMs(): number {
    return monotonicMs() - this.#attemptAt;
  }

  /** Whether `goOn` will be called soon, or is opening the stream. Interceptors of the program run meanwhile. */
  protected get isWaiting(): boolean {
    return this.#reopenAt !== undefined || (this.#current !== undefined && this.#stream === undefined);
  }

  get #isUsed(): boolean {
    return this.#unsubscribe !== undefined;
  }

  /** Records that the stream has a user. */
  protected use(): void {
    this.#stopLingering();
    if (this.#isUsed) return;
    // Keep the listeners only while there are users. Otherwise, every namespace would leave its listeners at the client
    // until the client closes, and a client may create many short-lived namespaces.
    const { closed, cluster, events } = this.rpc.settings;
    const offEvents = events.add(({ type }) => {
      if (type === 'endpoint available again' && this.#isUnreached) this.limitBackoff(0);
    });
    const offClosed = onAbort(closed, () => this.close());
    const offChange = cluster?.onChange((error) => this.#endAll(error));
    this.#unsubscribe = () => {
      offClosed();
      offChange?.();
      offEvents();
    };
    this.#stream?.keepProcessAlive?.(true);
  }

  /** Records that the last user has left. A stream that lingers does not keep the process alive. */
  protected release(): void {
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
    if (this.#lingerMs === 0) return this.#shut();
    this.#stream?.keepProcessAlive?.(false);
    this.#stopLingering();
    this.#stopLingering = after(this.#lingerMs, () => this.#shut(), 'background');
  }

  /**
   * Opens the stream. Returns undefined if an interceptor has failed, or has ended the stream or all its users meanwhile.
   */
  protected open(options: Omit<StreamCall<Request, Response>, 'method'> = {}): OutgoingStream<Request> | undefined {
    const opened = {};
    this.#current = opened;
    this.#attemptAt = monotonicMs();
    let stream: OutgoingStream<Request>;
    try {
      stream = this.rpc.stream(
        this.#method,
        {
          message: (response) => {
            if (this.#current === opened) this.message(response);
          },
          end: (error) => {
            if (this.#current === opened) this.#ended(error);
          },
          leaving: () => {
            if (this.#current === opened) this.reopen(causeOf(undefined));
          },
        },
        { metadata: REQUIRE_LEADER, ...options },
      );
    } catch (cause) {
      const details = { code: 'FailedPrecondition', reason: 'Other', outcome: 'not-sent', cause } as const;
      const error = cause instanceof EtcdError ? cause : new EtcdError('an interceptor failed', details);
      if (this.#current === opened) this.#ended(error);
      return undefined;
    }
    if (this.#current !== opened) {
      stream.cancel();
      return undefined;
    }
    this.#stream = stream;
    if (!this.#isUsed) stream.keepProcessAlive?.(false);
    return stream;
  }

  /** Ends the stream with RST_STREAM, because some servers leak the watches on a stream that the client half-closes. */
  protected cancel(why?: 'unresponsive' | 'unauthenticated'): void {
    if (this.#current === undefined) return;
    const stream = this.#stream;
    this.#forget();
    stream?.cancel(why);
  }

  /** Cancels the stream, if it is open. Opens the next one after a backoff, unless there are no users. */
  protected reopen(cause: WaitCause, why?: 'unresponsive' | 'unauthenticated'): void {
    if (!this.#isUsed) return this.cancel(why);
    const stream = this.#stream;
    if (this.#current !== undefined) this.#forget();
    this.#reopenIn(Math.min(this.#nextDelayMs(), this.maxBackoffMs()));
    stream?.cancel(why);
    if (this.isWaiting) this.#reportWait(cause);
  }

  /** Shortens the current backoff, if there is one, to at most `maxMs`. */
  protected limitBackoff(maxMs: number): void {
    if (this.#reopenAt !== undefined && this.#reopenAt - monotonicMs() > maxMs) this.#reopenIn(maxMs);
  }

  /** Returns the delay in milliseconds before the next attempt after a failed one. Reports that the users wait. */
  protected waitMs(cause: WaitCause): number {
    const delayMs = this.#nextDelayMs();
    this.#reportWait(cause);
    return delayMs;
  }

  /** Records that the server has accepted a request, and therefore the token of the stream. */
  protected accepted(): void {
    const hasWaited = this.#reportedWait;
    this.#reportedWait = false;
    this.#tokenRefusals = 0;
    if (hasWaited) this.#report('go on');
  }

  #nextDelayMs(): number {
    if (this.lastedMs > STEADY_MS) this.#failures = 0;
    const delayMs = backoffMs(this.#failures++);
    this.#attemptAt = monotonicMs() + delayMs;
    return delayMs;
  }

  #reportWait(cause: WaitCause): void {
    if (this.#reportedWait) return;
    this.#reportedWait = true;
    this.#report('wait for a server', cause);
  }

  #report(what: 'wait for a server' | 'go on', cause?: WaitCause): void {
    this.rpc.settings.events.report({ type: `${this.#users} ${what}`, ...cause, ...this.userCount } as ClientEvent);
  }

  #ended(error: EtcdError | undefined): void {
    this.#isUnreached = error?.reason === 'ConnectFailed';
    this.#forget(error);
    if (error === undefined) return this.reopen(causeOf(error));
    if (error.reason === 'ClientClosed') return this.close();
    const next = this.#next(error);
    if (next === 'never') this.#endAll(error);
    else if (next === 'after a backoff') this.reopen(causeOf(error));
    else if (this.#isUsed) this.goOn();
  }

  #next(error: EtcdError): NextStream {
    if (!concernsToken(error)) return this.nextStream(error);
    return mayUseAnotherToken(this.rpc.settings, error, this.#tokenRefusals++) ? 'after a backoff' : 'never';
  }

  #reopenIn(delayMs: number): void {
    this.#stopReopening();
    this.#reopenAt = monotonicMs() + delayMs;
    this.#stopReopening = after(delayMs, () => {
      this.#reopenAt = undefined;
      if (this.#isUsed) this.goOn();
    });
  }

  #forget(error?: EtcdError): void {
    this.#stream = undefined;
    this.#current = undefined;
    this.detached(error);
  }

  #endAll(error: EtcdError): void {
    this.endAll(error);
    this.#shut();
  }

  /** Returns to the state `idle`. */
  #shut(): void {
    this.#stopLingering();
    this.#stopReopening();
    this.#reopenAt = undefined;
    this.#tokenRefusals = 0;
    this.#reportedWait = false;
    this.cancel();
  }
}
