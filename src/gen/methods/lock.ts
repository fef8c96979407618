// Written by scripts/generate.ts from proto/. Do not edit.

import { methodRow } from '../../wire/index.js';
import * as v3lock from '../v3lockpb/v3lock.js';

export const lock = /* @__PURE__ */ methodRow('unary', '/v3lockpb.Lock/Lock', v3lock.LockRequest, v3lock.LockResponse);
export const unlock = /* @__PURE__ */ methodRow(
  'unary',
  '/v3lockpb.Lock/Unlock',
  v3lock.UnlockRequest,
  v3lock.UnlockResponse,
);
