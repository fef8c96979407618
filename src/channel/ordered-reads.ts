import { canceled, EtcdError, timedOut } from '../errors.js';
import type { ResponseHeader } from '../gen/etcdserverpb/rpc.js';
import { methods } from '../gen/methods.js';
import { backoffMs, monotonicMs, pause } from '../time.js';
import type { OutgoingStream, StreamCall, StreamHandler, Transport, UnaryCall } from '../transport/transport.js';
import { isEndpointFailure } from './retry.js';

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
    if (this.#isFresh(response, floor)) return response;
    const candidates = call.endpoint === undefined ? this.#endpoints : [call.endpoint];
    for (let round = 0; ; round += 1) {
      for (const endpoint of candidates) {
        const fresh = await this.#ask({ ...call, endpoint }, floor);
        if (fresh !== undefined) return fresh;
      }
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

  async #ask<Request, Response>(call: UnaryCall<Request, Response>, floor: bigint): Promise<Response | undefined> {
    try {
      const response = await this.#inner.unary(call);
      return this.#isFresh(response, floor) ? response : undefined;
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

function stale({ timeoutMs, method }: UnaryCall<unknown, unknown>, floor: bigint): EtcdError {
  const { problem } = timedOut('call', timeoutMs, 'rejected');
  return new EtcdError(`${problem}: no endpoint has come as far as revision ${floor}, which was read before`, {
    code: 'Unavailable',
    reason: 'StaleRead',
    outcome: 'rejected',
    method: method.path,
  });
}
