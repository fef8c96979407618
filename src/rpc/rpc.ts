import {
  type ClientEvents,
  checkBoolean,
  checkOptions,
  checkSignal,
  checkText,
  clientClosed,
  type EtcdError,
  invalidInput,
  monotonicMs,
  type SignalOption,
  show,
  withCallSite,
} from '../base/index.js';
import {
  type AttemptObserver,
  bothObservers,
  type Copy,
  type Init,
  type Metadata,
  type Method,
  type OutgoingStream,
  type StreamCall,
  type StreamHandler,
  type Transport,
  type UnaryCall,
} from '../wire/index.js';
import type { TokenSettings } from './attempts.js';
import { type ClusterIdentity, needsLeader } from './cluster-identity.js';
import type { WaitTrace } from './wait-trace.js';

/**
 * Makes a member that has no leader refuse a call before it processes the call, and end a stream when it loses its
 * leader (`newUnaryInterceptor` and `newStreamInterceptor` in etcdserver/api/v3rpc/interceptor.go). The client then
 * tries another member. Without this metadata, the member holds a call for up to 7 s, and the outcome stays unknown.
 */
export const REQUIRE_LEADER: Metadata = { hasleader: 'true' };

/**
 * Options of a call. Most methods that make a call accept these options in their last argument. They reject an unknown
 * option with reason `InvalidInput`.
 *
 * @example
 * await etcd.get('config/color', { timeoutMs: 2_000, signal: controller.signal });
 */
export interface CallOptions {
  /** A signal that cancels the call when the signal aborts. As in `fetch`, null means no signal. */
  readonly signal?: SignalOption;
  /**
   * Time limit of the call in milliseconds, retries included. Default: the client's `timeoutMs`, unless the method has
   * another default. `Infinity` removes the limit.
   */
  readonly timeoutMs?: number | undefined;
  /**
   * URL of the endpoint to use. It must be one of the client's endpoints. Default: the client chooses an endpoint, see
   * `balance`.
   */
  readonly endpoint?: string | undefined;
}

/**
 * Options of a write: of `put`, `delete`, `txn`, and the functions that use them, such as `createKey`.
 *
 * @example
 * await etcd.put('config/color', 'blue', { retryWrites: true });
 */
export interface WriteOptions extends CallOptions {
  /**
   * Whether the client repeats the write until a server answers or the time limit passes. A repeated write is still
   * applied at most once. Default: the client's `retryWrites`. Only the `Client` of `etcdwire` has this option.
   */
  readonly retryWrites?: boolean | undefined;
}

/** Checks of the options `signal` and `timeoutMs`, for functions that make several calls. */
export const TIME_LIMITS = { signal: checkSignal, timeoutMs: checkTimeout } as const;
export const CALL_OPTIONS = { ...TIME_LIMITS, endpoint: checkText } as const;
export const WRITE_OPTIONS = { ...CALL_OPTIONS, retryWrites: checkBoolean } as const;

/** The key of the internal options. Users cannot set them. `checkOptions` ignores symbols. */
const INTERNAL = Symbol.for('etcdwire.internal');

/** Properties of a call that only this package sets. */
type InternalOptions = Partial<Pick<UnaryCall<unknown, unknown>, 'urgent' | 'observer' | 'retryWrites'>> & {
  /** Whether the client makes the call also while it closes, because it belongs to a wait that ends by itself. */
  readonly goesOn?: boolean | undefined;
  /** The deadline of the call, if its time limit has begun earlier, because several calls share it. */
  readonly deadline?: number | undefined;
  /** The trace of the wait that makes the call. */
  readonly trace?: WaitTrace | undefined;
};
type MarkedOptions = WriteOptions & { readonly [INTERNAL]?: InternalOptions | undefined };

export function internally(options: CallOptions, internal: InternalOptions): CallOptions {
  // Name each property, because V8 needs more than a microsecond to spread all of them.
  const { signal, timeoutMs, endpoint, retryWrites, [INTERNAL]: before }: MarkedOptions = options;
  const added: Copy<InternalOptions> = {
    goesOn: internal.goesOn ?? before?.goesOn,
    urgent: internal.urgent ?? before?.urgent,
    observer: internal.observer ?? before?.observer,
    retryWrites: internal.retryWrites ?? before?.retryWrites,
    deadline: internal.deadline ?? before?.deadline,
    trace: internal.trace ?? before?.trace,
  };
  const marked: Copy<MarkedOptions> = { signal, timeoutMs, endpoint, retryWrites, [INTERNAL]: added };
  return marked;
}

export function withObserver(options: CallOptions, observer: AttemptObserver): CallOptions {
  return internally(options, { observer: bothObservers(observer, (options as MarkedOptions)[INTERNAL]?.observer) });
}

/**
 * Returns when a call or a wait ends that begins now with these options and this time limit, on the clock of
 * `monotonicMs`.
 */
export function deadlineIn(options: object, limitMs: number): number {
  return (options as MarkedOptions)[INTERNAL]?.deadline ?? monotonicMs() + limitMs;
}

/** Starts the time limit of the options. The calls and waits with the returned options share it. */
export function withSharedLimit(options: CallOptions, defaultMs = Number.POSITIVE_INFINITY): CallOptions {
  return internally(options, { deadline: deadlineIn(options, options.timeoutMs ?? defaultMs) });
}

