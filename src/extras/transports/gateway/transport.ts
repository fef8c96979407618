import {
  after,
  amended,
  at,
  canceled,
  clientClosed,
  EtcdError,
  type Outcome,
  onAbort,
  orAborted,
  timedOut,
} from '../../../base/index.js';
import type { WatchRequest, WatchResponse } from '../../../gen/etcdserverpb/rpc.js';
import { methods } from '../../../gen/methods.js';
import {
  checkMetadata,
  decode,
  encode,
  type Init,
  type Metadata,
  type Method,
  type OutgoingStream,
  type StreamCall,
  type StreamHandler,
  type Transport,
  type UnaryCall,
} from '../../../wire/index.js';
import type { GatewayHttp } from './http.js';
import { gatewayPath, repeatEffectOf } from './rpcs.js';

/** How the transport treats requests if the runtime may resend them. */
export interface RepeatPolicy {
  /** Whether to send requests whose second copy would take effect again, although no guard key can prevent this. */
  readonly allowHarmful: boolean;
}

interface StreamLimits {
  readonly maxReceiveBytes: number;
  /** Maximum time without a message on a watch, in milliseconds. */
  readonly silenceMs: number;
}

/**
 * Maximum number of watches that a stream is creating at the same time. Each one needs a request, and browsers open at
 * most six connections to one server.
 */
const CREATIONS_AT_ONCE = 6;

/** How long, in milliseconds, the client waits for the server to confirm a new watch. Servers confirm it at once. */
const CREATION_MS = 10_000;
/**
 * Maximum length in bytes of a response of a stream. The text of a response is one string, and strings in V8 have at
 * most about 2^29 characters. After a longer response, the client creates the watch again and asks for fragments.
 */
const MAX_LINE_BYTES = 256 * 1024 * 1024;

export class GatewayTransport implements Transport {
  readonly #http: GatewayHttp;
  readonly #limits: StreamLimits;
  /** Undefined if the option `guardWrites` is false, which means that the runtime does not resend requests. */
  readonly #repeatPolicy: RepeatPolicy | undefined;
  /** Functions that end the open calls and streams. */
  readonly #open = new Set<(error: EtcdError) => void>();
  #closed = false;

  constructor(http: GatewayHttp, limits: StreamLimits, repeatPolicy?: RepeatPolicy) {
    this.#http = http;
    this.#limits = limits;
    this.#repeatPolicy = repeatPolicy;
  }

