// Written by scripts/generate.ts from proto/. Do not edit.

import { methodRow } from '../../wire/index.js';
import * as rpc from '../etcdserverpb/rpc.js';

export const alarm = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Maintenance/Alarm',
  rpc.AlarmRequest,
  rpc.AlarmResponse,
);
export const status = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Maintenance/Status',
  rpc.StatusRequest,
  rpc.StatusResponse,
  'repeatable',
);
export const defragment = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Maintenance/Defragment',
  rpc.DefragmentRequest,
  rpc.DefragmentResponse,
);
export const hash = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Maintenance/Hash',
  rpc.HashRequest,
  rpc.HashResponse,
  'repeatable',
);
export const hashKv = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Maintenance/HashKV',
  rpc.HashKVRequest,
  rpc.HashKVResponse,
  'repeatable',
);
export const snapshot = /* @__PURE__ */ methodRow(
  'server-streaming',
  '/etcdserverpb.Maintenance/Snapshot',
  rpc.SnapshotRequest,
  rpc.SnapshotResponse,
);
export const moveLeader = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Maintenance/MoveLeader',
  rpc.MoveLeaderRequest,
  rpc.MoveLeaderResponse,
);
export const downgrade = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Maintenance/Downgrade',
  rpc.DowngradeRequest,
  rpc.DowngradeResponse,
);
