// Written by scripts/generate.ts from proto/. Do not edit.

import type { Method } from '../../wire/index.js';
import {
  CampaignRequest,
  CampaignResponse,
  LeaderRequest,
  LeaderResponse,
  ProclaimRequest,
  ProclaimResponse,
  ResignRequest,
  ResignResponse,
} from '../v3electionpb/v3election.js';

export const campaign = {
  path: '/v3electionpb.Election/Campaign',
  kind: 'unary',
  request: CampaignRequest,
  response: CampaignResponse,
} as const satisfies Method<CampaignRequest, CampaignResponse, 'unary'>;

export const proclaim = {
  path: '/v3electionpb.Election/Proclaim',
  kind: 'unary',
  request: ProclaimRequest,
  response: ProclaimResponse,
} as const satisfies Method<ProclaimRequest, ProclaimResponse, 'unary'>;

export const leader = {
  path: '/v3electionpb.Election/Leader',
  kind: 'unary',
  request: LeaderRequest,
  response: LeaderResponse,
  repeatable: true,
} as const satisfies Method<LeaderRequest, LeaderResponse, 'unary'>;

export const observe = {
  path: '/v3electionpb.Election/Observe',
  kind: 'server-streaming',
  request: LeaderRequest,
  response: LeaderResponse,
} as const satisfies Method<LeaderRequest, LeaderResponse, 'server-streaming'>;

export const resign = {
  path: '/v3electionpb.Election/Resign',
  kind: 'unary',
  request: ResignRequest,
  response: ResignResponse,
} as const satisfies Method<ResignRequest, ResignResponse, 'unary'>;
