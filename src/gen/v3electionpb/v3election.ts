// Written by scripts/generate.ts from proto/v3electionpb/v3election.proto. Do not edit.

import type { Codec } from '../../protobuf/codec.js';
import { NO_BYTES } from '../../runtime/bytes.js';
import { ResponseHeader } from '../etcdserverpb/rpc.js';
import { KeyValue } from '../mvccpb/kv.js';

/** Request for Campaign. */
export interface CampaignRequest {
  /** Name of the election. */
  name: Uint8Array;
  /** ID of the lease that holds the leadership. When the lease expires or is revoked, the leadership ends. */
  lease: bigint;
  /** Value that the caller proclaims when it is elected. */
  value: Uint8Array;
}

export const CampaignRequest: Codec<CampaignRequest> = {
  typeName: 'v3electionpb.CampaignRequest',
  create: () => ({ name: NO_BYTES, lease: 0n, value: NO_BYTES }),
  write(writer, message) {
    writer.bytesField(10, message.name);
    writer.int64Field(16, message.lease);
    writer.bytesField(26, message.value);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.name = reader.bytes();
          break;
        case 16:
          message.lease = reader.int64();
          break;
        case 26:
          message.value = reader.bytes();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Response to Campaign. The caller is the leader. */
export interface CampaignResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** Identifies this leadership in later calls. */
  leader: LeaderKey | undefined;
}

export const CampaignResponse: Codec<CampaignResponse> = {
  typeName: 'v3electionpb.CampaignResponse',
  create: () => ({ header: undefined, leader: undefined }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.messageField(18, LeaderKey, message.leader);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 18:
          message.leader = reader.message(LeaderKey, message.leader);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Identifies the leadership that one campaign won. */
export interface LeaderKey {
  /** Name of the election. */
  name: Uint8Array;
  /** The key of the leader. The leadership lasts as long as this key exists. */
  key: Uint8Array;
  /** Create revision of the key. A transaction that compares it prevents writes by former leaders. */
  rev: bigint;
  /** ID of the lease that holds the leadership. */
  lease: bigint;
}

export const LeaderKey: Codec<LeaderKey> = {
  typeName: 'v3electionpb.LeaderKey',
  create: () => ({ name: NO_BYTES, key: NO_BYTES, rev: 0n, lease: 0n }),
  write(writer, message) {
    writer.bytesField(10, message.name);
    writer.bytesField(18, message.key);
    writer.int64Field(24, message.rev);
    writer.int64Field(32, message.lease);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.name = reader.bytes();
          break;
        case 18:
          message.key = reader.bytes();
          break;
        case 24:
          message.rev = reader.int64();
          break;
        case 32:
          message.lease = reader.int64();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Request for Leader and Observe. */
export interface LeaderRequest {
  /** Name of the election. */
  name: Uint8Array;
}

export const LeaderRequest: Codec<LeaderRequest> = {
  typeName: 'v3electionpb.LeaderRequest',
  create: () => ({ name: NO_BYTES }),
  write(writer, message) {
    writer.bytesField(10, message.name);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.name = reader.bytes();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Response to Leader and Observe. */
export interface LeaderResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** The key of the leader. Its value is the proclaimed value. */
  kv: KeyValue | undefined;
}

export const LeaderResponse: Codec<LeaderResponse> = {
  typeName: 'v3electionpb.LeaderResponse',
  create: () => ({ header: undefined, kv: undefined }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.messageField(18, KeyValue, message.kv);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 18:
          message.kv = reader.message(KeyValue, message.kv);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Request for Resign. */
export interface ResignRequest {
  /** The leader key that Campaign returned. */
  leader: LeaderKey | undefined;
}

export const ResignRequest: Codec<ResignRequest> = {
  typeName: 'v3electionpb.ResignRequest',
  create: () => ({ leader: undefined }),
  write(writer, message) {
    writer.messageField(10, LeaderKey, message.leader);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.leader = reader.message(LeaderKey, message.leader);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Response to Resign. The leadership has ended. */
export interface ResignResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const ResignResponse: Codec<ResignResponse> = {
  typeName: 'v3electionpb.ResignResponse',
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

/** Request for Proclaim. */
export interface ProclaimRequest {
  /** The leader key that Campaign returned. */
  leader: LeaderKey | undefined;
  /** The new value. */
  value: Uint8Array;
}

export const ProclaimRequest: Codec<ProclaimRequest> = {
  typeName: 'v3electionpb.ProclaimRequest',
  create: () => ({ leader: undefined, value: NO_BYTES }),
  write(writer, message) {
    writer.messageField(10, LeaderKey, message.leader);
    writer.bytesField(18, message.value);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.leader = reader.message(LeaderKey, message.leader);
          break;
        case 18:
          message.value = reader.bytes();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Response to Proclaim. The new value is now the proclaimed value. */
export interface ProclaimResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const ProclaimResponse: Codec<ProclaimResponse> = {
  typeName: 'v3electionpb.ProclaimResponse',
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
