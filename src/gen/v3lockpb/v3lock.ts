// Written by scripts/generate.ts from proto/v3lockpb/v3lock.proto. Do not edit.

import { type Codec, tableCodec } from '../../wire/index.js';
import { ResponseHeader } from '../etcdserverpb/rpc.js';

/** Request for Lock. */
export interface LockRequest {
  /** Name of the lock. The key consists of this name, "/", and the ID of the lease in lowercase hexadecimal. */
  name: Uint8Array;
  /** ID of the lease that holds the lock. When the lease expires or is revoked, the lock is released. */
  lease: bigint;
}

export const LockRequest: Codec<LockRequest> = /* @__PURE__ */ tableCodec('v3lockpb.LockRequest', 'y1name i2lease');

/** Response to Lock. The caller holds the lock. */
export interface LockResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** The key of the holder. The caller holds the lock as long as this key exists. */
  key: Uint8Array;
}

export const LockResponse: Codec<LockResponse> = /* @__PURE__ */ tableCodec(
  'v3lockpb.LockResponse',
  'm1header y2key',
  () => [ResponseHeader],
);

/** Request for Unlock. */
export interface UnlockRequest {
  /** The key that Lock returned. */
  key: Uint8Array;
}

export const UnlockRequest: Codec<UnlockRequest> = /* @__PURE__ */ tableCodec('v3lockpb.UnlockRequest', 'y1key');

/** Response to Unlock. The caller no longer holds the lock. */
export interface UnlockResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const UnlockResponse: Codec<UnlockResponse> = /* @__PURE__ */ tableCodec(
  'v3lockpb.UnlockResponse',
  'm1header',
  () => [ResponseHeader],
);
