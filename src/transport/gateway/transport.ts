import { amended, canceled, clientClosed, EtcdError, type Outcome, timedOut } from '../../errors/etcd-error.js';
import type { DeleteRangeRequest, LeaseGrantRequest, PutRequest, TxnRequest } from '../../gen/etcdserverpb/rpc.js';
import { methods } from '../../gen/methods.js';
import { onAbort, orAborted } from '../../runtime/signals.js';
import { randomId } from '../../runtime/text.js';
import { after, monotonicMs } from '../../runtime/timers.js';
import type { Metadata, OutgoingStream, StreamCall, StreamHandler, Transport, UnaryCall } from '../transport.js';
import { refusal } from './failures.js';
import type { Ask } from './guard-pool.js';
import { type Answers, answerFor, type GatewayHttp } from './http.js';
import { repetitionOf } from './repetition.js';
import { GatewayStream, type StreamLimits } from './stream.js';
import type { GuardedWrite, WriteGuards } from './write-guards.js';

/** What to do on a host that may send a request again by itself. */
export interface Repetitions {
  readonly guards: WriteGuards;
  /** Whether requests may be sent whose second copy would act again, and which nothing can guard. */
  readonly allowHarmful: boolean;
}

/** Sends a body and reads the answer, within the time of one call. Calls `onSent` before the body leaves. */
type Exchange = <Response>(method: Answers<Response>, body: string, onSent?: () => void) => Promise<Response>;

/** Calls over the JSON gateway of one member. */
export class GatewayTransport implements Transport {
  readonly #http: GatewayHttp;
  readonly #limits: StreamLimits;
  /** Undefined: the host sends each request once. */
  readonly #repetitions: Repetitions | undefined;
  /** How to end each call under way. */
  readonly #live = new Set<(error: EtcdError) => void>();
  #closed = false;

  constructor(http: GatewayHttp, limits: StreamLimits, repetitions?: Repetitions) {
    this.#http = http;
    this.#limits = limits;
    this.#repetitions = repetitions;
  }

  async unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    const { method, signal, metadata = {} } = call;
    let outcome: Outcome = 'not-sent';
    const ended = new AbortController();
    let why: EtcdError | undefined;
    const end = (error: EtcdError): void => {
      why ??= error;
      ended.abort();
    };
    if (this.#closed) throw clientClosed('not-sent', method.path);
    if (signal?.aborted) throw canceled(signal, 'not-sent', method.path);
    const offAbort =
      signal === undefined ? () => {} : onAbort(signal, () => end(canceled(signal, outcome, method.path)));
    const stopTimer = after(call.deadline - monotonicMs(), () =>
      end(timedOut('call', call.timeoutMs, outcome, method.path)),
    );
    this.#live.add(end);
    const onSent = (): void => {
      call.onSent?.();
      outcome = 'unknown';
    };
    const exchange: Exchange = async (asked, body, leaving) => {
      leaving?.();
      ended.signal.throwIfAborted();
      const answer = this.#http
        .post(asked, body, metadata, ended.signal)
        .then((response) => this.#http.answer(response, asked, this.#limits.maxReceiveBytes));
      // A `fetch` of the caller's own may take no notice of signals. What it gives after the end is dropped.
      return orAborted(answer, ended.signal);
    };
    try {
      if (this.#repetitions === undefined) return await exchange(method, this.#http.body(method, call.request), onSent);
      return await this.#onceOver(this.#repetitions, call, exchange, onSent, ended.signal);
    } catch (error) {
      throw why ?? error;
    } finally {
      offAbort();
      stopTimer();
      this.#live.delete(end);
    }
  }

  /** Makes a call whose requests the host may send again. */
  async #onceOver<Request, Response>(
    { guards, allowHarmful }: Repetitions,
    { method, request }: UnaryCall<Request, Response>,
    exchange: Exchange,
    onSent: () => void,
    signal: AbortSignal,
  ): Promise<Response> {
    const message = this.#http.message(method, request);
    const ask: Ask = async (asked, init, leaving) => exchange(asked, this.#http.body(asked, init), leaving);
    switch (repetitionOf(method, message)) {
      case 'harmless':
        return exchange(method, this.#http.bodyOf(method, message), onSent);
      case 'guarded': {
        const operation = operationOf(method, message);
        const { endpoint } = this.#http;
        const write = { method: method.path, endpoint, operation, source: request as object, signal, onSent };
        return answerFor(method, await guards.write(write, ask));
      }
      case 'lease-grant':
        return answerFor(method, await grant(message as LeaseGrantRequest, ask, onSent));
      case 'harmful':
        if (!allowHarmful) throw refusedAsHarmful(method, this.#http.endpoint);
    }
    return exchange(method, this.#http.bodyOf(method, message), onSent).catch((error: unknown) => {
      throw unsettled(error);
    });
  }

  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request> {
    const metadata: Promise<Metadata> = Promise.resolve(call.metadata ?? {});
    const maxReceiveBytes = Math.min(call.maxReceiveBytes ?? Number.POSITIVE_INFINITY, this.#limits.maxReceiveBytes);
    const stream = new GatewayStream(
      this.#http,
      call.method,
      metadata,
      { ...this.#limits, maxReceiveBytes },
      {
        message: (message) => handler.message(message),
        end: (error) => {
          this.#live.delete(fail);
          handler.end(error);
        },
        canceled: () => this.#live.delete(fail),
      },
    );
    const fail = (error: EtcdError): void => stream.fail(error);
    if (this.#closed) queueMicrotask(() => fail(clientClosed('not-sent', call.method.path)));
    else this.#live.add(fail);
    return stream;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const end of [...this.#live]) end(clientClosed());
  }
}

function operationOf({ path }: { readonly path: string }, message: unknown): GuardedWrite['operation'] {
  if (path === methods.kv.put.path) return { case: 'requestPut', value: message as PutRequest };
  if (path === methods.kv.deleteRange.path) return { case: 'requestDeleteRange', value: message as DeleteRangeRequest };
  return { case: 'requestTxn', value: message as TxnRequest };
}

/** With an ID of the client's own choice: that such a lease exists already is the answer to a second copy. */
async function grant(request: LeaseGrantRequest, ask: Ask, onSent: () => void): Promise<unknown> {
  const id = request.id || randomId();
  try {
    return await ask(methods.lease.leaseGrant, { ...request, id }, onSent);
  } catch (error) {
    const isOwn = request.id === 0n && error instanceof EtcdError && error.reason === 'LeaseExist';
    if (!isOwn) throw unsettled(error);
    const { header, grantedTtl } = await ask(methods.lease.leaseTimeToLive, { id }).catch(() => {
      throw unsettled(error);
    });
    if (grantedTtl === 0n) throw unsettled(error);
    return { header, id, ttl: grantedTtl, error: '' };
  }
}

/** The server refused the copy whose answer has come, and may have done what an earlier copy said. */
function unsettled(error: unknown): unknown {
  return error instanceof EtcdError && error.outcome === 'rejected' ? amended(error, { outcome: 'unknown' }) : error;
}

function refusedAsHarmful({ path }: { readonly path: string }, endpoint: string): EtcdError {
  const problem =
    `this host may send ${path.slice(1)} a second time, at any later time, and nothing can guard it; ` +
    'gateway({ allowRepeatedWrites: true }) sends it all the same';
  return refusal(problem, path, endpoint);
}
