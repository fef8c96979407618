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
import type { Init, Method } from '../../wire/index.js';
import { checkDeleteRange, checkPut, checkRange, checkRangeStream, checkTxn } from './kv-checks.js';
import type { Member } from './member.js';
import type { Propose } from './proposals.js';
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

/** The response of a method. A member that is alone answers at once. */
type Answer<Response> = Init<Response> | Promise<Init<Response>>;

/**
 * Registers the service KV. The handlers of a member that is alone are synchronous, so the server applies each request
 * before the next one.
 */
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

  readonly #put: Propose<PutRequest, Init<PutResponse>>;
  readonly #deleteRange: Propose<DeleteRangeRequest, Init<DeleteRangeResponse>>;
  readonly #txn: Propose<TxnRequest, Init<TxnResponse>>;
  readonly #compact: Propose<CompactionRequest, Init<CompactionResponse>>;

  constructor(member: Member) {
    this.#member = member;
    const applyPut = (request: PutRequest): Init<PutResponse> => {
      checkLease(request, member.leases);
      return this.#write((transaction) => runPut(transaction, request));
    };
    this.#put = this.#define(kv.put, applyPut, costOfPut);
    this.#deleteRange = this.#define(kv.deleteRange, (request) =>
      this.#write((transaction) => runDeleteRange(transaction, request)),
    );
    this.#txn = this.#define(kv.txn, (request) => this.#runTxn(request), costOfTxn);
    // Discards old versions at once, so the field `physical` makes no difference.
    this.#compact = this.#define(kv.compact, ({ revision }) => {
      const { store } = member;
      if (revision <= store.compacted) throw serverError('Compacted');
      if (revision > store.revision) throw serverError('FutureRev');
      store.compact(revision);
      return { header: member.header() };
    });
  }

  range(request: RangeRequest, call: ServerCall): Answer<RangeResponse> {
    const { store, settings, auth } = this.#member;
    checkRange(request, settings.version);
    return this.#read(request.serializable, () => {
      auth.authorize(kv.range.path, request, call);
      const { revision, ...result } = readRange(store, request, settings.version);
      return { header: this.#member.header(revision), ...result };
    });
  }

  put(request: PutRequest, call: ServerCall): Answer<PutResponse> {
    checkQuota(this.#member, costOfPut(request));
    checkPut(request);
    return this.#put(request, this.#member.auth.authorize(kv.put.path, request, call));
  }

  deleteRange(request: DeleteRangeRequest, call: ServerCall): Answer<DeleteRangeResponse> {
    checkDeleteRange(request);
    return this.#deleteRange(request, this.#member.auth.authorize(kv.deleteRange.path, request, call));
  }

  txn(request: TxnRequest, call: ServerCall): Answer<TxnResponse> {
    const { settings, auth } = this.#member;
    checkQuota(this.#member, costOfTxn(request));
    checkTxn(request, settings.maxTxnOps, settings.version);
    if (!isReadOnly(request)) return this.#txn(request, auth.authorize(kv.txn.path, request, call));
    return this.#read(isSerializable(request), () => {
      auth.authorize(kv.txn.path, request, call);
      return this.#runTxn(request);
    });
  }

  compact(request: CompactionRequest, call: ServerCall): Answer<CompactionResponse> {
    return this.#compact(request, this.#member.auth.authorize(kv.compact.path, request, call));
  }

  /**
   * Defines a write of the method. etcd checks the alarms and the permissions when it applies a write. `costOf` returns
   * the number of bytes that the write adds to the database, as `quota.ts` estimates it. The write throws `StatusError`
   * with `Corrupt`, `NoSpace` or the reasons of `Auth.admit` and `apply`.
   */
  #define<Request, Response>(
    { path, request: codec }: Method<Request, Response>,
    apply: (request: Request) => Init<Response>,
    costOf: (request: Request) => number = () => 0,
  ): Propose<Request, Init<Response>> {
    const { alarms, auth, proposals, settings } = this.#member;
    return proposals.define(path, codec, (proposed, entry) => {
      const request = entry.isAwaited || settings.version === '3.7' ? proposed : withoutNeedlessReads(proposed);
      if (alarms.isInEffect('CORRUPT')) throw serverError('Corrupt');
      if (alarms.isInEffect('NOSPACE') && costOf(request) > 0) throw serverError('NoSpace');
      auth.admit(path, request, entry);
      return apply(request);
    });
  }

  #runTxn(request: TxnRequest): Init<TxnResponse> {
    const { store, leases, settings } = this.#member;
    const branch = chooseBranch(store, request);
    checkBranch(store, branch, { leases, version: settings.version });
    return this.#write((transaction) => runBranch(transaction, branch, settings.version));
  }

  /** Runs a read at once if it is serializable: then it may miss the latest writes. */
  #read<T>(isSerializable: boolean, read: () => T): T | Promise<T> {
    return isSerializable ? read() : this.#member.consensus.read(read);
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
