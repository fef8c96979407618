import type { CallOptions, Rpc } from '../channel/rpc.js';
import { invalidInput } from '../errors/etcd-error.js';
import { PermissionType, type Permission as WirePermission } from '../gen/authpb/auth.js';
import { methods } from '../gen/methods.js';
import { type Keys, keysOf, resolveKeys } from '../kv/key-range.js';
import { type WithHeader, withHeader } from '../kv/results.js';
import { checkChoice, checkName } from '../runtime/arguments.js';

/** `read` covers range and watch, `write` put and delete. */
export type Access = 'read' | 'write' | 'readwrite';

/** What a role may do with a key or a range of keys. */
export interface Permission {
  readonly access: Access;
  readonly keys: Keys;
}

/** How a user logs in: by password, or by TLS certificate only (etcd 3.4). */
export type Login = { readonly password: string } | { readonly noPassword: true };

const ACCESS = {
  read: PermissionType.READ,
  write: PermissionType.WRITE,
  readwrite: PermissionType.READWRITE,
} as const satisfies Record<Access, PermissionType>;

/**
 * Users, roles and what they may do. Authentication can be enabled once there is a user "root" with the role "root". A
 * change of users or roles makes some tokens old; a client with a password renews them by itself.
 */
export class Auth {
  readonly #rpc: Rpc;

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /** Turns authentication on. From then on calls need a user. */
  async enable(options?: CallOptions): Promise<WithHeader<object>> {
    const { header } = await this.#rpc.checkedCall(methods.auth.authEnable, {}, options);
    return withHeader(header, {});
  }

  /** Turns authentication off. */
  async disable(options?: CallOptions): Promise<WithHeader<object>> {
    const { header } = await this.#rpc.checkedCall(methods.auth.authDisable, {}, options);
    return withHeader(header, {});
  }

  /** Whether it is on, and the revision of users and roles. etcd 3.5 and later. */
  async status(
    options?: CallOptions,
  ): Promise<WithHeader<{ readonly enabled: boolean; readonly authRevision: bigint }>> {
    const { header, enabled, authRevision } = await this.#rpc.checkedCall(methods.auth.authStatus, {}, options);
    return withHeader(header, { enabled, authRevision });
  }

  /** A token, as for `auth: { token }` of another client. @throws EtcdError, reason `AuthFailed`. */
  async authenticate(name: string, password: string, options?: CallOptions): Promise<string> {
    const request = { name: checkName(name, 'name'), password: checkName(password, 'password') };
    const { token } = await this.#rpc.checkedCall(methods.auth.authenticate, request, options);
    return token;
  }

  /** Adds a user, who has no role yet. @throws EtcdError, reason `UserAlreadyExist`. */
  async userAdd(name: string, login: Login, options?: CallOptions): Promise<WithHeader<object>> {
    const request = { name: checkName(name, 'name'), ...loginFields(login) };
    const { header } = await this.#rpc.checkedCall(methods.auth.userAdd, request, options);
    return withHeader(header, {});
  }

