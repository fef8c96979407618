import {
  amended,
  canceled,
  clientClosed,
  EtcdError,
  type Outcome,
  outOfTime,
  type Reason,
  withCallers,
} from '../errors/etcd-error.js';
import type { Endpoint } from '../host/endpoint.js';
import { type Logger, log } from '../runtime/log.js';
import { monotonicMs, pause } from '../runtime/timers.js';
import type { OutgoingStream, StreamCall, StreamHandler, Transport, UnaryCall } from '../transport/transport.js';
import { forwardStream } from '../transport/transport.js';
import { traceOf } from './call-trace.js';
import { ClusterIdentity, headerOf } from './cluster-identity.js';
import { type Peer, Peers } from './peers.js';
import { isEndpointFailure, isPassing, mayRetry } from './retry.js';

/** A call that got no answer for this long says something about the endpoint, not only about the caller's patience. */
const SILENCE_MS = 1_000;

/** How often in a row a member that is well may refuse for a moment, before another one is asked. */
const MAX_PASSING = 5;

/** Repetitions of a call that has all the time in the world and one endpoint to go to: some seconds. */
const MAX_VAIN = 5;

/**
 * A transport over several endpoints. A call moves on from an endpoint that fails and is repeated where its method
 * allows; a stream is opened once, and whoever owns it opens the next one.
 */
export class Channel implements Transport {
  readonly #configured: readonly Endpoint[];
  readonly #transportOf: (endpoint: Endpoint) => Transport;
  /** Those in use, and those that are not any more while calls under way there go on. */
  readonly #known = new Map<string, Peer>();
  readonly #peers: Peers;
  #endpoints: readonly Endpoint[];
  readonly #closed = new AbortController();
  readonly #logger: Logger | undefined;
  /** Which cluster answers, and how far its store has come. */
  readonly cluster = new ClusterIdentity();

  constructor(endpoints: readonly Endpoint[], transportOf: (endpoint: Endpoint) => Transport, logger?: Logger) {
    this.#configured = endpoints;
    this.#endpoints = endpoints;
    this.#transportOf = transportOf;
    this.#logger = logger;
    this.#peers = new Peers(endpoints.map((endpoint) => this.#peerOf(endpoint)));
  }

  /** URLs of the endpoints. */
  get endpoints(): readonly string[] {
    return this.#endpoints.map(({ url }) => url);
  }

