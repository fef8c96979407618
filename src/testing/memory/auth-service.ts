import { NO_BYTES, toBase64 } from '../../base/index.js';
import { PermissionType } from '../../gen/authpb/auth.js';
import { AuthenticateRequest } from '../../gen/etcdserverpb/rpc.js';
import { methods } from '../../gen/methods.js';
import type { Init, Method } from '../../wire/index.js';
import { andThen } from './consensus.js';
import type { Member } from './member.js';
import { hashPassword, matchesPassword, type PasswordHash } from './password.js';
import { type Router, StatusError, serverError } from './service.js';

const ROOT_ROLE = 'root';
/** The permission that etcd 3.6 and newer report for the role `root`, in `RoleGet` of `auth/store.go`. */
const ROOT_PERMISSION = { permType: PermissionType.READWRITE, key: NO_BYTES, rangeEnd: Uint8Array.of(0) };

/** Registers the service Auth. */
export function registerAuth(router: Router, member: Member): void {
  const { auth, settings, proposals } = member;
  const { store, tokens } = auth;
  const { auth: rpcs } = methods;
  const hashed = (password: string): string => toBase64(hashPassword(password, settings.random));

  /**
   * Registers a method. etcd sends the requests of this service through raft, also those that only read. `prepare`
   * returns the request that the log contains: with the hash instead of the password, because each member would choose
   * another salt.
   */
  const serve = <Request, Response>(
    method: Method<Request, Response, 'unary'>,
    apply: (request: Request) => Omit<Init<Response>, 'header'>,
    prepare: (request: Request) => Request = (request) => request,
  ): void => {
    const proposed = proposals.define(method.path, method.request, (request, entry) => {
      auth.admit(method.path, request, entry);
      const answer = apply(request);
      return { header: member.header(), ...answer } as Init<Response>;
    });
    router.unary(method, (request, call) => {
      // etcd hashes the password, and so checks its length, before it checks the token.
      const prepared = prepare(request);
      return proposed(prepared, auth.authorize(method.path, request, call));
    });
  };
  /** Registers a method whose response consists of the header. */
  const change = <Request, Response>(
    method: Method<Request, Response, 'unary'>,
    apply: (request: Request) => void,
    prepare?: (request: Request) => Request,
  ): void =>
    serve(
      method,
      (request) => {
        apply(request);
        return {} as Omit<Init<Response>, 'header'>;
      },
      prepare,
    );

  change(rpcs.authEnable, () => {
    if (store.enabled) return;
    store.enable();
    tokens.reset();
  });
  change(rpcs.authDisable, () => {
    store.disable();
    tokens.reset();
  });
  serve(rpcs.authStatus, () => ({ enabled: store.enabled, authRevision: store.revision }));
  // The password of the request in the log is the text of the new token.
  const assign = proposals.define(
    rpcs.authenticate.path,
    AuthenticateRequest,
    ({ name, password: text }, { index }) => ({
      header: member.header(),
      token: tokens.assign(name, text, index),
    }),
  );
  router.unary(rpcs.authenticate, ({ name, password }) => {
    const checked = member.consensus.read(() => {
      if (!store.enabled) throw serverError('AuthNotEnabled');
      const user = store.user(name);
      if (user === undefined) throw serverError('AuthFailed');
      if (user.noPassword) throw noPasswordUser();
      if (user.password === undefined || !matchesPassword(user.password, password)) throw serverError('AuthFailed');
    });
    return andThen(checked, () => assign({ name, password: tokens.newText() }));
  });

  change(
    rpcs.userAdd,
    ({ name, options, hashedPassword }) => {
      const noPassword = options?.noPassword ?? false;
      store.addUser(name, noPassword ? undefined : decodeHash(hashedPassword), noPassword);
    },
    (request) =>
      request.options?.noPassword
        ? { ...request, password: '' }
        : { ...request, password: '', hashedPassword: hashed(request.password) },
  );
  serve(rpcs.userGet, ({ name }) => ({ roles: store.existingUser(name).roles }));
  serve(rpcs.userList, () => ({ users: store.userNames() }));
  change(rpcs.userDelete, ({ name }) => {
    store.deleteUser(name);
    tokens.invalidate(name);
  });
  change(
    rpcs.userChangePassword,
    ({ name, hashedPassword }) => {
      const { noPassword } = store.existingUser(name);
      store.setPassword(name, noPassword ? undefined : decodeHash(hashedPassword));
      tokens.invalidate(name);
    },
    (request) =>
      request.password === '' ? request : { ...request, password: '', hashedPassword: hashed(request.password) },
  );
  change(rpcs.userGrantRole, ({ user, role }) => store.grantRole(user, role));
  change(rpcs.userRevokeRole, ({ name, role }) => store.revokeRole(name, role));

  change(rpcs.roleAdd, ({ name }) => store.addRole(name));
  serve(rpcs.roleGet, ({ role }) => {
    const permissions = store.permissionsOf(role);
    const isRoot = role === ROOT_ROLE && settings.version !== '3.5';
    return { perm: isRoot ? [ROOT_PERMISSION] : permissions };
  });
  serve(rpcs.roleList, () => ({ roles: store.roleNames() }));
  change(rpcs.roleDelete, ({ role }) => store.deleteRole(role));
  change(rpcs.roleGrantPermission, ({ name, perm }) => store.grantPermission(name, perm));
  change(rpcs.roleRevokePermission, ({ role, key, rangeEnd }) => store.revokePermission(role, key, rangeEnd));
}

/** Decodes a hash that a client sends instead of a password. @throws StatusError if the text is not Base64. */
function decodeHash(text: string): PasswordHash {
  // Go's decoder ignores line breaks, and requires the padding.
  const base64 = text.replaceAll(/[\r\n]/g, '');
  if (base64.length % 4 !== 0 || !/^[A-Za-z0-9+/]*={0,2}$/.test(base64)) throw noPasswordUser();
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
}

/** Returns the error of etcd's package `auth`. etcd has no gRPC status for this error, so it sends status `Unknown`. */
function noPasswordUser(): StatusError {
  return new StatusError('Unknown', 'auth: authentication failed, password was given for no password user');
}
