import { checkChoice, checkName, describeType, invalidInput, show } from '../../base/index.js';
import { PermissionType, type Permission as WirePermission } from '../../gen/authpb/auth.js';
import * as authMethods from '../../gen/methods/auth.js';
import { type CallOptions, type Rpc, type WithHeader, withHeader, withHeaderOf } from '../../rpc/index.js';
import { type Keys, keysOf, resolveKeys } from '../kv/keys.js';

/** The kind of access. `read` allows reads and watches; `write` allows puts and deletes. */
export type Access = 'read' | 'write' | 'readwrite';

/** The access of a role to a key or to a range of keys. */
export interface Permission {
  readonly access: Access;
  readonly keys: Keys;
}

/** How a user logs in: with a password, or only with a TLS certificate (etcd 3.4 and later). */
export type Login = { readonly password: string } | { readonly noPassword: true };

const ACCESS = {
  read: PermissionType.READ,
  write: PermissionType.WRITE,
  readwrite: PermissionType.READWRITE,
} as const satisfies Record<Access, PermissionType>;

/**
 * Users, roles and permissions. etcd enables authentication only if a user "root" with the role "root" exists. A change
 * of users or roles can invalidate tokens; a client that has a password then obtains a new token.
 *
 * A method that fails rejects with an `EtcdError`. The reason is `InvalidInput` for an invalid argument. Otherwise, the
 * reason says why the call failed, such as `PermissionDenied`. A method that sends a password to an `http:` endpoint
 * fails with reason `InvalidInput`, and sends nothing, unless the option `auth` of the client allows it with
 * `allowPlaintext: true`.
 *
 * @example
 * await etcd.auth.userAdd('root', { password: 'secret' });
 * await etcd.auth.roleAdd('root');
 * await etcd.auth.userGrantRole('root', 'root');
 * await etcd.auth.enable();
 */
export class Auth {
  readonly #rpc: Rpc;