  /** Uses these from now on, and those given at the beginning only where none of these works. */
  follow(endpoints: readonly Endpoint[]): void {
    if (this.#closed.signal.aborted) return;
    if (endpoints.some(({ url }) => !this.endpoints.includes(url)) || endpoints.length !== this.#endpoints.length)
      log(this.#logger, 'info', 'endpoints changed', { endpoints: endpoints.map(({ url }) => url) });
    this.#endpoints = endpoints;
    const preferred = new Set(endpoints.map((endpoint) => this.#peerOf(endpoint)));
    const spare = this.#configured.map((endpoint) => this.#peerOf(endpoint)).filter((peer) => !preferred.has(peer));
    this.#peers.replace([...preferred], spare);
    for (const peer of [...this.#known.values()]) this.#forgetUnused(peer);
  }

  async unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    let outcome: Outcome = 'not-sent';
    let last: EtcdError | undefined;
    let passing = 0;
    const seenBefore = this.cluster.revision;
    const trace = traceOf(call.signal);
    for (let attempt = 0; ; attempt += 1) {
      const peer = this.#peers.pick(call.endpoint);
      peer.users += 1;
      try {
        if (last !== undefined && (isPassing(last) || peer.parkedUntil > monotonicMs())) {
          const leftMs = call.deadline - monotonicMs();
          await pause(Math.min(this.#peers.pauseMs(peer, attempt), leftMs), call.signal, this.#closed.signal);
          if (this.#closed.signal.aborted) throw clientClosed(outcome, call.method.path);
          if (call.signal?.aborted) throw canceled(call.signal, outcome, call.method.path);
        }
        const startedAt = monotonicMs();
        if (call.deadline <= startedAt) throw outOfTime(call, outcome, last);
        call.onAttempt?.(peer.endpoint.url);
        if (trace !== undefined) trace.endpoint = peer.endpoint.url;
        try {
          const response = await peer.transport.unary(call);
          const header = headerOf(response);
          if (header !== undefined) this.cluster.answered(call, header, seenBefore, peer.endpoint.url);
          this.#works(peer, startedAt);
          if (trace !== undefined) Object.assign(trace, { endpoint: undefined, failure: undefined, reached: true });
          return response;
        } catch (error) {
          if (!(error instanceof EtcdError)) throw error;
          if (trace !== undefined) {
            trace.reached ||= error.outcome !== 'not-sent';
            // The end of the wait is no failure, and the endpoint still owes its answer.
            if (!call.signal?.aborted) Object.assign(trace, { endpoint: undefined, failure: error });
          }
          const silent = error.reason === 'DeadlineExceeded' && monotonicMs() - startedAt > SILENCE_MS;
          const isWell = isPassing(error) && ++passing <= MAX_PASSING;
          if (silent || (isEndpointFailure(error) && !isWell) || error.reason === 'ClusterChanged')
            this.#fails(peer, error.reason, error.problem);
          if (error.outcome !== 'not-sent' && outcome !== 'unknown') outcome = error.outcome;
          if (this.#isVain(call, attempt) || this.#isStuck(call, error) || !mayRetry(call.method, error)) {
            if (isServersTimeout(call, error)) throw outOfTime(call, outcome, error);
            if (error.reason === 'DeadlineExceeded' && last !== undefined) throw outOfTime(call, outcome, last);
            throw withCallers(error);
          }
          last = error;
          log(this.#logger, 'debug', 'call repeated', {
            method: call.method.path,
            reason: error.reason,
            problem: error.problem,
            endpoint: peer.endpoint.url,
            attempt,
          });
          call.onRetry?.(error);
        }
      } finally {
        this.#left(peer);
      }
    }
  }

  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request> {
    const peer = this.#peers.pick(call.endpoint);
    call.onAttempt?.(peer.endpoint.url);
    const startedAt = monotonicMs();
    peer.users += 1;
    let over = false;
    const left = (): void => {
      if (over) return;
      over = true;
      this.#left(peer);
    };
    const stream = peer.transport.stream<Request, Response>(call, {
      message: (message) => {
        if (over) return;
        try {
          const header = headerOf(message);
          const isCreated = (message as { readonly created?: boolean }).created === true;
          if (header !== undefined) this.cluster.streamed(call.method.path, header, peer.endpoint.url, isCreated);
        } catch (error) {
          // The peer belongs to another cluster.
          stream.cancel();
          this.#fails(peer, 'ClusterChanged', (error as EtcdError).problem);
          left();
          return handler.end(error as EtcdError);
        }
        if (peer.failures > 0) this.#works(peer, startedAt);
        handler.message(message);
      },
      end: (error) => {
        if (error !== undefined && isEndpointFailure(error) && !isPassing(error))
          this.#fails(peer, error.reason, error.problem);
        left();
        // Whatever code its version has for it: whoever owns the stream opens the next where that may do better.
        if (error?.reason === 'NotSupportedForLearner')
          handler.end(amended(error, { code: this.#isStuck(call, error) ? 'FailedPrecondition' : 'Unavailable' }));
        else handler.end(error);
      },
      leaving: () => {
        this.#fails(peer, 'StreamRefused', 'the server is about to end the connection');
        handler.leaving?.();
      },
    });
    return forwardStream(stream, {
      cancel: (why) => {
        if (why === 'unresponsive') this.#fails(peer, 'DeadlineExceeded', 'the server did not answer in time');
        stream.cancel(why);
        left();
      },
    });
  }

  async close(): Promise<void> {
    this.#closed.abort();
    await Promise.all([...this.#known.values()].map((peer) => peer.transport.close()));
  }

  /** Without a time limit a member that is gone for good would be waited for as long. */
  #isVain(
    { endpoint, deadline }: Pick<UnaryCall<unknown, unknown>, 'endpoint' | 'deadline'>,
    attempt: number,
  ): boolean {
    return endpoint !== undefined && deadline === Number.POSITIVE_INFINITY && attempt === MAX_VAIN;
  }

  /** There is nowhere else to go. */
  #isStuck({ endpoint }: { readonly endpoint?: string | undefined }, { reason }: EtcdError): boolean {
    return reason === 'NotSupportedForLearner' && (endpoint !== undefined || this.#peers.all().length === 1);
  }

  #works(peer: Peer, startedAt: number): void {
    const { failures } = peer;
    this.#peers.succeeded(peer, startedAt);
    if (failures > 0 && peer.failures === 0)
      log(this.#logger, 'info', 'endpoint works again', { endpoint: peer.endpoint.url });
  }

  #fails(peer: Peer, reason: Reason, problem: string): void {
    const { failures } = peer;
    this.#peers.failed(peer, reason);
    if (failures === 0) log(this.#logger, 'warn', 'endpoint fails', { endpoint: peer.endpoint.url, reason, problem });
  }

  #left(peer: Peer): void {
    peer.users -= 1;
    this.#forgetUnused(peer);
  }

  #forgetUnused(peer: Peer): void {
    if (peer.users > 0 || this.#peers.has(peer)) return;
    this.#known.delete(peer.endpoint.url);
    void peer.transport.close();
  }

  #peerOf(endpoint: Endpoint): Peer {
    let peer = this.#known.get(endpoint.url);
    if (peer === undefined) {
      peer = {
        endpoint,
        transport: this.#transportOf(endpoint),
        failures: 0,
        failedAt: 0,
        parkedUntil: 0,
        vainDials: 0,
        dialAt: 0,
        users: 0,
      };
      this.#known.set(endpoint.url, peer);
    }
    return peer;
  }
}

/** The server heard of the caller's deadline, and was the first to act on it. */
function isServersTimeout({ deadline }: { readonly deadline: number }, { reason }: EtcdError): boolean {
  return reason === 'Timeout' && monotonicMs() >= deadline;
}
