// Written by scripts/generate.ts from proto/. Do not edit.

import { methodRow } from '../../wire/index.js';
import * as rpc from '../etcdserverpb/rpc.js';

export const watch = /* @__PURE__ */ methodRow(
  'bidi-streaming',
  '/etcdserverpb.Watch/Watch',
  rpc.WatchRequest,
  rpc.WatchResponse,
);