  /** The roles of a user. */
  async userGet(name: string, options?: CallOptions): Promise<WithHeader<{ readonly roles: readonly string[] }>> {
    const { header, roles } = await this.#rpc.checkedCall(
      methods.auth.userGet,
      { name: checkName(name, 'name') },
      options,
    );
    return withHeader(header, { roles });
  }

  /** The names of all users. */
  async userList(options?: CallOptions): Promise<WithHeader<{ readonly users: readonly string[] }>> {
    const { header, users } = await this.#rpc.checkedCall(methods.auth.userList, {}, options);
    return withHeader(header, { users });
  }

  /** Deletes a user. @throws EtcdError, reason `UserNotFound`. */
  async userDelete(name: string, options?: CallOptions): Promise<WithHeader<object>> {
    const { header } = await this.#rpc.checkedCall(methods.auth.userDelete, { name: checkName(name, 'name') }, options);
    return withHeader(header, {});
  }

  /** Gives a user another password. */
  async userChangePassword(name: string, password: string, options?: CallOptions): Promise<WithHeader<object>> {
    const request = { name: checkName(name, 'name'), password: checkName(password, 'password') };
    const { header } = await this.#rpc.checkedCall(methods.auth.userChangePassword, request, options);
    return withHeader(header, {});
  }

  /** Lets a user do what the role may do. */
  async userGrantRole(user: string, role: string, options?: CallOptions): Promise<WithHeader<object>> {
    const request = { user: checkName(user, 'user'), role: checkName(role, 'role') };
    const { header } = await this.#rpc.checkedCall(methods.auth.userGrantRole, request, options);
    return withHeader(header, {});
  }

  /** Takes a role from a user. */
  async userRevokeRole(user: string, role: string, options?: CallOptions): Promise<WithHeader<object>> {
    const request = { name: checkName(user, 'user'), role: checkName(role, 'role') };
    const { header } = await this.#rpc.checkedCall(methods.auth.userRevokeRole, request, options);
    return withHeader(header, {});
  }

  /** Adds a role, which may do nothing yet. @throws EtcdError, reason `RoleAlreadyExist`. */
  async roleAdd(role: string, options?: CallOptions): Promise<WithHeader<object>> {
    const { header } = await this.#rpc.checkedCall(methods.auth.roleAdd, { name: checkName(role, 'role') }, options);
    return withHeader(header, {});
  }

  /** What a role may do. */
  async roleGet(
    role: string,
    options?: CallOptions,
  ): Promise<WithHeader<{ readonly permissions: readonly Permission[] }>> {
    const { header, perm } = await this.#rpc.checkedCall(
      methods.auth.roleGet,
      { role: checkName(role, 'role') },
      options,
    );
    return withHeader(header, { permissions: perm.map(permission) });
  }

  /** The names of all roles. */
  async roleList(options?: CallOptions): Promise<WithHeader<{ readonly roles: readonly string[] }>> {
    const { header, roles } = await this.#rpc.checkedCall(methods.auth.roleList, {}, options);
    return withHeader(header, { roles });
  }

  /** Deletes a role, from all its users too. */
  async roleDelete(role: string, options?: CallOptions): Promise<WithHeader<object>> {
    const { header } = await this.#rpc.checkedCall(methods.auth.roleDelete, { role: checkName(role, 'role') }, options);
    return withHeader(header, {});
  }

  /** Lets a role at a key or a range of keys. A permission for the same keys is replaced. */
  async roleGrantPermission(
    role: string,
    access: Access,
    keys: Keys,
    options?: CallOptions,
  ): Promise<WithHeader<object>> {
    const permType = checkChoice(ACCESS, access, 'access');
    const request = { name: checkName(role, 'role'), perm: { permType, ...resolveKeys(keys, 'keys') } };
    const { header } = await this.#rpc.checkedCall(methods.auth.roleGrantPermission, request, options);
    return withHeader(header, {});
  }

  /** Takes back what was granted for exactly these keys. */
  async roleRevokePermission(role: string, keys: Keys, options?: CallOptions): Promise<WithHeader<object>> {
    const request = { role: checkName(role, 'role'), ...resolveKeys(keys, 'keys') };
    const { header } = await this.#rpc.checkedCall(methods.auth.roleRevokePermission, request, options);
    return withHeader(header, {});
  }
}

function permission({ permType, key, rangeEnd }: WirePermission): Permission {
  const access = (Object.keys(ACCESS) as Access[]).find((name) => ACCESS[name] === permType);
  return { access: access ?? 'read', keys: keysOf({ key, rangeEnd }) };
}

/** Nothing but these: to the server a user without either has the empty password. */
function loginFields(login: Login): {
  readonly password?: string;
  readonly options?: { readonly noPassword: true };
} {
  const given = typeof login === 'object' && login !== null ? Object.keys(login) : [];
  if (given.length === 1 && 'password' in login) return { password: checkName(login.password, 'password') };
  if (given.length === 1 && 'noPassword' in login && login.noPassword === true)
    return { options: { noPassword: true } };
  throw invalidInput('login', 'something else', '{ password } or { noPassword: true }');
}
