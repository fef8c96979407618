// Written by scripts/generate.ts from proto/. Do not edit.

import type { Method } from '../../wire/index.js';
import {
  CompactionRequest,
  CompactionResponse,
  DeleteRangeRequest,
  DeleteRangeResponse,
  PutRequest,
  PutResponse,
  RangeRequest,
  RangeResponse,
  RangeStreamResponse,
  TxnRequest,
  TxnResponse,
} from '../etcdserverpb/rpc.js';

export const range = {
  path: '/etcdserverpb.KV/Range',
  kind: 'unary',
  request: RangeRequest,
  response: RangeResponse,
  repeatable: true,
} as const satisfies Method<RangeRequest, RangeResponse, 'unary'>;

export const rangeStream = {
  path: '/etcdserverpb.KV/RangeStream',
  kind: 'server-streaming',
  request: RangeRequest,
  response: RangeStreamResponse,
  repeatable: true,
} as const satisfies Method<RangeRequest, RangeStreamResponse, 'server-streaming'>;

export const put = {
  path: '/etcdserverpb.KV/Put',
  kind: 'unary',
  request: PutRequest,
  response: PutResponse,
} as const satisfies Method<PutRequest, PutResponse, 'unary'>;

export const deleteRange = {
  path: '/etcdserverpb.KV/DeleteRange',
  kind: 'unary',
  request: DeleteRangeRequest,
  response: DeleteRangeResponse,
} as const satisfies Method<DeleteRangeRequest, DeleteRangeResponse, 'unary'>;

export const txn = {
  path: '/etcdserverpb.KV/Txn',
  kind: 'unary',
  request: TxnRequest,
  response: TxnResponse,
} as const satisfies Method<TxnRequest, TxnResponse, 'unary'>;

export const compact = {
  path: '/etcdserverpb.KV/Compact',
  kind: 'unary',
  request: CompactionRequest,
  response: CompactionResponse,
} as const satisfies Method<CompactionRequest, CompactionResponse, 'unary'>;
