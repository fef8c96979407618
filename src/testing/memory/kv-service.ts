import type { PutResponse, TxnRequest, TxnResponse } from '../../gen/etcdserverpb/rpc.js';
import { methods } from '../../gen/methods.js';
import type { Init, Method } from '../../wire/index.js';
import { checkKey, checkPut, checkRange, checkRangeStream, checkTxn } from './kv-checks.js';
import type { Member } from './member.js';
import type { Propose } from './proposals.js';
import { checkQuota, costOfPut, costOfTxn } from './quota.js';
import { rangeChunks, readRange } from './range.js';
import { type Router, serverError } from './service.js';
import {
  checkBranch,
  checkLease,
  chooseBranch,
  isReadOnly,
  isSerializable,
  runBranch,
  runDeleteRange,
  runPut,
  withoutNeedlessReads,
} from './txn.js';
import type { WriteTransaction } from './write-transaction.js';

const { kv } = methods;

/**
 * Registers the service KV. The handlers of a member that is alone are synchronous, so the server applies each request
 * before the next one. The order of the checks is that of etcd: quota, fields of the request, token, size, alarms,
 * permissions, leases and keys. Only `compact` checks the permissions before the size.
 */
export function registerKv(router: Router, member: Member): void {
  const { store, leases, auth, settings } = member;
  const { version } = settings;
  const put = define(member, kv.put, costOfPut, (request) => {
    checkLease(request, leases);
    return write(member, (transaction) => runPut(transaction, request));
  });
  const deleteRange = define(member, kv.deleteRange, noCost, (request) =>
    write(member, (transaction) => runDeleteRange(transaction, request)),
  );
  const runTxn = (request: TxnRequest): Init<TxnResponse> => {
    const branch = chooseBranch(store, request);
    checkBranch(store, branch, { leases, version });
    return write(member, (transaction) => runBranch(transaction, branch, version));
  };
  const txn = define(member, kv.txn, costOfTxn, runTxn);
  // Discards old versions at once, so the field `physical` makes no difference.
  const compact = define(member, kv.compact, noCost, ({ revision }) => {
    if (revision <= store.compacted) throw serverError('Compacted');
    if (revision > store.revision) throw serverError('FutureRev');
    store.compact(revision);
    return { header: member.header() };
  });
  /** Runs a read at once if it is serializable: then it may miss the latest writes. */
  const read = <T>(isSerializable: boolean, run: () => T): T | Promise<T> =>
    isSerializable ? run() : member.consensus.read(run);

  router.unary(kv.range, (request, call) => {
    checkRange(request, version);
    return read(request.serializable, () => {
      auth.authorize(kv.range.path, request, call);
      const { revision, ...result } = readRange(store, request, version);
      return { header: member.header(revision), ...result };
    });
  });
  router.unary(kv.put, (request, call) => {
    checkQuota(member, costOfPut(request));
    checkPut(request);
    return put(request, auth.authorize(kv.put.path, request, call));
  });
  router.unary(kv.deleteRange, (request, call) => {
    checkKey(request);
    return deleteRange(request, auth.authorize(kv.deleteRange.path, request, call));
  });
  router.unary(kv.txn, (request, call) => {
    checkQuota(member, costOfTxn(request));
    checkTxn(request, settings.maxTxnOps, version);
    if (!isReadOnly(request)) return txn(request, auth.authorize(kv.txn.path, request, call));
    return read(isSerializable(request), () => {
      auth.authorize(kv.txn.path, request, call);
      return runTxn(request);
    });
  });
  router.unary(kv.compact, (request, call) => compact(request, auth.authorize(kv.compact.path, request, call)));
  // etcd before 3.7 has no method RangeStream. Only the last response has a header.
  if (version === '3.7')
    router.responses(kv.rangeStream, function* (request, call) {
      checkRangeStream(request, version);
      auth.authorize(kv.rangeStream.path, request, call);
      for (const { revision, ...chunk } of rangeChunks(store, request, version, settings.maxRequestBytes)) {
        const header = revision === undefined ? undefined : member.header(revision);
        yield { rangeResponse: { header, ...chunk } };
      }
    });
}

/**
 * Defines a write of the method. etcd checks the alarms and the permissions when it applies a write. `costOf` returns
 * the number of bytes that the write adds to the database, as `quota.ts` estimates it. The write throws `StatusError`
 * with `Corrupt`, `NoSpace` or the reasons of `Auth.admit` and `apply`.
 */
function define<Request, Response>(
  { alarms, auth, proposals, settings }: Member,
  { path, request: codec }: Method<Request, Response>,
  costOf: (request: Request) => number,
  apply: (request: Request) => Init<Response>,
): Propose<Request, Init<Response>> {
  return proposals.define(path, codec, (proposed, entry) => {
    const request = entry.isAwaited || settings.version === '3.7' ? proposed : withoutNeedlessReads(proposed);
    if (alarms.isInEffect('CORRUPT')) throw serverError('Corrupt');
    if (alarms.isInEffect('NOSPACE') && costOf(request) > 0) throw serverError('NoSpace');
    auth.admit(path, request, entry);
    return apply(request);
  });
}

function noCost(): number {
  return 0;
}

function write<Result>(
  member: Member,
  run: (transaction: WriteTransaction) => Result,
): Result & Pick<Init<PutResponse>, 'header'> {
  const transaction = member.store.write();
  const result = run(transaction);
  transaction.commit();
  return { header: member.header(), ...result };
}