  /** @internal */
  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /**
   * Enables authentication. From then on, each client must authenticate as a user.
   *
   * @throws EtcdError with reason `RootUserNotExist` if there is no user "root", or `RootRoleNotExist` if this user
   * does not have the role "root".
   *
   * @example
   * await etcd.auth.enable();
   */
  async enable(options?: CallOptions): Promise<WithHeader<object>> {
    return withHeaderOf(this.#rpc.checkedCall(authMethods.authEnable, {}, options));
  }

  /**
   * Disables authentication.
   *
   * @example
   * await etcd.auth.disable();
   */
  async disable(options?: CallOptions): Promise<WithHeader<object>> {
    return withHeaderOf(this.#rpc.checkedCall(authMethods.authDisable, {}, options));
  }

  /**
   * Returns whether authentication is enabled, and the revision of the users and roles. Requires etcd 3.5 or later.
   *
   * @example
   * const { enabled } = await etcd.auth.status();
   */
  async status(
    options?: CallOptions,
  ): Promise<WithHeader<{ readonly enabled: boolean; readonly authRevision: bigint }>> {
    return withHeaderOf(this.#rpc.checkedCall(authMethods.authStatus, {}, options));
  }

  /**
   * Exchanges a user name and a password for a token, which another client can use as its option `auth: { token }`.
   *
   * @throws EtcdError with reason `AuthFailed` if the name or the password is wrong.
   *
   * @example
   * const token = await etcd.auth.authenticate('ann', 'secret');
   */
  async authenticate(name: string, password: string, options?: CallOptions): Promise<string> {
    const request = { name: checkName(name, 'name'), password: checkPassword(password) };
    const { token } = await this.#rpc.checkedCall(authMethods.authenticate, request, options);
    return token;
  }

  /**
   * Adds a user without roles.
   *
   * @throws EtcdError with reason `UserAlreadyExist` if a user with this name exists.
   *
   * @example
   * await etcd.auth.userAdd('ann', { password: 'secret' });
   */
  async userAdd(name: string, login: Login, options?: CallOptions): Promise<WithHeader<object>> {
    return withHeaderOf(
      this.#rpc.checkedCall(authMethods.userAdd, { name: checkName(name, 'name'), ...loginFields(login) }, options),
    );
  }

  /**
   * Returns the roles of a user.
   *
   * @throws EtcdError with reason `UserNotFound` if there is no user with this name.
   *
   * @example
   * const { roles } = await etcd.auth.userGet('ann');
   */
  async userGet(name: string, options?: CallOptions): Promise<WithHeader<{ readonly roles: readonly string[] }>> {
    const request = { name: checkName(name, 'name') };
    return withHeaderOf(this.#rpc.checkedCall(authMethods.userGet, request, options));
  }

  /**
   * Returns the names of all users.
   *
   * @example
   * const { users } = await etcd.auth.userList();
   */
  async userList(options?: CallOptions): Promise<WithHeader<{ readonly users: readonly string[] }>> {
    return withHeaderOf(this.#rpc.checkedCall(authMethods.userList, {}, options));
  }

  /**
   * Deletes a user.
   *
   * @throws EtcdError with reason `UserNotFound` if there is no user with this name.
   *
   * @example
   * await etcd.auth.userDelete('ann');
   */
  async userDelete(name: string, options?: CallOptions): Promise<WithHeader<object>> {
    return withHeaderOf(this.#rpc.checkedCall(authMethods.userDelete, { name: checkName(name, 'name') }, options));
  }

  /**
   * Replaces the password of a user.
   *
   * @throws EtcdError with reason `UserNotFound` if there is no user with this name.
   *
   * @example
   * await etcd.auth.userChangePassword('ann', 'new secret');
   */
  async userChangePassword(name: string, password: string, options?: CallOptions): Promise<WithHeader<object>> {
    const request = { name: checkName(name, 'name'), password: checkPassword(password) };
    return withHeaderOf(this.#rpc.checkedCall(authMethods.userChangePassword, request, options));
  }

  /**
   * Grants a user the permissions of a role.
   *
   * @throws EtcdError with reason `UserNotFound` if the user does not exist, or `RoleNotFound` if the role does not
   * exist.
   *
   * @example
   * await etcd.auth.userGrantRole('ann', 'reader');
   */
  async userGrantRole(user: string, role: string, options?: CallOptions): Promise<WithHeader<object>> {
    const request = { user: checkName(user, 'user'), role: checkName(role, 'role') };
    return withHeaderOf(this.#rpc.checkedCall(authMethods.userGrantRole, request, options));
  }

  /**
   * Revokes a role from a user.
   *
   * @throws EtcdError with reason `UserNotFound` if the user does not exist, or `RoleNotGranted` if the user does not
   * have the role.
   *
   * @example
   * await etcd.auth.userRevokeRole('ann', 'reader');
   */
  async userRevokeRole(user: string, role: string, options?: CallOptions): Promise<WithHeader<object>> {
    const request = { name: checkName(user, 'user'), role: checkName(role, 'role') };
    return withHeaderOf(this.#rpc.checkedCall(authMethods.userRevokeRole, request, options));
  }

  /**
   * Adds a role without permissions.
   *
   * @throws EtcdError with reason `RoleAlreadyExist` if a role with this name exists.
   *
   * @example
   * await etcd.auth.roleAdd('reader');
   */
  async roleAdd(role: string, options?: CallOptions): Promise<WithHeader<object>> {
    return withHeaderOf(this.#rpc.checkedCall(authMethods.roleAdd, { name: checkName(role, 'role') }, options));
  }

  /**
   * Returns the permissions of a role.
   *
   * @throws EtcdError with reason `RoleNotFound` if there is no role with this name.
   *
   * @example
   * const { permissions } = await etcd.auth.roleGet('reader');
   */
  async roleGet(
    role: string,
    options?: CallOptions,
  ): Promise<WithHeader<{ readonly permissions: readonly Permission[] }>> {
    const request = { role: checkName(role, 'role') };
    const { header, perm } = await this.#rpc.checkedCall(authMethods.roleGet, request, options);
    return withHeader(header, { permissions: perm.map(permission) });
  }

  /**
   * Returns the names of all roles.
   *
   * @example
   * const { roles } = await etcd.auth.roleList();
   */
  async roleList(options?: CallOptions): Promise<WithHeader<{ readonly roles: readonly string[] }>> {
    return withHeaderOf(this.#rpc.checkedCall(authMethods.roleList, {}, options));
  }

  /**
   * Deletes a role, and revokes it from all users that have it.
   *
   * @throws EtcdError with reason `RoleNotFound` if there is no role with this name.
   *
   * @example
   * await etcd.auth.roleDelete('reader');
   */
  async roleDelete(role: string, options?: CallOptions): Promise<WithHeader<object>> {
    return withHeaderOf(this.#rpc.checkedCall(authMethods.roleDelete, { role: checkName(role, 'role') }, options));
  }

  /**
   * Grants a role access to a key or to a range of keys. Replaces the permission that the role may already have for
   * exactly these keys.
   *
   * @throws EtcdError with reason `RoleNotFound` if there is no role with this name.
   *
   * @example
   * await etcd.auth.roleGrantPermission('reader', 'read', prefix('config/'));
   */
  async roleGrantPermission(
    role: string,
    access: Access,
    keys: Keys,
    options?: CallOptions,
  ): Promise<WithHeader<object>> {
    const permType = checkChoice(ACCESS, access, 'access');
    const request = { name: checkName(role, 'role'), perm: { permType, ...resolveKeys(keys, 'keys') } };
    return withHeaderOf(this.#rpc.checkedCall(authMethods.roleGrantPermission, request, options));
  }

  /**
   * Revokes the permission that was granted to a role for exactly these keys.
   *
   * @throws EtcdError with reason `RoleNotFound` if the role does not exist, or `PermissionNotGranted` if the role has
   * no permission for exactly these keys.
   *
   * @example
   * await etcd.auth.roleRevokePermission('reader', prefix('config/'));
   */
  async roleRevokePermission(role: string, keys: Keys, options?: CallOptions): Promise<WithHeader<object>> {
    const request = { role: checkName(role, 'role'), ...resolveKeys(keys, 'keys') };
    return withHeaderOf(this.#rpc.checkedCall(authMethods.roleRevokePermission, request, options));
  }
}

function permission({ permType, key, rangeEnd }: WirePermission): Permission {
  const access = (Object.keys(ACCESS) as Access[]).find((name) => ACCESS[name] === permType);
  return { access: access ?? 'read', keys: keysOf({ key, rangeEnd }) };
}

/** Refuses a login with neither `password` nor `noPassword`: the server would set an empty password. */
function loginFields(login: Login): {
  readonly password?: string;
  readonly options?: { readonly noPassword: true };
} {
  const isObject = typeof login === 'object' && login !== null;
  const given = isObject ? Object.keys(login) : [];
  if (given.length === 1 && 'password' in login) return { password: checkPassword(login.password) };
  if (given.length === 1 && 'noPassword' in login && login.noPassword === true)
    return { options: { noPassword: true } };
  const shown = isObject ? 'an object with other properties' : show(login);
  throw invalidInput('login', shown, 'either { password } or { noPassword: true }');
}

/**
 * Checks a password. Unlike the error of `checkName`, the error never shows the given value, even if it is a number.
 */
function checkPassword(password: string): string {
  if (typeof password === 'string' && password !== '') return password;
  throw invalidInput('password', describeType(password), 'a non-empty string');
}