  async unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    const { method, signal, metadata = {} } = call;
    let outcome: Outcome = 'not-sent';
    const ended = new AbortController();
    let endedBy: EtcdError | undefined;
    const end = (error: EtcdError): void => {
      endedBy ??= error;
      ended.abort();
    };
    if (this.#closed) throw clientClosed('not-sent', method.path);
    if (signal?.aborted) throw canceled(signal, 'not-sent', method.path);
    const offAbort = onAbort(signal, () => end(canceled(signal as AbortSignal, outcome, method.path)));
    const stopTimer = at(call.deadline, () => end(timedOut('call', call.timeoutMs, outcome, method.path)));
    this.#open.add(end);
    let mayArriveTwice = false;
    try {
      const message = this.#http.message(method, call.request);
      // Without this check, the error of `fetch` would show the value, which may be a token.
      checkMetadata(metadata, method.path);
      mayArriveTwice = this.#mayArriveTwice(method, message);
      const body = this.#http.body(method, message);
      call.observer?.sent?.();
      outcome = 'unknown';
      ended.signal.throwIfAborted();
      const response = this.#http
        .post(method, body, metadata, ended.signal)
        .then((head) => this.#http.unaryResponse(head, method, this.#limits.maxReceiveBytes));
      // A `fetch` that the caller passes may ignore signals. `orAborted` drops a response that arrives after the abort.
      return await orAborted(response, ended.signal);
    } catch (error) {
      throw endedBy ?? (mayArriveTwice ? withUnknownOutcome(error) : error);
    } finally {
      offAbort();
      stopTimer();
      this.#open.delete(end);
    }
  }

  /**
   * Returns whether the runtime may resend the request, and the copy is not harmless.
   *
   * @throws EtcdError with reason `NotInGateway` if the copy would take effect again, unless the caller allows this.
   */
  #mayArriveTwice(method: Method<unknown, unknown>, message: unknown): boolean {
    if (this.#repeatPolicy === undefined) return false;
    const effect = repeatEffectOf(method, message);
    const isAllowed = this.#repeatPolicy.allowHarmful;
    if (effect === 'guarded' && !method.repeatable && !isAllowed) throw this.#http.unsupported(method, UNGUARDED);
    if (effect === 'harmful' && !isAllowed) throw this.#http.unsupported(method, harmfulProblem(method));
    return effect !== 'harmless';
  }

  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request> {
    const fail = (error: EtcdError): void => stream.fail(error);
    const stream = new GatewayStream(this.#http, call, handler, this.#limits, () => this.#open.delete(fail));
    if (this.#closed) queueMicrotask(() => fail(clientClosed('not-sent', call.method.path)));
    else this.#open.add(fail);
    return stream;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const end of [...this.#open]) end(clientClosed());
  }
}

/**
 * Changes the outcome of a refused call to `unknown`. The refusal may be the answer to a second copy of the request,
 * and the server may have applied the first copy.
 */
function withUnknownOutcome(error: unknown): unknown {
  return error instanceof EtcdError && error.outcome === 'rejected' ? amended(error, { outcome: 'unknown' }) : error;
}

const UNGUARDED =
  'this runtime may send a write a second time, even much later, and the write has no guard; pass gateway() itself as ' +
  'the transport of the client, so that the client guards its writes';

function harmfulProblem({ path }: { readonly path: string }): string {
  return (
    `this runtime may send ${path.slice(1)} a second time, even much later, and no guard key can prevent a second effect; ` +
    'to send it nevertheless, set gateway({ allowRepeatedWrites: true })'
  );
}

/**
 * A stream of messages over HTTP requests. The gateway reads a request to its end before it responds. Therefore the
 * client sends each message as a separate request, and each line of the response is a message from the server.
 *
 * - A keepalive message gets one response.
 * - The request that creates a watch stays open and receives the events of the watch. The client creates at most
 *   `CREATIONS_AT_ONCE` watches at a time. To cancel a watch, the client aborts the watch's request.
 * - When one request fails, the whole stream fails, and the owner of the stream opens a new stream. The same happens
 *   when a watch is silent for too long, because HTTP has no ping that would detect a dead connection.
 */
class GatewayStream<Request, Response> implements OutgoingStream<Request> {
  readonly #http: GatewayHttp;
  readonly #method: Method<Request, Response>;
  readonly #metadata: Promise<Metadata>;
  readonly #limits: StreamLimits;
  readonly #handler: StreamHandler<Response>;
  readonly #onOver: () => void;
  /** Open requests, including requests that wait until the server has created an earlier watch. */
  readonly #requests = new Set<AbortController>();
  /** The open request of each watch, by watch ID. */
  readonly #watches = new Map<bigint, AbortController>();
  /** For each chain of creations of watches that run one after another, a promise that settles after the last one. */
  readonly #creating: Promise<unknown>[] = Array.from({ length: CREATIONS_AT_ONCE }, () => Promise.resolve());
  #resumed: Promise<void> | undefined;
  #resume: () => void = () => {};
  #halfClosed = false;
  #ended = false;

  constructor(
    http: GatewayHttp,
    { method, metadata }: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
    limits: StreamLimits,
    onOver: () => void,
  ) {
    this.#http = http;
    this.#method = method;
    this.#metadata = Promise.resolve(metadata ?? {});
    this.#limits = { ...limits, maxReceiveBytes: Math.min(MAX_LINE_BYTES, limits.maxReceiveBytes) };
    this.#handler = handler;
    this.#onOver = onOver;
    this.#metadata.catch((error: EtcdError) => this.fail(error));
    if (gatewayPath(method) !== undefined) return;
    // This request is never sent. It keeps the stream open until `fail` runs, even if the caller half-closes it first.
    this.#requests.add(new AbortController());
    queueMicrotask(() => this.fail(http.unsupported(method)));
  }

  /**
   * @throws EtcdError with reason `InvalidInput` if the message is invalid, and with reason `NotInGateway` if the
   * message is a progress request.
   */
  send(message: Init<Request>): void {
    if (this.#ended || gatewayPath(this.#method) === undefined) return;
    if (isWatch(this.#method)) this.#sendToWatch(message as Init<WatchRequest>);
    else void this.#request(this.#body(this.#method, message), this.#newRequest());
  }

  end(): void {
    this.#halfClosed = true;
    this.#endIfDone();
  }

  cancel(): void {
    if (!this.#ended) this.#stop();
  }

  pause(): void {
    this.#resumed ??= new Promise((resolve) => {
      this.#resume = resolve;
    });
  }

  resume(): void {
    this.#resume();
    this.#resumed = undefined;
  }

  /** Ends the stream. `error` is undefined if the stream ended without an error. */
  fail(error: EtcdError | undefined): void {
    if (this.#ended) return;
    this.#stop();
    this.#handler.end(error);
  }

  #sendToWatch({ requestUnion }: Init<WatchRequest>): void {
    switch (requestUnion?.case) {
      case 'createRequest': {
        // The watch IDs that a server assigns are unique only within one request. Each watch has its own request here,
        // so the client chooses the ID.
        const watchId = requestUnion.value.watchId || this.#freeWatchId();
        const message = { requestUnion: { case: 'createRequest', value: { ...requestUnion.value, watchId } } } as const;
        const body = this.#body(methods.watch.watch, message);
        const request = this.#newRequest();
        this.#watches.set(watchId, request);
        const create = (): Promise<void> =>
          new Promise((created) => {
            void this.#request(body, request, created).finally(() => {
              if (this.#watches.get(watchId) === request) this.#watches.delete(watchId);
              created();
            });
          });
        // The chains take turns.
        const earlier = this.#creating.shift() as Promise<unknown>;
        this.#creating.push(earlier.then(create));
        return;
      }
      case 'cancelRequest': {
        const { watchId = 0n } = requestUnion.value;
        const request = this.#watches.get(watchId);
        if (request === undefined) return;
        request.abort();
        this.#watches.delete(watchId);
        queueMicrotask(() => this.#deliverCanceled(watchId));
        return;
      }
      default:
        throw this.#http.unsupported(this.#method, 'the gateway cannot report the progress of a watch');
    }
  }

  #freeWatchId(): bigint {
    let id = 1n;
    while (this.#watches.has(id)) id += 1n;
    return id;
  }

  /** Delivers the message that a gRPC server would send in response to a cancellation. */
  #deliverCanceled(watchId: bigint): void {
    if (this.#ended) return;
    const answer = encode(methods.watch.watch.response, { header: {}, watchId, canceled: true });
    this.#handler.message(decode(this.#method.response, answer));
  }

  #body<Message>(method: Method<Message, unknown>, message: Init<Message>): string {
    return this.#http.body(method, this.#http.message(method, message));
  }

  #newRequest(): AbortController {
    const request = new AbortController();
    this.#requests.add(request);
    return request;
  }

  /**
   * Sends one request and delivers its responses. Calls `onFirst` after the first response. It also calls `onFirst`
   * after later responses, but these calls have no effect. Never rejects.
   */
  async #request(body: string, request: AbortController, onFirst: () => void = () => {}): Promise<void> {
    const { maxReceiveBytes, silenceMs } = this.#limits;
    const ofWatch = isWatch(this.#method);
    const creationMs = Math.min(CREATION_MS, silenceMs);
    const silence = `the watch was silent for ${silenceMs} ms`;
    let stopTimer = (): void => {};
    const expectMessage = (withinMs: number, problem: string): void => {
      stopTimer();
      const late = (): void => {
        if (!hasEnded()) this.fail(this.#http.connectionLost(this.#method, problem));
      };
      if (ofWatch) stopTimer = after(withinMs, late);
    };
    const expectNext = (): void => expectMessage(silenceMs, silence);
    // A `fetch` that the caller passes may ignore the signal of a canceled watch.
    const hasEnded = (): boolean => this.#ended || request.signal.aborted;
    try {
      if (hasEnded()) return;
      expectNext();
      const metadata = await this.#metadata;
      if (hasEnded()) return;
      checkMetadata(metadata, this.#method.path);
      expectMessage(creationMs, notCreated(creationMs));
      const posted = this.#http.post(this.#method, body, metadata, request.signal);
      const response = await orAborted(posted, request.signal);
      for await (const message of this.#http.streamMessages(response, this.#method, maxReceiveBytes)) {
        // While the caller has paused the stream, the server does not count as silent.
        stopTimer();
        while (this.#resumed !== undefined) await this.#resumed;
        if (hasEnded()) return;
        expectNext();
        this.#handler.message(message);
        onFirst();
        // The server sends nothing after a cancellation.
        if (ofWatch && (message as WatchResponse).canceled) return;
      }
      // A server does not end the response for a watch that it has not canceled. If a server does so nevertheless, the
      // whole stream ends.
      if (ofWatch) this.fail(undefined);
    } catch (error) {
      if (!request.signal.aborted) this.fail(error as EtcdError);
    } finally {
      stopTimer();
      this.#requests.delete(request);
      request.abort();
      this.#endIfDone();
    }
  }

  #endIfDone(): void {
    if (this.#halfClosed && this.#requests.size === 0) this.fail(undefined);
  }

  #stop(): void {
    this.#ended = true;
    this.resume();
    for (const request of this.#requests) request.abort();
    this.#onOver();
  }
}

function isWatch({ path }: { readonly path: string }): boolean {
  return path === methods.watch.watch.path;
}

function notCreated(creationMs: number): string {
  return (
    `no answer to the creation of a watch within ${creationMs} ms: a proxy in front of etcd may hold back the ` +
    'streamed response (nginx: proxy_buffering off), or the browser may have no connection left (browsers open at most ' +
    'six to one server)'
  );
}
