import type {
  CompactionRequest,
  CompactionResponse,
  DeleteRangeRequest,
  DeleteRangeResponse,
  PutRequest,
  PutResponse,
  RangeRequest,
  RangeResponse,
  RangeStreamResponse,
  TxnRequest,
  TxnResponse,
} from '../../gen/etcdserverpb/rpc.js';
import { methods } from '../../gen/methods.js';
import type { Init } from '../../protobuf/codec.js';
import type { Method } from '../../protobuf/schema.js';
import { checkDeleteRange, checkPut, checkRange, checkRangeStream, checkTxn } from './kv-checks.js';
import type { Member } from './member.js';
import { propose } from './proposals.js';
import { checkQuota, costOfPut, costOfTxn } from './quota.js';
import { rangeChunks, readRange } from './range.js';
import {
  type RequestSink,
  type ResponseStream,
  type Router,
  type ServerCall,
  StatusError,
  serverError,
} from './service.js';
import { checkBranch, checkLease, chooseBranch, isReadOnly, runBranch, runDeleteRange, runPut } from './txn.js';
import type { WriteTransaction } from './write-transaction.js';

const { kv } = methods;

/** Registers the service KV. Its handlers are synchronous, so the server applies each request before the next one. */
export function registerKv(router: Router, member: Member): void {
  const service = new KvService(member);
  router.unary(kv.range, (request, call) => service.range(request, call));
  router.unary(kv.put, (request, call) => service.put(request, call));
  router.unary(kv.deleteRange, (request, call) => service.deleteRange(request, call));
  router.unary(kv.txn, (request, call) => service.txn(request, call));
  router.unary(kv.compact, (request, call) => service.compact(request, call));
  // etcd before 3.7 has no method RangeStream.
  if (member.settings.version === '3.7')
    router.streaming(kv.rangeStream, (responses, call) => service.rangeStream(responses, call));
}

/**
 * The methods of the service KV. They throw `StatusError`. The order of the checks is that of etcd: quota, fields of
 * the request, token, size, alarms, permissions, leases and keys. Only `compact` checks the permissions before the
 * size.
 */
class KvService {
  readonly #member: Member;

  constructor(member: Member) {
    this.#member = member;
  }

  range(request: RangeRequest, call: ServerCall): Init<RangeResponse> {
    const { store, settings } = this.#member;
    checkRange(request, settings.version);
    this.#member.auth.authorize(kv.range.path, request, call);
    const { revision, ...result } = readRange(store, request, settings.version);
    return { header: this.#member.header(revision), ...result };
  }

  put(request: PutRequest, call: ServerCall): Init<PutResponse> {
    checkQuota(this.#member, costOfPut(request));
    checkPut(request);
    this.#propose(kv.put, request, call, costOfPut(request));
    this.#member.auth.authorize(kv.put.path, request, call);
    checkLease(request, this.#member.leases);
    return this.#write((transaction) => runPut(transaction, request));
  }

  deleteRange(request: DeleteRangeRequest, call: ServerCall): Init<DeleteRangeResponse> {
    checkDeleteRange(request);
    this.#propose(kv.deleteRange, request, call);
    this.#member.auth.authorize(kv.deleteRange.path, request, call);
    return this.#write((transaction) => runDeleteRange(transaction, request));
  }

  txn(request: TxnRequest, call: ServerCall): Init<TxnResponse> {
    const { store, leases, settings, auth } = this.#member;
    const cost = costOfTxn(request);
    checkQuota(this.#member, cost);
    checkTxn(request, settings.maxTxnOps, settings.version);
    if (!isReadOnly(request)) this.#propose(kv.txn, request, call, cost);
    auth.authorize(kv.txn.path, request, call);
    const branch = chooseBranch(store, request);
    checkBranch(store, branch, { leases, version: settings.version });
    return this.#write((transaction) => runBranch(transaction, branch, settings.version));
  }

  /** Discards old versions at once, so the field `physical` makes no difference. */
  compact(request: CompactionRequest, call: ServerCall): Init<CompactionResponse> {
    const { store, auth } = this.#member;
    auth.authorize(kv.compact.path, request, call);
    this.#propose(kv.compact, request, call);
    if (request.revision <= store.compacted) throw serverError('Compacted');
    if (request.revision > store.revision) throw serverError('FutureRev');
    store.compact(request.revision);
    return { header: this.#member.header() };
  }

  /**
   * Proposes a write, as etcd does through raft: see `propose`. `cost` is the number of bytes that the write adds to
   * the database, as `quota.ts` estimates it. etcd checks the alarms when it applies the write.
   *
   * @throws StatusError with `InvalidAuthToken`, `RequestTooLarge`, `Corrupt` or `NoSpace`.
   */
  #propose<Request, Response>(
    { request: codec }: Method<Request, Response>,
    request: Init<Request>,
    call: ServerCall,
    cost = 0,
  ): void {
    const { alarms, auth } = this.#member;
    propose(this.#member, codec, request, auth.caller(call));
    if (alarms.isInEffect('CORRUPT')) throw serverError('Corrupt');
    if (alarms.isInEffect('NOSPACE') && cost > 0) throw serverError('NoSpace');
  }

  #write<Result>(write: (transaction: WriteTransaction) => Result): Result & Pick<Init<PutResponse>, 'header'> {
    const transaction = this.#member.store.write();
    const result = write(transaction);
    transaction.commit();
    return { header: this.#member.header(), ...result };
  }

  rangeStream(responses: ResponseStream<RangeStreamResponse>, call: ServerCall): RequestSink<RangeRequest> {
    return {
      message: (request) => {
        try {
          for (const response of this.#chunks(request, call)) responses.send({ rangeResponse: response });
          responses.end();
        } catch (error) {
          if (!(error instanceof StatusError)) throw error;
          responses.end(error);
        }
      },
      halfClosed: () => {},
      canceled: () => {},
    };
  }

  /** Yields the responses to a RangeStream request. Only the last response has a header. */
  *#chunks(request: RangeRequest, call: ServerCall): Generator<Init<RangeResponse>, void> {
    const { store, settings, auth } = this.#member;
    checkRangeStream(request, settings.version);
    auth.authorize(kv.rangeStream.path, request, call);
    for (const { revision, ...chunk } of rangeChunks(store, request, settings.version, settings.maxRequestBytes))
      yield { header: revision === undefined ? undefined : this.#member.header(revision), ...chunk };
  }
}
