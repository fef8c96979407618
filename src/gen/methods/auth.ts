// Written by scripts/generate.ts from proto/. Do not edit.

import { methodRow } from '../../wire/index.js';
import * as rpc from '../etcdserverpb/rpc.js';

export const authEnable = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Auth/AuthEnable',
  rpc.AuthEnableRequest,
  rpc.AuthEnableResponse,
);
export const authDisable = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Auth/AuthDisable',
  rpc.AuthDisableRequest,
  rpc.AuthDisableResponse,
);
export const authStatus = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Auth/AuthStatus',
  rpc.AuthStatusRequest,
  rpc.AuthStatusResponse,
  'repeatable',
);
export const authenticate = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Auth/Authenticate',
  rpc.AuthenticateRequest,
  rpc.AuthenticateResponse,
  'repeatable',
);
export const userAdd = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Auth/UserAdd',
  rpc.AuthUserAddRequest,
  rpc.AuthUserAddResponse,
);
export const userGet = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Auth/UserGet',
  rpc.AuthUserGetRequest,
  rpc.AuthUserGetResponse,
  'repeatable',
);
export const userList = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Auth/UserList',
  rpc.AuthUserListRequest,
  rpc.AuthUserListResponse,
  'repeatable',
);
export const userDelete = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Auth/UserDelete',
  rpc.AuthUserDeleteRequest,
  rpc.AuthUserDeleteResponse,
);
export const userChangePassword = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Auth/UserChangePassword',
  rpc.AuthUserChangePasswordRequest,
  rpc.AuthUserChangePasswordResponse,
);
export const userGrantRole = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Auth/UserGrantRole',
  rpc.AuthUserGrantRoleRequest,
  rpc.AuthUserGrantRoleResponse,
);
export const userRevokeRole = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Auth/UserRevokeRole',
  rpc.AuthUserRevokeRoleRequest,
  rpc.AuthUserRevokeRoleResponse,
);
export const roleAdd = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Auth/RoleAdd',
  rpc.AuthRoleAddRequest,
  rpc.AuthRoleAddResponse,
);
export const roleGet = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Auth/RoleGet',
  rpc.AuthRoleGetRequest,
  rpc.AuthRoleGetResponse,
  'repeatable',
);
export const roleList = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Auth/RoleList',
  rpc.AuthRoleListRequest,
  rpc.AuthRoleListResponse,
  'repeatable',
);
export const roleDelete = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Auth/RoleDelete',
  rpc.AuthRoleDeleteRequest,
  rpc.AuthRoleDeleteResponse,
);
export const roleGrantPermission = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Auth/RoleGrantPermission',
  rpc.AuthRoleGrantPermissionRequest,
  rpc.AuthRoleGrantPermissionResponse,
);
export const roleRevokePermission = /* @__PURE__ */ methodRow(
  'unary',
  '/etcdserverpb.Auth/RoleRevokePermission',
  rpc.AuthRoleRevokePermissionRequest,
  rpc.AuthRoleRevokePermissionResponse,
);
