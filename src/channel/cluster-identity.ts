import { EtcdError } from '../errors/etcd-error.js';
import type { RangeRequest, ResponseHeader, TxnRequest } from '../gen/etcdserverpb/rpc.js';
import { methods } from '../gen/methods.js';
import type { Init } from '../protobuf/codec.js';

/** A call, as far as it tells which answers are linearizable. */
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
 * Remembers which cluster a client talks to and how far its store has come, and notices when either is no longer true.
 *
 * - Every response header names the cluster. An answer of another cluster is an error, and the client never adopts it.
 * - The revision of the store never goes back. A linearizable answer whose header is behind a revision that the client
 *   had seen before it sent the call proves that the cluster was restored from an older copy. The listeners hear of it,
 *   and the client then counts from the new revision. Serializable answers, watches and lease answers prove nothing,
 *   because a member may lag behind. Raft terms prove nothing either: a member that was brought up to date by a
 *   snapshot names an old term until it applies its next entry (`setTerm` in etcdserver/server.go).
 *
 * A restored cluster that has the same id, and has already passed the old revision when the client comes back, cannot be
 * told apart.
 */
export class ClusterIdentity {
  #clusterId = 0n;
  #revision = 0n;
  readonly #listeners = new Set<(error: EtcdError) => void>();

  /** The greatest revision of the store in any header so far; 0n before the first. */
  get revision(): bigint {
    return this.#revision;
  }

  /** Calls `listener` when the cluster turns out to have gone back. Returns the function that unsubscribes. */
  onChange(listener: (error: EtcdError) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /**
   * Compares the header of the answer to a call with the revision that was seen before the call was sent.
   *
   * @throws EtcdError, reason `ClusterChanged`, where another cluster answered.
   */
  answered(call: SentCall, header: ResponseHeader, seenBefore: bigint, endpoint: string): void {
    const { clusterId, revision } = header;
    // A proxy that makes up a header leaves the ids out, and may make up the revision too.
    if (clusterId === 0n) return;
    if (clusterId !== this.#clusterId) this.#checkClusterId(clusterId, call.method.path, endpoint);
    if (revision < seenBefore && isLinearizable(call)) this.#wentBack(seenBefore, revision, call.method.path, endpoint);
    else this.#see(revision);
  }

  /**
   * Takes note of the header of a message of a stream. The header of an answer to the creation of a watch does not count,
   * because `etcd grpc-proxy` writes the requested start revision there.
   *
   * @throws EtcdError, reason `ClusterChanged`, where another cluster sent it.
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
      `the endpoint belongs to cluster ${now}, and this client has worked with cluster ${before}; ` +
        'remove the endpoint, or create a new Client for the new cluster',
      method,
      endpoint,
    );
  }

  #wentBack(seenBefore: bigint, revision: bigint, method: string, endpoint: string): void {
    // Other calls that were under way together with the first one prove the same thing once more.
    if (seenBefore > this.#revision) return this.#see(revision);
    this.#revision = revision;
    const error = clusterChanged(
      `the store went back from revision ${seenBefore} to revision ${revision}: the cluster was restored from an ` +
        'older copy, and its watches, leases and locks are void',
      method,
      endpoint,
    );
    for (const listener of [...this.#listeners]) listener(error);
  }
}

/** The header of a response or of a stream's message, where it has one. */
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

/** etcd answers a transaction from the member's own data where it only has serializable reads. */
function isSerializable({ success = [], failure = [] }: Init<TxnRequest>): boolean {
  return [...success, ...failure].every(
    ({ request }) => request?.case === 'requestRange' && request.value.serializable === true,
  );
}
