import type { Command } from 'commander';
import { EtcdError } from '../../errors/etcd-error.js';
import { PermissionType } from '../../gen/authpb/auth.js';
import {
  AuthDisableResponse,
  AuthEnableResponse,
  AuthRoleAddResponse,
  AuthRoleDeleteResponse,
  AuthRoleGetResponse,
  AuthRoleGrantPermissionResponse,
  AuthRoleListResponse,
  AuthRoleRevokePermissionResponse,
  AuthStatusResponse,
  AuthUserAddResponse,
  AuthUserChangePasswordResponse,
  AuthUserDeleteResponse,
  AuthUserGetResponse,
  AuthUserGrantRoleResponse,
  AuthUserListResponse,
  AuthUserRevokeRoleResponse,
} from '../../gen/etcdserverpb/rpc.js';
import { prefix as keysWithPrefix } from '../../kv/keys.js';
import type { Codec } from '../../protobuf/codec.js';
import type { Raw } from '../../raw.js';
import { type Context, contextOf, type Io, linesOf, withClient } from '../context.js';
import { CliError, ExitCode } from '../exit-code.js';
import { escapeControls, readable } from '../output.js';
import { addRangeFlags, rangeOf } from './keys.js';

export function addAuthCommands(program: Command, io: Io): void {
  addUserCommands(program.command('user').description('manage users'), io);
  addRoleCommands(program.command('role').description('manage roles and their permissions'), io);
  const auth = program.command('auth').description('turn authentication on and off');
  auth
    .command('enable')
    .description('turn authentication on; gives the role root to the user root, which must exist')
    .action((_, command: Command) =>
      show(contextOf(io, command), AuthEnableResponse, enable, 'Authentication Enabled'),
    );
  auth
    .command('disable')
    .description('turn authentication off')
    .action((_, command: Command) =>
      show(
        contextOf(io, command),
        AuthDisableResponse,
        (api, call) => api.authDisable({}, call),
        'Authentication Disabled',
      ),
    );
  auth
    .command('status')
    .description('print whether authentication is on')
    .action((_, command: Command) =>
      show(
        contextOf(io, command),
        AuthStatusResponse,
        (api, call) => api.authStatus({}, call),
        ({ enabled, authRevision }) => `Authentication Status: ${enabled}\nAuthRevision: ${authRevision}`,
      ),
    );
}

type Api = Raw['auth'];
type Call = Context['call'];

/** Makes a call, and prints its response as JSON or as the text of etcdctl. */
async function show<T>(
  context: Context,
  codec: Codec<T>,
  request: (api: Api, call: Call) => Promise<T>,
  text: string | ((response: T) => string),
): Promise<void> {
  const response = await withClient(context, ({ raw }) => request(raw.auth, context.call));
  context.out.response(codec, response, () => {
    const shown = typeof text === 'string' ? text : text(response);
    // An empty list has no lines.
    if (shown === '') return;
    for (const line of shown.split('\n')) {
      const [indent = ''] = /^\t?/.exec(line) ?? [];
      context.out.line(indent + escapeControls(line.slice(indent.length)));
    }
  });
}

async function enable(api: Api, call: Call): Promise<AuthEnableResponse> {
  try {
    return await api.authEnable({}, call);
  } catch (error) {
    if (!(error instanceof EtcdError) || error.reason !== 'RootRoleNotExist') throw error;
    // As in etcdctl: etcd refuses unless the user root has the role root.
    await api.roleAdd({ name: 'root' }, call).catch((failure: unknown) => {
      if (!(failure instanceof EtcdError) || failure.reason !== 'RoleAlreadyExist') throw failure;
    });
    await api.userGrantRole({ user: 'root', role: 'root' }, call);
    return await api.authEnable({}, call);
  }
}

