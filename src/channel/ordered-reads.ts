import { amended, canceled, EtcdError, timedOut } from '../errors/etcd-error.js';
import type { RangeRequest, ResponseHeader, TxnRequest } from '../gen/etcdserverpb/rpc.js';
import { methods } from '../gen/methods.js';
import type { Init } from '../protobuf/codec.js';
import { onAbort } from '../runtime/signals.js';
import { backoffMs, monotonicMs, pause } from '../runtime/timers.js';
import type { OutgoingStream, StreamCall, StreamHandler, Transport, UnaryCall } from '../transport/transport.js';
import type { ClusterIdentity } from './cluster-identity.js';
import { isEndpointFailure } from './retry.js';

const KV_PATHS: ReadonlySet<string> = new Set(Object.values(methods.kv).map(({ path }) => path));

/**
 * A transport under which no answer about keys is older than one had before. Only serializable reads can be: a member
 * answers them from what it has, and another may be behind. Such a read is put to the other endpoints, again and again
 * until its time is up. Where the whole cluster went back, because it was restored from an older copy, no member will ever
 * come as far: a linearizable read finds that out, the read rejects with reason `ClusterChanged`, and the reads after it
 * are ordered among themselves.
 */
export class OrderedReads implements Transport {
  readonly #inner: Transport;
  readonly #endpoints: () => readonly string[];
  /** Greatest revision of the store in any answer to a call so far. */
  #seen = 0n;
  /** Why the revisions seen before are void: the latest change of the cluster. */
  #changed: EtcdError | undefined;

  constructor(inner: Transport, endpoints: () => readonly string[], cluster: ClusterIdentity) {
    this.#inner = inner;
    this.#endpoints = endpoints;
    cluster.onChange((error) => {
      this.#seen = 0n;
      this.#changed = error;
    });
  }

  async unary<Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> {
    if (!KV_PATHS.has(call.method.path)) {
      const response = await this.#inner.unary(call);
      this.#isFresh(response, 0n);
      return response;
    }
    // What others hear while this call is under way does not make its answer too old.
    const floor = this.#seen;
    const changedBefore = this.#changed;
    const response = await this.#inner.unary(call);
    // What was written is written, whatever the revision: a cluster restored from a backup begins behind.
    if (this.#isFresh(response, floor) || !readsOnly(call)) return response;
    const endpoints = call.endpoint === undefined ? this.#endpoints() : [call.endpoint];
    const over = new AbortController();
    const offAbort = call.signal === undefined ? () => {} : onAbort(call.signal, () => over.abort());
    if (call.signal?.aborted) over.abort();
    try {
      // The first that has come so far answers; one that is dead holds up nobody.
      const asked = endpoints.map((endpoint) => this.#askUntilFresh({ ...call, endpoint, signal: over.signal }, floor));
      return await Promise.race([Promise.any(asked), this.#ifChanged({ ...call, signal: over.signal }, changedBefore)]);
    } catch (failures) {
      if (call.signal?.aborted) throw canceled(call.signal, 'rejected', call.method.path);
      if (failures instanceof EtcdError) throw failures;
      const { errors } = failures as AggregateError;
      throw errors.find((error) => !isPassing(error)) ?? stale(call, floor);
    } finally {
      offAbort();
      over.abort();
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

  /**
   * Reads one of the call's keys linearizably, so that the channel compares the revision of the store with what was seen
   * before. Rejects where the store went back, and else never settles.
   */
  #ifChanged<Request, Response>(
    { request, ...call }: UnaryCall<Request, Response>,
    changedBefore: EtcdError | undefined,
  ): Promise<never> {
    const key = keyOf(request as Init<RangeRequest> & Init<TxnRequest>);
    return new Promise((_, reject) => {
      const compare = (): void => {
        if (this.#changed !== changedBefore) reject(amended(this.#changed as EtcdError, { outcome: 'rejected' }));
      };
      // Where it fails, the reads that go on say why.
      this.#inner
        .unary({ ...call, method: methods.kv.range, request: { key, countOnly: true } })
        .then(compare, () => {});
    });
  }

  async #askUntilFresh<Request, Response>(call: UnaryCall<Request, Response>, floor: bigint): Promise<Response> {
    for (let attempt = 0; ; attempt += 1) {
      try {
        const response = await this.#inner.unary(call);
        if (this.#isFresh(response, floor)) return response;
      } catch (error) {
        if (!isPassing(error)) throw error;
      }
      await pause(Math.min(backoffMs(attempt), call.deadline - monotonicMs()), call.signal);
      if (call.signal?.aborted || monotonicMs() >= call.deadline) throw stale(call, floor);
    }
  }

  #isFresh(response: unknown, floor: bigint): boolean {
    const { header } = response as { readonly header?: ResponseHeader | undefined };
    if (header === undefined) return true;
    if (header.revision > this.#seen) this.#seen = header.revision;
    return header.revision >= floor;
  }
}

/** A key that the read concerns. */
function keyOf({ key, success = [], failure = [] }: Init<RangeRequest> & Init<TxnRequest>): Uint8Array | undefined {
  if (key !== undefined) return key;
  for (const { request } of [...success, ...failure]) {
    if (request?.case === 'requestRange') return request.value.key;
    if (request?.case === 'requestTxn') return keyOf(request.value);
  }
  return undefined;
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

/** A member that is not there, or says nothing, may yet come back. */
function isPassing(error: unknown): boolean {
  if (!(error instanceof EtcdError)) return false;
  return isEndpointFailure(error) || error.reason === 'DeadlineExceeded' || error.reason === 'StaleRead';
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
