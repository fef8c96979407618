import { amended, canceled, EtcdError, timedOut } from '../errors/etcd-error.js';
import type { RangeRequest, TxnRequest } from '../gen/etcdserverpb/rpc.js';
import * as kvMethods from '../gen/methods/kv.js';
import type { Init } from '../protobuf/codec.js';
import { onAbort } from '../runtime/signals.js';
import { backoffMs, monotonicMs, pauseUntil } from '../runtime/timers.js';
import type { Transport, UnaryCall } from '../transport/transport.js';
import { isEndpointFailure } from './attempts.js';
import { type ClusterIdentity, headerOf } from './cluster-identity.js';

/** The beginning of the paths of all RPCs that read or write keys. */
const KV_PATHS = '/etcdserverpb.KV/';

/**
 * Prevents a read from returning data from an older revision of the store than a previous call returned. Only
 * serializable reads can return older data, because a member answers them from its own data, which may be behind. If a
 * response is too old, this class repeats the read at all endpoints until one of them has caught up or the call times
 * out.
 *
 * If the whole cluster was restored from an older copy, the members may never catch up. An additional linearizable read
 * detects such a restore. The repeated read then rejects with reason `ClusterChanged`, and later reads are compared
 * only with the revisions of the restored store.
 */
export class OrderedReads implements Transport {
  readonly #inner: Transport;
  readonly #endpoints: () => readonly string[];
  /** Maximum store revision in any response since the client was created or the cluster was last restored. */
  #seen = 0n;
  /** The error of the latest `ClusterChanged` event. Revisions seen before that event no longer count. */
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
    if (!call.method.path.startsWith(KV_PATHS)) {
      const response = await this.#inner.unary(call);
      this.#isFresh(response, 0n);
      return response;
    }
    // Read these values before the call: a newer revision that a concurrent call receives does not make this response
    // too old.
    const floor = this.#seen;
    const changedBefore = this.#changed;
    const response = await this.#inner.unary(call);
    // Never repeat a write. The response to a write has a revision below `floor` only if the cluster was restored from
    // a backup.
    if (this.#isFresh(response, floor) || !readsOnly(call)) return response;
    const endpoints = call.endpoint === undefined ? this.#endpoints() : [call.endpoint];
    const done = new AbortController();
    const offAbort = call.signal === undefined ? () => {} : onAbort(call.signal, () => done.abort());
    if (call.signal?.aborted) done.abort();
    try {
      // Send the read to all endpoints at once and use the first fresh response, so that an unavailable endpoint causes
      // no delay.
      const reads = endpoints.map((endpoint) =>
        this.#readUntilFresh({ ...call, endpoint, signal: done.signal }, floor),
      );
      const changed = this.#rejectIfChanged({ ...call, signal: done.signal }, changedBefore);
      return await Promise.race([Promise.any(reads), changed]);
    } catch (failures) {
      if (call.signal?.aborted) throw canceled(call.signal, 'rejected', call.method.path);
      if (failures instanceof EtcdError) throw failures;
      const { errors } = failures as AggregateError;
      throw errors.find((error) => !mayCatchUp(error)) ?? stale(call, floor);
    } finally {
      offAbort();
      done.abort();
    }
  }

  readonly stream: Transport['stream'] = (call, handler) => this.#inner.stream(call, handler);
  readonly close: Transport['close'] = () => this.#inner.close();

  /**
   * Sends a linearizable read of one of the call's keys. `ClusterIdentity` compares the revision of the response with
   * the revisions seen before, and thus detects whether the store went back to an older revision. If so, the returned
   * promise rejects. Otherwise the promise never settles.
   */
  #rejectIfChanged<Request, Response>(
    { request, ...call }: UnaryCall<Request, Response>,
    changedBefore: EtcdError | undefined,
  ): Promise<never> {
    const key = keyOf(request as Init<RangeRequest> & Init<TxnRequest>);
    return new Promise((_, reject) => {
      const compare = (): void => {
        if (this.#changed !== changedBefore) reject(amended(this.#changed as EtcdError, { outcome: 'rejected' }));
      };
      // If this read fails, the repeated reads report why.
      this.#inner
        .unary({ ...call, method: kvMethods.range, request: { key, countOnly: true } })
        .then(compare, () => {});
    });
  }

  async #readUntilFresh<Request, Response>(call: UnaryCall<Request, Response>, floor: bigint): Promise<Response> {
    for (let attempt = 0; ; attempt += 1) {
      try {
        const response = await this.#inner.unary(call);
        if (this.#isFresh(response, floor)) return response;
      } catch (error) {
        if (!mayCatchUp(error)) throw error;
      }
      await pauseUntil(Math.min(monotonicMs() + backoffMs(attempt), call.deadline), call.signal);
      if (call.signal?.aborted || monotonicMs() >= call.deadline) throw stale(call, floor);
    }
  }

  /** Records the revision of the response. Returns whether this revision is at least `floor`. */
  #isFresh(response: unknown, floor: bigint): boolean {
    const header = headerOf(response);
    if (header === undefined) return true;
    if (header.revision > this.#seen) this.#seen = header.revision;
    return header.revision >= floor;
  }
}

/** Returns one of the keys that the call reads. */
function keyOf({ key, success = [], failure = [] }: Init<RangeRequest> & Init<TxnRequest>): Uint8Array | undefined {
  if (key !== undefined) return key;
  for (const { request } of [...success, ...failure]) {
    if (request?.case === 'requestRange') return request.value.key;
    if (request?.case === 'requestTxn') return keyOf(request.value);
  }
  return undefined;
}

/** Whether the call changes nothing, so that it may be repeated. */
function readsOnly({ method, request }: UnaryCall<unknown, unknown>): boolean {
  if (method.path === kvMethods.range.path) return true;
  return method.path === kvMethods.txn.path && isReadOnly(request as Init<TxnRequest>);
}

function isReadOnly({ success = [], failure = [] }: Init<TxnRequest>): boolean {
  return [...success, ...failure].every(
    ({ request }) => request?.case === 'requestRange' || (request?.case === 'requestTxn' && isReadOnly(request.value)),
  );
}

/** Whether the endpoint may still catch up, because it was unavailable, did not answer in time or is behind. */
function mayCatchUp(error: unknown): boolean {
  if (!(error instanceof EtcdError)) return false;
  return isEndpointFailure(error) || error.reason === 'DeadlineExceeded' || error.reason === 'StaleRead';
}

function stale({ timeoutMs, method }: UnaryCall<unknown, unknown>, floor: bigint): EtcdError {
  const { problem } = timedOut('call', timeoutMs, 'rejected');
  return new EtcdError(`${problem}: no endpoint has reached revision ${floor}, which an earlier call returned`, {
    code: 'Unavailable',
    reason: 'StaleRead',
    outcome: 'rejected',
    method: method.path,
  });
}
