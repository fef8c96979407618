import { invalidInput, withCallSite } from '../errors/etcd-error.js';
import type { Init } from '../protobuf/codec.js';
import type { Method } from '../protobuf/schema.js';
import { checkOptions, checkSignal, show } from '../runtime/arguments.js';
import type { Logger } from '../runtime/log.js';
import { monotonicMs } from '../runtime/timers.js';
import type { Metadata, OutgoingStream, StreamCall, StreamHandler, Transport } from '../transport/transport.js';
import type { ClusterIdentity } from './cluster-identity.js';

/** A member cut off from its leader would leave a stream hanging: with this it ends it instead, and another is tried. */
export const REQUIRE_LEADER: Metadata = { hasleader: 'true' };

/** What every asynchronous method takes last. An option that a method does not have is refused by its name. */
export interface CallOptions {
  /** Ends the call when it aborts. */
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds until the call is given up, retries included. Default: the client's. `Infinity` waits for ever. */
  readonly timeoutMs?: number | undefined;
  /** The one of the client's endpoints to ask. Default: whichever works. */
  readonly endpoint?: string | undefined;
}

export const CALL_OPTIONS = { signal: true, timeoutMs: true, endpoint: true } as const;

/** Refuses options that are not `CallOptions`, for the method `what`. @throws EtcdError, reason `InvalidInput`. */
export function checkCallOptions(options: CallOptions | undefined, what: string): void {
  checkOptions(options, CALL_OPTIONS, what);
}

/** What holds for all calls of a client. */
export interface RpcSettings {
  /** Milliseconds for a call that has no `timeoutMs` of its own. */
  readonly timeoutMs: number;
  /** Whether a stream whose token was refused can be opened again with another. */
  readonly renewsTokens: boolean;
  /** Aborts when the client is closed. */
  readonly closed: AbortSignal;
  readonly logger?: Logger | undefined;
  /** Whether errors show where their calls were made. */
  readonly callSites?: boolean | undefined;
  /** Tells when the cluster is no longer the one that it was. */
  readonly cluster?: ClusterIdentity | undefined;
}

/** Makes calls out of requests: the client's defaults, the deadline, the metadata. */
export class Rpc {
  readonly #transport: Transport;
  readonly settings: RpcSettings;

  constructor(transport: Transport, settings: RpcSettings) {
    this.#transport = transport;
    this.settings = settings;
  }

  /** `onSent` is called each time the request is handed to a connection. */
  call<Request, Response>(
    method: Method<Request, Response, 'unary'>,
    request: Init<Request>,
    options: CallOptions = {},
    onSent?: () => void,
  ): Promise<Response> {
    const timeoutMs = checkTimeout(options.timeoutMs ?? this.settings.timeoutMs, 'timeoutMs');
    const deadline = monotonicMs() + timeoutMs;
    const { signal, endpoint } = options;
    checkSignal(signal);
    const answer = this.#transport.unary({ method, request, signal, timeoutMs, deadline, endpoint, onSent });
    return this.settings.callSites ? withCallSite(answer) : answer;
  }

  /** The same with options that come from outside of this package. @throws EtcdError for those that are not `CallOptions`. */
  async checkedCall<Request, Response>(
    method: Method<Request, Response, 'unary'>,
    request: Init<Request>,
    options: CallOptions | undefined,
  ): Promise<Response> {
    checkCallOptions(options, method.path.slice(1));
    return this.call(method, request, options);
  }

  /** With the client's time limit where there is none. */
  bounded(options: CallOptions): CallOptions & { readonly timeoutMs: number } {
    return { ...options, timeoutMs: options.timeoutMs ?? this.settings.timeoutMs };
  }

  /** One time limit over several calls: what it gives carries the time that is left. */
  within(options: CallOptions): () => CallOptions {
    const deadline = monotonicMs() + checkTimeout(options.timeoutMs ?? this.settings.timeoutMs, 'timeoutMs');
    return () => ({ ...options, timeoutMs: Math.max(1, Math.ceil(deadline - monotonicMs())) });
  }

  stream<Request, Response>(
    method: Method<Request, Response>,
    handler: StreamHandler<Response>,
    options: Omit<StreamCall<Request, Response>, 'method'> = {},
  ): OutgoingStream<Request> {
    return this.#transport.stream({ method, ...options }, handler);
  }
}

/** For calls that take as long as they take: without a `timeoutMs` of its own such a call waits for ever. */
export function unhurried(options: CallOptions): CallOptions & { readonly timeoutMs: number } {
  return { ...options, timeoutMs: options.timeoutMs ?? Number.POSITIVE_INFINITY };
}

/** @throws EtcdError, reason `InvalidInput`. */
export function checkTimeout(timeoutMs: number, argument: string): number {
  if (typeof timeoutMs === 'number' && timeoutMs > 0) return timeoutMs;
  throw invalidInput(argument, show(timeoutMs), 'a number of milliseconds above 0, or Infinity');
}
