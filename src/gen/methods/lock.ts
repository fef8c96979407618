// Written by scripts/generate.ts from proto/. Do not edit.

import type { Method } from '../../wire/index.js';
import { LockRequest, LockResponse, UnlockRequest, UnlockResponse } from '../v3lockpb/v3lock.js';

export const lock = {
  path: '/v3lockpb.Lock/Lock',
  kind: 'unary',
  request: LockRequest,
  response: LockResponse,
} as const satisfies Method<LockRequest, LockResponse, 'unary'>;

export const unlock = {
  path: '/v3lockpb.Lock/Unlock',
  kind: 'unary',
  request: UnlockRequest,
  response: UnlockResponse,
} as const satisfies Method<UnlockRequest, UnlockResponse, 'unary'>;
