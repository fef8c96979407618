// Written by scripts/generate.ts from proto/. Do not edit.

import type { Method } from '../../wire/index.js';
import {
  MemberAddRequest,
  MemberAddResponse,
  MemberListRequest,
  MemberListResponse,
  MemberPromoteRequest,
  MemberPromoteResponse,
  MemberRemoveRequest,
  MemberRemoveResponse,
  MemberUpdateRequest,
  MemberUpdateResponse,
} from '../etcdserverpb/rpc.js';

export const memberAdd = {
  path: '/etcdserverpb.Cluster/MemberAdd',
  kind: 'unary',
  request: MemberAddRequest,
  response: MemberAddResponse,
} as const satisfies Method<MemberAddRequest, MemberAddResponse, 'unary'>;

export const memberRemove = {
  path: '/etcdserverpb.Cluster/MemberRemove',
  kind: 'unary',
  request: MemberRemoveRequest,
  response: MemberRemoveResponse,
} as const satisfies Method<MemberRemoveRequest, MemberRemoveResponse, 'unary'>;

export const memberUpdate = {
  path: '/etcdserverpb.Cluster/MemberUpdate',
  kind: 'unary',
  request: MemberUpdateRequest,
  response: MemberUpdateResponse,
} as const satisfies Method<MemberUpdateRequest, MemberUpdateResponse, 'unary'>;

export const memberList = {
  path: '/etcdserverpb.Cluster/MemberList',
  kind: 'unary',
  request: MemberListRequest,
  response: MemberListResponse,
  repeatable: true,
} as const satisfies Method<MemberListRequest, MemberListResponse, 'unary'>;

export const memberPromote = {
  path: '/etcdserverpb.Cluster/MemberPromote',
  kind: 'unary',
  request: MemberPromoteRequest,
  response: MemberPromoteResponse,
} as const satisfies Method<MemberPromoteRequest, MemberPromoteResponse, 'unary'>;
