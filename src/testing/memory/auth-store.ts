import type { Permission, PermissionType } from '../../gen/authpb/auth.js';
import { grantsAccess, isValidPermissionRange } from './auth-permissions.js';
import { compare, type KeyId, keyId } from './key-range.js';
import type { PasswordHash } from './password.js';
import { serverError } from './service.js';

/**
 * The user that must exist before authentication can be enabled. It cannot be deleted while authentication is enabled.
 */
const ROOT_USER = 'root';
/** The role that permits everything. A user can have this role even if no client has added the role. */
const ROOT_ROLE = 'root';
const FIRST_REVISION = 1n;
const utf8 = new TextEncoder();

/** A user. */
export interface AuthUser {
  readonly name: string;
  /** Undefined if the user has no password and can only authenticate with a TLS certificate. */
  readonly password: PasswordHash | undefined;
  readonly noPassword: boolean;
  /** Names of the roles, in byte order. */
  readonly roles: readonly string[];
}

/** A role. The permissions are ordered by their keys. */
export interface AuthRole {
  readonly name: string;
  readonly permissions: readonly Permission[];
}

/** The users and roles, for a backup. */
export interface AuthSnapshot {
  readonly enabled: boolean;
  readonly revision: bigint;
  readonly users: readonly AuthUser[];
  readonly roles: readonly AuthRole[];
}

/**
 * The users and roles of a cluster: etcd's `auth/store.go`. Every change except `enable` increases the revision by one.
 */
export class AuthStore {
  #enabled = false;
  #revision = FIRST_REVISION;
  #users = new Map<string, AuthUser>();
  #roles = new Map<string, AuthRole>();

  get enabled(): boolean {
    return this.#enabled;
  }

  get revision(): bigint {
    return this.#revision;
  }

