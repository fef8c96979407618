// Written by scripts/generate.ts from proto/. Do not edit.

import { methodRow } from '../../wire/index.js';
import * as v3election from '../v3electionpb/v3election.js';

export const campaign = /* @__PURE__ */ methodRow(
  'unary',
  '/v3electionpb.Election/Campaign',
  v3election.CampaignRequest,
  v3election.CampaignResponse,
);
export const proclaim = /* @__PURE__ */ methodRow(
  'unary',
  '/v3electionpb.Election/Proclaim',
  v3election.ProclaimRequest,
  v3election.ProclaimResponse,
);
export const leader = /* @__PURE__ */ methodRow(
  'unary',
  '/v3electionpb.Election/Leader',
  v3election.LeaderRequest,
  v3election.LeaderResponse,
  'repeatable',
);
export const observe = /* @__PURE__ */ methodRow(
  'server-streaming',
  '/v3electionpb.Election/Observe',
  v3election.LeaderRequest,
  v3election.LeaderResponse,
);
export const resign = /* @__PURE__ */ methodRow(
  'unary',
  '/v3electionpb.Election/Resign',
  v3election.ResignRequest,
  v3election.ResignResponse,
);
