import { EtcdError } from '../base/index.js';
import type { MemberListRequest, RangeRequest, ResponseHeader, TxnRequest } from '../gen/etcdserverpb/rpc.js';
import type { MethodPath } from '../gen/methods.js';
import type { Init } from '../wire/index.js';

/** The parts of a call that determine whether its response is linearizable. */
interface SentCall {
  readonly method: { readonly path: string };
  readonly request: unknown;
}

const RANGE: MethodPath = '/etcdserverpb.KV/Range';
const RANGE_STREAM: MethodPath = '/etcdserverpb.KV/RangeStream';
const TXN: MethodPath = '/etcdserverpb.KV/Txn';
const MEMBER_LIST: MethodPath = '/etcdserverpb.Cluster/MemberList';
const ALWAYS_LINEARIZABLE: ReadonlySet<string> = new Set<MethodPath>([
  '/etcdserverpb.KV/Put',
  '/etcdserverpb.KV/DeleteRange',
  '/etcdserverpb.KV/Compact',
]);
/** Matches the methods, apart from reads of keys and members, that a member answers from its own data. */
const IS_LOCAL = /Maintenance\/(?!Alarm|Downgrade)|LeaseLeases/;

/**
 * Remembers the ID of the cluster and the revision of its store. Detects that another cluster answers, or that the
 * store has gone back to an older revision.
 *
 * - Every response header from etcd contains the ID of the cluster. A response from another cluster is an error.
 * - The revision of the store never decreases. If a linearizable response has a lower revision than the client had seen
 *   before it sent the call, the cluster was restored from an older copy. This class then notifies its listeners, and
 *   continues from the new revision. Serializable responses, watches and lease responses prove nothing, because a
 *   member may be behind. Raft terms prove nothing either: a member that received a snapshot reports an old term until
 *   it applies its next entry (`setTerm` in etcdserver/server.go).
 *
 * The client cannot detect that a cluster was restored if the cluster has the same ID and has already passed the old
 * revision when the client reconnects.
 */
export class ClusterIdentity {
  /** The ID of the cluster. 0n until a server has answered with a cluster ID. */
  id = 0n;
  #revision = 0n;
  readonly #listeners = new Set<(error: EtcdError) => void>();
  readonly #report: (error: EtcdError) => void;

  /** Calls `report` each time the store goes back to an older revision, after the listeners of `onChange`. */
  constructor(report: (error: EtcdError) => void = () => {}) {
    this.#report = report;
  }

  /**
   * The maximum store revision that the client has seen so far, or 0n if it has seen none. If the store goes back to an
   * older revision, this value goes back too.
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
    // A proxy has generated a header without a cluster ID, and may have made up its revision. Ignore such a header.
    if (clusterId === 0n) return;
    if (clusterId !== this.id) this.#checkClusterId(clusterId, call.method.path, endpoint);
    if (revision < seenBefore && isLinearizable(call)) this.#wentBack(seenBefore, revision, call.method.path, endpoint);
    else this.#see(revision);
  }

  /**
   * Checks the header of a stream message. If `isCreated` is true, the message confirms a new watch. This method then
   * ignores the revision in the header, because `etcd grpc-proxy` writes the requested start revision there.
   *
   * @throws EtcdError, reason `ClusterChanged`, if another cluster sent the message.
   */
  streamed(method: string, header: ResponseHeader, endpoint: string, isCreated: boolean): void {
    const { clusterId, revision } = header;
    if (clusterId === 0n) return;
    if (clusterId !== this.id) this.#checkClusterId(clusterId, method, endpoint);
    if (!isCreated) this.#see(revision);
  }

  #see(revision: bigint): void {
    if (revision > this.#revision) this.#revision = revision;
  }

  #checkClusterId(clusterId: bigint, method: string, endpoint: string): void {
    if (this.id === 0n) {
      this.id = clusterId;
      return;
    }
    const [before, now] = [this.id, clusterId].map((id) => id.toString(16));
    throw clusterChanged(
      `the endpoint belongs to cluster ${now}, but this client has worked with cluster ${before}; ` +
        'remove the endpoint, or create a new Client for the new cluster',
      method,
      endpoint,
    );
  }

  #wentBack(seenBefore: bigint, revision: bigint, method: string, endpoint: string): void {
    // A concurrent call has already detected that the store went back, and has notified the listeners.
    if (seenBefore > this.#revision) return this.#see(revision);
    this.#revision = revision;
    const error = clusterChanged(
      `the store went back from revision ${seenBefore} to revision ${revision}: the cluster was restored from an ` +
        'older copy; read your data again, and open new watches, leases and locks',
      method,
      endpoint,
    );
    for (const listener of [...this.#listeners]) listener(error);
    this.#report(error);
  }
}

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

export function isLinearizable({ method, request }: SentCall): boolean {
  if (ALWAYS_LINEARIZABLE.has(method.path)) return true;
  if (method.path === RANGE || method.path === RANGE_STREAM)
    return (request as Init<RangeRequest>).serializable !== true;
  return method.path === TXN && !isSerializable(request as Init<TxnRequest>);
}

/** Whether a member can process the call only while it has a leader: all calls except those that it answers alone. */
export function needsLeader(call: SentCall): boolean {
  const { path } = call.method;
  if (path === MEMBER_LIST) return (call.request as Init<MemberListRequest>).linearizable === true;
  return isLinearizable(call) || !(path === RANGE || path === RANGE_STREAM || path === TXN || IS_LOCAL.test(path));
}

/**
 * Returns the transaction with a read in both branches if it only compares, and undefined otherwise. A member answers a
 * transaction without operations from its own data, which may be old. The read makes the answer linearizable.
 */
export function withRead({ compare = [], success = [], failure = [] }: Init<TxnRequest>): Init<TxnRequest> | undefined {
  const [first] = compare;
  if (first === undefined || success.length + failure.length > 0) return undefined;
  const read = [{ request: { case: 'requestRange', value: { key: first.key, countOnly: true } } }] as const;
  return { compare, success: read, failure: read };
}

/**
 * Whether the transaction has no operations other than serializable reads. A member answers such a transaction from its
 * own data.
 */
function isSerializable({ success = [], failure = [] }: Init<TxnRequest>): boolean {
  return [...success, ...failure].every(
    ({ request }) => request?.case === 'requestRange' && request.value.serializable === true,
  );
}
