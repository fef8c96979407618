// Written by scripts/generate.ts from proto/. Do not edit.

import { methodRow } from '../../wire/index.js';
import * as rpc from '../etcdserverpb/rpc.js';

export const range = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.KV/Range',
  rpc.RangeRequest,
  rpc.RangeResponse,
  'repeatable',
);
export const rangeStream = /* @__PURE__ */ methodRow(
  'server-streaming',
  '/etcdserverpb.KV/RangeStream',
  rpc.RangeRequest,
  rpc.RangeStreamResponse,
  'repeatable',
);
export const put = /* @__PURE__ */ methodRow('unary', '/etcdserverpb.KV/Put', rpc.PutRequest, rpc.PutResponse);
export const deleteRange = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.KV/DeleteRange',
  rpc.DeleteRangeRequest,
  rpc.DeleteRangeResponse,
);
export const txn = /* @__PURE__ */ methodRow('unary', '/etcdserverpb.KV/Txn', rpc.TxnRequest, rpc.TxnResponse);
export const compact = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.KV/Compact',
  rpc.CompactionRequest,
  rpc.CompactionResponse,
);
