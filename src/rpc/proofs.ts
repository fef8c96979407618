import {
  amended,
  type EtcdError,
  idOf,
  NO_BYTES,
  provesNoEffect,
  type ServerReason,
  statusOfReason,
} from '../base/index.js';
import type { Compare, RangeRequest, RequestOp, TxnRequest } from '../gen/etcdserverpb/rpc.js';
import type { MethodPath } from '../gen/methods.js';
import { encode, type Init, type UnaryCall } from '../wire/index.js';

const TXN: MethodPath = '/etcdserverpb.KV/Txn';

/**
 * The refusal of gRPC's server in Go for a request that is too long. The server refuses it before it decodes the
 * request.
 */
const TOO_LONG = /^grpc: received message (?:after decompression )?larger than max \((\d+) vs\. \d+\)$/;

/**
 * Returns the error of an attempt. Its outcome is `rejected` if the refusal proves that this request had no effect,
 * although the same refusal of another request to the same RPC proves nothing.
 */
export function withProof({ method, request }: UnaryCall<unknown, unknown>, error: EtcdError): EtcdError {
  if (error.outcome !== 'unknown') return error;
  const isProof =
    error.reason === 'Other'
      ? error.code === 'ResourceExhausted' && isLengthOf(error, () => encode(method.request, request).length)
      : method.path === TXN && isRefusedByAll(request as Init<TxnRequest>, error);
  return isProof ? amended(error, { outcome: 'rejected' }) : error;
}

/**
 * Whether the refusal names the length of this request. Otherwise, a proxy may have refused the response in this way,
 * such as an `etcd grpc-proxy` with `--max-recv-bytes`.
 */
function isLengthOf({ problem }: EtcdError, length: () => number): boolean {
  const named = TOO_LONG.exec(problem)?.[1];
  return named !== undefined && Number(named) === length();
}

/** Whether all members refuse the transaction if the member that received it refuses it with this error. */
function isRefusedByAll(txn: Init<TxnRequest>, { code, reason }: EtcdError): boolean {
  // The reasons that the client itself sets, and the texts of etcd with other statuses than etcd's, prove nothing.
  if (statusOfReason(reason) === undefined || !provesNoEffect(code, reason as ServerReason)) return false;
  const { compare = [], success = [], failure = [] } = txn;
  const operations = [...success, ...failure];
  if (operations.every(({ request }) => request?.case === 'requestRange')) return true;
  return !operations.some((operation) => isCheckedByOne(operation, compare));
}

/**
 * Whether an operation outside of nested transactions is a read that only the member that received the transaction may
 * refuse (etcd issue 18667). Before etcd 3.7, the other members remove such reads from a transaction that writes. But
 * they check the permission to read the range if a condition reads the same range.
 */
export function isCheckedByOne({ request }: Init<RequestOp>, compare: readonly Init<Compare>[]): boolean {
  if (request?.case !== 'requestRange') return false;
  const { revision = 0n } = request.value;
  return revision !== 0n || !compare.some((condition) => rangeId(condition) === rangeId(request.value));
}

function rangeId({ key = NO_BYTES, rangeEnd = NO_BYTES }: Init<Pick<RangeRequest, 'key' | 'rangeEnd'>>): string {
  return `${key.length} ${idOf(key)}${idOf(rangeEnd)}`;
}
