// Written by scripts/generate.ts from proto/. Do not edit.

import { PermissionType } from './authpb/auth.js';
import {
  AlarmAction,
  AlarmType,
  CompareResult,
  CompareTarget,
  DowngradeAction,
  FilterType,
  SortOrder,
  SortTarget,
} from './etcdserverpb/rpc.js';
import { EventType } from './mvccpb/kv.js';

/**
 * The values of the enums in the messages of `Client.raw`, by the name of the enum.
 *
 * @example
 * ```ts
 * const { ASCEND } = rawEnums.SortOrder;
 * await etcd.raw.kv.range({ key, rangeEnd, sortOrder: ASCEND, sortTarget: rawEnums.SortTarget.CREATE });
 * ```
 */
export const rawEnums = {
  AlarmAction,
  AlarmType,
  CompareResult,
  CompareTarget,
  DowngradeAction,
  EventType,
  FilterType,
  PermissionType,
  SortOrder,
  SortTarget,
} as const;
