// Written by scripts/generate.ts from proto/authpb/auth.proto. Do not edit.

import type { Codec } from '../../protobuf/codec.js';
import { NO_BYTES } from '../../runtime/bytes.js';

/** How a user authenticates. */
export interface UserAddOptions {
  /** The user has no password. The server identifies the user by the common name of the TLS certificate. */
  noPassword: boolean;
}

export const UserAddOptions: Codec<UserAddOptions> = {
  typeName: 'authpb.UserAddOptions',
  create: () => ({ noPassword: false }),
  write(writer, message) {
    writer.boolField(8, message.noPassword);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.noPassword = reader.bool();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

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

export const User: Codec<User> = {
  typeName: 'authpb.User',
  create: () => ({ name: NO_BYTES, password: NO_BYTES, roles: [], options: undefined }),
  write(writer, message) {
    writer.bytesField(10, message.name);
    writer.bytesField(18, message.password);
    writer.stringFields(26, message.roles);
    writer.messageField(34, UserAddOptions, message.options);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.name = reader.bytes();
          break;
        case 18:
          message.password = reader.bytes();
          break;
        case 26:
          message.roles.push(reader.string());
          break;
        case 34:
          message.options = reader.message(UserAddOptions, message.options);
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

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

export const Permission: Codec<Permission> = {
  typeName: 'authpb.Permission',
  create: () => ({ permType: 0, key: NO_BYTES, rangeEnd: NO_BYTES }),
  write(writer, message) {
    writer.int32Field(8, message.permType);
    writer.bytesField(18, message.key);
    writer.bytesField(26, message.rangeEnd);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 8:
          message.permType = reader.int32() as PermissionType;
          break;
        case 18:
          message.key = reader.bytes();
          break;
        case 26:
          message.rangeEnd = reader.bytes();
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};

/** A named list of permissions. */
export interface Role {
  /** The name. */
  name: Uint8Array;
  /** The permissions. */
  keyPermission: Permission[];
}

export const Role: Codec<Role> = {
  typeName: 'authpb.Role',
  create: () => ({ name: NO_BYTES, keyPermission: [] }),
  write(writer, message) {
    writer.bytesField(10, message.name);
    writer.messageFields(18, Permission, message.keyPermission);
  },
  read(reader, message) {
    for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
      switch (tag) {
        case 10:
          message.name = reader.bytes();
          break;
        case 18:
          message.keyPermission.push(reader.message(Permission));
          break;
        default:
          reader.skip(tag);
      }
    }
  },
};
