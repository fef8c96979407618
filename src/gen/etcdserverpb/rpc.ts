// Written by scripts/generate.ts from proto/etcdserverpb/rpc.proto. Do not edit.

import type { Codec } from '../../protobuf/codec.js';
import { NO_BYTES } from '../../runtime/bytes.js';
import { Permission, UserAddOptions } from '../authpb/auth.js';
import { Event, KeyValue } from '../mvccpb/kv.js';

export const AlarmType = {
  /** Any alarm, in requests. */
  NONE: 0,
  /** The database reached its quota: writes are refused. */
  NOSPACE: 1,
  /** Members disagree about the data. */
  CORRUPT: 2,
} as const;
export type AlarmType = (typeof AlarmType)[keyof typeof AlarmType];

/** Where an answer comes from. Every response carries one. */
export interface ResponseHeader {
  /** The cluster. A client that sees it change talks to a different store. */
  clusterId: bigint;
  /** The member that answered. */
  memberId: bigint;
  /**
   * Revision of the store when the request was applied. In watch responses it may be ahead of the events
   * delivered with it.
   */
  revision: bigint;
  /** Raft term of the member when it answered. It grows with every election. */
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

export const SortOrder = {
  /** As stored. */
  NONE: 0,
  /** Smallest first. */
  ASCEND: 1,
  /** Largest first. */
  DESCEND: 2,
} as const;
export type SortOrder = (typeof SortOrder)[keyof typeof SortOrder];

export const SortTarget = {
  /** By key, as bytes. */
  KEY: 0,
  /** By number of puts. */
  VERSION: 1,
  /** By create revision: oldest first is the order of a queue. */
  CREATE: 2,
  /** By revision of the last change. */
  MOD: 3,
  /** By value, as bytes. */
  VALUE: 4,
} as const;
export type SortTarget = (typeof SortTarget)[keyof typeof SortTarget];

/** Which keys to read, and how. */
export interface RangeRequest {
  /** The key, or the first key of the range. Must not be empty; "\0" is the smallest key. */
  key: Uint8Array;
  /**
   * Exclusive end. Empty: just the key. "\0": every key from `key` on. The key with its last byte raised by one:
   * every key with that prefix.
   */
  rangeEnd: Uint8Array;
  /** At most this many keys, 0 for no limit. Applied after sorting. */
  limit: bigint;
  /** Read the store as of this revision; 0 or less reads the newest. Fails once the revision is compacted. */
  revision: bigint;
  /** Order of the result. */
  sortOrder: SortOrder;
  /** What to sort by. Keys come in ascending order anyway; asking for that order costs a sort for nothing. */
  sortTarget: SortTarget;
  /**
   * Let the answering member read its own, perhaps stale, data without asking the cluster: cheaper, and possible
   * without a leader.
   */
  serializable: boolean;
  /** Leave values out. */
  keysOnly: boolean;
  /** Answer with the number of keys only. */
  countOnly: boolean;
  /** Leave out keys last changed before this revision. Filters come before `limit`. Since etcd 3.1. */
  minModRevision: bigint;
  /** Leave out keys last changed after this revision. Since etcd 3.1. */
  maxModRevision: bigint;
  /** Leave out keys created before this revision. Since etcd 3.1. */
  minCreateRevision: bigint;
  /** Leave out keys created after this revision. Since etcd 3.1. */
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

/** The keys found. */
export interface RangeResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** The keys, empty when only a count was asked for. */
  kvs: KeyValue[];
  /** More keys match than `limit` let through. */
  more: boolean;
  /** Number of keys in the range, whatever the limit and the revision filters. */
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

/** Which key to write, and what. */
export interface PutRequest {
  /** The key. Must not be empty. */
  key: Uint8Array;
  /** The value. */
  value: Uint8Array;
  /** Attach the key to this lease; 0 detaches it from the one it had. */
  lease: bigint;
  /** Answer with the key as it was before. Since etcd 3.1. */
  prevKv: boolean;
  /** Keep the value. The key must exist, `value` be empty. Since etcd 3.2. */
  ignoreValue: boolean;
  /** Keep the lease. The key must exist, `lease` be 0. Since etcd 3.2. */
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

/** The write is done. */
export interface PutResponse {
  /** Where the answer comes from; its revision is that of the write. */
  header: ResponseHeader | undefined;
  /** The key as it was before, if asked for and there was one. Since etcd 3.1. */
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

/** Which keys to delete. */
export interface DeleteRangeRequest {
  /** The key, or the first key of the range. Must not be empty. */
  key: Uint8Array;
  /** Exclusive end, by the same rules as RangeRequest.range_end. */
  rangeEnd: Uint8Array;
  /** Answer with the deleted keys. Since etcd 3.1. */
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

/** The deletion is done. */
export interface DeleteRangeResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** Number of keys deleted. */
  deleted: bigint;
  /** The deleted keys, if asked for. Since etcd 3.1. */
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

/** One operation of a transaction. */
export interface RequestOp {
  /** Exactly one is set. */
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

/** The answer to the operation at the same place in the list that ran. */
export interface ResponseOp {
  /** Of the same kind as the request. */
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

export const CompareResult = {
  /** Equal. */
  EQUAL: 0,
  /** The key's side is greater. */
  GREATER: 1,
  /** The key's side is less. */
  LESS: 2,
  /** Different. */
  NOT_EQUAL: 3,
} as const;
export type CompareResult = (typeof CompareResult)[keyof typeof CompareResult];

export const CompareTarget = {
  /** The number of puts. */
  VERSION: 0,
  /** The create revision. */
  CREATE: 1,
  /** The revision of the last change. */
  MOD: 2,
  /** The value. */
  VALUE: 3,
  /** The lease. */
  LEASE: 4,
} as const;
export type CompareTarget = (typeof CompareTarget)[keyof typeof CompareTarget];

/**
 * A condition on one key, or on every key of a range. A missing key has version, revisions and lease 0, and no
 * value: comparing its value is false.
 */
export interface Compare {
  /** How the key's side relates to the given one. */
  result: CompareResult;
  /** Which side of the key is compared. */
  target: CompareTarget;
  /** The key, or the first key of the range. */
  key: Uint8Array;
  /** What to compare with, of the kind that `target` names. */
  targetUnion:
    | { case: 'version'; value: bigint }
    | { case: 'createRevision'; value: bigint }
    | { case: 'modRevision'; value: bigint }
    | { case: 'value'; value: Uint8Array }
    | { case: 'lease'; value: bigint }
    | undefined;
  /**
   * Exclusive end: the condition must hold for every key of the range. An empty range counts as one missing key.
   * Since etcd 3.3.
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
 * If all comparisons hold run `success`, else `failure`. By default the longest of the three lists may have 128
 * entries, and a nested transaction what its parent's longest list leaves.
 */
export interface TxnRequest {
  /** The conditions, all of which must hold. None: always true. */
  compare: Compare[];
  /** What to do when they hold. */
  success: RequestOp[];
  /** What to do when one does not. */
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

/** What the transaction did. */
export interface TxnResponse {
  /** Where the answer comes from. The revision grows by one at most, however many keys were written. */
  header: ResponseHeader | undefined;
  /** Which list ran: true for `success`. */
  succeeded: boolean;
  /** One answer for each operation of that list, in order. */
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

/** Up to where to forget. */
export interface CompactionRequest {
  /** Oldest revision to keep. Reads and watches from there on still work. */
  revision: bigint;
  /** Answer only once the space is free in the database file, not merely marked. */
  physical: boolean;
}

export const CompactionRequest: Codec<CompactionRequest> = {
  typeName: 'etcdserverpb.CompactionRequest',
  create: () => ({ revision: 0n, physical: false }),
  write(writer, message) {
    writer.int64Field(8, message.revision);
    writer.boolField(16, message.physical);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.revision = reader.int64();
          break;
        case 16:
          message.physical = reader.bool();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The compaction is on record. */
export interface CompactionResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
}

export const CompactionResponse: Codec<CompactionResponse> = {
  typeName: 'etcdserverpb.CompactionResponse',
  create: () => ({ header: undefined }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Nothing to say. */
export type HashRequest = Record<never, never>;

export const HashRequest: Codec<HashRequest> = {
  typeName: 'etcdserverpb.HashRequest',
  create: () => ({}),
  write() {},
  read(reader) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      reader.skip(tag);
    }
  },
};

/** Up to where to hash. Since etcd 3.3. */
export interface HashKVRequest {
  /** Hash keys up to this revision; 0 for the newest. */
  revision: bigint;
}

export const HashKVRequest: Codec<HashKVRequest> = {
  typeName: 'etcdserverpb.HashKVRequest',
  create: () => ({ revision: 0n }),
  write(writer, message) {
    writer.int64Field(8, message.revision);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.revision = reader.int64();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The hash of a member's keys. Since etcd 3.3. */
export interface HashKVResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** CRC-32 of the keys from the compaction to the revision. */
  hash: number;
  /** The compaction the hash starts from; only hashes with the same one compare. */
  compactRevision: bigint;
  /** The revision the hash ends at. Since etcd 3.6. */
  hashRevision: bigint;
}

export const HashKVResponse: Codec<HashKVResponse> = {
  typeName: 'etcdserverpb.HashKVResponse',
  create: () => ({ header: undefined, hash: 0, compactRevision: 0n, hashRevision: 0n }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.uint32Field(16, message.hash);
    writer.int64Field(24, message.compactRevision);
    writer.int64Field(32, message.hashRevision);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 16:
          message.hash = reader.uint32();
          break;
        case 24:
          message.compactRevision = reader.int64();
          break;
        case 32:
          message.hashRevision = reader.int64();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The hash of a member's database. */
export interface HashResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** CRC-32 of the database. */
  hash: number;
}

export const HashResponse: Codec<HashResponse> = {
  typeName: 'etcdserverpb.HashResponse',
  create: () => ({ header: undefined, hash: 0 }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.uint32Field(16, message.hash);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 16:
          message.hash = reader.uint32();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Nothing to say. Since etcd 3.3. */
export type SnapshotRequest = Record<never, never>;

export const SnapshotRequest: Codec<SnapshotRequest> = {
  typeName: 'etcdserverpb.SnapshotRequest',
  create: () => ({}),
  write() {},
  read(reader) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      reader.skip(tag);
    }
  },
};

/** The next piece of the database. Since etcd 3.3. */
export interface SnapshotResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** How many bytes are still to come after this piece. */
  remainingBytes: bigint;
  /** The piece. The last 32 bytes of the stream are the SHA-256 of all before. */
  blob: Uint8Array;
  /** Version of etcd that wrote the database, as "major.minor.patch". Since etcd 3.6. */
  version: string;
}

export const SnapshotResponse: Codec<SnapshotResponse> = {
  typeName: 'etcdserverpb.SnapshotResponse',
  create: () => ({ header: undefined, remainingBytes: 0n, blob: NO_BYTES, version: '' }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.uint64Field(16, message.remainingBytes);
    writer.bytesField(26, message.blob);
    writer.stringField(34, message.version);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 16:
          message.remainingBytes = reader.uint64();
          break;
        case 26:
          message.blob = reader.bytes();
          break;
        case 34:
          message.version = reader.string();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** A control message on a watch stream. */
export interface WatchRequest {
  /** Exactly one is set. */
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

/** Since etcd 3.1. */
export const FilterType = {
  /** Leave out puts. */
  NOPUT: 0,
  /** Leave out deletions. */
  NODELETE: 1,
} as const;
export type FilterType = (typeof FilterType)[keyof typeof FilterType];

/** What to watch, from when, and how. */
export interface WatchCreateRequest {
  /** The key, or the first key of the range. */
  key: Uint8Array;
  /** Exclusive end, by the same rules as RangeRequest.range_end. */
  rangeEnd: Uint8Array;
  /**
   * First revision to deliver; 0 for whatever comes after the watch is created. At or below the current revision
   * the watch first catches up from history.
   */
  startRevision: bigint;
  /**
   * Send a response without events now and then (every 10 minutes by default), so that a quiet watch knows how
   * far it has got.
   */
  progressNotify: boolean;
  /** Kinds of events to leave out. Since etcd 3.1. */
  filters: FilterType[];
  /** Send each key's state before the event along. Since etcd 3.1. */
  prevKv: boolean;
  /** Name this watch on the stream; 0 lets the server choose. A name in use is refused. Since etcd 3.4. */
  watchId: bigint;
  /** Split responses larger than the server's request limit, even in the middle of a revision. Since etcd 3.4. */
  fragment: boolean;
}

export const WatchCreateRequest: Codec<WatchCreateRequest> = {
  typeName: 'etcdserverpb.WatchCreateRequest',
  create: () => ({
    key: NO_BYTES,
    rangeEnd: NO_BYTES,
    startRevision: 0n,
    progressNotify: false,
    filters: [],
    prevKv: false,
    watchId: 0n,
    fragment: false,
  }),
  write(writer, message) {
    writer.bytesField(10, message.key);
    writer.bytesField(18, message.rangeEnd);
    writer.int64Field(24, message.startRevision);
    writer.boolField(32, message.progressNotify);
    writer.packedField(42, message.filters, (element) => writer.int32(element));
    writer.boolField(48, message.prevKv);
    writer.int64Field(56, message.watchId);
    writer.boolField(64, message.fragment);
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
          message.startRevision = reader.int64();
          break;
        case 32:
          message.progressNotify = reader.bool();
          break;
        case 40:
          message.filters.push(reader.int32() as FilterType);
          break;
        case 42:
          reader.packed(message.filters, () => reader.int32() as FilterType);
          break;
        case 48:
          message.prevKv = reader.bool();
          break;
        case 56:
          message.watchId = reader.int64();
          break;
        case 64:
          message.fragment = reader.bool();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Which watch to stop. Since etcd 3.1. */
export interface WatchCancelRequest {
  /** The watch. Events already on their way may still arrive. */
  watchId: bigint;
}

export const WatchCancelRequest: Codec<WatchCancelRequest> = {
  typeName: 'etcdserverpb.WatchCancelRequest',
  create: () => ({ watchId: 0n }),
  write(writer, message) {
    writer.int64Field(8, message.watchId);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.watchId = reader.int64();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Nothing to say: it concerns every watch of the stream. The answer has watch_id -1. Since etcd 3.4. */
export type WatchProgressRequest = Record<never, never>;

export const WatchProgressRequest: Codec<WatchProgressRequest> = {
  typeName: 'etcdserverpb.WatchProgressRequest',
  create: () => ({}),
  write() {},
  read(reader) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      reader.skip(tag);
    }
  },
};

/** Events of one watch, or news about it. */
export interface WatchResponse {
  /** Its revision says how far the store is, not how far the events are, except when there are no events. */
  header: ResponseHeader | undefined;
  /** The watch concerned; -1 for the stream as a whole or a watch that could not be created. */
  watchId: bigint;
  /** This answers a create request. */
  created: boolean;
  /** The watch has ended, and nothing more will come for it. */
  canceled: boolean;
  /** Set when the watch ended because its next revision is compacted: the oldest one still there. */
  compactRevision: bigint;
  /** Why the server ended it, as text; often a printed gRPC error. Since etcd 3.4. */
  cancelReason: string;
  /** More of the same response follows. Since etcd 3.4. */
  fragment: boolean;
  /** The events in revision order. All of a revision come together, fragments aside. */
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

/** The lease wanted. */
export interface LeaseGrantRequest {
  /**
   * Seconds until it ends unless renewed. The server raises small ones to its minimum; 9,000,000,000 is the
   * most.
   */
  ttl: bigint;
  /** The lease's number; 0 lets the server choose. One's own makes a repeated request recognisable. */
  id: bigint;
}

export const LeaseGrantRequest: Codec<LeaseGrantRequest> = {
  typeName: 'etcdserverpb.LeaseGrantRequest',
  create: () => ({ ttl: 0n, id: 0n }),
  write(writer, message) {
    writer.int64Field(8, message.ttl);
    writer.int64Field(16, message.id);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.ttl = reader.int64();
          break;
        case 16:
          message.id = reader.int64();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The lease granted. */
export interface LeaseGrantResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** The lease. */
  id: bigint;
  /** Seconds granted. */
  ttl: bigint;
  /** Why not, on very old servers; errors are gRPC statuses now. */
  error: string;
}

export const LeaseGrantResponse: Codec<LeaseGrantResponse> = {
  typeName: 'etcdserverpb.LeaseGrantResponse',
  create: () => ({ header: undefined, id: 0n, ttl: 0n, error: '' }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.int64Field(16, message.id);
    writer.int64Field(24, message.ttl);
    writer.stringField(34, message.error);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 16:
          message.id = reader.int64();
          break;
        case 24:
          message.ttl = reader.int64();
          break;
        case 34:
          message.error = reader.string();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Which lease to end. */
export interface LeaseRevokeRequest {
  /** The lease. */
  id: bigint;
}

export const LeaseRevokeRequest: Codec<LeaseRevokeRequest> = {
  typeName: 'etcdserverpb.LeaseRevokeRequest',
  create: () => ({ id: 0n }),
  write(writer, message) {
    writer.int64Field(8, message.id);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.id = reader.int64();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The lease has ended and its keys are gone. */
export interface LeaseRevokeResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
}

export const LeaseRevokeResponse: Codec<LeaseRevokeResponse> = {
  typeName: 'etcdserverpb.LeaseRevokeResponse',
  create: () => ({ header: undefined }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/**
 * What remains of a lease, as the leader tells its followers so that a new leader does not start the lease
 * afresh. Since etcd 3.4.
 */
export interface LeaseCheckpoint {
  /** The lease. */
  id: bigint;
  /** Seconds that remain. */
  remainingTtl: bigint;
}

export const LeaseCheckpoint: Codec<LeaseCheckpoint> = {
  typeName: 'etcdserverpb.LeaseCheckpoint',
  create: () => ({ id: 0n, remainingTtl: 0n }),
  write(writer, message) {
    writer.int64Field(8, message.id);
    writer.int64Field(16, message.remainingTtl);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.id = reader.int64();
          break;
        case 16:
          message.remainingTtl = reader.int64();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Travels between members only; no service of this interface takes it. Since etcd 3.4. */
export interface LeaseCheckpointRequest {
  /** The leases concerned. */
  checkpoints: LeaseCheckpoint[];
}

export const LeaseCheckpointRequest: Codec<LeaseCheckpointRequest> = {
  typeName: 'etcdserverpb.LeaseCheckpointRequest',
  create: () => ({ checkpoints: [] }),
  write(writer, message) {
    writer.messageFields(10, LeaseCheckpoint, message.checkpoints);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.checkpoints.push(reader.message(LeaseCheckpoint));
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Travels between members only. Since etcd 3.4. */
export interface LeaseCheckpointResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
}

export const LeaseCheckpointResponse: Codec<LeaseCheckpointResponse> = {
  typeName: 'etcdserverpb.LeaseCheckpointResponse',
  create: () => ({ header: undefined }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Renew one lease. */
export interface LeaseKeepAliveRequest {
  /** The lease. */
  id: bigint;
}

export const LeaseKeepAliveRequest: Codec<LeaseKeepAliveRequest> = {
  typeName: 'etcdserverpb.LeaseKeepAliveRequest',
  create: () => ({ id: 0n }),
  write(writer, message) {
    writer.int64Field(8, message.id);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.id = reader.int64();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** One lease renewed, or found gone. */
export interface LeaseKeepAliveResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** The lease. */
  id: bigint;
  /** Seconds it lives from now on; 0 or less if there is no such lease. */
  ttl: bigint;
}

export const LeaseKeepAliveResponse: Codec<LeaseKeepAliveResponse> = {
  typeName: 'etcdserverpb.LeaseKeepAliveResponse',
  create: () => ({ header: undefined, id: 0n, ttl: 0n }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.int64Field(16, message.id);
    writer.int64Field(24, message.ttl);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 16:
          message.id = reader.int64();
          break;
        case 24:
          message.ttl = reader.int64();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Which lease to describe. Since etcd 3.1. */
export interface LeaseTimeToLiveRequest {
  /** The lease. */
  id: bigint;
  /** List the attached keys too. */
  keys: boolean;
}

export const LeaseTimeToLiveRequest: Codec<LeaseTimeToLiveRequest> = {
  typeName: 'etcdserverpb.LeaseTimeToLiveRequest',
  create: () => ({ id: 0n, keys: false }),
  write(writer, message) {
    writer.int64Field(8, message.id);
    writer.boolField(16, message.keys);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.id = reader.int64();
          break;
        case 16:
          message.keys = reader.bool();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The state of a lease. Since etcd 3.1. */
export interface LeaseTimeToLiveResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** The lease. */
  id: bigint;
  /** Seconds that remain; -1 if there is no such lease. */
  ttl: bigint;
  /** Seconds it was granted. */
  grantedTtl: bigint;
  /** The attached keys, if asked for. */
  keys: Uint8Array[];
}

export const LeaseTimeToLiveResponse: Codec<LeaseTimeToLiveResponse> = {
  typeName: 'etcdserverpb.LeaseTimeToLiveResponse',
  create: () => ({ header: undefined, id: 0n, ttl: 0n, grantedTtl: 0n, keys: [] }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.int64Field(16, message.id);
    writer.int64Field(24, message.ttl);
    writer.int64Field(32, message.grantedTtl);
    writer.bytesFields(42, message.keys);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 16:
          message.id = reader.int64();
          break;
        case 24:
          message.ttl = reader.int64();
          break;
        case 32:
          message.grantedTtl = reader.int64();
          break;
        case 42:
          message.keys.push(reader.bytes());
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Nothing to say. Since etcd 3.3. */
export type LeaseLeasesRequest = Record<never, never>;

export const LeaseLeasesRequest: Codec<LeaseLeasesRequest> = {
  typeName: 'etcdserverpb.LeaseLeasesRequest',
  create: () => ({}),
  write() {},
  read(reader) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      reader.skip(tag);
    }
  },
};

/** One lease of the list. Since etcd 3.3. */
export interface LeaseStatus {
  /** The lease. */
  id: bigint;
}

export const LeaseStatus: Codec<LeaseStatus> = {
  typeName: 'etcdserverpb.LeaseStatus',
  create: () => ({ id: 0n }),
  write(writer, message) {
    writer.int64Field(8, message.id);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.id = reader.int64();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The leases. Since etcd 3.3. */
export interface LeaseLeasesResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** One entry a lease. */
  leases: LeaseStatus[];
}

export const LeaseLeasesResponse: Codec<LeaseLeasesResponse> = {
  typeName: 'etcdserverpb.LeaseLeasesResponse',
  create: () => ({ header: undefined, leases: [] }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.messageFields(18, LeaseStatus, message.leases);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 18:
          message.leases.push(reader.message(LeaseStatus));
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** One member of the cluster. */
export interface Member {
  /** The member. Never 0. */
  id: bigint;
  /** Its name; empty until it has started once. */
  name: string;
  /** Where other members reach it. */
  peerUrls: string[];
  /** Where clients reach it; empty until it has started once. */
  clientUrls: string[];
  /** It follows without a vote. Since etcd 3.4. */
  isLearner: boolean;
}

export const Member: Codec<Member> = {
  typeName: 'etcdserverpb.Member',
  create: () => ({ id: 0n, name: '', peerUrls: [], clientUrls: [], isLearner: false }),
  write(writer, message) {
    writer.uint64Field(8, message.id);
    writer.stringField(18, message.name);
    writer.stringFields(26, message.peerUrls);
    writer.stringFields(34, message.clientUrls);
    writer.boolField(40, message.isLearner);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.id = reader.uint64();
          break;
        case 18:
          message.name = reader.string();
          break;
        case 26:
          message.peerUrls.push(reader.string());
          break;
        case 34:
          message.clientUrls.push(reader.string());
          break;
        case 40:
          message.isLearner = reader.bool();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The member to add. */
export interface MemberAddRequest {
  /** Where the others will reach it. */
  peerUrls: string[];
  /** Add it as a learner. Since etcd 3.4. */
  isLearner: boolean;
}

export const MemberAddRequest: Codec<MemberAddRequest> = {
  typeName: 'etcdserverpb.MemberAddRequest',
  create: () => ({ peerUrls: [], isLearner: false }),
  write(writer, message) {
    writer.stringFields(10, message.peerUrls);
    writer.boolField(16, message.isLearner);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.peerUrls.push(reader.string());
          break;
        case 16:
          message.isLearner = reader.bool();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The member is on record. */
export interface MemberAddResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** The one added. */
  member: Member | undefined;
  /** All of them now. */
  members: Member[];
}

export const MemberAddResponse: Codec<MemberAddResponse> = {
  typeName: 'etcdserverpb.MemberAddResponse',
  create: () => ({ header: undefined, member: undefined, members: [] }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.messageField(18, Member, message.member);
    writer.messageFields(26, Member, message.members);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 18:
          message.member = reader.message(Member, message.member);
          break;
        case 26:
          message.members.push(reader.message(Member));
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Which member to remove. */
export interface MemberRemoveRequest {
  /** The member. */
  id: bigint;
}

export const MemberRemoveRequest: Codec<MemberRemoveRequest> = {
  typeName: 'etcdserverpb.MemberRemoveRequest',
  create: () => ({ id: 0n }),
  write(writer, message) {
    writer.uint64Field(8, message.id);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.id = reader.uint64();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The member is off the record. */
export interface MemberRemoveResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** Those that remain. */
  members: Member[];
}

export const MemberRemoveResponse: Codec<MemberRemoveResponse> = {
  typeName: 'etcdserverpb.MemberRemoveResponse',
  create: () => ({ header: undefined, members: [] }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.messageFields(18, Member, message.members);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 18:
          message.members.push(reader.message(Member));
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The new addresses of a member. */
export interface MemberUpdateRequest {
  /** The member. */
  id: bigint;
  /** All of its peer addresses from now on. */
  peerUrls: string[];
}

export const MemberUpdateRequest: Codec<MemberUpdateRequest> = {
  typeName: 'etcdserverpb.MemberUpdateRequest',
  create: () => ({ id: 0n, peerUrls: [] }),
  write(writer, message) {
    writer.uint64Field(8, message.id);
    writer.stringFields(18, message.peerUrls);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.id = reader.uint64();
          break;
        case 18:
          message.peerUrls.push(reader.string());
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The addresses are on record. */
export interface MemberUpdateResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** All members now. Since etcd 3.1. */
  members: Member[];
}

export const MemberUpdateResponse: Codec<MemberUpdateResponse> = {
  typeName: 'etcdserverpb.MemberUpdateResponse',
  create: () => ({ header: undefined, members: [] }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.messageFields(18, Member, message.members);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 18:
          message.members.push(reader.message(Member));
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** How to read the list. */
export interface MemberListRequest {
  /** Ask the cluster rather than the answering member alone. Since etcd 3.5. */
  linearizable: boolean;
}

export const MemberListRequest: Codec<MemberListRequest> = {
  typeName: 'etcdserverpb.MemberListRequest',
  create: () => ({ linearizable: false }),
  write(writer, message) {
    writer.boolField(8, message.linearizable);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.linearizable = reader.bool();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The members. */
export interface MemberListResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** One entry a member. */
  members: Member[];
}

export const MemberListResponse: Codec<MemberListResponse> = {
  typeName: 'etcdserverpb.MemberListResponse',
  create: () => ({ header: undefined, members: [] }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.messageFields(18, Member, message.members);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 18:
          message.members.push(reader.message(Member));
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Which learner to promote. Since etcd 3.4. */
export interface MemberPromoteRequest {
  /** The learner. */
  id: bigint;
}

export const MemberPromoteRequest: Codec<MemberPromoteRequest> = {
  typeName: 'etcdserverpb.MemberPromoteRequest',
  create: () => ({ id: 0n }),
  write(writer, message) {
    writer.uint64Field(8, message.id);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.id = reader.uint64();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The learner votes now. Since etcd 3.4. */
export interface MemberPromoteResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** All members now. */
  members: Member[];
}

export const MemberPromoteResponse: Codec<MemberPromoteResponse> = {
  typeName: 'etcdserverpb.MemberPromoteResponse',
  create: () => ({ header: undefined, members: [] }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.messageFields(18, Member, message.members);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 18:
          message.members.push(reader.message(Member));
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Nothing to say. */
export type DefragmentRequest = Record<never, never>;

export const DefragmentRequest: Codec<DefragmentRequest> = {
  typeName: 'etcdserverpb.DefragmentRequest',
  create: () => ({}),
  write() {},
  read(reader) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      reader.skip(tag);
    }
  },
};

/** The file is compact. */
export interface DefragmentResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
}

export const DefragmentResponse: Codec<DefragmentResponse> = {
  typeName: 'etcdserverpb.DefragmentResponse',
  create: () => ({ header: undefined }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Who shall lead. Since etcd 3.3. */
export interface MoveLeaderRequest {
  /** The member to hand leadership to. */
  targetId: bigint;
}

export const MoveLeaderRequest: Codec<MoveLeaderRequest> = {
  typeName: 'etcdserverpb.MoveLeaderRequest',
  create: () => ({ targetId: 0n }),
  write(writer, message) {
    writer.uint64Field(8, message.targetId);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.targetId = reader.uint64();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The member leads now. Since etcd 3.3. */
export interface MoveLeaderResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
}

export const MoveLeaderResponse: Codec<MoveLeaderResponse> = {
  typeName: 'etcdserverpb.MoveLeaderResponse',
  create: () => ({ header: undefined }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

export const AlarmAction = {
  /** List alarms. */
  GET: 0,
  /** Raise one. */
  ACTIVATE: 1,
  /** Clear one. */
  DEACTIVATE: 2,
} as const;
export type AlarmAction = (typeof AlarmAction)[keyof typeof AlarmAction];

/** What to do with which alarm. */
export interface AlarmRequest {
  /** What to do. */
  action: AlarmAction;
  /** The member whose alarm it is; 0 for all. */
  memberId: bigint;
  /** Which kind. */
  alarm: AlarmType;
}

export const AlarmRequest: Codec<AlarmRequest> = {
  typeName: 'etcdserverpb.AlarmRequest',
  create: () => ({ action: 0, memberId: 0n, alarm: 0 }),
  write(writer, message) {
    writer.int32Field(8, message.action);
    writer.uint64Field(16, message.memberId);
    writer.int32Field(24, message.alarm);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.action = reader.int32() as AlarmAction;
          break;
        case 16:
          message.memberId = reader.uint64();
          break;
        case 24:
          message.alarm = reader.int32() as AlarmType;
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** One alarm raised. */
export interface AlarmMember {
  /** The member it concerns. */
  memberId: bigint;
  /** Its kind. */
  alarm: AlarmType;
}

export const AlarmMember: Codec<AlarmMember> = {
  typeName: 'etcdserverpb.AlarmMember',
  create: () => ({ memberId: 0n, alarm: 0 }),
  write(writer, message) {
    writer.uint64Field(8, message.memberId);
    writer.int32Field(16, message.alarm);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.memberId = reader.uint64();
          break;
        case 16:
          message.alarm = reader.int32() as AlarmType;
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The alarms. */
export interface AlarmResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** Those listed, raised or cleared. */
  alarms: AlarmMember[];
}

export const AlarmResponse: Codec<AlarmResponse> = {
  typeName: 'etcdserverpb.AlarmResponse',
  create: () => ({ header: undefined, alarms: [] }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.messageFields(18, AlarmMember, message.alarms);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 18:
          message.alarms.push(reader.message(AlarmMember));
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Since etcd 3.5. */
export const DowngradeAction = {
  /** Check that the cluster could. */
  VALIDATE: 0,
  /** Start. */
  ENABLE: 1,
  /** Stay as it is after all. */
  CANCEL: 2,
} as const;
export type DowngradeAction = (typeof DowngradeAction)[keyof typeof DowngradeAction];

/** What to do about a downgrade. Since etcd 3.5. */
export interface DowngradeRequest {
  /** What to do. */
  action: DowngradeAction;
  /** The version to go down to, as "major.minor". */
  version: string;
}

export const DowngradeRequest: Codec<DowngradeRequest> = {
  typeName: 'etcdserverpb.DowngradeRequest',
  create: () => ({ action: 0, version: '' }),
  write(writer, message) {
    writer.int32Field(8, message.action);
    writer.stringField(18, message.version);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.action = reader.int32() as DowngradeAction;
          break;
        case 18:
          message.version = reader.string();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The downgrade is checked, on record, or off it. Since etcd 3.5. */
export interface DowngradeResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** The cluster's version now. */
  version: string;
}

export const DowngradeResponse: Codec<DowngradeResponse> = {
  typeName: 'etcdserverpb.DowngradeResponse',
  create: () => ({ header: undefined, version: '' }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.stringField(18, message.version);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 18:
          message.version = reader.string();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Used by etcd's own tests; no service of this interface takes it. Since etcd 3.6. */
export interface DowngradeVersionTestRequest {
  /** A version. */
  ver: string;
}

export const DowngradeVersionTestRequest: Codec<DowngradeVersionTestRequest> = {
  typeName: 'etcdserverpb.DowngradeVersionTestRequest',
  create: () => ({ ver: '' }),
  write(writer, message) {
    writer.stringField(10, message.ver);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.ver = reader.string();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Nothing to say. */
export type StatusRequest = Record<never, never>;

export const StatusRequest: Codec<StatusRequest> = {
  typeName: 'etcdserverpb.StatusRequest',
  create: () => ({}),
  write() {},
  read(reader) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      reader.skip(tag);
    }
  },
};

/** The state of one member. */
export interface StatusResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** Its etcd version. */
  version: string;
  /** Bytes of its database file. */
  dbSize: bigint;
  /** The member it takes for leader; 0 for none. */
  leader: bigint;
  /** Last raft entry committed. */
  raftIndex: bigint;
  /** Its raft term. */
  raftTerm: bigint;
  /** Last raft entry applied. Since etcd 3.4. */
  raftAppliedIndex: bigint;
  /** Alarms and other troubles, as text. Since etcd 3.4. */
  errors: string[];
  /** Bytes of its database in use; the rest is free pages. Since etcd 3.4. */
  dbSizeInUse: bigint;
  /** It is a learner. Since etcd 3.4. */
  isLearner: boolean;
  /** Version of the database's layout, as "major.minor.0". Since etcd 3.6. */
  storageVersion: string;
  /** Bytes at which the NOSPACE alarm is raised. Since etcd 3.6. */
  dbSizeQuota: bigint;
  /** The downgrade under way. Since etcd 3.6. */
  downgradeInfo: DowngradeInfo | undefined;
}

export const StatusResponse: Codec<StatusResponse> = {
  typeName: 'etcdserverpb.StatusResponse',
  create: () => ({
    header: undefined,
    version: '',
    dbSize: 0n,
    leader: 0n,
    raftIndex: 0n,
    raftTerm: 0n,
    raftAppliedIndex: 0n,
    errors: [],
    dbSizeInUse: 0n,
    isLearner: false,
    storageVersion: '',
    dbSizeQuota: 0n,
    downgradeInfo: undefined,
  }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.stringField(18, message.version);
    writer.int64Field(24, message.dbSize);
    writer.uint64Field(32, message.leader);
    writer.uint64Field(40, message.raftIndex);
    writer.uint64Field(48, message.raftTerm);
    writer.uint64Field(56, message.raftAppliedIndex);
    writer.stringFields(66, message.errors);
    writer.int64Field(72, message.dbSizeInUse);
    writer.boolField(80, message.isLearner);
    writer.stringField(90, message.storageVersion);
    writer.int64Field(96, message.dbSizeQuota);
    writer.messageField(106, DowngradeInfo, message.downgradeInfo);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 18:
          message.version = reader.string();
          break;
        case 24:
          message.dbSize = reader.int64();
          break;
        case 32:
          message.leader = reader.uint64();
          break;
        case 40:
          message.raftIndex = reader.uint64();
          break;
        case 48:
          message.raftTerm = reader.uint64();
          break;
        case 56:
          message.raftAppliedIndex = reader.uint64();
          break;
        case 66:
          message.errors.push(reader.string());
          break;
        case 72:
          message.dbSizeInUse = reader.int64();
          break;
        case 80:
          message.isLearner = reader.bool();
          break;
        case 90:
          message.storageVersion = reader.string();
          break;
        case 96:
          message.dbSizeQuota = reader.int64();
          break;
        case 106:
          message.downgradeInfo = reader.message(DowngradeInfo, message.downgradeInfo);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** A downgrade under way. */
export interface DowngradeInfo {
  /** There is one. */
  enabled: boolean;
  /** The version it goes to. */
  targetVersion: string;
}

export const DowngradeInfo: Codec<DowngradeInfo> = {
  typeName: 'etcdserverpb.DowngradeInfo',
  create: () => ({ enabled: false, targetVersion: '' }),
  write(writer, message) {
    writer.boolField(8, message.enabled);
    writer.stringField(18, message.targetVersion);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.enabled = reader.bool();
          break;
        case 18:
          message.targetVersion = reader.string();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Nothing to say. */
export type AuthEnableRequest = Record<never, never>;

export const AuthEnableRequest: Codec<AuthEnableRequest> = {
  typeName: 'etcdserverpb.AuthEnableRequest',
  create: () => ({}),
  write() {},
  read(reader) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      reader.skip(tag);
    }
  },
};

/** Nothing to say. */
export type AuthDisableRequest = Record<never, never>;

export const AuthDisableRequest: Codec<AuthDisableRequest> = {
  typeName: 'etcdserverpb.AuthDisableRequest',
  create: () => ({}),
  write() {},
  read(reader) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      reader.skip(tag);
    }
  },
};

/** Nothing to say. Since etcd 3.5. */
export type AuthStatusRequest = Record<never, never>;

export const AuthStatusRequest: Codec<AuthStatusRequest> = {
  typeName: 'etcdserverpb.AuthStatusRequest',
  create: () => ({}),
  write() {},
  read(reader) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      reader.skip(tag);
    }
  },
};

/** Who asks for a token. */
export interface AuthenticateRequest {
  /** The user. */
  name: string;
  /** The password, in the clear: use TLS. */
  password: string;
}

export const AuthenticateRequest: Codec<AuthenticateRequest> = {
  typeName: 'etcdserverpb.AuthenticateRequest',
  create: () => ({ name: '', password: '' }),
  write(writer, message) {
    writer.stringField(10, message.name);
    writer.stringField(18, message.password);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.name = reader.string();
          break;
        case 18:
          message.password = reader.string();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The user to add. */
export interface AuthUserAddRequest {
  /** The name. */
  name: string;
  /** The password, in the clear. */
  password: string;
  /** How the user will log in. Since etcd 3.4. */
  options: UserAddOptions | undefined;
  /** Of the server's own making, for the other members: what a client puts here is overwritten. Since etcd 3.5. */
  hashedPassword: string;
}

export const AuthUserAddRequest: Codec<AuthUserAddRequest> = {
  typeName: 'etcdserverpb.AuthUserAddRequest',
  create: () => ({ name: '', password: '', options: undefined, hashedPassword: '' }),
  write(writer, message) {
    writer.stringField(10, message.name);
    writer.stringField(18, message.password);
    writer.messageField(26, UserAddOptions, message.options);
    writer.stringField(34, message.hashedPassword);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.name = reader.string();
          break;
        case 18:
          message.password = reader.string();
          break;
        case 26:
          message.options = reader.message(UserAddOptions, message.options);
          break;
        case 34:
          message.hashedPassword = reader.string();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Which user to describe. */
export interface AuthUserGetRequest {
  /** The user. */
  name: string;
}

export const AuthUserGetRequest: Codec<AuthUserGetRequest> = {
  typeName: 'etcdserverpb.AuthUserGetRequest',
  create: () => ({ name: '' }),
  write(writer, message) {
    writer.stringField(10, message.name);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.name = reader.string();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Which user to delete. */
export interface AuthUserDeleteRequest {
  /** The user. */
  name: string;
}

export const AuthUserDeleteRequest: Codec<AuthUserDeleteRequest> = {
  typeName: 'etcdserverpb.AuthUserDeleteRequest',
  create: () => ({ name: '' }),
  write(writer, message) {
    writer.stringField(10, message.name);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.name = reader.string();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The new password of a user. */
export interface AuthUserChangePasswordRequest {
  /** The user. */
  name: string;
  /** The password, in the clear. */
  password: string;
  /** bcrypt hash of the password, base64, where `password` is empty. Older servers take the empty one. Since etcd 3.5. */
  hashedPassword: string;
}

export const AuthUserChangePasswordRequest: Codec<AuthUserChangePasswordRequest> = {
  typeName: 'etcdserverpb.AuthUserChangePasswordRequest',
  create: () => ({ name: '', password: '', hashedPassword: '' }),
  write(writer, message) {
    writer.stringField(10, message.name);
    writer.stringField(18, message.password);
    writer.stringField(26, message.hashedPassword);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.name = reader.string();
          break;
        case 18:
          message.password = reader.string();
          break;
        case 26:
          message.hashedPassword = reader.string();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Which role to give to whom. */
export interface AuthUserGrantRoleRequest {
  /** The user. */
  user: string;
  /** The role. */
  role: string;
}

export const AuthUserGrantRoleRequest: Codec<AuthUserGrantRoleRequest> = {
  typeName: 'etcdserverpb.AuthUserGrantRoleRequest',
  create: () => ({ user: '', role: '' }),
  write(writer, message) {
    writer.stringField(10, message.user);
    writer.stringField(18, message.role);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.user = reader.string();
          break;
        case 18:
          message.role = reader.string();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Which role to take from whom. */
export interface AuthUserRevokeRoleRequest {
  /** The user. */
  name: string;
  /** The role. */
  role: string;
}

export const AuthUserRevokeRoleRequest: Codec<AuthUserRevokeRoleRequest> = {
  typeName: 'etcdserverpb.AuthUserRevokeRoleRequest',
  create: () => ({ name: '', role: '' }),
  write(writer, message) {
    writer.stringField(10, message.name);
    writer.stringField(18, message.role);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.name = reader.string();
          break;
        case 18:
          message.role = reader.string();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The role to add. */
export interface AuthRoleAddRequest {
  /** The name. */
  name: string;
}

export const AuthRoleAddRequest: Codec<AuthRoleAddRequest> = {
  typeName: 'etcdserverpb.AuthRoleAddRequest',
  create: () => ({ name: '' }),
  write(writer, message) {
    writer.stringField(10, message.name);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.name = reader.string();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Which role to describe. */
export interface AuthRoleGetRequest {
  /** The role. */
  role: string;
}

export const AuthRoleGetRequest: Codec<AuthRoleGetRequest> = {
  typeName: 'etcdserverpb.AuthRoleGetRequest',
  create: () => ({ role: '' }),
  write(writer, message) {
    writer.stringField(10, message.role);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.role = reader.string();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Nothing to say. */
export type AuthUserListRequest = Record<never, never>;

export const AuthUserListRequest: Codec<AuthUserListRequest> = {
  typeName: 'etcdserverpb.AuthUserListRequest',
  create: () => ({}),
  write() {},
  read(reader) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      reader.skip(tag);
    }
  },
};

/** Nothing to say. */
export type AuthRoleListRequest = Record<never, never>;

export const AuthRoleListRequest: Codec<AuthRoleListRequest> = {
  typeName: 'etcdserverpb.AuthRoleListRequest',
  create: () => ({}),
  write() {},
  read(reader) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      reader.skip(tag);
    }
  },
};

/** Which role to delete. */
export interface AuthRoleDeleteRequest {
  /** The role. */
  role: string;
}

export const AuthRoleDeleteRequest: Codec<AuthRoleDeleteRequest> = {
  typeName: 'etcdserverpb.AuthRoleDeleteRequest',
  create: () => ({ role: '' }),
  write(writer, message) {
    writer.stringField(10, message.role);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.role = reader.string();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Which permission to give to which role. */
export interface AuthRoleGrantPermissionRequest {
  /** The role. */
  name: string;
  /** The permission. */
  perm: Permission | undefined;
}

export const AuthRoleGrantPermissionRequest: Codec<AuthRoleGrantPermissionRequest> = {
  typeName: 'etcdserverpb.AuthRoleGrantPermissionRequest',
  create: () => ({ name: '', perm: undefined }),
  write(writer, message) {
    writer.stringField(10, message.name);
    writer.messageField(18, Permission, message.perm);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.name = reader.string();
          break;
        case 18:
          message.perm = reader.message(Permission, message.perm);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Which permission to take from which role. */
export interface AuthRoleRevokePermissionRequest {
  /** The role. */
  role: string;
  /** First key of the granted range. */
  key: Uint8Array;
  /** End of the granted range. */
  rangeEnd: Uint8Array;
}

export const AuthRoleRevokePermissionRequest: Codec<AuthRoleRevokePermissionRequest> = {
  typeName: 'etcdserverpb.AuthRoleRevokePermissionRequest',
  create: () => ({ role: '', key: NO_BYTES, rangeEnd: NO_BYTES }),
  write(writer, message) {
    writer.stringField(10, message.role);
    writer.bytesField(18, message.key);
    writer.bytesField(26, message.rangeEnd);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.role = reader.string();
          break;
        case 18:
          message.key = reader.bytes();
          break;
        case 26:
          message.rangeEnd = reader.bytes();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Authentication is on. */
export interface AuthEnableResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
}

export const AuthEnableResponse: Codec<AuthEnableResponse> = {
  typeName: 'etcdserverpb.AuthEnableResponse',
  create: () => ({ header: undefined }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Authentication is off. */
export interface AuthDisableResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
}

export const AuthDisableResponse: Codec<AuthDisableResponse> = {
  typeName: 'etcdserverpb.AuthDisableResponse',
  create: () => ({ header: undefined }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Whether authentication is on. Since etcd 3.5. */
export interface AuthStatusResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** It is on. */
  enabled: boolean;
  /** Revision of users and roles; a token made before the last change of it is refused. */
  authRevision: bigint;
}

export const AuthStatusResponse: Codec<AuthStatusResponse> = {
  typeName: 'etcdserverpb.AuthStatusResponse',
  create: () => ({ header: undefined, enabled: false, authRevision: 0n }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.boolField(16, message.enabled);
    writer.uint64Field(24, message.authRevision);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 16:
          message.enabled = reader.bool();
          break;
        case 24:
          message.authRevision = reader.uint64();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The token. */
export interface AuthenticateResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** Goes as metadata "token" with later calls. Expires after 5 minutes without use by default. */
  token: string;
}

export const AuthenticateResponse: Codec<AuthenticateResponse> = {
  typeName: 'etcdserverpb.AuthenticateResponse',
  create: () => ({ header: undefined, token: '' }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.stringField(18, message.token);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 18:
          message.token = reader.string();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The user exists. */
export interface AuthUserAddResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
}

export const AuthUserAddResponse: Codec<AuthUserAddResponse> = {
  typeName: 'etcdserverpb.AuthUserAddResponse',
  create: () => ({ header: undefined }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** A user's roles. */
export interface AuthUserGetResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** Their names. */
  roles: string[];
}

export const AuthUserGetResponse: Codec<AuthUserGetResponse> = {
  typeName: 'etcdserverpb.AuthUserGetResponse',
  create: () => ({ header: undefined, roles: [] }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.stringFields(18, message.roles);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 18:
          message.roles.push(reader.string());
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The user is gone. */
export interface AuthUserDeleteResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
}

export const AuthUserDeleteResponse: Codec<AuthUserDeleteResponse> = {
  typeName: 'etcdserverpb.AuthUserDeleteResponse',
  create: () => ({ header: undefined }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The password is set. Tokens of the user are void. */
export interface AuthUserChangePasswordResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
}

export const AuthUserChangePasswordResponse: Codec<AuthUserChangePasswordResponse> = {
  typeName: 'etcdserverpb.AuthUserChangePasswordResponse',
  create: () => ({ header: undefined }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The user has the role. */
export interface AuthUserGrantRoleResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
}

export const AuthUserGrantRoleResponse: Codec<AuthUserGrantRoleResponse> = {
  typeName: 'etcdserverpb.AuthUserGrantRoleResponse',
  create: () => ({ header: undefined }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The user has lost the role. */
export interface AuthUserRevokeRoleResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
}

export const AuthUserRevokeRoleResponse: Codec<AuthUserRevokeRoleResponse> = {
  typeName: 'etcdserverpb.AuthUserRevokeRoleResponse',
  create: () => ({ header: undefined }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The role exists. */
export interface AuthRoleAddResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
}

export const AuthRoleAddResponse: Codec<AuthRoleAddResponse> = {
  typeName: 'etcdserverpb.AuthRoleAddResponse',
  create: () => ({ header: undefined }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** A role's permissions. */
export interface AuthRoleGetResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** The permissions. */
  perm: Permission[];
}

export const AuthRoleGetResponse: Codec<AuthRoleGetResponse> = {
  typeName: 'etcdserverpb.AuthRoleGetResponse',
  create: () => ({ header: undefined, perm: [] }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.messageFields(18, Permission, message.perm);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 18:
          message.perm.push(reader.message(Permission));
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The roles. */
export interface AuthRoleListResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** Their names. */
  roles: string[];
}

export const AuthRoleListResponse: Codec<AuthRoleListResponse> = {
  typeName: 'etcdserverpb.AuthRoleListResponse',
  create: () => ({ header: undefined, roles: [] }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.stringFields(18, message.roles);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 18:
          message.roles.push(reader.string());
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The users. */
export interface AuthUserListResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
  /** Their names. */
  users: string[];
}

export const AuthUserListResponse: Codec<AuthUserListResponse> = {
  typeName: 'etcdserverpb.AuthUserListResponse',
  create: () => ({ header: undefined, users: [] }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.stringFields(18, message.users);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 18:
          message.users.push(reader.string());
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The role is gone. */
export interface AuthRoleDeleteResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
}

export const AuthRoleDeleteResponse: Codec<AuthRoleDeleteResponse> = {
  typeName: 'etcdserverpb.AuthRoleDeleteResponse',
  create: () => ({ header: undefined }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The role has the permission. */
export interface AuthRoleGrantPermissionResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
}

export const AuthRoleGrantPermissionResponse: Codec<AuthRoleGrantPermissionResponse> = {
  typeName: 'etcdserverpb.AuthRoleGrantPermissionResponse',
  create: () => ({ header: undefined }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The role has lost the permission. */
export interface AuthRoleRevokePermissionResponse {
  /** Where the answer comes from. */
  header: ResponseHeader | undefined;
}

export const AuthRoleRevokePermissionResponse: Codec<AuthRoleRevokePermissionResponse> = {
  typeName: 'etcdserverpb.AuthRoleRevokePermissionResponse',
  create: () => ({ header: undefined }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** The next chunk of a range. Since etcd 3.7. */
export interface RangeStreamResponse {
  /**
   * The keys of the chunk. The header, `more` and `count` are those of the whole range and come with the last
   * chunk.
   */
  rangeResponse: RangeResponse | undefined;
}

export const RangeStreamResponse: Codec<RangeStreamResponse> = {
  typeName: 'etcdserverpb.RangeStreamResponse',
  create: () => ({ rangeResponse: undefined }),
  write(writer, message) {
    writer.messageField(10, RangeResponse, message.rangeResponse);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.rangeResponse = reader.message(RangeResponse, message.rangeResponse);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};