function addUserCommands(user: Command, io: Io): void {
  user
    .command('add')
    .argument('<name[:password]>')
    .option('--new-user-password <password>', 'the password; default: the first line of standard input')
    .option('--no-password', 'the user has no password, and authenticates with a TLS certificate')
    .option('--interactive <boolean>', 'accepted for compatibility with etcdctl')
    .description('add a user')
    .action(async (given: string, flags: UserFlags, command: Command) => {
      const { name, password } = await userOf(io, given, flags);
      const options = password === undefined ? { noPassword: true } : undefined;
      const add = (api: Api, call: Call) => api.userAdd({ name, password: password ?? '', options }, call);
      await show(contextOf(io, command), AuthUserAddResponse, add, `User ${name} created`);
    });
  user
    .command('delete')
    .argument('<name>')
    .description('delete a user')
    .action((name: string, _, command: Command) =>
      show(
        contextOf(io, command),
        AuthUserDeleteResponse,
        (api, call) => api.userDelete({ name }, call),
        `User ${name} deleted`,
      ),
    );
  user
    .command('get')
    .argument('<name>')
    .description('print the roles of a user')
    .action((name: string, _, command: Command) =>
      show(
        contextOf(io, command),
        AuthUserGetResponse,
        (api, call) => api.userGet({ name }, call),
        ({ roles }) => `User: ${name}\nRoles: ${roles.join(' ')}`,
      ),
    );
  user
    .command('list')
    .description('list the users')
    .action((_, command: Command) =>
      show(
        contextOf(io, command),
        AuthUserListResponse,
        (api, call) => api.userList({}, call),
        ({ users }) => users.join('\n'),
      ),
    );
  user
    .command('passwd')
    .argument('<name>')
    .option('--interactive <boolean>', 'accepted for compatibility with etcdctl')
    .description('change the password of a user to the first line of standard input')
    .action(async (name: string, _, command: Command) => {
      const password = await readPassword(io, name);
      const change = (api: Api, call: Call) => api.userChangePassword({ name, password }, call);
      await show(contextOf(io, command), AuthUserChangePasswordResponse, change, 'Password updated');
    });
  user
    .command('grant-role')
    .arguments('<user> <role>')
    .description('give a role to a user')
    .action((name: string, role: string, _, command: Command) =>
      show(
        contextOf(io, command),
        AuthUserGrantRoleResponse,
        (api, call) => api.userGrantRole({ user: name, role }, call),
        `Role ${role} is granted to user ${name}`,
      ),
    );
  user
    .command('revoke-role')
    .arguments('<user> <role>')
    .description('take a role from a user')
    .action((name: string, role: string, _, command: Command) =>
      show(
        contextOf(io, command),
        AuthUserRevokeRoleResponse,
        (api, call) => api.userRevokeRole({ name, role }, call),
        `Role ${role} is revoked from user ${name}`,
      ),
    );
}

interface UserFlags {
  readonly newUserPassword?: string;
  /** False with --no-password. */
  readonly password?: boolean;
}

/** Returns the name and the password of the user to add. A user without a password has none. */
async function userOf(
  io: Io,
  given: string,
  { newUserPassword, password = true }: UserFlags,
): Promise<{ readonly name: string; readonly password: string | undefined }> {
  // As in etcdctl, a colon belongs to the name if a flag says what the password is.
  const colon = !password || newUserPassword !== undefined ? -1 : given.indexOf(':');
  const inName = colon === -1 ? undefined : given.slice(colon + 1);
  const name = colon === -1 ? given : given.slice(0, colon);
  if (!password && newUserPassword !== undefined)
    throw new CliError(
      ExitCode.USAGE,
      'password: got a password together with --no-password; allowed: only one of the two',
    );
  if (!password) return { name, password: undefined };
  return { name, password: inName ?? newUserPassword ?? (await readPassword(io, name)) };
}

/** Reads a password from the first line of standard input. */
async function readPassword(io: Io, name: string): Promise<string> {
  if ('isTTY' in io.stdin && io.stdin.isTTY)
    io.stderr.write(`password of ${escapeControls(name)} (the terminal shows what you type): `);
  for await (const line of linesOf(io)) if (line !== '') return line;
  throw new CliError(ExitCode.USAGE, 'password: missing; allowed: a line on standard input');
}

