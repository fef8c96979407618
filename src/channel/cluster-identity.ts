import { EtcdError } from '../errors/etcd-error.js';
import type { RangeRequest, ResponseHeader, TxnRequest } from '../gen/etcdserverpb/rpc.js';
import { methods } from '../gen/methods.js';
import type { Init } from '../protobuf/codec.js';

/** The parts of a call that determine whether its response is linearizable. */
interface SentCall {
  readonly method: { readonly path: string };
  readonly request: unknown;
}

const ALWAYS_LINEARIZABLE: ReadonlySet<string> = new Set([
  methods.kv.put.path,
  methods.kv.deleteRange.path,
  methods.kv.compact.path,
]);

/**
 * Remembers the ID of the cluster and the revision of its store. Detects that another cluster answers, or that the
 * store has gone back to an older revision.
 *
 * - Every response header contains the ID of the cluster. A response from another cluster is an error.
 * - The revision of the store never decreases. If a linearizable response has a lower revision than the client had seen
 *   before it sent the call, the cluster was restored from an older copy. This class then notifies its listeners, and
 *   continues from the new revision. Serializable responses, watches and lease responses prove nothing, because a
 *   member may be behind. Raft terms prove nothing either: a member that received a snapshot reports an old term until
 *   it applies its next entry (`setTerm` in etcdserver/server.go).
 *
 * A restored cluster cannot be detected if it has the same ID and has already passed the old revision when the client
 * reconnects.
 */
export class ClusterIdentity {
  #clusterId = 0n;
  #revision = 0n;
  readonly #listeners = new Set<(error: EtcdError) => void>();

  /**
   * The maximum store revision in any header so far, or 0n before the first header. If the store goes back to an older
   * revision, this value goes back too.
   */
  get revision(): bigint {
    return this.#revision;
  }

  /**
   * Calls `listener` each time the store goes back to an older revision. Returns a function that removes the listener.
   */
  onChange(listener: (error: EtcdError) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /**
   * Checks the header of a response. `seenBefore` is the revision that the client had seen before it sent the call.
   *
   * @throws EtcdError, reason `ClusterChanged`, if another cluster answered.
   */
  answered(call: SentCall, header: ResponseHeader, seenBefore: bigint, endpoint: string): void {
    const { clusterId, revision } = header;
    // A proxy has generated this header. Such a header contains no IDs, and its revision may also be made up.
    if (clusterId === 0n) return;
    if (clusterId !== this.#clusterId) this.#checkClusterId(clusterId, call.method.path, endpoint);
    if (revision < seenBefore && isLinearizable(call)) this.#wentBack(seenBefore, revision, call.method.path, endpoint);
    else this.#see(revision);
  }

  /**
   * Checks the header of a stream message. Ignores the revision in the response that confirms a new watch, because
   * `etcd grpc-proxy` writes the requested start revision there.
   *
   * @throws EtcdError, reason `ClusterChanged`, if another cluster sent the message.
   */
  streamed(method: string, header: ResponseHeader, endpoint: string, isCreated: boolean): void {
    const { clusterId, revision } = header;
    if (clusterId === 0n) return;
    if (clusterId !== this.#clusterId) this.#checkClusterId(clusterId, method, endpoint);
    if (!isCreated) this.#see(revision);
  }

  #see(revision: bigint): void {
    if (revision > this.#revision) this.#revision = revision;
  }

  #checkClusterId(clusterId: bigint, method: string, endpoint: string): void {
    if (this.#clusterId === 0n) {
      this.#clusterId = clusterId;
      return;
    }
    const [before, now] = [this.#clusterId, clusterId].map((id) => id.toString(16));
    throw clusterChanged(
      `the endpoint belongs to cluster ${now}, but this client has worked with cluster ${before}; ` +
        'remove the endpoint, or create a new Client for the new cluster',
      method,
      endpoint,
    );
  }

  #wentBack(seenBefore: bigint, revision: bigint, method: string, endpoint: string): void {
    // A concurrent call has already detected that the store went back.
    if (seenBefore > this.#revision) return this.#see(revision);
    this.#revision = revision;
    const error = clusterChanged(
      `the store went back from revision ${seenBefore} to revision ${revision}: the cluster was restored from an ` +
        'older copy; read your data again, and open new watches, leases and locks',
      method,
      endpoint,
    );
    for (const listener of [...this.#listeners]) listener(error);
  }
}

/** Returns the header of a unary response or of a stream message, or undefined if there is no header. */
export function headerOf(message: unknown): ResponseHeader | undefined {
  return (message as { readonly header?: ResponseHeader | undefined }).header;
}

function clusterChanged(problem: string, method: string, endpoint: string): EtcdError {
  return new EtcdError(problem, {
    code: 'FailedPrecondition',
    reason: 'ClusterChanged',
    outcome: 'unknown',
    method,
    endpoint,
  });
}

function isLinearizable({ method, request }: SentCall): boolean {
  if (ALWAYS_LINEARIZABLE.has(method.path)) return true;
  if (method.path === methods.kv.range.path) return (request as Init<RangeRequest>).serializable !== true;
  return method.path === methods.kv.txn.path && !isSerializable(request as Init<TxnRequest>);
}

/** Whether the transaction has only serializable reads. A member answers such a transaction from its own data. */
function isSerializable({ success = [], failure = [] }: Init<TxnRequest>): boolean {
  return [...success, ...failure].every(
    ({ request }) => request?.case === 'requestRange' && request.value.serializable === true,
  );
}
