import { NO_BYTES } from '../../base/index.js';
import { malformedResponse, overlaps, type WireRange } from '../../client/index.js';
import type * as wire from '../../gen/etcdserverpb/rpc.js';
import { branchOf, type Operations, onlyNested } from '../../locks/index.js';
import type { Init } from '../../wire/index.js';

/** Returns the responses to the operations of a branch. `answers` are the responses to the reads of `ReadBack`. */
type Responses = (answers: readonly wire.ResponseOp[]) => wire.ResponseOp[];
type Response = (answers: readonly wire.ResponseOp[]) => wire.ResponseOp;

/**
 * The reads that find out the responses to the operations of a transaction after the server has applied it. The
 * operations saw the store at the revision before that of the transaction, except for the keys that the transaction
 * itself had already changed.
 */
export class ReadBack {
  readonly reads: Init<wire.RequestOp>[] = [];
  /** The revision before that of the transaction. */
  readonly #revision: bigint;
  /** The keys that the operations so far have changed. */
  readonly #changed: WireRange[] = [];

  constructor(revision: bigint) {
    this.#revision = revision;
  }

  /**
   * Adds the reads for a branch that the server has run. `path` identifies the branches of the nested transactions: see
   * `Applied` in guards.ts. Returns undefined if no read can find out the responses.
   */
  branch(operations: Operations, path: string): Responses | undefined {
    const isKnown = onlyNested(operations) !== undefined && path !== '';
    const responses: Response[] = [];
    for (const { request } of operations) {
      const response =
        request?.case === 'requestTxn'
          ? isKnown && this.#nested(request.value, path)
          : request !== undefined && this.#operation(request);
      if (!response) return undefined;
      responses.push(response);
    }
    return (answers) => responses.map((response) => response(answers));
  }

  #nested(txn: Init<wire.TxnRequest>, wholePath: string): Response | undefined {
    const { succeeded, operations, path } = branchOf(txn, wholePath);
    const responsesOf = this.branch(operations, path);
    if (responsesOf === undefined) return undefined;
    return (answers) => ({
      response: { case: 'responseTxn', value: { header: undefined, succeeded, responses: responsesOf(answers) } },
    });
  }

  #operation(request: Exclude<Init<wire.RequestOp>['request'], undefined>): Response | undefined {
    if (request.case === 'requestTxn') return undefined;
    const { key = NO_BYTES } = request.value;
    const range = { key, rangeEnd: (request.case === 'requestPut' ? undefined : request.value.rangeEnd) ?? NO_BYTES };
    const isChanged = this.#changed.some((other) => overlaps(range, other));
    if (request.case !== 'requestRange') this.#changed.push(range);
    switch (request.case) {
      case 'requestPut': {
        // No earlier operation has changed the key, because the server refuses a transaction that puts a key twice, or
        // puts and deletes it.
        const before = request.value.prevKv ? this.#read(range) : undefined;
        return (answers) => ({
          response: { case: 'responsePut', value: { header: undefined, prevKv: before?.(answers).kvs[0] } },
        });
      }
      case 'requestDeleteRange': {
        if (isChanged) return undefined;
        const { prevKv } = request.value;
        const before = this.#read({ ...range, countOnly: !prevKv });
        return (answers) => {
          const { count: deleted, kvs: prevKvs } = before(answers);
          return { response: { case: 'responseDeleteRange', value: { header: undefined, deleted, prevKvs } } };
        };
      }
      case 'requestRange': {
        if (isChanged) return undefined;
        const found = this.#read(request.value);
        return (answers) => ({ response: { case: 'responseRange', value: found(answers) } });
      }
    }
  }

  #read(request: Init<wire.RangeRequest>): (answers: readonly wire.ResponseOp[]) => wire.RangeResponse {
    const index = this.reads.length;
    // The read is not serializable, because a member that lags behind may not have the revision yet.
    const value = { ...request, serializable: false, revision: request.revision || this.#revision };
    this.reads.push({ request: { case: 'requestRange', value } });
    return (answers) => {
      const response = answers[index]?.response;
      if (response?.case !== 'responseRange') throw malformedResponse('the responses do not match the reads');
      return response.value;
    };
  }
}
