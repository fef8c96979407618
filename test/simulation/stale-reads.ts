import type {
  RangeRequest,
  RangeResponse,
  TxnRequest,
  TxnResponse,
  WatchRequest,
} from '../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../src/gen/methods.js';
import type { MemoryEtcd } from '../../src/testing/memory/memory-etcd.js';
import { type ServerCall, serverError, unaryRoute } from '../../src/testing/memory/service.js';
import type { Init } from '../../src/wire/protobuf/writer.js';

// The answers that a member gives without asking the other members. A member that lags behind has applied the changes
// up to the revision `frozenAt`.

/** Serves a serializable read. */
export function staleRange(
  server: MemoryEtcd,
  frozenAt: bigint | undefined,
  request: RangeRequest,
  call: ServerCall,
): Init<RangeResponse> {
  const { unary } = unaryRoute(server.first, methods.kv.range.path);
  if (frozenAt === undefined) return unary(request, call) as Init<RangeResponse>;
  if (request.revision > frozenAt) throw serverError('FutureRev');
  const revision = request.revision > 0n ? request.revision : frozenAt;
  const response = unary({ ...request, revision }, call) as RangeResponse;
  return { ...response, header: server.member.header(frozenAt) };
}

/** Serves a transaction of serializable reads. */
export function staleTxn(
  server: MemoryEtcd,
  frozenAt: bigint | undefined,
  request: TxnRequest,
  call: ServerCall,
): Init<TxnResponse> {
  const { unary } = unaryRoute(server.first, methods.kv.txn.path);
  if (frozenAt === undefined) return unary(request, call) as Init<TxnResponse>;
  const success = request.success.map((op) => {
    if (op.request?.case !== 'requestRange') return op;
    return { request: { case: op.request.case, value: { ...op.request.value, revision: frozenAt } } };
  });
  const response = unary({ ...request, success }, call) as TxnResponse;
  return { ...response, header: server.member.header(frozenAt) };
}

/** Makes a watch without a start revision begin after the revision that the member has applied. */
export function beginStale(request: WatchRequest, frozenAt: bigint): void {
  const { requestUnion } = request;
  if (requestUnion?.case !== 'createRequest' || requestUnion.value.startRevision !== 0n) return;
  (requestUnion.value as { startRevision: bigint }).startRevision = frozenAt + 1n;
}

/** Whether a member answers the transaction from its own data, because it consists of serializable reads. */
export function isStaleTxn({ path }: { readonly path: string }, request: unknown): boolean {
  if (path !== methods.kv.txn.path) return false;
  const { compare, success, failure } = request as TxnRequest;
  if (compare.length > 0 || failure.length > 0 || success.length === 0) return false;
  return success.every((op) => op.request?.case === 'requestRange' && op.request.value.serializable);
}
