// Written by scripts/generate.ts from proto/. Do not edit.

import type { Method } from '../../wire/index.js';
import {
  LeaseGrantRequest,
  LeaseGrantResponse,
  LeaseKeepAliveRequest,
  LeaseKeepAliveResponse,
  LeaseLeasesRequest,
  LeaseLeasesResponse,
  LeaseRevokeRequest,
  LeaseRevokeResponse,
  LeaseTimeToLiveRequest,
  LeaseTimeToLiveResponse,
} from '../etcdserverpb/rpc.js';

export const leaseGrant = {
  path: '/etcdserverpb.Lease/LeaseGrant',
  kind: 'unary',
  request: LeaseGrantRequest,
  response: LeaseGrantResponse,
} as const satisfies Method<LeaseGrantRequest, LeaseGrantResponse, 'unary'>;

export const leaseRevoke = {
  path: '/etcdserverpb.Lease/LeaseRevoke',
  kind: 'unary',
  request: LeaseRevokeRequest,
  response: LeaseRevokeResponse,
} as const satisfies Method<LeaseRevokeRequest, LeaseRevokeResponse, 'unary'>;

export const leaseKeepAlive = {
  path: '/etcdserverpb.Lease/LeaseKeepAlive',
  kind: 'bidi-streaming',
  request: LeaseKeepAliveRequest,
  response: LeaseKeepAliveResponse,
} as const satisfies Method<LeaseKeepAliveRequest, LeaseKeepAliveResponse, 'bidi-streaming'>;

export const leaseTimeToLive = {
  path: '/etcdserverpb.Lease/LeaseTimeToLive',
  kind: 'unary',
  request: LeaseTimeToLiveRequest,
  response: LeaseTimeToLiveResponse,
  repeatable: true,
} as const satisfies Method<LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, 'unary'>;

export const leaseLeases = {
  path: '/etcdserverpb.Lease/LeaseLeases',
  kind: 'unary',
  request: LeaseLeasesRequest,
  response: LeaseLeasesResponse,
  repeatable: true,
} as const satisfies Method<LeaseLeasesRequest, LeaseLeasesResponse, 'unary'>;
