// Written by scripts/generate.ts from proto/. Do not edit.

import { methodRow } from '../../wire/index.js';
import * as rpc from '../etcdserverpb/rpc.js';

export const memberAdd = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Cluster/MemberAdd',
  rpc.MemberAddRequest,
  rpc.MemberAddResponse,
);
export const memberRemove = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Cluster/MemberRemove',
  rpc.MemberRemoveRequest,
  rpc.MemberRemoveResponse,
);
export const memberUpdate = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Cluster/MemberUpdate',
  rpc.MemberUpdateRequest,
  rpc.MemberUpdateResponse,
);
export const memberList = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Cluster/MemberList',
  rpc.MemberListRequest,
  rpc.MemberListResponse,
  'repeatable',
);
export const memberPromote = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Cluster/MemberPromote',
  rpc.MemberPromoteRequest,
  rpc.MemberPromoteResponse,
);
