// Written by scripts/generate.ts from proto/authpb/auth.proto. Do not edit.

import { type Codec, tableCodec } from '../../wire/index.js';

/** How a user authenticates. */
export interface UserAddOptions {
  /** The user has no password. The server identifies the user by the common name of the TLS certificate. */
  noPassword: boolean;
}

export const UserAddOptions: Codec<UserAddOptions> = /* @__PURE__ */ tableCodec(
  'authpb.UserAddOptions',
  'b1noPassword',
);

/** A user as the server stores it. */
export interface User {
  /** The name. */
  name: Uint8Array;
  /** bcrypt hash of the password. */
  password: Uint8Array;
  /** Names of the user's roles. */
  roles: string[];
  /** How the user authenticates. */
  options: UserAddOptions | undefined;
}

export const User: Codec<User> = /* @__PURE__ */ tableCodec(
  'authpb.User',
  'y1name y2password s*3roles m4options',
  () => [UserAddOptions],
);

/** The kinds of access that a permission grants. */
export const PermissionType = {
  /** Permits range and watch. */
  READ: 0,
  /** Permits put and delete. */
  WRITE: 1,
  /** Permits range, watch, put and delete. */
  READWRITE: 2,
} as const;
/** The kinds of access that a permission grants. */
export type PermissionType = (typeof PermissionType)[keyof typeof PermissionType];

/** A permission for a range of keys. */
export interface Permission {
  /** The permitted kind of access. */
  permType: PermissionType;
  /** First key of the range. */
  key: Uint8Array;
  /** End of the range, exclusive. The rules of RangeRequest.range_end apply. */
  rangeEnd: Uint8Array;
}

export const Permission: Codec<Permission> = /* @__PURE__ */ tableCodec(
  'authpb.Permission',
  'e1permType y2key y3rangeEnd',
);

/** A named list of permissions. */
export interface Role {
  /** The name. */
  name: Uint8Array;
  /** The permissions. */
  keyPermission: Permission[];
}

export const Role: Codec<Role> = /* @__PURE__ */ tableCodec('authpb.Role', 'y1name m*2keyPermission', () => [
  Permission,
]);
