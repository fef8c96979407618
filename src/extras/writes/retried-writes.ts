import {
  amended,
  backoffMs,
  EtcdError,
  explained,
  monotonicMs,
  noteFailure,
  type Outcome,
  pauseUntil,
} from '../../base/index.js';
import {
  type Conditions,
  type CoreKeyspace,
  type GuardedKeyspace,
  keyspaceClientOf,
  mismatch,
  type Op,
  REPEATABLE_TXN,
  runTxn,
  type Txn,
  type TxnResult,
} from '../../client/index.js';
import type * as wire from '../../gen/etcdserverpb/rpc.js';
import * as kvMethods from '../../gen/methods/kv.js';
import {
  type Applied,
  type Branch,
  branchOf,
  checkGuardedCount,
  type Operations,
  onlyNested,
} from '../../locks/index.js';
import { beforeSending, type CallOptions, internally, Rpc, type WithHeader } from '../../rpc/index.js';
import type { Init, Transport, UnaryCall } from '../../wire/index.js';
import { type GuardLease, leaseOf, TTL_S } from './guard-lease.js';
import { ReadBack } from './read-back.js';

/**
 * Returns a transport that guards writes, see `Guards`, and repeats each guarded write until a server answers or the
 * deadline passes. If the answer to a write was lost, the transport finds out the result of the write, or rejects with
 * reason `ResultLost`.
 */
export function retriedWrites(keyspace: GuardedKeyspace): Transport {
  const { transport } = keyspace;
  return {
    unary: <Request, Response>(call: UnaryCall<Request, Response>): Promise<Response> => {
      const write = writeOf(call as unknown as UnaryCall<unknown, unknown>);
      if (write === undefined) return transport.unary(call);
      const lease = leaseOf(keyspace);
      return lease.run(() =>
        applied(keyspace, lease, call as unknown as UnaryCall<unknown, unknown>, write),
      ) as Promise<Response>;
    },
    stream: (call, handler) => transport.stream(call, handler),
    close: () => transport.close(),
  };
}

/**
 * Runs a transaction that the server applies at most once, also for clients without the option `retryWrites`. Repeats
 * the call until a server has answered it or the time limit passes.
 *
 * @throws EtcdError as `txn` does. If the outcome of the error is `unknown`, the server may have applied the
 * transaction. The client then makes sure in the background that the server does not apply it later.
 */
export function retriedTxn<
  const If extends Conditions = undefined,
  const Then extends readonly Op[] = [],
  const Else extends readonly Op[] = [],
>(
  client: CoreKeyspace,
  txn: Txn<If, Then, Else>,
  options?: CallOptions,
): Promise<WithHeader<TxnResult<If, Then, Else>>> {
  const { core } = keyspaceClientOf(client);
  return runTxn(new Rpc(retriedWrites(core), core.settings), core.maxTxnOps, txn, options);
}

/** A write as a transaction. `responseIn` finds the response to the write in the response to the transaction. */
interface Write {
  readonly request: Init<wire.TxnRequest>;
  readonly responseIn: (response: wire.TxnResponse) => unknown;
}

/** Returns undefined if the call changes no key, or is guarded already. */
function writeOf({ method, request }: UnaryCall<unknown, unknown>): Write | undefined {
  if (method.repeatable) return undefined;
  switch (method.path) {
    case kvMethods.put.path:
      return single({ case: 'requestPut', value: request as Init<wire.PutRequest> }, 'responsePut');
    case kvMethods.deleteRange.path:
      return single(
        { case: 'requestDeleteRange', value: request as Init<wire.DeleteRangeRequest> },
        'responseDeleteRange',
      );
    case kvMethods.txn.path: {
      const value = request as Init<wire.TxnRequest>;
      const { success = [], failure = [] } = value;
      return mayHaveChangedKeys([...success, ...failure], '')
        ? { request: value, responseIn: (response) => response }
        : undefined;
    }
    default:
      return undefined;
  }
}

/** Returns a write with one operation. Its response gets the header of the response to the transaction. */
function single(request: Init<wire.RequestOp>['request'], expected: 'responsePut' | 'responseDeleteRange'): Write {
  return {
    request: { success: [{ request }] },
    responseIn: ({ header, responses: [first] }) => {
      if (first?.response?.case !== expected) throw mismatch();
      return { ...first.response.value, header };
    },
  };
}

/**
 * Whether a branch that ran may have changed keys. `path` identifies the branches of the nested transactions, see
 * `Applied`. Without a path, any of these branches may have run.
 */
function mayHaveChangedKeys(operations: Operations, path: string): boolean {
  const isKnown = path !== '' && onlyNested(operations) !== undefined;
  return operations.some(({ request }) => {
    if (request?.case !== 'requestTxn') return request?.case === 'requestPut' || request?.case === 'requestDeleteRange';
    const { success = [], failure = [] } = request.value;
    if (!isKnown) return mayHaveChangedKeys(success, '') || mayHaveChangedKeys(failure, '');
    const branch = branchOf(request.value, path);
    return mayHaveChangedKeys(branch.operations, branch.path);
  });
}

