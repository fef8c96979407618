import type { EtcdError } from '../../errors/etcd-error.js';
import type { WatchRequest, WatchResponse } from '../../gen/etcdserverpb/rpc.js';
import { methods } from '../../gen/methods.js';
import { decode, encode, type Init } from '../../protobuf/codec.js';
import type { Method } from '../../protobuf/schema.js';
import { after } from '../../runtime/timers.js';
import type { Metadata, OutgoingStream } from '../transport.js';
import { notInGateway, refusal } from './failures.js';
import type { GatewayHttp } from './http.js';
import { gatewayPath } from './paths.js';

/** Milliseconds for the answer to the creation of a watch, which servers give at once. */
const CREATION_MS = 10_000;

export interface StreamLimits {
  readonly maxReceiveBytes: number;
  /** Milliseconds for which a watch may say nothing. */
  readonly silenceMs: number;
}

interface StreamEvents<Response> {
  message(message: Response): void;
  end(error: EtcdError | undefined): void;
  canceled(): void;
}

/**
 * A stream of messages as the gateway can have one: it reads what it is sent to its end before it answers. So each
 * message is a request of its own, whose answers come as lines; what the caller sees is one stream again.
 *
 * Of a keepalive each message gets one answer. Of a watch each creation gets the events of that watch, as long as it
 * lasts; creations go one by one, since they are answered in order; a cancellation ends the request. A failure of one
 * ends the stream, as that of a connection would, and whoever owns it opens the next. So does the silence of a watch: no
 * ping tells here that a connection is dead.
 */
export class GatewayStream<Request, Response> implements OutgoingStream<Request> {
  readonly #http: GatewayHttp;
  readonly #method: Method<Request, Response>;
  readonly #metadata: Promise<Metadata>;
  readonly #maxReceiveBytes: number;
  readonly #silenceMs: number;
  readonly #events: StreamEvents<Response>;
  /** Requests that are not over, those that wait for another one included. */
  readonly #requests = new Set<AbortController>();
  /** Watches that have a request. */
  readonly #watches = new Map<bigint, AbortController>();
  /** Creations that wait for the one before. */
  #creating: Promise<unknown> = Promise.resolve();
  #resumed: Promise<void> | undefined;
  #resume: () => void = () => {};
  #halfClosed = false;
  #over = false;

  constructor(
    http: GatewayHttp,
    method: Method<Request, Response>,
    metadata: Promise<Metadata>,
    { maxReceiveBytes, silenceMs }: StreamLimits,
    events: StreamEvents<Response>,
  ) {
    this.#http = http;
    this.#method = method;
    this.#metadata = metadata;
    this.#maxReceiveBytes = maxReceiveBytes;
    this.#silenceMs = silenceMs;
    this.#events = events;
    metadata.catch((error: EtcdError) => this.fail(error));
    if (gatewayPath(method) !== undefined) return;
    // Until it has failed it is not at its end, whatever the caller does.
    this.#requests.add(new AbortController());
    queueMicrotask(() => this.fail(notInGateway(method, http.endpoint)));
  }

  /** @throws EtcdError: reason `InvalidInput`; `NotInGateway` for a request of progress. */
  send(message: Init<Request>): void {
    if (this.#over || gatewayPath(this.#method) === undefined) return;
    if (this.#isWatch) this.#watch(message as Init<WatchRequest>);
    else void this.#exchange(this.#http.body(this.#method, message), this.#newRequest());
  }

  end(): void {
    this.#halfClosed = true;
    this.#endIfDone();
  }

  cancel(): void {
    if (this.#over) return;
    this.#stop();
    this.#events.canceled();
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

  get #isWatch(): boolean {
    return this.#method.path === methods.watch.watch.path;
  }

  fail(error: EtcdError): void {
    if (this.#over) return;
    this.#stop();
    this.#events.end(error);
  }

  #watch({ requestUnion }: Init<WatchRequest>): void {
    switch (requestUnion?.case) {
      case 'createRequest': {
        // A server would choose the same number for each, since each has a stream of its own there.
        const watchId = requestUnion.value.watchId || this.#freeWatchId();
        const create = { requestUnion: { case: 'createRequest', value: { ...requestUnion.value, watchId } } } as const;
        const body = this.#http.body(methods.watch.watch, create);
        const request = this.#newRequest();
        this.#watches.set(watchId, request);
        this.#creating = this.#creating.then(
          () =>
            new Promise<void>((created) => {
              void this.#exchange(body, request, created).finally(() => {
                if (this.#watches.get(watchId) === request) this.#watches.delete(watchId);
                created();
              });
            }),
        );
        return;
      }
      case 'cancelRequest': {
        const { watchId = 0n } = requestUnion.value;
        const request = this.#watches.get(watchId);
        if (request === undefined) return;
        request.abort();
        this.#watches.delete(watchId);
        queueMicrotask(() => this.#tellCanceled(watchId));
        return;
      }
      default:
        throw refusal('the gateway tells nothing of progress', this.#method.path, this.#http.endpoint);
    }
  }

  #freeWatchId(): bigint {
    let id = 1n;
    while (this.#watches.has(id)) id += 1n;
    return id;
  }

  /** As a server answers a cancellation. */
  #tellCanceled(watchId: bigint): void {
    if (this.#over) return;
    const { watch } = methods.watch;
    const answer = encode(watch.response, { header: {}, watchId, canceled: true });
    this.#events.message(decode(this.#method.response, answer));
  }

  #newRequest(): AbortController {
    const request = new AbortController();
    this.#requests.add(request);
    return request;
  }

  /** One request and its answers. `answered` is called at the first. Never rejects. */
  async #exchange(body: string, request: AbortController, answered: () => void = () => {}): Promise<void> {
    const isWatch = this.#isWatch;
    let stopTimer = (): void => {};
    const listen = (): void => {
      stopTimer();
      if (isWatch)
        stopTimer = after(this.#silenceMs, () => this.fail(this.#http.silent(this.#method, this.#silenceMs)));
    };
    const awaitCreation = (): void => {
      stopTimer();
      const creationMs = Math.min(CREATION_MS, this.#silenceMs);
      if (isWatch) stopTimer = after(creationMs, () => this.fail(this.#http.notCreated(this.#method, creationMs)));
    };
    try {
      if (this.#over || request.signal.aborted) return;
      listen();
      const metadata = await this.#metadata;
      if (this.#over || request.signal.aborted) return;
      awaitCreation();
      const response = await this.#http.post(this.#method, body, metadata, request.signal);
      for await (const message of this.#http.messages(response, this.#method, this.#maxReceiveBytes)) {
        // What is not taken yet is no silence of the server's.
        stopTimer();
        while (this.#resumed !== undefined) await this.#resumed;
        if (this.#over || request.signal.aborted) return;
        listen();
        this.#events.message(message);
        answered();
        // Nothing comes after that.
        if (isWatch && (message as WatchResponse).canceled) return;
      }
      // A watch ends by a word of the server, or not at all.
      if (isWatch) this.#finish();
    } catch (error) {
      if (!request.signal.aborted) this.fail(error as EtcdError);
    } finally {
      stopTimer();
      this.#requests.delete(request);
      request.abort();
      this.#endIfDone();
    }
  }

  /** The server has ended it. */
  #finish(): void {
    if (this.#over) return;
    this.#stop();
    this.#events.end(undefined);
  }

  /** What was to be sent is answered, and no more is to come. */
  #endIfDone(): void {
    if (this.#halfClosed && this.#requests.size === 0) this.#finish();
  }

  #stop(): void {
    this.#over = true;
    this.resume();
    for (const request of this.#requests) request.abort();
  }
}
