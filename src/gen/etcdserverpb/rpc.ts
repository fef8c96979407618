// Written by scripts/generate.ts from proto/etcdserverpb/rpc.proto. Do not edit.

import { NO_BYTES } from '../../base/index.js';
import { type Codec, tableCodec } from '../../wire/index.js';
import { Permission, UserAddOptions } from '../authpb/auth.js';
import { Event, KeyValue } from '../mvccpb/kv.js';

/** The kinds of alarms. */
export const AlarmType = {
  /** Any alarm. Used in requests. */
  NONE: 0,
  /** The database has reached its quota. Writes are refused. */
  NOSPACE: 1,
  /** The members' data differ. */
  CORRUPT: 2,
} as const;
/** The kinds of alarms. */
export type AlarmType = (typeof AlarmType)[keyof typeof AlarmType];

/** Header of every response. */
export interface ResponseHeader {
  /** ID of the cluster. If it changes, another cluster has responded. */
  clusterId: bigint;
  /** ID of the member that responded. */
  memberId: bigint;
  /**
   * Revision of the store when the request was applied. In a watch response it may be greater than the revisions of the
   * events.
   */
  revision: bigint;
  /** Raft term of the member when it responded. Every election increases it. */
  raftTerm: bigint;
}

export const ResponseHeader: Codec<ResponseHeader> = {
  typeName: 'etcdserverpb.ResponseHeader',
  create: () => ({ clusterId: 0n, memberId: 0n, revision: 0n, raftTerm: 0n }),
  write(writer, message) {
    writer.uint64Field(8, message.clusterId);
    writer.uint64Field(16, message.memberId);
    writer.int64Field(24, message.revision);
    writer.uint64Field(32, message.raftTerm);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.clusterId = reader.uint64();
          break;
        case 16:
          message.memberId = reader.uint64();
          break;
        case 24:
          message.revision = reader.int64();
          break;
        case 32:
          message.raftTerm = reader.uint64();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The order of the keys in the result. */
export const SortOrder = {
  /** The default: ascending key order. */
  NONE: 0,
  /** Ascending order. */
  ASCEND: 1,
  /** Descending order. */
  DESCEND: 2,
} as const;
/** The order of the keys in the result. */
export type SortOrder = (typeof SortOrder)[keyof typeof SortOrder];

/** The property by which the keys in the result are sorted. */
export const SortTarget = {
  /** Sorts by key, bytewise. */
  KEY: 0,
  /** Sorts by version. */
  VERSION: 1,
  /** Sorts by create revision. */
  CREATE: 2,
  /** Sorts by the revision of the last change. */
  MOD: 3,
  /** Sorts by value, bytewise. */
  VALUE: 4,
} as const;
/** The property by which the keys in the result are sorted. */
export type SortTarget = (typeof SortTarget)[keyof typeof SortTarget];

/** Request for Range. */
export interface RangeRequest {
  /** The key, or the first key of the range. It must not be empty. The smallest key is "\0". */
  key: Uint8Array;
  /**
   * End of the range, exclusive. If it is empty, the range is `key` alone. If it is "\0", the range is every key from
   * `key` on. If it is `key` with its last byte increased by one, the range is every key with the prefix `key`.
   */
  rangeEnd: Uint8Array;
  /** Maximum number of keys, applied after sorting. 0 means no limit. */
  limit: bigint;
  /** Revision to read. 0 or less reads the latest revision. The call fails if the revision has been compacted. */
  revision: bigint;
  /** Order of the result. */
  sortOrder: SortOrder;
  /** What to sort by. The result is already in ascending key order, so requesting that order explicitly only costs time. */
  sortTarget: SortTarget;
  /** Whether the member may respond from its own data, which may be stale. Such a read is cheaper, and needs no leader. */
  serializable: boolean;
  /** Whether to leave out the values. */
  keysOnly: boolean;
  /** Whether to return only the number of keys. */
  countOnly: boolean;
  /** Leaves out keys whose last change was before this revision. Filters are applied before `limit`. Since etcd 3.1. */
  minModRevision: bigint;
  /** Leaves out keys whose last change was after this revision. Since etcd 3.1. */
  maxModRevision: bigint;
  /** Leaves out keys that were created before this revision. Since etcd 3.1. */
  minCreateRevision: bigint;
  /** Leaves out keys that were created after this revision. Since etcd 3.1. */
  maxCreateRevision: bigint;
}

export const RangeRequest: Codec<RangeRequest> = {
  typeName: 'etcdserverpb.RangeRequest',
  create: () => ({
    key: NO_BYTES,
    rangeEnd: NO_BYTES,
    limit: 0n,
    revision: 0n,
    sortOrder: 0,
    sortTarget: 0,
    serializable: false,
    keysOnly: false,
    countOnly: false,
    minModRevision: 0n,
    maxModRevision: 0n,
    minCreateRevision: 0n,
    maxCreateRevision: 0n,
  }),
  write(writer, message) {
    writer.bytesField(10, message.key);
    writer.bytesField(18, message.rangeEnd);
    writer.int64Field(24, message.limit);
    writer.int64Field(32, message.revision);
    writer.int32Field(40, message.sortOrder);
    writer.int32Field(48, message.sortTarget);
    writer.boolField(56, message.serializable);
    writer.boolField(64, message.keysOnly);
    writer.boolField(72, message.countOnly);
    writer.int64Field(80, message.minModRevision);
    writer.int64Field(88, message.maxModRevision);
    writer.int64Field(96, message.minCreateRevision);
    writer.int64Field(104, message.maxCreateRevision);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.key = reader.bytes();
          break;
        case 18:
          message.rangeEnd = reader.bytes();
          break;
        case 24:
          message.limit = reader.int64();
          break;
        case 32:
          message.revision = reader.int64();
          break;
        case 40:
          message.sortOrder = reader.int32() as SortOrder;
          break;
        case 48:
          message.sortTarget = reader.int32() as SortTarget;
          break;
        case 56:
          message.serializable = reader.bool();
          break;
        case 64:
          message.keysOnly = reader.bool();
          break;
        case 72:
          message.countOnly = reader.bool();
          break;
        case 80:
          message.minModRevision = reader.int64();
          break;
        case 88:
          message.maxModRevision = reader.int64();
          break;
        case 96:
          message.minCreateRevision = reader.int64();
          break;
        case 104:
          message.maxCreateRevision = reader.int64();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Response to Range. */
export interface RangeResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** The keys. Empty if only the count was requested. */
  kvs: KeyValue[];
  /** Whether the range has more keys than `limit` allowed in the result. */
  more: boolean;
  /** Number of keys in the range, regardless of the limit and the revision filters. */
  count: bigint;
}

export const RangeResponse: Codec<RangeResponse> = {
  typeName: 'etcdserverpb.RangeResponse',
  create: () => ({ header: undefined, kvs: [], more: false, count: 0n }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.messageFields(18, KeyValue, message.kvs);
    writer.boolField(24, message.more);
    writer.int64Field(32, message.count);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 18:
          message.kvs.push(reader.message(KeyValue));
          break;
        case 24:
          message.more = reader.bool();
          break;
        case 32:
          message.count = reader.int64();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Request for Put. */
export interface PutRequest {
  /** The key. It must not be empty. */
  key: Uint8Array;
  /** The value. */
  value: Uint8Array;
  /** ID of the lease that the key is attached to. 0 detaches the key from its lease. */
  lease: bigint;
  /** Whether to return the key as it was before the put. Since etcd 3.1. */
  prevKv: boolean;
  /** Whether to keep the value. The key must exist, and `value` must be empty. Since etcd 3.2. */
  ignoreValue: boolean;
  /** Whether to keep the lease. The key must exist, and `lease` must be 0. Since etcd 3.2. */
  ignoreLease: boolean;
}

export const PutRequest: Codec<PutRequest> = {
  typeName: 'etcdserverpb.PutRequest',
  create: () => ({ key: NO_BYTES, value: NO_BYTES, lease: 0n, prevKv: false, ignoreValue: false, ignoreLease: false }),
  write(writer, message) {
    writer.bytesField(10, message.key);
    writer.bytesField(18, message.value);
    writer.int64Field(24, message.lease);
    writer.boolField(32, message.prevKv);
    writer.boolField(40, message.ignoreValue);
    writer.boolField(48, message.ignoreLease);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.key = reader.bytes();
          break;
        case 18:
          message.value = reader.bytes();
          break;
        case 24:
          message.lease = reader.int64();
          break;
        case 32:
          message.prevKv = reader.bool();
          break;
        case 40:
          message.ignoreValue = reader.bool();
          break;
        case 48:
          message.ignoreLease = reader.bool();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Response to Put. */
export interface PutResponse {
  /** The cluster and member that responded, and the revision of the write. */
  header: ResponseHeader | undefined;
  /** The key as it was before the put, if requested and if it existed. Since etcd 3.1. */
  prevKv: KeyValue | undefined;
}

export const PutResponse: Codec<PutResponse> = {
  typeName: 'etcdserverpb.PutResponse',
  create: () => ({ header: undefined, prevKv: undefined }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.messageField(18, KeyValue, message.prevKv);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 18:
          message.prevKv = reader.message(KeyValue, message.prevKv);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Request for DeleteRange. */
export interface DeleteRangeRequest {
  /** The key, or the first key of the range. It must not be empty. */
  key: Uint8Array;
  /** End of the range, exclusive. The rules of RangeRequest.range_end apply. */
  rangeEnd: Uint8Array;
  /** Whether to return the deleted keys. Since etcd 3.1. */
  prevKv: boolean;
}

export const DeleteRangeRequest: Codec<DeleteRangeRequest> = {
  typeName: 'etcdserverpb.DeleteRangeRequest',
  create: () => ({ key: NO_BYTES, rangeEnd: NO_BYTES, prevKv: false }),
  write(writer, message) {
    writer.bytesField(10, message.key);
    writer.bytesField(18, message.rangeEnd);
    writer.boolField(24, message.prevKv);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.key = reader.bytes();
          break;
        case 18:
          message.rangeEnd = reader.bytes();
          break;
        case 24:
          message.prevKv = reader.bool();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Response to DeleteRange. */
export interface DeleteRangeResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** Number of deleted keys. */
  deleted: bigint;
  /** The deleted keys, if requested. Since etcd 3.1. */
  prevKvs: KeyValue[];
}

export const DeleteRangeResponse: Codec<DeleteRangeResponse> = {
  typeName: 'etcdserverpb.DeleteRangeResponse',
  create: () => ({ header: undefined, deleted: 0n, prevKvs: [] }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.int64Field(16, message.deleted);
    writer.messageFields(26, KeyValue, message.prevKvs);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 16:
          message.deleted = reader.int64();
          break;
        case 26:
          message.prevKvs.push(reader.message(KeyValue));
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** An operation of a transaction. */
export interface RequestOp {
  /** The operation. Exactly one case is set. */
  request:
    | { case: 'requestRange'; value: RangeRequest }
    | { case: 'requestPut'; value: PutRequest }
    | { case: 'requestDeleteRange'; value: DeleteRangeRequest }
    | { case: 'requestTxn'; value: TxnRequest }
    | undefined;
}

export const RequestOp: Codec<RequestOp> = {
  typeName: 'etcdserverpb.RequestOp',
  create: () => ({ request: undefined }),
  write(writer, message) {
    switch (message.request?.case) {
      case 'requestRange':
        writer.tag(10);
        writer.message(RangeRequest, message.request.value);
        break;
      case 'requestPut':
        writer.tag(18);
        writer.message(PutRequest, message.request.value);
        break;
      case 'requestDeleteRange':
        writer.tag(26);
        writer.message(DeleteRangeRequest, message.request.value);
        break;
      case 'requestTxn':
        writer.tag(34);
        writer.message(TxnRequest, message.request.value);
        break;
      default:
        if (message.request !== undefined) writer.unknownCase('request');
    }
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.request = {
            case: 'requestRange',
            value: reader.message(
              RangeRequest,
              message.request?.case === 'requestRange' ? message.request.value : undefined,
            ),
          };
          break;
        case 18:
          message.request = {
            case: 'requestPut',
            value: reader.message(
              PutRequest,
              message.request?.case === 'requestPut' ? message.request.value : undefined,
            ),
          };
          break;
        case 26:
          message.request = {
            case: 'requestDeleteRange',
            value: reader.message(
              DeleteRangeRequest,
              message.request?.case === 'requestDeleteRange' ? message.request.value : undefined,
            ),
          };
          break;
        case 34:
          message.request = {
            case: 'requestTxn',
            value: reader.message(
              TxnRequest,
              message.request?.case === 'requestTxn' ? message.request.value : undefined,
            ),
          };
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Result of an operation, at the same position as the operation in its list. */
export interface ResponseOp {
  /** The result. Its case corresponds to that of the operation. */
  response:
    | { case: 'responseRange'; value: RangeResponse }
    | { case: 'responsePut'; value: PutResponse }
    | { case: 'responseDeleteRange'; value: DeleteRangeResponse }
    | { case: 'responseTxn'; value: TxnResponse }
    | undefined;
}

export const ResponseOp: Codec<ResponseOp> = {
  typeName: 'etcdserverpb.ResponseOp',
  create: () => ({ response: undefined }),
  write(writer, message) {
    switch (message.response?.case) {
      case 'responseRange':
        writer.tag(10);
        writer.message(RangeResponse, message.response.value);
        break;
      case 'responsePut':
        writer.tag(18);
        writer.message(PutResponse, message.response.value);
        break;
      case 'responseDeleteRange':
        writer.tag(26);
        writer.message(DeleteRangeResponse, message.response.value);
        break;
      case 'responseTxn':
        writer.tag(34);
        writer.message(TxnResponse, message.response.value);
        break;
      default:
        if (message.response !== undefined) writer.unknownCase('response');
    }
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.response = {
            case: 'responseRange',
            value: reader.message(
              RangeResponse,
              message.response?.case === 'responseRange' ? message.response.value : undefined,
            ),
          };
          break;
        case 18:
          message.response = {
            case: 'responsePut',
            value: reader.message(
              PutResponse,
              message.response?.case === 'responsePut' ? message.response.value : undefined,
            ),
          };
          break;
        case 26:
          message.response = {
            case: 'responseDeleteRange',
            value: reader.message(
              DeleteRangeResponse,
              message.response?.case === 'responseDeleteRange' ? message.response.value : undefined,
            ),
          };
          break;
        case 34:
          message.response = {
            case: 'responseTxn',
            value: reader.message(
              TxnResponse,
              message.response?.case === 'responseTxn' ? message.response.value : undefined,
            ),
          };
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The relation that a condition requires. */
export const CompareResult = {
  /** The property equals the given operand. */
  EQUAL: 0,
  /** The property is greater than the operand. */
  GREATER: 1,
  /** The property is less than the operand. */
  LESS: 2,
  /** The property differs from the operand. */
  NOT_EQUAL: 3,
} as const;
/** The relation that a condition requires. */
export type CompareResult = (typeof CompareResult)[keyof typeof CompareResult];

/** The property that a condition compares. */
export const CompareTarget = {
  /** Compares the version, which is the number of puts. */
  VERSION: 0,
  /** Compares the create revision. */
  CREATE: 1,
  /** Compares the revision of the last change. */
  MOD: 2,
  /** Compares the value. */
  VALUE: 3,
  /** Compares the ID of the lease. */
  LEASE: 4,
} as const;
/** The property that a condition compares. */
export type CompareTarget = (typeof CompareTarget)[keyof typeof CompareTarget];

/**
 * A condition on a key, or on every key of a range. A key that does not exist has version, revisions and lease 0. It
 * has no value, so every comparison with its value is false.
 */
export interface Compare {
  /** The relation between the property of the key and the operand. */
  result: CompareResult;
  /** The property of the key that is compared. */
  target: CompareTarget;
  /** The key, or the first key of the range. */
  key: Uint8Array;
  /** The operand. Its case must correspond to `target`. */
  targetUnion:
    | { case: 'version'; value: bigint }
    | { case: 'createRevision'; value: bigint }
    | { case: 'modRevision'; value: bigint }
    | { case: 'value'; value: Uint8Array }
    | { case: 'lease'; value: bigint }
    | undefined;
  /**
   * End of the range, exclusive. The condition must hold for every key of the range. An empty range counts as a key
   * that does not exist. Since etcd 3.3.
   */
  rangeEnd: Uint8Array;
}

export const Compare: Codec<Compare> = {
  typeName: 'etcdserverpb.Compare',
  create: () => ({ result: 0, target: 0, key: NO_BYTES, targetUnion: undefined, rangeEnd: NO_BYTES }),
  write(writer, message) {
    writer.int32Field(8, message.result);
    writer.int32Field(16, message.target);
    writer.bytesField(26, message.key);
    switch (message.targetUnion?.case) {
      case 'version':
        writer.tag(32);
        writer.int64(message.targetUnion.value);
        break;
      case 'createRevision':
        writer.tag(40);
        writer.int64(message.targetUnion.value);
        break;
      case 'modRevision':
        writer.tag(48);
        writer.int64(message.targetUnion.value);
        break;
      case 'value':
        writer.tag(58);
        writer.bytes(message.targetUnion.value);
        break;
      case 'lease':
        writer.tag(64);
        writer.int64(message.targetUnion.value);
        break;
      default:
        if (message.targetUnion !== undefined) writer.unknownCase('targetUnion');
    }
    writer.bytesField(514, message.rangeEnd);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.result = reader.int32() as CompareResult;
          break;
        case 16:
          message.target = reader.int32() as CompareTarget;
          break;
        case 26:
          message.key = reader.bytes();
          break;
        case 32:
          message.targetUnion = { case: 'version', value: reader.int64() };
          break;
        case 40:
          message.targetUnion = { case: 'createRevision', value: reader.int64() };
          break;
        case 48:
          message.targetUnion = { case: 'modRevision', value: reader.int64() };
          break;
        case 58:
          message.targetUnion = { case: 'value', value: reader.bytes() };
          break;
        case 64:
          message.targetUnion = { case: 'lease', value: reader.int64() };
          break;
        case 514:
          message.rangeEnd = reader.bytes();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/**
 * Request for Txn. If all comparisons hold, the server runs `success`, otherwise `failure`. By default, each list may
 * have at most 128 entries. In a nested transaction, the limit is 128 minus the length of the parent's longest list.
 */
export interface TxnRequest {
  /** The conditions. An empty list is always true. */
  compare: Compare[];
  /** The operations to run if all conditions hold. */
  success: RequestOp[];
  /** The operations to run if a condition does not hold. */
  failure: RequestOp[];
}

export const TxnRequest: Codec<TxnRequest> = {
  typeName: 'etcdserverpb.TxnRequest',
  create: () => ({ compare: [], success: [], failure: [] }),
  write(writer, message) {
    writer.messageFields(10, Compare, message.compare);
    writer.messageFields(18, RequestOp, message.success);
    writer.messageFields(26, RequestOp, message.failure);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.compare.push(reader.message(Compare));
          break;
        case 18:
          message.success.push(reader.message(RequestOp));
          break;
        case 26:
          message.failure.push(reader.message(RequestOp));
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Response to Txn. */
export interface TxnResponse {
  /**
   * The cluster and member that responded, and the revision of the store. A transaction increases the revision by at
   * most one.
   */
  header: ResponseHeader | undefined;
  /** Whether `success` ran. */
  succeeded: boolean;
  /** The results of the operations in the list that ran, in order. */
  responses: ResponseOp[];
}

export const TxnResponse: Codec<TxnResponse> = {
  typeName: 'etcdserverpb.TxnResponse',
  create: () => ({ header: undefined, succeeded: false, responses: [] }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.boolField(16, message.succeeded);
    writer.messageFields(26, ResponseOp, message.responses);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 16:
          message.succeeded = reader.bool();
          break;
        case 26:
          message.responses.push(reader.message(ResponseOp));
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Request for Compact. */
export interface CompactionRequest {
  /** Oldest revision to keep. Reads and watches at this revision or a later one still work. */
  revision: bigint;
  /**
   * Whether to respond only after the old entries are removed from the database file. Otherwise the server responds
   * earlier and removes them later.
   */
  physical: boolean;
}

export const CompactionRequest: Codec<CompactionRequest> = /* @__PURE__ */ tableCodec(
  'CompactionRequest',
  'i1revision b2physical',
);

/** Response to Compact. */
export interface CompactionResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const CompactionResponse: Codec<CompactionResponse> = /* @__PURE__ */ tableCodec(
  'CompactionResponse',
  'm1header',
  () => [ResponseHeader],
);

/** This request has no fields. */
export type HashRequest = Record<never, never>;

export const HashRequest: Codec<HashRequest> = /* @__PURE__ */ tableCodec('HashRequest');

/** Request for HashKV. Since etcd 3.3. */
export interface HashKVRequest {
  /** Last revision to hash. 0 means the latest revision. */
  revision: bigint;
}

export const HashKVRequest: Codec<HashKVRequest> = /* @__PURE__ */ tableCodec('HashKVRequest', 'i1revision');

/** Response to HashKV. Since etcd 3.3. */
export interface HashKVResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** CRC-32 of the keys from the compacted revision to the requested revision. */
  hash: number;
  /**
   * The compacted revision from which the hash starts. Two hashes are comparable only if they start from the same
   * revision.
   */
  compactRevision: bigint;
  /** The revision at which the hash ends. Since etcd 3.6. */
  hashRevision: bigint;
}

export const HashKVResponse: Codec<HashKVResponse> = /* @__PURE__ */ tableCodec(
  'HashKVResponse',
  'm1header n2hash i3compactRevision i4hashRevision',
  () => [ResponseHeader],
);

/** Response to Hash. */
export interface HashResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** CRC-32 of the database file. */
  hash: number;
}

export const HashResponse: Codec<HashResponse> = /* @__PURE__ */ tableCodec('HashResponse', 'm1header n2hash', () => [
  ResponseHeader,
]);

/** This request has no fields. Since etcd 3.3. */
export type SnapshotRequest = Record<never, never>;

export const SnapshotRequest: Codec<SnapshotRequest> = /* @__PURE__ */ tableCodec('SnapshotRequest');

/** Response to Snapshot: a chunk of the database. Since etcd 3.3. */
export interface SnapshotResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** Number of bytes that follow this chunk. */
  remainingBytes: bigint;
  /** The bytes of the chunk. The last 32 bytes of the stream are the SHA-256 digest of all bytes before them. */
  blob: Uint8Array;
  /** Version of the etcd server that wrote the database, as "major.minor.patch". Since etcd 3.6. */
  version: string;
}

export const SnapshotResponse: Codec<SnapshotResponse> = /* @__PURE__ */ tableCodec(
  'SnapshotResponse',
  'm1header u2remainingBytes y3blob s4version',
  () => [ResponseHeader],
);

/** A control message of a watch stream. */
export interface WatchRequest {
  /** The operation. Exactly one case is set. */
  requestUnion:
    | { case: 'createRequest'; value: WatchCreateRequest }
    | { case: 'cancelRequest'; value: WatchCancelRequest }
    | { case: 'progressRequest'; value: WatchProgressRequest }
    | undefined;
}

export const WatchRequest: Codec<WatchRequest> = {
  typeName: 'etcdserverpb.WatchRequest',
  create: () => ({ requestUnion: undefined }),
  write(writer, message) {
    switch (message.requestUnion?.case) {
      case 'createRequest':
        writer.tag(10);
        writer.message(WatchCreateRequest, message.requestUnion.value);
        break;
      case 'cancelRequest':
        writer.tag(18);
        writer.message(WatchCancelRequest, message.requestUnion.value);
        break;
      case 'progressRequest':
        writer.tag(26);
        writer.message(WatchProgressRequest, message.requestUnion.value);
        break;
      default:
        if (message.requestUnion !== undefined) writer.unknownCase('requestUnion');
    }
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.requestUnion = {
            case: 'createRequest',
            value: reader.message(
              WatchCreateRequest,
              message.requestUnion?.case === 'createRequest' ? message.requestUnion.value : undefined,
            ),
          };
          break;
        case 18:
          message.requestUnion = {
            case: 'cancelRequest',
            value: reader.message(
              WatchCancelRequest,
              message.requestUnion?.case === 'cancelRequest' ? message.requestUnion.value : undefined,
            ),
          };
          break;
        case 26:
          message.requestUnion = {
            case: 'progressRequest',
            value: reader.message(
              WatchProgressRequest,
              message.requestUnion?.case === 'progressRequest' ? message.requestUnion.value : undefined,
            ),
          };
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The kinds of events that a watch leaves out. Since etcd 3.1. */
export const FilterType = {
  /** Leaves out puts. */
  NOPUT: 0,
  /** Leaves out deletions. */
  NODELETE: 1,
} as const;
/** The kinds of events that a watch leaves out. Since etcd 3.1. */
export type FilterType = (typeof FilterType)[keyof typeof FilterType];

/** Request to create a watch. */
export interface WatchCreateRequest {
  /** The key, or the first key of the range. */
  key: Uint8Array;
  /** End of the range, exclusive. The rules of RangeRequest.range_end apply. */
  rangeEnd: Uint8Array;
  /**
   * First revision to deliver. If it is 0, the server delivers only the events after the creation of the watch. If it
   * is a past revision, the server first delivers the past events.
   */
  startRevision: bigint;
  /**
   * Whether the server reports progress while the watch has no events. By default, it then sends a response without
   * events every 10 minutes. The header of that response contains the current revision.
   */
  progressNotify: boolean;
  /** The kinds of events to leave out. Since etcd 3.1. */
  filters: FilterType[];
  /** Whether events contain the key as it was before the change. Since etcd 3.1. */
  prevKv: boolean;
  /** ID of the watch on the stream. 0 lets the server choose. The server refuses an ID that is in use. Since etcd 3.4. */
  watchId: bigint;
  /**
   * Whether the server may split a response that is larger than its limit for requests. The events of one revision may
   * then arrive in several responses. Since etcd 3.4.
   */
  fragment: boolean;
}

export const WatchCreateRequest: Codec<WatchCreateRequest> = /* @__PURE__ */ tableCodec(
  'WatchCreateRequest',
  'y1key y2rangeEnd i3startRevision b4progressNotify e*5filters b6prevKv i7watchId b8fragment',
);

/** Request to cancel a watch. Since etcd 3.1. */
export interface WatchCancelRequest {
  /** ID of the watch. Events that the server has already sent may still arrive. */
  watchId: bigint;
}

export const WatchCancelRequest: Codec<WatchCancelRequest> = /* @__PURE__ */ tableCodec(
  'WatchCancelRequest',
  'i1watchId',
);

/** Request for the progress of all watches on the stream. The response has watch_id -1. Since etcd 3.4. */
export type WatchProgressRequest = Record<never, never>;

export const WatchProgressRequest: Codec<WatchProgressRequest> = /* @__PURE__ */ tableCodec('WatchProgressRequest');

/** Events for a watch, or a change in its state. */
export interface WatchResponse {
  /**
   * The cluster and member that responded, and the revision of the store. If a response only reports progress, the
   * watch has received all events up to that revision.
   */
  header: ResponseHeader | undefined;
  /**
   * ID of the watch. -1 if the response concerns all watches on the stream, or a watch that the server could not
   * create.
   */
  watchId: bigint;
  /** Whether this is the response to a create request. */
  created: boolean;
  /** Whether the watch has ended. */
  canceled: boolean;
  /** Oldest revision that is not compacted. Set if the watch ended because its next revision has been compacted. */
  compactRevision: bigint;
  /** Why the server ended the watch, often the text of a gRPC error. Since etcd 3.4. */
  cancelReason: string;
  /** Whether more fragments of this response follow. Since etcd 3.4. */
  fragment: boolean;
  /** The events in revision order. Except in fragments, all events of a revision are in one response. */
  events: Event[];
}

export const WatchResponse: Codec<WatchResponse> = {
  typeName: 'etcdserverpb.WatchResponse',
  create: () => ({
    header: undefined,
    watchId: 0n,
    created: false,
    canceled: false,
    compactRevision: 0n,
    cancelReason: '',
    fragment: false,
    events: [],
  }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.int64Field(16, message.watchId);
    writer.boolField(24, message.created);
    writer.boolField(32, message.canceled);
    writer.int64Field(40, message.compactRevision);
    writer.stringField(50, message.cancelReason);
    writer.boolField(56, message.fragment);
    writer.messageFields(90, Event, message.events);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 16:
          message.watchId = reader.int64();
          break;
        case 24:
          message.created = reader.bool();
          break;
        case 32:
          message.canceled = reader.bool();
          break;
        case 40:
          message.compactRevision = reader.int64();
          break;
        case 50:
          message.cancelReason = reader.string();
          break;
        case 56:
          message.fragment = reader.bool();
          break;
        case 90:
          message.events.push(reader.message(Event));
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Request for LeaseGrant. */
export interface LeaseGrantRequest {
  /**
   * Seconds until the lease expires if it is not renewed. The server replaces a smaller TTL with its minimum. The
   * maximum is 9,000,000,000.
   */
  ttl: bigint;
  /**
   * ID of the lease. 0 lets the server choose. A client that chooses the ID can recognize the lease when it retries the
   * request.
   */
  id: bigint;
}

export const LeaseGrantRequest: Codec<LeaseGrantRequest> = /* @__PURE__ */ tableCodec(
  'LeaseGrantRequest',
  'i1ttl i2id',
);

/** Response to LeaseGrant. */
export interface LeaseGrantResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** ID of the lease. */
  id: bigint;
  /** TTL in seconds that the server granted. */
  ttl: bigint;
  /** Error text from very old servers. Later servers report errors in the gRPC status. */
  error: string;
}

export const LeaseGrantResponse: Codec<LeaseGrantResponse> = /* @__PURE__ */ tableCodec(
  'LeaseGrantResponse',
  'm1header i2id i3ttl s4error',
  () => [ResponseHeader],
);

/** Request for LeaseRevoke. */
export interface LeaseRevokeRequest {
  /** ID of the lease. */
  id: bigint;
}

export const LeaseRevokeRequest: Codec<LeaseRevokeRequest> = /* @__PURE__ */ tableCodec('LeaseRevokeRequest', 'i1id');

/** Response to LeaseRevoke. The server has revoked the lease and deleted its keys. */
export interface LeaseRevokeResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const LeaseRevokeResponse: Codec<LeaseRevokeResponse> = /* @__PURE__ */ tableCodec(
  'LeaseRevokeResponse',
  'm1header',
  () => [ResponseHeader],
);

/**
 * The remaining TTL of a lease. The leader sends it to the followers, so that a new leader does not restart the TTL.
 * Since etcd 3.4.
 */
export interface LeaseCheckpoint {
  /** ID of the lease. */
  id: bigint;
  /** Remaining TTL in seconds. */
  remainingTtl: bigint;
}

export const LeaseCheckpoint: Codec<LeaseCheckpoint> = /* @__PURE__ */ tableCodec(
  'LeaseCheckpoint',
  'i1id i2remainingTtl',
);

/** Sent between members. No public service accepts this message. Since etcd 3.4. */
export interface LeaseCheckpointRequest {
  /** The leases and their remaining TTLs. */
  checkpoints: LeaseCheckpoint[];
}

export const LeaseCheckpointRequest: Codec<LeaseCheckpointRequest> = /* @__PURE__ */ tableCodec(
  'LeaseCheckpointRequest',
  'm*1checkpoints',
  () => [LeaseCheckpoint],
);

/** Sent between members. Since etcd 3.4. */
export interface LeaseCheckpointResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const LeaseCheckpointResponse: Codec<LeaseCheckpointResponse> = /* @__PURE__ */ tableCodec(
  'LeaseCheckpointResponse',
  'm1header',
  () => [ResponseHeader],
);

/** Request for LeaseKeepAlive. */
export interface LeaseKeepAliveRequest {
  /** ID of the lease. */
  id: bigint;
}

export const LeaseKeepAliveRequest: Codec<LeaseKeepAliveRequest> = /* @__PURE__ */ tableCodec(
  'LeaseKeepAliveRequest',
  'i1id',
);

/** Response to LeaseKeepAlive. If `TTL` is above 0, the server has renewed the lease. Otherwise the lease does not exist. */
export interface LeaseKeepAliveResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** ID of the lease. */
  id: bigint;
  /** The new remaining TTL in seconds. 0 or less if the lease does not exist. */
  ttl: bigint;
}

export const LeaseKeepAliveResponse: Codec<LeaseKeepAliveResponse> = /* @__PURE__ */ tableCodec(
  'LeaseKeepAliveResponse',
  'm1header i2id i3ttl',
  () => [ResponseHeader],
);

/** Request for LeaseTimeToLive. Since etcd 3.1. */
export interface LeaseTimeToLiveRequest {
  /** ID of the lease. */
  id: bigint;
  /** Whether to list the attached keys. */
  keys: boolean;
}

export const LeaseTimeToLiveRequest: Codec<LeaseTimeToLiveRequest> = /* @__PURE__ */ tableCodec(
  'LeaseTimeToLiveRequest',
  'i1id b2keys',
);

/** Response to LeaseTimeToLive. Since etcd 3.1. */
export interface LeaseTimeToLiveResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** ID of the lease. */
  id: bigint;
  /** Remaining TTL in seconds. -1 if the lease does not exist. */
  ttl: bigint;
  /** TTL in seconds that the server granted. */
  grantedTtl: bigint;
  /** The attached keys, if requested. */
  keys: Uint8Array[];
}

export const LeaseTimeToLiveResponse: Codec<LeaseTimeToLiveResponse> = /* @__PURE__ */ tableCodec(
  'LeaseTimeToLiveResponse',
  'm1header i2id i3ttl i4grantedTtl y*5keys',
  () => [ResponseHeader],
);

/** This request has no fields. Since etcd 3.3. */
export type LeaseLeasesRequest = Record<never, never>;

export const LeaseLeasesRequest: Codec<LeaseLeasesRequest> = /* @__PURE__ */ tableCodec('LeaseLeasesRequest');

/** A lease in the list. Since etcd 3.3. */
export interface LeaseStatus {
  /** ID of the lease. */
  id: bigint;
}

export const LeaseStatus: Codec<LeaseStatus> = /* @__PURE__ */ tableCodec('LeaseStatus', 'i1id');

/** Response to LeaseLeases. Since etcd 3.3. */
export interface LeaseLeasesResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** The leases. */
  leases: LeaseStatus[];
}

export const LeaseLeasesResponse: Codec<LeaseLeasesResponse> = /* @__PURE__ */ tableCodec(
  'LeaseLeasesResponse',
  'm1header m*2leases',
  () => [ResponseHeader, LeaseStatus],
);

/** A member of the cluster. */
export interface Member {
  /** ID of the member. Never 0. */
  id: bigint;
  /** Name of the member. Empty until the member has started for the first time. */
  name: string;
  /** URLs at which the other members reach this member. */
  peerUrls: string[];
  /** URLs at which clients reach this member. Empty until the member has started for the first time. */
  clientUrls: string[];
  /** Whether the member is a learner, which does not vote. Since etcd 3.4. */
  isLearner: boolean;
}

export const Member: Codec<Member> = /* @__PURE__ */ tableCodec(
  'Member',
  'u1id s2name s*3peerUrls s*4clientUrls b5isLearner',
);

/** Request for MemberAdd. */
export interface MemberAddRequest {
  /** URLs at which the other members reach the new member. */
  peerUrls: string[];
  /** Whether to add the member as a learner. Since etcd 3.4. */
  isLearner: boolean;
}

export const MemberAddRequest: Codec<MemberAddRequest> = /* @__PURE__ */ tableCodec(
  'MemberAddRequest',
  's*1peerUrls b2isLearner',
);

/** Response to MemberAdd. */
export interface MemberAddResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** The added member. */
  member: Member | undefined;
  /** All members after the change. */
  members: Member[];
}

export const MemberAddResponse: Codec<MemberAddResponse> = /* @__PURE__ */ tableCodec(
  'MemberAddResponse',
  'm1header m2member m*3members',
  () => [ResponseHeader, Member, Member],
);

/** Request for MemberRemove. */
export interface MemberRemoveRequest {
  /** ID of the member. */
  id: bigint;
}

export const MemberRemoveRequest: Codec<MemberRemoveRequest> = /* @__PURE__ */ tableCodec(
  'MemberRemoveRequest',
  'u1id',
);

/** Response to MemberRemove. */
export interface MemberRemoveResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** The remaining members. */
  members: Member[];
}

export const MemberRemoveResponse: Codec<MemberRemoveResponse> = /* @__PURE__ */ tableCodec(
  'MemberRemoveResponse',
  'm1header m*2members',
  () => [ResponseHeader, Member],
);

/** Request for MemberUpdate. */
export interface MemberUpdateRequest {
  /** ID of the member. */
  id: bigint;
  /** The new URLs at which the other members reach this member. They replace the previous URLs. */
  peerUrls: string[];
}

export const MemberUpdateRequest: Codec<MemberUpdateRequest> = /* @__PURE__ */ tableCodec(
  'MemberUpdateRequest',
  'u1id s*2peerUrls',
);

/** Response to MemberUpdate. */
export interface MemberUpdateResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** All members after the change. Since etcd 3.1. */
  members: Member[];
}

export const MemberUpdateResponse: Codec<MemberUpdateResponse> = /* @__PURE__ */ tableCodec(
  'MemberUpdateResponse',
  'm1header m*2members',
  () => [ResponseHeader, Member],
);

/** Request for MemberList. */
export interface MemberListRequest {
  /** Whether the read is linearizable. Otherwise the member responds from its own data. Since etcd 3.5. */
  linearizable: boolean;
}

export const MemberListRequest: Codec<MemberListRequest> = /* @__PURE__ */ tableCodec(
  'MemberListRequest',
  'b1linearizable',
);

/** Response to MemberList. */
export interface MemberListResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** The members. */
  members: Member[];
}

export const MemberListResponse: Codec<MemberListResponse> = /* @__PURE__ */ tableCodec(
  'MemberListResponse',
  'm1header m*2members',
  () => [ResponseHeader, Member],
);

/** Request for MemberPromote. Since etcd 3.4. */
export interface MemberPromoteRequest {
  /** ID of the learner. */
  id: bigint;
}

export const MemberPromoteRequest: Codec<MemberPromoteRequest> = /* @__PURE__ */ tableCodec(
  'MemberPromoteRequest',
  'u1id',
);

/** Response to MemberPromote. The learner is now a voting member. Since etcd 3.4. */
export interface MemberPromoteResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** All members after the change. */
  members: Member[];
}

export const MemberPromoteResponse: Codec<MemberPromoteResponse> = /* @__PURE__ */ tableCodec(
  'MemberPromoteResponse',
  'm1header m*2members',
  () => [ResponseHeader, Member],
);

/** This request has no fields. */
export type DefragmentRequest = Record<never, never>;

export const DefragmentRequest: Codec<DefragmentRequest> = /* @__PURE__ */ tableCodec('DefragmentRequest');

/** Response to Defragment. */
export interface DefragmentResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const DefragmentResponse: Codec<DefragmentResponse> = /* @__PURE__ */ tableCodec(
  'DefragmentResponse',
  'm1header',
  () => [ResponseHeader],
);

/** Request for MoveLeader. Since etcd 3.3. */
export interface MoveLeaderRequest {
  /** ID of the member that becomes the leader. */
  targetId: bigint;
}

export const MoveLeaderRequest: Codec<MoveLeaderRequest> = /* @__PURE__ */ tableCodec(
  'MoveLeaderRequest',
  'u1targetId',
);

/** Response to MoveLeader. The target member is now the leader. Since etcd 3.3. */
export interface MoveLeaderResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const MoveLeaderResponse: Codec<MoveLeaderResponse> = /* @__PURE__ */ tableCodec(
  'MoveLeaderResponse',
  'm1header',
  () => [ResponseHeader],
);

/** What to do with an alarm. */
export const AlarmAction = {
  /** Lists alarms. */
  GET: 0,
  /** Raises an alarm. */
  ACTIVATE: 1,
  /** Clears an alarm. */
  DEACTIVATE: 2,
} as const;
/** What to do with an alarm. */
export type AlarmAction = (typeof AlarmAction)[keyof typeof AlarmAction];

/** Request for Alarm. */
export interface AlarmRequest {
  /** The action. */
  action: AlarmAction;
  /** ID of the member that the alarm names. 0 means all members. */
  memberId: bigint;
  /** The kind of alarm. */
  alarm: AlarmType;
}

export const AlarmRequest: Codec<AlarmRequest> = /* @__PURE__ */ tableCodec(
  'AlarmRequest',
  'e1action u2memberId e3alarm',
);

/** A raised alarm. */
export interface AlarmMember {
  /** ID of the member that the alarm names. */
  memberId: bigint;
  /** The kind of alarm. */
  alarm: AlarmType;
}

export const AlarmMember: Codec<AlarmMember> = /* @__PURE__ */ tableCodec('AlarmMember', 'u1memberId e2alarm');

/** Response to Alarm. */
export interface AlarmResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** The alarms that were listed, raised or cleared. */
  alarms: AlarmMember[];
}

export const AlarmResponse: Codec<AlarmResponse> = /* @__PURE__ */ tableCodec(
  'AlarmResponse',
  'm1header m*2alarms',
  () => [ResponseHeader, AlarmMember],
);

/** What to do about a downgrade. Since etcd 3.5. */
export const DowngradeAction = {
  /** Checks whether the cluster can be downgraded. */
  VALIDATE: 0,
  /** Starts the downgrade. */
  ENABLE: 1,
  /** Cancels the downgrade. */
  CANCEL: 2,
} as const;
/** What to do about a downgrade. Since etcd 3.5. */
export type DowngradeAction = (typeof DowngradeAction)[keyof typeof DowngradeAction];

/** Request for Downgrade. Since etcd 3.5. */
export interface DowngradeRequest {
  /** The action. */
  action: DowngradeAction;
  /** The target version, as "major.minor". */
  version: string;
}

export const DowngradeRequest: Codec<DowngradeRequest> = /* @__PURE__ */ tableCodec(
  'DowngradeRequest',
  'e1action s2version',
);

/** Response to Downgrade. Since etcd 3.5. */
export interface DowngradeResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** The current version of the cluster. */
  version: string;
}

export const DowngradeResponse: Codec<DowngradeResponse> = /* @__PURE__ */ tableCodec(
  'DowngradeResponse',
  'm1header s2version',
  () => [ResponseHeader],
);

/** etcd's own tests use this message. No public service accepts it. Since etcd 3.6. */
export interface DowngradeVersionTestRequest {
  /** The version under test. */
  ver: string;
}

export const DowngradeVersionTestRequest: Codec<DowngradeVersionTestRequest> = /* @__PURE__ */ tableCodec(
  'DowngradeVersionTestRequest',
  's1ver',
);

/** This request has no fields. */
export type StatusRequest = Record<never, never>;

export const StatusRequest: Codec<StatusRequest> = /* @__PURE__ */ tableCodec('StatusRequest');

/** Response to Status. */
export interface StatusResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** The etcd version of the member. */
  version: string;
  /** Size of the database file in bytes. */
  dbSize: bigint;
  /** ID of the member that this member considers the leader. 0 if the member knows of no leader. */
  leader: bigint;
  /** Index of the last committed raft entry. */
  raftIndex: bigint;
  /** Raft term of the member. */
  raftTerm: bigint;
  /** Index of the last applied raft entry. Since etcd 3.4. */
  raftAppliedIndex: bigint;
  /** Alarms and other problems, as text. Since etcd 3.4. */
  errors: string[];
  /** Size of the used part of the database in bytes. The rest consists of free pages. Since etcd 3.4. */
  dbSizeInUse: bigint;
  /** Whether the member is a learner. Since etcd 3.4. */
  isLearner: boolean;
  /** Version of the database format, as "major.minor.0". Since etcd 3.6. */
  storageVersion: string;
  /** Size in bytes at which the server raises the NOSPACE alarm. Since etcd 3.6. */
  dbSizeQuota: bigint;
  /** The downgrade in progress. Since etcd 3.6. */
  downgradeInfo: DowngradeInfo | undefined;
}

export const StatusResponse: Codec<StatusResponse> = /* @__PURE__ */ tableCodec(
  'StatusResponse',
  'm1header s2version i3dbSize u4leader u5raftIndex u6raftTerm u7raftAppliedIndex s*8errors i9dbSizeInUse b10isLearner s11storageVersion i12dbSizeQuota m13downgradeInfo',
  () => [ResponseHeader, DowngradeInfo],
);

/** A downgrade in progress. */
export interface DowngradeInfo {
  /** Whether a downgrade is in progress. */
  enabled: boolean;
  /** The target version. */
  targetVersion: string;
}

export const DowngradeInfo: Codec<DowngradeInfo> = /* @__PURE__ */ tableCodec(
  'DowngradeInfo',
  'b1enabled s2targetVersion',
);

/** This request has no fields. */
export type AuthEnableRequest = Record<never, never>;

export const AuthEnableRequest: Codec<AuthEnableRequest> = /* @__PURE__ */ tableCodec('AuthEnableRequest');

/** This request has no fields. */
export type AuthDisableRequest = Record<never, never>;

export const AuthDisableRequest: Codec<AuthDisableRequest> = /* @__PURE__ */ tableCodec('AuthDisableRequest');

/** This request has no fields. Since etcd 3.5. */
export type AuthStatusRequest = Record<never, never>;

export const AuthStatusRequest: Codec<AuthStatusRequest> = /* @__PURE__ */ tableCodec('AuthStatusRequest');

/** Request for Authenticate. */
export interface AuthenticateRequest {
  /** Name of the user. */
  name: string;
  /** The password in plaintext. Use TLS. */
  password: string;
}

export const AuthenticateRequest: Codec<AuthenticateRequest> = /* @__PURE__ */ tableCodec(
  'AuthenticateRequest',
  's1name s2password',
);

/** Request for UserAdd. */
export interface AuthUserAddRequest {
  /** Name of the user. */
  name: string;
  /** The password in plaintext. */
  password: string;
  /** How the user authenticates. Since etcd 3.4. */
  options: UserAddOptions | undefined;
  /**
   * Hash of the password, which the server computes before it sends the request to the other members. The server
   * overwrites a value that a client sets. Since etcd 3.5.
   */
  hashedPassword: string;
}

export const AuthUserAddRequest: Codec<AuthUserAddRequest> = /* @__PURE__ */ tableCodec(
  'AuthUserAddRequest',
  's1name s2password m3options s4hashedPassword',
  () => [UserAddOptions],
);

/** Request for UserGet. */
export interface AuthUserGetRequest {
  /** Name of the user. */
  name: string;
}

export const AuthUserGetRequest: Codec<AuthUserGetRequest> = /* @__PURE__ */ tableCodec('AuthUserGetRequest', 's1name');

/** Request for UserDelete. */
export interface AuthUserDeleteRequest {
  /** Name of the user. */
  name: string;
}

export const AuthUserDeleteRequest: Codec<AuthUserDeleteRequest> = /* @__PURE__ */ tableCodec(
  'AuthUserDeleteRequest',
  's1name',
);

/** Request for UserChangePassword. */
export interface AuthUserChangePasswordRequest {
  /** Name of the user. */
  name: string;
  /** The password in plaintext. */
  password: string;
  /**
   * bcrypt hash of the password in base64, used if `password` is empty. Since etcd 3.5; a server before 3.5 ignores the
   * hash and sets the empty password.
   */
  hashedPassword: string;
}

export const AuthUserChangePasswordRequest: Codec<AuthUserChangePasswordRequest> = /* @__PURE__ */ tableCodec(
  'AuthUserChangePasswordRequest',
  's1name s2password s3hashedPassword',
);

/** Request for UserGrantRole. */
export interface AuthUserGrantRoleRequest {
  /** Name of the user. */
  user: string;
  /** Name of the role. */
  role: string;
}

export const AuthUserGrantRoleRequest: Codec<AuthUserGrantRoleRequest> = /* @__PURE__ */ tableCodec(
  'AuthUserGrantRoleRequest',
  's1user s2role',
);

/** Request for UserRevokeRole. */
export interface AuthUserRevokeRoleRequest {
  /** Name of the user. */
  name: string;
  /** Name of the role. */
  role: string;
}

export const AuthUserRevokeRoleRequest: Codec<AuthUserRevokeRoleRequest> = /* @__PURE__ */ tableCodec(
  'AuthUserRevokeRoleRequest',
  's1name s2role',
);

/** Request for RoleAdd. */
export interface AuthRoleAddRequest {
  /** Name of the role. */
  name: string;
}

export const AuthRoleAddRequest: Codec<AuthRoleAddRequest> = /* @__PURE__ */ tableCodec('AuthRoleAddRequest', 's1name');

/** Request for RoleGet. */
export interface AuthRoleGetRequest {
  /** Name of the role. */
  role: string;
}

export const AuthRoleGetRequest: Codec<AuthRoleGetRequest> = /* @__PURE__ */ tableCodec('AuthRoleGetRequest', 's1role');

/** This request has no fields. */
export type AuthUserListRequest = Record<never, never>;

export const AuthUserListRequest: Codec<AuthUserListRequest> = /* @__PURE__ */ tableCodec('AuthUserListRequest');

/** This request has no fields. */
export type AuthRoleListRequest = Record<never, never>;

export const AuthRoleListRequest: Codec<AuthRoleListRequest> = /* @__PURE__ */ tableCodec('AuthRoleListRequest');

/** Request for RoleDelete. */
export interface AuthRoleDeleteRequest {
  /** Name of the role. */
  role: string;
}

export const AuthRoleDeleteRequest: Codec<AuthRoleDeleteRequest> = /* @__PURE__ */ tableCodec(
  'AuthRoleDeleteRequest',
  's1role',
);

/** Request for RoleGrantPermission. */
export interface AuthRoleGrantPermissionRequest {
  /** Name of the role. */
  name: string;
  /** The permission. */
  perm: Permission | undefined;
}

export const AuthRoleGrantPermissionRequest: Codec<AuthRoleGrantPermissionRequest> = /* @__PURE__ */ tableCodec(
  'AuthRoleGrantPermissionRequest',
  's1name m2perm',
  () => [Permission],
);

/** Request for RoleRevokePermission. */
export interface AuthRoleRevokePermissionRequest {
  /** Name of the role. */
  role: string;
  /** First key of the granted range. */
  key: Uint8Array;
  /** End of the granted range. */
  rangeEnd: Uint8Array;
}

export const AuthRoleRevokePermissionRequest: Codec<AuthRoleRevokePermissionRequest> = /* @__PURE__ */ tableCodec(
  'AuthRoleRevokePermissionRequest',
  's1role y2key y3rangeEnd',
);

/** Response to AuthEnable. Authentication is now enabled. */
export interface AuthEnableResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const AuthEnableResponse: Codec<AuthEnableResponse> = /* @__PURE__ */ tableCodec(
  'AuthEnableResponse',
  'm1header',
  () => [ResponseHeader],
);

/** Response to AuthDisable. Authentication is now disabled. */
export interface AuthDisableResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const AuthDisableResponse: Codec<AuthDisableResponse> = /* @__PURE__ */ tableCodec(
  'AuthDisableResponse',
  'm1header',
  () => [ResponseHeader],
);

/** Response to AuthStatus. Since etcd 3.5. */
export interface AuthStatusResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** Whether authentication is enabled. */
  enabled: boolean;
  /**
   * Revision of the users and roles. Each change to a user or role increases this revision, and the server refuses
   * tokens that it issued before the last change.
   */
  authRevision: bigint;
}

export const AuthStatusResponse: Codec<AuthStatusResponse> = /* @__PURE__ */ tableCodec(
  'AuthStatusResponse',
  'm1header b2enabled u3authRevision',
  () => [ResponseHeader],
);

/** Response to Authenticate. */
export interface AuthenticateResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** The token. Later calls send it in the metadata entry "token". By default it expires after 5 minutes without use. */
  token: string;
}

export const AuthenticateResponse: Codec<AuthenticateResponse> = /* @__PURE__ */ tableCodec(
  'AuthenticateResponse',
  'm1header s2token',
  () => [ResponseHeader],
);

/** Response to UserAdd. */
export interface AuthUserAddResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const AuthUserAddResponse: Codec<AuthUserAddResponse> = /* @__PURE__ */ tableCodec(
  'AuthUserAddResponse',
  'm1header',
  () => [ResponseHeader],
);

/** Response to UserGet. */
export interface AuthUserGetResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** Names of the user's roles. */
  roles: string[];
}

export const AuthUserGetResponse: Codec<AuthUserGetResponse> = /* @__PURE__ */ tableCodec(
  'AuthUserGetResponse',
  'm1header s*2roles',
  () => [ResponseHeader],
);

/** Response to UserDelete. */
export interface AuthUserDeleteResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const AuthUserDeleteResponse: Codec<AuthUserDeleteResponse> = /* @__PURE__ */ tableCodec(
  'AuthUserDeleteResponse',
  'm1header',
  () => [ResponseHeader],
);

/** Response to UserChangePassword. The user's tokens are no longer valid. */
export interface AuthUserChangePasswordResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const AuthUserChangePasswordResponse: Codec<AuthUserChangePasswordResponse> = /* @__PURE__ */ tableCodec(
  'AuthUserChangePasswordResponse',
  'm1header',
  () => [ResponseHeader],
);

/** Response to UserGrantRole. */
export interface AuthUserGrantRoleResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const AuthUserGrantRoleResponse: Codec<AuthUserGrantRoleResponse> = /* @__PURE__ */ tableCodec(
  'AuthUserGrantRoleResponse',
  'm1header',
  () => [ResponseHeader],
);

/** Response to UserRevokeRole. */
export interface AuthUserRevokeRoleResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const AuthUserRevokeRoleResponse: Codec<AuthUserRevokeRoleResponse> = /* @__PURE__ */ tableCodec(
  'AuthUserRevokeRoleResponse',
  'm1header',
  () => [ResponseHeader],
);

/** Response to RoleAdd. */
export interface AuthRoleAddResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const AuthRoleAddResponse: Codec<AuthRoleAddResponse> = /* @__PURE__ */ tableCodec(
  'AuthRoleAddResponse',
  'm1header',
  () => [ResponseHeader],
);

/** Response to RoleGet. */
export interface AuthRoleGetResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** The permissions. */
  perm: Permission[];
}

export const AuthRoleGetResponse: Codec<AuthRoleGetResponse> = /* @__PURE__ */ tableCodec(
  'AuthRoleGetResponse',
  'm1header m*2perm',
  () => [ResponseHeader, Permission],
);

/** Response to RoleList. */
export interface AuthRoleListResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** Names of the roles. */
  roles: string[];
}

export const AuthRoleListResponse: Codec<AuthRoleListResponse> = /* @__PURE__ */ tableCodec(
  'AuthRoleListResponse',
  'm1header s*2roles',
  () => [ResponseHeader],
);

/** Response to UserList. */
export interface AuthUserListResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** Names of the users. */
  users: string[];
}

export const AuthUserListResponse: Codec<AuthUserListResponse> = /* @__PURE__ */ tableCodec(
  'AuthUserListResponse',
  'm1header s*2users',
  () => [ResponseHeader],
);

/** Response to RoleDelete. */
export interface AuthRoleDeleteResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const AuthRoleDeleteResponse: Codec<AuthRoleDeleteResponse> = /* @__PURE__ */ tableCodec(
  'AuthRoleDeleteResponse',
  'm1header',
  () => [ResponseHeader],
);

/** Response to RoleGrantPermission. */
export interface AuthRoleGrantPermissionResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const AuthRoleGrantPermissionResponse: Codec<AuthRoleGrantPermissionResponse> = /* @__PURE__ */ tableCodec(
  'AuthRoleGrantPermissionResponse',
  'm1header',
  () => [ResponseHeader],
);

/** Response to RoleRevokePermission. */
export interface AuthRoleRevokePermissionResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const AuthRoleRevokePermissionResponse: Codec<AuthRoleRevokePermissionResponse> = /* @__PURE__ */ tableCodec(
  'AuthRoleRevokePermissionResponse',
  'm1header',
  () => [ResponseHeader],
);

/** Response to RangeStream: a chunk of the range. Since etcd 3.7. */
export interface RangeStreamResponse {
  /** The keys of the chunk. The header, `more` and `count` concern the whole range and are in the last chunk. */
  rangeResponse: RangeResponse | undefined;
}

export const RangeStreamResponse: Codec<RangeStreamResponse> = /* @__PURE__ */ tableCodec(
  'RangeStreamResponse',
  'm1rangeResponse',
  () => [RangeResponse],
);
