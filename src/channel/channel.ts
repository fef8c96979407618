import { canceled, clientClosed, EtcdError, type Outcome, timedOut } from '../errors.js';
import { monotonicMs, pause } from '../time.js';
import type { Endpoint } from '../transport/endpoint.js';
import type { Call, OutgoingStream, StreamHandler, Transport, UnaryCall } from '../transport/transport.js';
import { Peers } from './peers.js';
import { isEndpointFailure, mayRetry } from './retry.js';

/**
 * A transport over several endpoints. A call moves on from an endpoint that fails and is repeated where its method
 * allows; a stream is opened once, and whoever owns it opens the next one.
 */
export class Channel implements Transport {
  readonly #peers: Peers;
  #closed = false;

  constructor(endpoints: readonly Endpoint[], transportOf: (endpoint: Endpoint) => Transport) {
    this.#peers = new Peers(
      endpoints.map((endpoint) => ({ endpoint, transport: transportOf(endpoint), failures: 0, parkedUntil: 0 })),
    );
  }

  async unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    let outcome: Outcome = 'not-sent';
    let last: EtcdError | undefined;
    for (;;) {
      const peer = this.#peers.pick();
      const waitMs = peer.parkedUntil - monotonicMs();
      if (waitMs > 0) {
        await pause(Math.min(waitMs, call.deadline - monotonicMs()), call.signal);
        if (this.#closed) throw last ?? clientClosed('not-sent', call.method.path);
        if (call.signal?.aborted) throw canceled(call.signal, outcome, call.method.path);
        if (call.deadline <= monotonicMs()) throw outOfTime(call, outcome, last);
      }
      try {
        const response = await peer.transport.unary(call);
        this.#peers.succeeded(peer);
        return response;
      } catch (error) {
        if (!(error instanceof EtcdError)) throw error;
        if (isEndpointFailure(error)) this.#peers.failed(peer);
        if (!mayRetry(call.method, error))
          throw error.reason === 'DeadlineExceeded' && last ? outOfTime(call, error.outcome, last) : error;
        if (error.outcome === 'unknown') outcome = 'unknown';
        last = error;
      }
    }
  }

  stream<Request, Response>(call: Call<Request, Response>, handler: StreamHandler<Response>): OutgoingStream<Request> {
    const peer = this.#peers.pick();
    const stream = peer.transport.stream<Request, Response>(call, {
      message: (message) => {
        if (peer.failures > 0) this.#peers.succeeded(peer);
        handler.message(message);
      },
      end: (error) => {
        if (error !== undefined && isEndpointFailure(error)) this.#peers.failed(peer);
        handler.end(error);
      },
    });
    return {
      send: (message) => stream.send(message),
      end: () => stream.end(),
      cancel: (why) => {
        if (why === 'unresponsive') this.#peers.failed(peer);
        stream.cancel();
      },
      pause: () => stream.pause(),
      resume: () => stream.resume(),
    };
  }

  async close(): Promise<void> {
    this.#closed = true;
    await Promise.all(this.#peers.all().map((peer) => peer.transport.close()));
  }
}

/** Time ran out between attempts: the last failure says why none came through. */
function outOfTime(
  call: { readonly timeoutMs: number; readonly method: { readonly path: string } },
  outcome: Outcome,
  last: EtcdError | undefined,
): EtcdError {
  const { problem } = timedOut('call', call.timeoutMs, outcome);
  return new EtcdError(`${problem}; last failure: ${last?.problem ?? 'none'}`, {
    code: 'DeadlineExceeded',
    reason: 'DeadlineExceeded',
    outcome,
    method: call.method.path,
    cause: last,
  });
}
