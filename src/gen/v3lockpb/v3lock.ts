// Written by scripts/generate.ts from proto/v3lockpb/v3lock.proto. Do not edit.

import type { Codec } from '../../protobuf/codec.js';
import { NO_BYTES } from '../../runtime/bytes.js';
import { ResponseHeader } from '../etcdserverpb/rpc.js';

/** Request for Lock. */
export interface LockRequest {
  /** Name of the lock. The key consists of this name, "/", and the ID of the lease in lowercase hexadecimal. */
  name: Uint8Array;
  /** ID of the lease that holds the lock. When the lease expires or is revoked, the lock is released. */
  lease: bigint;
}

export const LockRequest: Codec<LockRequest> = {
  typeName: 'v3lockpb.LockRequest',
  create: () => ({ name: NO_BYTES, lease: 0n }),
  write(writer, message) {
    writer.bytesField(10, message.name);
    writer.int64Field(16, message.lease);
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
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Response to Lock. The caller holds the lock. */
export interface LockResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** The key of the holder. The caller holds the lock as long as this key exists. */
  key: Uint8Array;
}

export const LockResponse: Codec<LockResponse> = {
  typeName: 'v3lockpb.LockResponse',
  create: () => ({ header: undefined, key: NO_BYTES }),
  write(writer, message) {
    writer.messageField(10, ResponseHeader, message.header);
    writer.bytesField(18, message.key);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.header = reader.message(ResponseHeader, message.header);
          break;
        case 18:
          message.key = reader.bytes();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Request for Unlock. */
export interface UnlockRequest {
  /** The key that Lock returned. */
  key: Uint8Array;
}

export const UnlockRequest: Codec<UnlockRequest> = {
  typeName: 'v3lockpb.UnlockRequest',
  create: () => ({ key: NO_BYTES }),
  write(writer, message) {
    writer.bytesField(10, message.key);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.key = reader.bytes();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** Response to Unlock. The caller no longer holds the lock. */
export interface UnlockResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const UnlockResponse: Codec<UnlockResponse> = {
  typeName: 'v3lockpb.UnlockResponse',
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