export function traceIn(options: object): WaitTrace | undefined {
  return (options as MarkedOptions)[INTERNAL]?.trace;
}

/** @throws EtcdError with reason `InvalidInput` if an option of the method `what` is unknown or invalid. */
export function checkCallOptions(options: CallOptions | undefined, what: string): void {
  checkOptions(options, CALL_OPTIONS, what);
}

/** Settings that apply to all of a client's calls. */
export interface RpcSettings extends TokenSettings {
  /** Time limit in milliseconds for calls without `timeoutMs`. */
  readonly timeoutMs: number;
  /** Aborts when the client is closed. */
  readonly closed: AbortSignal;
  /** When the client closes, it refuses calls of the program. It still makes the calls of its own cleanup. */
  readonly closers?: { readonly isClosing: boolean } | undefined;
  readonly events: ClientEvents;
  /** Whether the stack of an error includes the place where the application made the call. */
  readonly callSites?: boolean | undefined;
  /** The default of the option `retryWrites` of writes. Undefined if the client does not have this option. */
  readonly retryWrites?: boolean | undefined;
  /** Adds what a request has asked for to an error with reason `PermissionDenied`. */
  readonly denied?: ((error: EtcdError, request: unknown) => EtcdError) | undefined;
  /** Reports that another cluster answers, or that the store has gone back to an older revision. */
  readonly cluster?: ClusterIdentity | undefined;
  /** Returns the number of streams that the endpoint in use allows on a connection. Default: no limit. */
  readonly maxStreams?: (() => number) | undefined;
}

/** Makes calls: applies the client's defaults, and computes the deadline of each call. */
export class Rpc {
  readonly #transport: Transport;
  readonly #retrying: Transport;
  readonly settings: RpcSettings;

  /** `retrying` is the transport for calls with `retryWrites`. */
  constructor(transport: Transport, settings: RpcSettings, retrying = transport) {
    this.#transport = transport;
    this.#retrying = retrying;
    this.settings = settings;
  }

  /** @throws EtcdError with reason `ClientClosed` if the client closes or is closed. */
  checkOpen(method?: string): void {
    if (this.settings.closers?.isClosing) throw clientClosed('not-sent', method);
  }

  /** Makes a unary call. The caller has already checked the options. */
  call<Request, Response>(
    method: Method<Request, Response, 'unary'>,
    request: Init<Request>,
    options: CallOptions = {},
  ): Promise<Response> {
    const {
      signal,
      timeoutMs = this.settings.timeoutMs,
      endpoint,
      [INTERNAL]: internal,
      retryWrites = internal?.retryWrites,
    }: MarkedOptions = options;
    if (internal?.goesOn !== true && this.settings.closers?.isClosing)
      return Promise.reject(clientClosed('not-sent', method.path));
    if (retryWrites === true && this.settings.retryWrites === undefined)
      throw invalidInput('retryWrites', 'true', 'false; only the Client of etcdwire retries writes');
    const call = {
      method,
      request,
      metadata: needsLeader({ method, request }) ? REQUIRE_LEADER : undefined,
      signal: signal ?? undefined,
      timeoutMs,
      deadline: deadlineIn(options, timeoutMs),
      endpoint,
      urgent: internal?.urgent,
      observer: internal?.trace === undefined ? internal?.observer : bothObservers(internal.trace, internal.observer),
      retryWrites,
    };
    const isRetried = retryWrites ?? this.settings.retryWrites;
    const response = (isRetried ? this.#retrying : this.#transport).unary<Request, Response>(call);
    return this.settings.callSites ? withCallSite(response) : response;
  }

  /**
   * Makes the call. @throws EtcdError synchronously, with reason `InvalidInput`, if an option is unknown or invalid.
   */
  checkedCall<Request, Response>(
    method: Method<Request, Response, 'unary'>,
    request: Init<Request>,
    options: CallOptions | undefined,
    what: string = method.path.slice(1),
  ): Promise<Response> {
    checkCallOptions(options, what);
    return this.call(method, request, options);
  }

  withDefaultTimeout(options: CallOptions): CallOptions & { readonly timeoutMs: number } {
    return { ...options, timeoutMs: options.timeoutMs ?? this.settings.timeoutMs };
  }

  stream<Request, Response>(
    method: Method<Request, Response>,
    handler: StreamHandler<Response>,
    options: Omit<StreamCall<Request, Response>, 'method'> = {},
  ): OutgoingStream<Request> {
    return this.#transport.stream({ method, ...options }, handler);
  }
}

/**
 * Returns the options, with an infinite `timeoutMs` if they have none. Methods that wait by design, such as `lock`, use
 * this function.
 */
export function withoutDefaultTimeout(options: CallOptions): CallOptions & { readonly timeoutMs: number } {
  return { ...options, timeoutMs: options.timeoutMs ?? Number.POSITIVE_INFINITY };
}

/** Returns `timeoutMs`. @throws EtcdError with reason `InvalidInput` unless `timeoutMs` is a number above 0. */
export function checkTimeout(timeoutMs: number, argument: string): number {
  if (typeof timeoutMs === 'number' && timeoutMs > 0) return timeoutMs;
  throw invalidInput(argument, show(timeoutMs), 'a number of milliseconds above 0, or Infinity');
}
