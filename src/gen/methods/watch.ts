// Written by scripts/generate.ts from proto/. Do not edit.

import type { Method } from '../../wire/index.js';
import { WatchRequest, WatchResponse } from '../etcdserverpb/rpc.js';

export const watch = {
  path: '/etcdserverpb.Watch/Watch',
  kind: 'bidi-streaming',
  request: WatchRequest,
  response: WatchResponse,
} as const satisfies Method<WatchRequest, WatchResponse, 'bidi-streaming'>;