async function applied(
  keyspace: GuardedKeyspace,
  lease: GuardLease,
  call: UnaryCall<unknown, unknown>,
  { request, responseIn }: Write,
): Promise<unknown> {
  checkGuardedCount(request, keyspace.maxTxnOps);
  const { signal, timeoutMs, deadline, endpoint, urgent, observer } = call;
  const limits = { signal, timeoutMs, endpoint };
  const options = internally(limits, { deadline, urgent, observer });
  const failures = new Map<string, EtcdError>();
  let outcome: Outcome = 'not-sent';
  for (let endedLeases = 0; ; ) {
    const [guards, id] = await beforeSending(call, lease.guardsOf(keyspace), failures).catch((error: unknown) => {
      throw error instanceof EtcdError ? amended(error, { outcome }) : error;
    });
    const write = guards.begin({ request, resultOf: responseIn });
    let done: Applied<unknown> | undefined;
    try {
      done = await write.send(options);
    } catch (error) {
      if (!(error instanceof EtcdError)) {
        lease.settleLater(write);
        throw error;
      }
      // Makes sure that the server does not apply the write later, if there is time left.
      const isLate = write.mayBeApplied && (signal?.aborted || monotonicMs() >= deadline);
      done = isLate ? undefined : await write.settle(options).catch(() => undefined);
      if (done === undefined) {
        const { isOpen, mayBeApplied, hasLeaseEnded } = write;
        if (hasLeaseEnded) lease.forget(id);
        if (isOpen) {
          lease.settleLater(write);
          throw mayStillApply(error);
        }
        if (error.outcome === 'unknown') throw amended(error, { outcome: mayBeApplied ? 'unknown' : 'rejected' });
        if (error.reason !== 'LeaseNotFound' || !hasLeaseEnded) throw error;
        noteFailure(failures, error);
        outcome = error.outcome;
        if (endedLeases > 0) {
          await checkCluster(keyspace, { ...options, endpoint: error.endpoint }, outcome);
          const resumesAt = monotonicMs() + backoffMs(endedLeases - 1);
          await pauseUntil(Math.min(resumesAt, deadline), signal, keyspace.settings.closed);
        }
        endedLeases += 1;
      }
    } finally {
      if (guards.isBroken) await beforeSending(call, lease.replace(id)).catch(() => {});
    }
    if (done === undefined) continue;
    if (done.result !== undefined) return done.result;
    const branch = branchOf(request, done.path);
    try {
      return await readBack(keyspace, branch, done, responseIn, options);
    } catch (error) {
      if (mayHaveChangedKeys(branch.operations, branch.path)) throw error;
      // A transaction that has changed nothing may run again. Its result is then the result of the later run.
    }
  }
}

/**
 * Reads at the endpoint that has refused several leases of the guards in a row. Its refusals did not contain the ID of
 * its cluster. The answer to a read does.
 *
 * @throws EtcdError, reason `ClusterChanged`, if the endpoint belongs to another cluster than the endpoint that has
 * granted the leases.
 */
async function checkCluster(
  { transport, settings, guardPrefix }: GuardedKeyspace,
  options: CallOptions,
  outcome: Outcome,
): Promise<void> {
  const request = { key: guardPrefix, countOnly: true, serializable: true };
  try {
    await new Rpc(transport, settings).call(kvMethods.range, request, options);
  } catch (error) {
    if (error instanceof EtcdError && error.reason === 'ClusterChanged') throw amended(error, { outcome });
  }
}

function mayStillApply(error: EtcdError): EtcdError {
  const until = `until the client changes the guard or revokes its lease, and for ${TTL_S} s at most`;
  return explained(
    amended(error, { outcome: 'unknown' }),
    `${error.problem}; ${until}, the write can still be applied`,
  );
}

/**
 * Finds out the result of a write that was applied and whose answer was lost.
 *
 * @throws EtcdError with reason `ResultLost` and outcome `applied` if the client cannot find out the result.
 */
async function readBack(
  { transport, settings }: GuardedKeyspace,
  { succeeded, operations, path }: Branch,
  { revision, header }: Applied<unknown>,
  responseIn: Write['responseIn'],
  options: CallOptions,
): Promise<unknown> {
  const back = new ReadBack(revision - 1n);
  const responsesOf = back.branch(operations, path);
  if (responsesOf === undefined)
    throw resultLost(revision, 'it contains a read after a write of the same key, or several nested transactions');
  try {
    const { responses } =
      back.reads.length > 0
        ? await new Rpc(transport, settings).call(REPEATABLE_TXN, { success: back.reads }, options)
        : { responses: [] };
    return responseIn({ header, succeeded, responses: responsesOf(responses) });
  } catch (error) {
    throw resultLost(revision, error instanceof EtcdError ? error.problem : String(error), error);
  }
}

function resultLost(revision: bigint, why: string, cause?: unknown): EtcdError {
  return new EtcdError(`the write was applied once, at revision ${revision}; its result is lost: ${why}`, {
    code: 'DataLoss',
    reason: 'ResultLost',
    outcome: 'applied',
    revision,
    cause,
  });
}
