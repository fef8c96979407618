import { amended, type EtcdError } from '../base/index.js';
import type { RangeRequest, RequestOp, TxnRequest } from '../gen/etcdserverpb/rpc.js';
import * as kvMethods from '../gen/methods/kv.js';
import type { Init, Transport, UnaryCall } from '../wire/index.js';
import { type ClusterIdentity, headerOf, isLinearizable, withRead } from './cluster-identity.js';
import { REQUIRE_LEADER } from './rpc.js';

/**
 * Returns a transport whose unary reads never return data from an older revision of the store than the client had seen
 * before. Only serializable reads can return older data, because a member answers them from its own data, which may be
 * behind. If a response is too old, the client repeats the read once, as a linearizable read.
 *
 * If the whole cluster was restored from an older copy, the linearizable read is too old as well, and `ClusterIdentity`
 * notices the restore. The read then rejects with reason `ClusterChanged`.
 */
export function withOrderedReads(inner: Transport, cluster: ClusterIdentity): Transport {
  let changed: EtcdError | undefined;
  cluster.onChange((error) => {
    changed = error;
  });
  return {
    unary: async (call) => {
      // Read the revision now: a newer revision that a concurrent call receives does not make this response too old.
      const floor = cluster.revision;
      const response = await inner.unary(call);
      if (!isOlder(response, floor) || isLinearizable(call)) return response;
      const repeated = await readLinearizably(call, inner);
      if (repeated === undefined) return response;
      if (changed !== undefined && isOlder(repeated, floor)) throw amended(changed, { outcome: 'rejected' });
      return repeated;
    },
    stream: (call, handler) => inner.stream(call, handler),
    close: () => inner.close(),
  };
}

/**
 * Whether a member of the cluster answered from an older revision. False if a proxy has generated the header: such a
 * header has no cluster ID.
 */
function isOlder(response: unknown, floor: bigint): boolean {
  const header = headerOf(response);
  return header !== undefined && header.clusterId !== 0n && header.revision < floor;
}

/** Repeats the call as a linearizable read. Returns undefined if the call reads no key. */
async function readLinearizably<Request, Response>(
  call: UnaryCall<Request, Response>,
  inner: Transport,
): Promise<Response | undefined> {
  const path: string = call.method.path;
  const request = call.request as Init<RangeRequest> & Init<TxnRequest>;
  const again = (changes: object): Promise<Response> =>
    inner.unary({
      ...call,
      request: { ...request, ...changes } as Init<unknown> as Init<Request>,
      metadata: { ...call.metadata, ...REQUIRE_LEADER },
    });
  if (path === kvMethods.range.path) return again({ serializable: false });
  if (path !== kvMethods.txn.path) return undefined;
  const { success = [], failure = [] } = request;
  if (success.length + failure.length > 0)
    return again({ success: success.map(linearizable), failure: failure.map(linearizable) });
  const compared = withRead(request);
  return compared && { ...(await again(compared)), responses: [] };
}

function linearizable(operation: Init<RequestOp>): Init<RequestOp> {
  const { request } = operation;
  if (request?.case !== 'requestRange') return operation;
  return { request: { case: 'requestRange', value: { ...request.value, serializable: false } } };
}
