// Written by scripts/generate.ts from proto/. Do not edit.

import type { Method } from '../../wire/index.js';
import {
  AlarmRequest,
  AlarmResponse,
  DefragmentRequest,
  DefragmentResponse,
  DowngradeRequest,
  DowngradeResponse,
  HashKVRequest,
  HashKVResponse,
  HashRequest,
  HashResponse,
  MoveLeaderRequest,
  MoveLeaderResponse,
  SnapshotRequest,
  SnapshotResponse,
  StatusRequest,
  StatusResponse,
} from '../etcdserverpb/rpc.js';

export const alarm = {
  path: '/etcdserverpb.Maintenance/Alarm',
  kind: 'unary',
  request: AlarmRequest,
  response: AlarmResponse,
} as const satisfies Method<AlarmRequest, AlarmResponse, 'unary'>;

export const status = {
  path: '/etcdserverpb.Maintenance/Status',
  kind: 'unary',
  request: StatusRequest,
  response: StatusResponse,
  repeatable: true,
} as const satisfies Method<StatusRequest, StatusResponse, 'unary'>;

export const defragment = {
  path: '/etcdserverpb.Maintenance/Defragment',
  kind: 'unary',
  request: DefragmentRequest,
  response: DefragmentResponse,
} as const satisfies Method<DefragmentRequest, DefragmentResponse, 'unary'>;

export const hash = {
  path: '/etcdserverpb.Maintenance/Hash',
  kind: 'unary',
  request: HashRequest,
  response: HashResponse,
  repeatable: true,
} as const satisfies Method<HashRequest, HashResponse, 'unary'>;

export const hashKv = {
  path: '/etcdserverpb.Maintenance/HashKV',
  kind: 'unary',
  request: HashKVRequest,
  response: HashKVResponse,
  repeatable: true,
} as const satisfies Method<HashKVRequest, HashKVResponse, 'unary'>;

export const snapshot = {
  path: '/etcdserverpb.Maintenance/Snapshot',
  kind: 'server-streaming',
  request: SnapshotRequest,
  response: SnapshotResponse,
} as const satisfies Method<SnapshotRequest, SnapshotResponse, 'server-streaming'>;

export const moveLeader = {
  path: '/etcdserverpb.Maintenance/MoveLeader',
  kind: 'unary',
  request: MoveLeaderRequest,
  response: MoveLeaderResponse,
} as const satisfies Method<MoveLeaderRequest, MoveLeaderResponse, 'unary'>;

export const downgrade = {
  path: '/etcdserverpb.Maintenance/Downgrade',
  kind: 'unary',
  request: DowngradeRequest,
  response: DowngradeResponse,
} as const satisfies Method<DowngradeRequest, DowngradeResponse, 'unary'>;
