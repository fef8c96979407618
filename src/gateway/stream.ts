import type { EtcdError } from '../errors.js';
import type { WatchRequest, WatchResponse } from '../gen/etcdserverpb/rpc.js';
import { methods } from '../gen/methods.js';
import type { Init } from '../protobuf/codec.js';
import type { Method } from '../protobuf/method.js';
import type { Metadata, OutgoingStream } from '../transport/transport.js';
import { notInGateway, refusal } from './failures.js';
import type { GatewayHttp } from './http.js';
import { gatewayPath } from './paths.js';

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
 * ends the stream, as that of a connection would, and whoever owns it opens the next.
 */
export class GatewayStream<Request, Response> implements OutgoingStream<Request> {
  readonly #http: GatewayHttp;
  readonly #method: Method<Request, Response>;
  readonly #metadata: Promise<Metadata>;
  readonly #maxReceiveBytes: number;
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
    maxReceiveBytes: number,
    events: StreamEvents<Response>,
  ) {
    this.#http = http;
    this.#method = method;
    this.#metadata = metadata;
    this.#maxReceiveBytes = maxReceiveBytes;
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
    const body = this.#http.body(this.#method, message);
    if (this.#method.path === methods.watch.watch.path) this.#watch(body, message as Init<WatchRequest>);
    else void this.#exchange(body, this.#newRequest());
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

  fail(error: EtcdError): void {
    if (this.#over) return;
    this.#stop();
    this.#events.end(error);
  }

  #watch(body: string, { requestUnion }: Init<WatchRequest>): void {
    switch (requestUnion?.case) {
      case 'createRequest': {
        const request = this.#newRequest();
        this.#watches.set(requestUnion.value.watchId ?? 0n, request);
        this.#creating = this.#creating.then(
          () =>
            new Promise<void>((created) => {
              void this.#exchange(body, request, created).finally(created);
            }),
        );
        return;
      }
      case 'cancelRequest': {
        const watchId = requestUnion.value.watchId ?? 0n;
        this.#watches.get(watchId)?.abort();
        this.#watches.delete(watchId);
        return;
      }
      default:
        throw refusal('the gateway tells nothing of progress', this.#method.path, this.#http.endpoint);
    }
  }

  #newRequest(): AbortController {
    const request = new AbortController();
    this.#requests.add(request);
    return request;
  }

  /** One request and its answers. `answered` is called at the first. Never rejects. */
  async #exchange(body: string, request: AbortController, answered: () => void = () => {}): Promise<void> {
    let isWatch = false;
    try {
      if (this.#over || request.signal.aborted) return;
      const response = await this.#http.post(this.#method, body, await this.#metadata, request.signal);
      for await (const message of this.#http.messages(response, this.#method, this.#maxReceiveBytes)) {
        while (this.#resumed !== undefined) await this.#resumed;
        if (this.#over || request.signal.aborted) return;
        isWatch = this.#method.path === methods.watch.watch.path;
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
