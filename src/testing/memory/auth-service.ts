import { PermissionType } from '../../gen/authpb/auth.js';
import { methods } from '../../gen/methods.js';
import type { Init } from '../../protobuf/codec.js';
import type { Method } from '../../protobuf/schema.js';
import { NO_BYTES } from '../../runtime/bytes.js';
import type { Member } from './member.js';
import { hashPassword, matchesPassword, type PasswordHash } from './password.js';
import { propose } from './proposals.js';
import { type Router, type ServerCall, StatusError, serverError } from './service.js';

const ROOT_ROLE = 'root';
/** The permission that etcd 3.6 and newer report for the role `root`, in `RoleGet` of `auth/store.go`. */
const ROOT_PERMISSION = { permType: PermissionType.READWRITE, key: NO_BYTES, rangeEnd: Uint8Array.of(0) };

/** Registers the service Auth. */
export function registerAuth(router: Router, member: Member): void {
  const { auth, settings } = member;
  const { store, tokens } = auth;
  const { auth: rpcs } = methods;
  const hashed = (password: string): PasswordHash => hashPassword(password, settings.random);

  /** Checks the permission for a request, and proposes the request (see `propose`). @throws StatusError */
  const admit = <Request, Response>(
    { path, request: codec }: Method<Request, Response>,
    request: Request,
    call: ServerCall,
  ): void => {
    auth.authorize(path, request, call);
    propose(member, codec, request as Init<Request>);
  };
  /** Registers a method whose response consists of the header. */
  const change = <Request, Response>(
    method: Method<Request, Response, 'unary'>,
    apply: (request: Request) => void,
  ): void =>
    router.unary(method, (request, call) => {
      admit(method, request, call);
      apply(request);
      return { header: member.header() } as Init<Response>;
    });

  change(rpcs.authEnable, () => {
    if (store.enabled) return;
    store.enable();
    tokens.reset();
  });
  change(rpcs.authDisable, () => {
    store.disable();
    tokens.reset();
  });
  router.unary(rpcs.authStatus, (request, call) => {
    admit(rpcs.authStatus, request, call);
    return { header: member.header(), enabled: store.enabled, authRevision: store.revision };
  });
  router.unary(rpcs.authenticate, ({ name, password }) => {
    if (!store.enabled) throw serverError('AuthNotEnabled');
    const user = store.user(name);
    if (user === undefined) throw serverError('AuthFailed');
    if (user.noPassword) throw noPasswordUser();
    if (user.password === undefined || !matchesPassword(user.password, password)) throw serverError('AuthFailed');
    member.raftIndex += 1n;
    return { header: member.header(), token: tokens.assign(name, member.raftIndex) };
  });

  router.unary(rpcs.userAdd, (request, call) => {
    const noPassword = request.options?.noPassword ?? false;
    // etcd hashes the password, and so checks its length, before it checks the token.
    const password = noPassword ? undefined : hashed(request.password);
    admit(rpcs.userAdd, request, call);
    store.addUser(request.name, password, noPassword);
    return { header: member.header() };
  });
  router.unary(rpcs.userGet, (request, call) => {
    admit(rpcs.userGet, request, call);
    return { header: member.header(), roles: store.existingUser(request.name).roles };
  });
  router.unary(rpcs.userList, (request, call) => {
    admit(rpcs.userList, request, call);
    return { header: member.header(), users: store.userNames() };
  });
  change(rpcs.userDelete, ({ name }) => {
    store.deleteUser(name);
    tokens.invalidate(name);
  });
  router.unary(rpcs.userChangePassword, (request, call) => {
    const { name, hashedPassword } = request;
    const password = request.password === '' ? undefined : hashed(request.password);
    admit(rpcs.userChangePassword, request, call);
    const { noPassword } = store.existingUser(name);
    store.setPassword(name, noPassword ? undefined : (password ?? decodeHash(hashedPassword)));
    tokens.invalidate(name);
    return { header: member.header() };
  });
  change(rpcs.userGrantRole, ({ user, role }) => store.grantRole(user, role));
  change(rpcs.userRevokeRole, ({ name, role }) => store.revokeRole(name, role));

  change(rpcs.roleAdd, ({ name }) => store.addRole(name));
  router.unary(rpcs.roleGet, (request, call) => {
    admit(rpcs.roleGet, request, call);
    const permissions = store.permissionsOf(request.role);
    const isRoot = request.role === ROOT_ROLE && settings.version !== '3.5';
    return { header: member.header(), perm: isRoot ? [ROOT_PERMISSION] : permissions };
  });
  router.unary(rpcs.roleList, (request, call) => {
    admit(rpcs.roleList, request, call);
    return { header: member.header(), roles: store.roleNames() };
  });
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