  /** Turns authentication on. @throws StatusError if there is no user `root` with the role `root`. */
  enable(): void {
    if (this.#enabled) return;
    const root = this.#users.get(ROOT_USER);
    if (root === undefined) throw serverError('RootUserNotExist');
    if (!root.roles.includes(ROOT_ROLE)) throw serverError('RootRoleNotExist');
    this.#enabled = true;
  }

  /** Turns authentication off. Keeps the users and roles. */
  disable(): void {
    if (!this.#enabled) return;
    this.#enabled = false;
    this.#changed();
  }

  user(name: string): AuthUser | undefined {
    return this.#users.get(name);
  }

  /** The names of all users, in byte order. */
  userNames(): string[] {
    return inByteOrder(this.#users.keys());
  }

  /** @throws StatusError with reason `UserNotFound` */
  existingUser(name: string): AuthUser {
    const user = this.#users.get(name);
    if (user === undefined) throw serverError('UserNotFound');
    return user;
  }

  addUser(name: string, password: PasswordHash | undefined, noPassword: boolean): void {
    if (name === '') throw serverError('UserEmpty');
    if (this.#users.has(name)) throw serverError('UserAlreadyExist');
    this.#putUser({ name, password, noPassword, roles: [] });
  }

  deleteUser(name: string): void {
    if (this.#enabled && name === ROOT_USER) throw serverError('InvalidAuthMgmt');
    this.existingUser(name);
    this.#users.delete(name);
    this.#changed();
  }

  setPassword(name: string, password: PasswordHash | undefined): void {
    this.#putUser({ ...this.existingUser(name), password });
  }

  grantRole(name: string, role: string): void {
    const user = this.existingUser(name);
    if (role !== ROOT_ROLE) this.#existingRole(role);
    if (user.roles.includes(role)) return;
    this.#putUser({ ...user, roles: inByteOrder([...user.roles, role]) });
  }

  revokeRole(name: string, role: string): void {
    if (this.#enabled && name === ROOT_USER && role === ROOT_ROLE) throw serverError('InvalidAuthMgmt');
    const user = this.existingUser(name);
    if (!user.roles.includes(role)) throw serverError('RoleNotGranted');
    this.#putUser(without(user, role));
  }

  /** The names of all roles that were added, in byte order. */
  roleNames(): string[] {
    return inByteOrder(this.#roles.keys());
  }

  /** Returns the permissions that were granted to the role. @throws StatusError with reason `RoleNotFound` */
  permissionsOf(role: string): readonly Permission[] {
    return this.#existingRole(role).permissions;
  }

  addRole(name: string): void {
    if (name === '') throw serverError('RoleEmpty');
    if (this.#roles.has(name)) throw serverError('RoleAlreadyExist');
    this.#putRole({ name, permissions: [] });
  }

  deleteRole(name: string): void {
    if (this.#enabled && name === ROOT_ROLE) throw serverError('InvalidAuthMgmt');
    this.#existingRole(name);
    this.#roles.delete(name);
    for (const user of this.#users.values()) this.#users.set(user.name, without(user, name));
    this.#changed();
  }

  /** If the first permission for the key has the same range, replaces its type. Otherwise adds the permission. */
  grantPermission(name: string, permission: Permission | undefined): void {
    if (permission === undefined) throw serverError('PermissionNotGiven');
    if (!isValidPermissionRange(permission.key, permission.rangeEnd)) throw serverError('InvalidAuthMgmt');
    const { permissions } = this.#existingRole(name);
    const key = keyId(permission.key);
    const at = permissions.findIndex((other) => keyId(other.key) >= key);
    const found = permissions[at];
    const replaces = found !== undefined && hasRange(found, permission.key, permission.rangeEnd);
    const next = replaces
      ? permissions.with(at, permission)
      : [...permissions, permission].sort((a, b) => compare(keyId(a.key), keyId(b.key)));
    this.#putRole({ name, permissions: next });
  }

  revokePermission(name: string, key: Uint8Array, rangeEnd: Uint8Array): void {
    const { permissions } = this.#existingRole(name);
    const kept = permissions.filter((permission) => !hasRange(permission, key, rangeEnd));
    if (kept.length === permissions.length) throw serverError('PermissionNotGranted');
    this.#putRole({ name, permissions: kept });
  }

  /** Whether the user has the role `root`. */
  isRoot(user: string): boolean {
    return this.hasRole(user, ROOT_ROLE);
  }

  hasRole(user: string, role: string): boolean {
    return this.#users.get(user)?.roles.includes(role) ?? false;
  }

  /** Whether the user may access all keys of the range. */
  permits(user: string, type: PermissionType, key: Uint8Array, rangeEnd: Uint8Array): boolean {
    const roles = this.#users.get(user)?.roles;
    if (roles === undefined) return false;
    if (roles.includes(ROOT_ROLE)) return true;
    const permissions = roles.flatMap((role) => this.#roles.get(role)?.permissions ?? []);
    return grantsAccess(permissions, type, key, rangeEnd);
  }

  snapshot(): AuthSnapshot {
    return {
      enabled: this.#enabled,
      revision: this.#revision,
      users: this.userNames().map((name) => this.existingUser(name)),
      roles: this.roleNames().map((name) => this.#existingRole(name)),
    };
  }

  restore({ enabled, revision, users, roles }: AuthSnapshot): void {
    this.#enabled = enabled;
    this.#revision = revision;
    this.#users = new Map(users.map((user) => [user.name, user]));
    this.#roles = new Map(roles.map((role) => [role.name, role]));
  }

  #existingRole(name: string): AuthRole {
    const role = this.#roles.get(name);
    if (role === undefined) throw serverError('RoleNotFound');
    return role;
  }

  #putUser(user: AuthUser): void {
    this.#users.set(user.name, user);
    this.#changed();
  }

  #putRole(role: AuthRole): void {
    this.#roles.set(role.name, role);
    this.#changed();
  }

  #changed(): void {
    this.#revision += 1n;
  }
}

function without(user: AuthUser, role: string): AuthUser {
  return { ...user, roles: user.roles.filter((name) => name !== role) };
}

function hasRange(permission: Permission, key: Uint8Array, rangeEnd: Uint8Array): boolean {
  return keyId(permission.key) === keyId(key) && keyId(permission.rangeEnd) === keyId(rangeEnd);
}

function inByteOrder(names: Iterable<string>): string[] {
  const keys = new Map<string, KeyId>();
  for (const name of names) keys.set(name, keyId(utf8.encode(name)));
  return [...keys].sort(([, a], [, b]) => compare(a, b)).map(([name]) => name);
}
