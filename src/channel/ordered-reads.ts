import { canceled, EtcdError, timedOut } from '../errors.js';
import type { ResponseHeader, TxnRequest } from '../gen/etcdserverpb/rpc.js';
import { methods } from '../gen/methods.js';
import type { Init } from '../protobuf/codec.js';
import { backoffMs, monotonicMs, pause } from '../time.js';
import type { OutgoingStream, StreamCall, StreamHandler, Transport, UnaryCall } from '../transport/transport.js';
import { isEndpointFailure } from './retry.js';

interface Fresh<Response> {
  readonly response: Response;
}

const KV_PATHS: ReadonlySet<string> = new Set(Object.values(methods.kv).map(({ path }) => path));

/**
 * A transport under which no answer about keys is older than one had before. Only serializable reads can be: a member
 * answers them from what it has, and another may be behind. Such a read is put to the other endpoints, again and again
 * until its time is up.
 */
export class OrderedReads implements Transport {
  readonly #inner: Transport;
  readonly #endpoints: readonly string[];
  /** Greatest revision of the store in any answer so far. */
  #seen = 0n;

  constructor(inner: Transport, endpoints: readonly string[]) {
    this.#inner = inner;
    this.#endpoints = endpoints;
  }

  async unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    if (!KV_PATHS.has(call.method.path)) return this.#inner.unary(call);
    // What others hear while this call is under way does not make its answer too old.
    const floor = this.#seen;
    const response = await this.#inner.unary(call);
    // What was written is written, whatever the revision: a cluster restored from a backup begins behind.
    if (this.#isFresh(response, floor) || !readsOnly(call)) return response;
    const candidates = call.endpoint === undefined ? this.#endpoints : [call.endpoint];
    for (let round = 0; ; round += 1) {
      const asked = candidates.map((endpoint) => this.#ask({ ...call, endpoint }, floor));
      const fresh = await firstFresh(asked);
      if (fresh !== undefined) return fresh.response;
      await pause(Math.min(backoffMs(round), call.deadline - monotonicMs()), call.signal);
      if (call.signal?.aborted) throw canceled(call.signal, 'rejected', call.method.path);
      if (monotonicMs() >= call.deadline) throw stale(call, floor);
    }
  }

  stream<Request, Response>(
    call: StreamCall<Request, Response>,
    handler: StreamHandler<Response>,
  ): OutgoingStream<Request> {
    return this.#inner.stream(call, handler);
  }

  close(): Promise<void> {
    return this.#inner.close();
  }

  async #ask<Request, Response>(
    call: UnaryCall<Request, Response>,
    floor: bigint,
  ): Promise<Fresh<Response> | undefined> {
    try {
      const response = await this.#inner.unary(call);
      return this.#isFresh(response, floor) ? { response } : undefined;
    } catch (error) {
      const passing = error instanceof EtcdError && (isEndpointFailure(error) || error.reason === 'DeadlineExceeded');
      if (passing) return undefined;
      throw error;
    }
  }

  #isFresh(response: unknown, floor: bigint): boolean {
    const { header } = response as { readonly header?: ResponseHeader | undefined };
    if (header === undefined) return true;
    if (header.revision > this.#seen) this.#seen = header.revision;
    return header.revision >= floor;
  }
}

/** Whether the call may be put to another member without doing anything twice. */
function readsOnly({ method, request }: UnaryCall<unknown, unknown>): boolean {
  if (method.path === methods.kv.range.path) return true;
  return method.path === methods.kv.txn.path && isReadOnly(request as Init<TxnRequest>);
}

function isReadOnly({ success = [], failure = [] }: Init<TxnRequest>): boolean {
  return [...success, ...failure].every(
    ({ request }) => request?.case === 'requestRange' || (request?.case === 'requestTxn' && isReadOnly(request.value)),
  );
}

/** The first that is fresh; undefined when none is. One that is slow, or dead, holds up nobody. */
function firstFresh<T>(asked: readonly Promise<Fresh<T> | undefined>[]): Promise<Fresh<T> | undefined> {
  return new Promise((resolve, reject) => {
    for (const answer of asked) answer.then((fresh) => fresh && resolve(fresh), reject);
    Promise.all(asked).then(() => resolve(undefined), reject);
  });
}

function stale({ timeoutMs, method }: UnaryCall<unknown, unknown>, floor: bigint): EtcdError {
  const { problem } = timedOut('call', timeoutMs, 'rejected');
  return new EtcdError(`${problem}: no endpoint has come as far as revision ${floor}, which was read before`, {
    code: 'Unavailable',
    reason: 'StaleRead',
    outcome: 'rejected',
    method: method.path,
  });
}