function addRoleCommands(role: Command, io: Io): void {
  role
    .command('add')
    .argument('<role>')
    .description('add a role')
    .action((name: string, _, command: Command) =>
      show(
        contextOf(io, command),
        AuthRoleAddResponse,
        (api, call) => api.roleAdd({ name }, call),
        `Role ${name} created`,
      ),
    );
  role
    .command('delete')
    .argument('<role>')
    .description('delete a role')
    .action((name: string, _, command: Command) =>
      show(
        contextOf(io, command),
        AuthRoleDeleteResponse,
        (api, call) => api.roleDelete({ role: name }, call),
        `Role ${name} deleted`,
      ),
    );
  role
    .command('get')
    .argument('<role>')
    .description('print the permissions of a role')
    .action((name: string, _, command: Command) =>
      show(
        contextOf(io, command),
        AuthRoleGetResponse,
        (api, call) => api.roleGet({ role: name }, call),
        (response) => `Role ${name}\n${permissionText(response, 'READ')}\n${permissionText(response, 'WRITE')}`,
      ),
    );
  role
    .command('list')
    .description('list the roles')
    .action((_, command: Command) =>
      show(
        contextOf(io, command),
        AuthRoleListResponse,
        (api, call) => api.roleList({}, call),
        ({ roles }) => roles.join('\n'),
      ),
    );
  addRangeFlags(role.command('grant-permission').arguments('<role> <access> <key> [range-end]'))
    .description('allow a role to read, write or readwrite keys')
    .action(
      async (name: string, access: string, key: string, end: string | undefined, flags: object, command: Command) => {
        const permType = PermissionType[access.toUpperCase() as keyof typeof PermissionType];
        if (permType === undefined)
          throw new CliError(ExitCode.USAGE, `access: got "${access}"; allowed: read, write and readwrite`);
        const request = { name, perm: { permType, ...rangeOf(key, end, flags) } };
        const grant = (api: Api, call: Call) => api.roleGrantPermission(request, call);
        await show(contextOf(io, command), AuthRoleGrantPermissionResponse, grant, `Role ${name} updated`);
      },
    );
  addRangeFlags(role.command('revoke-permission').arguments('<role> <key> [range-end]'))
    .description('take a permission from a role; the range must be that of the permission')
    .action(async (name: string, key: string, end: string | undefined, flags: object, command: Command) => {
      const request = { role: name, ...rangeOf(key, end, flags) };
      const revoke = (api: Api, call: Call) => api.roleRevokePermission(request, call);
      const text = `Permission of key ${key} is revoked from role ${name}`;
      await show(contextOf(io, command), AuthRoleRevokePermissionResponse, revoke, text);
    });
}

/** Returns the ranges for one kind of access, as etcdctl prints them. */
function permissionText({ perm }: AuthRoleGetResponse, access: 'READ' | 'WRITE'): string {
  const of = perm.filter(
    ({ permType }) => permType === PermissionType.READWRITE || permType === PermissionType[access],
  );
  const ranges = of.map(({ key, rangeEnd }) => `\n\t${rangeText(key, rangeEnd)}`);
  return `KV ${access === 'READ' ? 'Read' : 'Write'}:${ranges.join('')}`;
}

function rangeText(key: Uint8Array, rangeEnd: Uint8Array): string {
  if (rangeEnd.length === 0) return readable(key);
  // The range end 0 means "all keys from this one".
  if (rangeEnd.length === 1 && rangeEnd[0] === 0) return `[${readable(key)}, <open ended>`;
  const isPrefix = key.length > 0 && Buffer.from(keysWithPrefix(key).rangeEnd).equals(rangeEnd);
  return `[${readable(key)}, ${readable(rangeEnd)})${isPrefix ? ` (prefix ${readable(key)})` : ''}`;
}
