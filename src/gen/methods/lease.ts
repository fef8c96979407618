// Written by scripts/generate.ts from proto/. Do not edit.

import { methodRow } from '../../wire/index.js';
import * as rpc from '../etcdserverpb/rpc.js';

export const leaseGrant = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Lease/LeaseGrant',
  rpc.LeaseGrantRequest,
  rpc.LeaseGrantResponse,
);
export const leaseRevoke = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Lease/LeaseRevoke',
  rpc.LeaseRevokeRequest,
  rpc.LeaseRevokeResponse,
);
export const leaseKeepAlive = /* @__PURE__ */ methodRow(
  'bidi-streaming',
  '/etcdserverpb.Lease/LeaseKeepAlive',
  rpc.LeaseKeepAliveRequest,
  rpc.LeaseKeepAliveResponse,
);
export const leaseTimeToLive = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Lease/LeaseTimeToLive',
  rpc.LeaseTimeToLiveRequest,
  rpc.LeaseTimeToLiveResponse,
  'repeatable',
);
export const leaseLeases = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Lease/LeaseLeases',
  rpc.LeaseLeasesRequest,
  rpc.LeaseLeasesResponse,
  'repeatable',
);
