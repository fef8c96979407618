// Written by scripts/generate.ts from proto/. Do not edit.

import type { Method } from '../../wire/index.js';
import {
  AuthDisableRequest,
  AuthDisableResponse,
  AuthEnableRequest,
  AuthEnableResponse,
  AuthenticateRequest,
  AuthenticateResponse,
  AuthRoleAddRequest,
  AuthRoleAddResponse,
  AuthRoleDeleteRequest,
  AuthRoleDeleteResponse,
  AuthRoleGetRequest,
  AuthRoleGetResponse,
  AuthRoleGrantPermissionRequest,
  AuthRoleGrantPermissionResponse,
  AuthRoleListRequest,
  AuthRoleListResponse,
  AuthRoleRevokePermissionRequest,
  AuthRoleRevokePermissionResponse,
  AuthStatusRequest,
  AuthStatusResponse,
  AuthUserAddRequest,
  AuthUserAddResponse,
  AuthUserChangePasswordRequest,
  AuthUserChangePasswordResponse,
  AuthUserDeleteRequest,
  AuthUserDeleteResponse,
  AuthUserGetRequest,
  AuthUserGetResponse,
  AuthUserGrantRoleRequest,
  AuthUserGrantRoleResponse,
  AuthUserListRequest,
  AuthUserListResponse,
  AuthUserRevokeRoleRequest,
  AuthUserRevokeRoleResponse,
} from '../etcdserverpb/rpc.js';

export const authEnable = {
  path: '/etcdserverpb.Auth/AuthEnable',
  kind: 'unary',
  request: AuthEnableRequest,
  response: AuthEnableResponse,
} as const satisfies Method<AuthEnableRequest, AuthEnableResponse, 'unary'>;

export const authDisable = {
  path: '/etcdserverpb.Auth/AuthDisable',
  kind: 'unary',
  request: AuthDisableRequest,
  response: AuthDisableResponse,
} as const satisfies Method<AuthDisableRequest, AuthDisableResponse, 'unary'>;

export const authStatus = {
  path: '/etcdserverpb.Auth/AuthStatus',
  kind: 'unary',
  request: AuthStatusRequest,
  response: AuthStatusResponse,
  repeatable: true,
} as const satisfies Method<AuthStatusRequest, AuthStatusResponse, 'unary'>;

export const authenticate = {
  path: '/etcdserverpb.Auth/Authenticate',
  kind: 'unary',
  request: AuthenticateRequest,
  response: AuthenticateResponse,
  repeatable: true,
} as const satisfies Method<AuthenticateRequest, AuthenticateResponse, 'unary'>;

export const userAdd = {
  path: '/etcdserverpb.Auth/UserAdd',
  kind: 'unary',
  request: AuthUserAddRequest,
  response: AuthUserAddResponse,
} as const satisfies Method<AuthUserAddRequest, AuthUserAddResponse, 'unary'>;

export const userGet = {
  path: '/etcdserverpb.Auth/UserGet',
  kind: 'unary',
  request: AuthUserGetRequest,
  response: AuthUserGetResponse,
  repeatable: true,
} as const satisfies Method<AuthUserGetRequest, AuthUserGetResponse, 'unary'>;

export const userList = {
  path: '/etcdserverpb.Auth/UserList',
  kind: 'unary',
  request: AuthUserListRequest,
  response: AuthUserListResponse,
  repeatable: true,
} as const satisfies Method<AuthUserListRequest, AuthUserListResponse, 'unary'>;

export const userDelete = {
  path: '/etcdserverpb.Auth/UserDelete',
  kind: 'unary',
  request: AuthUserDeleteRequest,
  response: AuthUserDeleteResponse,
} as const satisfies Method<AuthUserDeleteRequest, AuthUserDeleteResponse, 'unary'>;

export const userChangePassword = {
  path: '/etcdserverpb.Auth/UserChangePassword',
  kind: 'unary',
  request: AuthUserChangePasswordRequest,
  response: AuthUserChangePasswordResponse,
} as const satisfies Method<AuthUserChangePasswordRequest, AuthUserChangePasswordResponse, 'unary'>;

export const userGrantRole = {
  path: '/etcdserverpb.Auth/UserGrantRole',
  kind: 'unary',
  request: AuthUserGrantRoleRequest,
  response: AuthUserGrantRoleResponse,
} as const satisfies Method<AuthUserGrantRoleRequest, AuthUserGrantRoleResponse, 'unary'>;

export const userRevokeRole = {
  path: '/etcdserverpb.Auth/UserRevokeRole',
  kind: 'unary',
  request: AuthUserRevokeRoleRequest,
  response: AuthUserRevokeRoleResponse,
} as const satisfies Method<AuthUserRevokeRoleRequest, AuthUserRevokeRoleResponse, 'unary'>;

export const roleAdd = {
  path: '/etcdserverpb.Auth/RoleAdd',
  kind: 'unary',
  request: AuthRoleAddRequest,
  response: AuthRoleAddResponse,
} as const satisfies Method<AuthRoleAddRequest, AuthRoleAddResponse, 'unary'>;

export const roleGet = {
  path: '/etcdserverpb.Auth/RoleGet',
  kind: 'unary',
  request: AuthRoleGetRequest,
  response: AuthRoleGetResponse,
  repeatable: true,
} as const satisfies Method<AuthRoleGetRequest, AuthRoleGetResponse, 'unary'>;

export const roleList = {
  path: '/etcdserverpb.Auth/RoleList',
  kind: 'unary',
  request: AuthRoleListRequest,
  response: AuthRoleListResponse,
  repeatable: true,
} as const satisfies Method<AuthRoleListRequest, AuthRoleListResponse, 'unary'>;

export const roleDelete = {
  path: '/etcdserverpb.Auth/RoleDelete',
  kind: 'unary',
  request: AuthRoleDeleteRequest,
  response: AuthRoleDeleteResponse,
} as const satisfies Method<AuthRoleDeleteRequest, AuthRoleDeleteResponse, 'unary'>;

export const roleGrantPermission = {
  path: '/etcdserverpb.Auth/RoleGrantPermission',
  kind: 'unary',
  request: AuthRoleGrantPermissionRequest,
  response: AuthRoleGrantPermissionResponse,
} as const satisfies Method<AuthRoleGrantPermissionRequest, AuthRoleGrantPermissionResponse, 'unary'>;

export const roleRevokePermission = {
  path: '/etcdserverpb.Auth/RoleRevokePermission',
  kind: 'unary',
  request: AuthRoleRevokePermissionRequest,
  response: AuthRoleRevokePermissionResponse,
} as const satisfies Method<AuthRoleRevokePermissionRequest, AuthRoleRevokePermissionResponse, 'unary'>;
