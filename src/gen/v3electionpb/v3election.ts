// Written by scripts/generate.ts from proto/v3electionpb/v3election.proto. Do not edit.

import { type Codec, tableCodec } from '../../wire/index.js';
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

export const CampaignRequest: Codec<CampaignRequest> = /* @__PURE__ */ tableCodec(
  'v3electionpb.CampaignRequest',
  'y1name i2lease y3value',
);

/** Response to Campaign. The caller is the leader. */
export interface CampaignResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** Identifies this leadership in later calls. */
  leader: LeaderKey | undefined;
}

export const CampaignResponse: Codec<CampaignResponse> = /* @__PURE__ */ tableCodec(
  'v3electionpb.CampaignResponse',
  'm1header m2leader',
  () => [ResponseHeader, LeaderKey],
);

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

export const LeaderKey: Codec<LeaderKey> = /* @__PURE__ */ tableCodec(
  'v3electionpb.LeaderKey',
  'y1name y2key i3rev i4lease',
);

/** Request for Leader and Observe. */
export interface LeaderRequest {
  /** Name of the election. */
  name: Uint8Array;
}

export const LeaderRequest: Codec<LeaderRequest> = /* @__PURE__ */ tableCodec('v3electionpb.LeaderRequest', 'y1name');

/** Response to Leader and Observe. */
export interface LeaderResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
  /** The key of the leader. Its value is the proclaimed value. */
  kv: KeyValue | undefined;
}

export const LeaderResponse: Codec<LeaderResponse> = /* @__PURE__ */ tableCodec(
  'v3electionpb.LeaderResponse',
  'm1header m2kv',
  () => [ResponseHeader, KeyValue],
);

/** Request for Resign. */
export interface ResignRequest {
  /** The leader key that Campaign returned. */
  leader: LeaderKey | undefined;
}

export const ResignRequest: Codec<ResignRequest> = /* @__PURE__ */ tableCodec(
  'v3electionpb.ResignRequest',
  'm1leader',
  () => [LeaderKey],
);

/** Response to Resign. The leadership has ended. */
export interface ResignResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const ResignResponse: Codec<ResignResponse> = /* @__PURE__ */ tableCodec(
  'v3electionpb.ResignResponse',
  'm1header',
  () => [ResponseHeader],
);

/** Request for Proclaim. */
export interface ProclaimRequest {
  /** The leader key that Campaign returned. */
  leader: LeaderKey | undefined;
  /** The new value. */
  value: Uint8Array;
}

export const ProclaimRequest: Codec<ProclaimRequest> = /* @__PURE__ */ tableCodec(
  'v3electionpb.ProclaimRequest',
  'm1leader y2value',
  () => [LeaderKey],
);

/** Response to Proclaim. The new value is now the proclaimed value. */
export interface ProclaimResponse {
  /** The cluster and member that responded, and the revision of the store. */
  header: ResponseHeader | undefined;
}

export const ProclaimResponse: Codec<ProclaimResponse> = /* @__PURE__ */ tableCodec(
  'v3electionpb.ProclaimResponse',
  'm1header',
  () => [ResponseHeader],
);
