import type { Command } from 'commander';
import {
  type AuthEnableResponse,
  type AuthRoleGetResponse,
  type AuthUserGetResponse,
  type CallOptions,
  EtcdError,
  escapeControls,
  type Init,
  loginOf,
  type Method,
  methods,
  PermissionType,
  type Raw,
} from '../../../../src/internal.js';
import { type Context, contextOf, withClient } from '../context.js';
import { readNewPassword } from '../etcdctl/questions.js';
import { roleParts } from '../etcdctl/simple.js';
import { type CliError, wrongArguments } from '../exit-code.js';
import { booleanOption } from '../go-arguments.js';
import { type Io, linesOf } from '../io.js';
import { type ResponseOptions, readable } from '../output.js';
import { askHidden, isTyped, terminalOf } from '../password.js';
import { printCall } from '../print-call.js';
import { addRangeFlags, rangeOf } from './key-flags.js';

export function addAuthCommands(program: Command, io: Io): void {
  addUserCommands(program.command('user').description('manage users'), io);
  addRoleCommands(program.command('role').description('manage roles and their permissions'), io);
  const auth = program.command('auth').description('turn authentication on and off');
  auth
    .command('enable')
    .description('turn authentication on; gives the role root to the user root, which must exist')
    .action(async (_, command: Command) => {
      const text = (): string => 'Authentication Enabled';
      await show(contextOf(io, command), rpcs.authEnable, enable, text, { sameInAllFormats: true });
    });
  addCall(auth, io, 'disable', {
    description: 'turn authentication off',
    method: rpcs.authDisable,
    text: () => 'Authentication Disabled',
    sameInAllFormats: true,
  });
  addCall(auth, io, 'status', {
    description: 'print whether authentication is on',
    method: rpcs.authStatus,
    text: ({ enabled, authRevision }) => `Authentication Status: ${enabled}\nAuthRevision: ${authRevision}`,
  });
}

const { auth: rpcs } = methods;

/** A command that makes one call and has no options. Its arguments are names of users and roles. */
interface NameCall<Request, Response> {
  readonly description: string;
  readonly method: Method<Request, Response, 'unary'>;
  /** Default: an empty request. */
  readonly request?: (...names: string[]) => Init<Request>;
  /** What the command prints, in the words of etcdctl, unless the output is JSON. */
  readonly text: (response: Response, ...names: string[]) => string;
  /** Whether etcdctl prints the text in all formats. */
  readonly sameInAllFormats?: boolean;
}

/** `usage` is the name of the command and its arguments, such as "delete <name>". */
function addCall<Request, Response>(
  parent: Command,
  io: Io,
  usage: string,
  {
    description,
    method,
    request = () => ({}) as Init<Request>,
    text,
    sameInAllFormats = false,
  }: NameCall<Request, Response>,
): void {
  parent
    .command(usage)
    .description(description)
    .action((...given: unknown[]) => {
      // commander appends the options and the command.
      const names = given.slice(0, -2) as string[];
      const context = contextOf(io, given.at(-1) as Command);
      const options = { sameInAllFormats, details: { name: names[0] ?? '' } };
      return show(context, method, request(...names), (response) => text(response, ...names), options);
    });
}

/** Makes a call, and prints its response as JSON or as text. */
function show<Request, Response>(
  context: Context,
  method: Method<Request, Response, 'unary'>,
  request: Parameters<typeof printCall<Request, Response>>[2],
  text: (response: Response) => string,
  options: ResponseOptions = {},
): Promise<void> {
  const { out } = context;
  const print = (response: Response): void => {
    const shown = text(response);
    // Print nothing for an empty list.
    if (shown === '') return;
    for (const line of shown.split('\n')) {
      const [indent = ''] = /^\t?/.exec(line) ?? [];
      out.line(indent + out.text(line.slice(indent.length)));
    }
  };
  return printCall(context, method, request, print, options);
}

async function enable({ auth: api }: Raw, call: CallOptions): Promise<AuthEnableResponse> {
  try {
    return await api.authEnable({}, call);
  } catch (error) {
    if (!(error instanceof EtcdError) || error.reason !== 'RootRoleNotExist') throw error;
    // As in etcdctl, first give the user root the role root. Otherwise, etcd refuses to enable authentication.
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
    .option(
      '--new-user-password <password>',
      'the password; default: the first line of standard input that is not empty',
    )
    .option('--no-password', 'the user has no password, and authenticates with a TLS certificate')
    .addOption(booleanOption('--interactive <boolean>', 'accepted for compatibility with etcdctl'))
    .description('add a user')
    .action(async (given: string, flags: UserFlags, command: Command) => {
      const { name, password } = await userOf(io, given, flags);
      const options = password === undefined ? { noPassword: true } : undefined;
      const request = { name, password: password ?? '', options };
      await show(contextOf(io, command), rpcs.userAdd, request, () => `User ${name} created`);
    });
  addCall(user, io, 'delete <name>', {
    description: 'delete a user',
    method: rpcs.userDelete,
    request: (name) => ({ name }),
    text: (_, name) => `User ${name} deleted`,
  });
  user
    .command('get')
    .argument('<name>')
    .option('--detail', 'also print the permissions of the roles, unless the output is JSON')
    .description('print the roles of a user')
    .action(async (name: string, { detail }: { readonly detail?: true }, command: Command) => {
      const context = contextOf(io, command);
      if (detail && io.etcdctl !== undefined) return showRoles(context, name);
      const details: string[] = [];
      const get = async ({ auth }: Raw, call: CallOptions): Promise<AuthUserGetResponse> => {
        const response = await auth.userGet({ name }, call);
        if (detail)
          for (const role of response.roles) details.push(`\n\n${roleText(await auth.roleGet({ role }, call), role)}`);
        return response;
      };
      await show(context, rpcs.userGet, get, ({ roles }) =>
        detail
          ? `User: ${name}${details.join('')}`
          : `User: ${name}\nRoles:${roles.map((role) => ` ${role}`).join('')}`,
      );
    });
  addCall(user, io, 'list', {
    description: 'list the users',
    method: rpcs.userList,
    text: ({ users }) => users.join('\n'),
  });
  user
    .command('passwd')
    .argument('<name>')
    .addOption(booleanOption('--interactive <boolean>', 'accepted for compatibility with etcdctl'))
    .description('change the password of a user to the first line of standard input that is not empty')
    .action(async (name: string, { interactive }: UserFlags, command: Command) => {
      const password = await readPassword(io, name, interactive);
      const request = { name, password };
      await show(contextOf(io, command), rpcs.userChangePassword, request, () => 'Password updated');
    });
  addCall(user, io, 'grant-role <user> <role>', {
    description: 'give a role to a user',
    method: rpcs.userGrantRole,
    request: (name, role) => ({ user: name, role }),
    text: (_, name, role) => `Role ${role} is granted to user ${name}`,
  });
  addCall(user, io, 'revoke-role <user> <role>', {
    description: 'take a role from a user',
    method: rpcs.userRevokeRole,
    request: (name, role) => ({ name, role }),
    text: (_, name, role) => `Role ${role} is revoked from user ${name}`,
  });
}

/** Prints a user and the permissions of each of its roles, as etcdctl does. */
async function showRoles(context: Context, name: string): Promise<void> {
  const { out, call } = context;
  await withClient(context, async ({ raw }) => {
    const { roles } = await raw.auth.userGet({ name }, call);
    out.line(`User: ${name}`);
    for (const role of roles) {
      out.line('');
      const response = await raw.auth.roleGet({ role }, call);
      out.response(rpcs.roleGet.response, response, () => {}, { details: { name: role } });
    }
  });
}

interface UserFlags {
  readonly interactive?: boolean;
  readonly newUserPassword?: string;
  /** False with --no-password. */
  readonly password?: boolean;
}

/**
 * Returns the name and the password of the user to add. The password is undefined with --no-password. An empty password
 * in a flag or after the colon counts as missing, because it may come from an unset variable of a shell.
 */
async function userOf(
  io: Io,
  given: string,
  { newUserPassword, password: hasPassword = true, interactive }: UserFlags,
): Promise<{ readonly name: string; readonly password: string | undefined }> {
  if (!hasPassword && newUserPassword && io.etcdctl === undefined)
    throw wrongArguments('password: got a password together with --no-password; allowed: only one of the two');
  if (!hasPassword) return { name: given, password: undefined };
  // As in etcdctl, a colon belongs to the name if a flag says what the password is.
  const { username: name, password } = loginOf(given, newUserPassword);
  if (name === '' && given !== '') io.etcdctl?.refuse('emptyUser');
  if (password === undefined && name !== given) throw emptyPassword(io);
  return { name, password: password ?? (await readPassword(io, name, interactive)) };
}

function emptyPassword({ etcdctl }: Io): CliError {
  const problem = 'password: got an empty password; allowed: a password of at least one character, or --no-password';
  return etcdctl?.problem('emptyPassword') ?? wrongArguments(problem);
}

/**
 * Reads a password twice from a terminal, which does not show it. Without a terminal, reads the first line of standard
 * input that is not empty.
 */
async function readPassword(io: Io, name: string, interactive: UserFlags['interactive']): Promise<string> {
  const terminal = interactive === false ? undefined : terminalOf(io);
  // Standard error is redirected, so the user would not see that the program waits.
  if (terminal === undefined && isTyped(io) && interactive !== false)
    throw wrongArguments(
      'password: cannot ask for it, because standard error is not a terminal; allowed: a line on standard input that ' +
        'is not a terminal, or, for `user add`, --new-user-password PASSWORD',
    );
  if (terminal === undefined && io.etcdctl !== undefined) {
    const read = await readNewPassword(io, name, interactive !== false);
    if (read === '') throw emptyPassword(io);
    return read;
  }
  if (terminal !== undefined) {
    const user = escapeControls(name);
    const [first = '', second] = await askHidden(terminal, io, [
      `Password of ${user}: `,
      `Password of ${user}, again: `,
    ]);
    if (first === second && first !== '') return first;
    const given = first === '' ? 'an empty password' : 'two different passwords';
    throw wrongArguments(`password: got ${given}; allowed: the same password twice`);
  }
  for await (const line of linesOf(io)) if (line !== '') return line;
  throw wrongArguments('password: missing; allowed: a line on standard input');
}

function addRoleCommands(role: Command, io: Io): void {
  addCall(role, io, 'add <role>', {
    description: 'add a role',
    method: rpcs.roleAdd,
    request: (name) => ({ name }),
    text: (_, name) => `Role ${name} created`,
  });
  addCall(role, io, 'delete <role>', {
    description: 'delete a role',
    method: rpcs.roleDelete,
    request: (name) => ({ role: name }),
    text: (_, name) => `Role ${name} deleted`,
  });
  addCall(role, io, 'get <role>', {
    description: 'print the permissions of a role',
    method: rpcs.roleGet,
    request: (name) => ({ role: name }),
    text: roleText,
  });
  addCall(role, io, 'list', {
    description: 'list the roles',
    method: rpcs.roleList,
    text: ({ roles }) => roles.join('\n'),
  });
  addRangeFlags(role.command('grant-permission').arguments('<role> <access> <key> [range-end]'))
    .description('allow a role to read, write or readwrite keys')
    .action(
      async (name: string, access: string, key: string, end: string | undefined, flags: object, command: Command) => {
        const permType = PermissionType[access.toUpperCase() as keyof typeof PermissionType];
        if (permType === undefined) throw wrongArguments(`access: got "${access}"; allowed: read, write and readwrite`);
        const request = { name, perm: { permType, ...rangeOf(key, end, flags) } };
        await show(contextOf(io, command), rpcs.roleGrantPermission, request, () => `Role ${name} updated`);
      },
    );
  addRangeFlags(role.command('revoke-permission').arguments('<role> <key> [range-end]'))
    .description('take a permission from a role; the range must be that of the permission')
    .action(async (name: string, key: string, end: string | undefined, flags: object, command: Command) => {
      const request = { role: name, ...rangeOf(key, end, flags) };
      const text = (): string => `Permission of key ${key} is revoked from role ${name}`;
      const range = { key: Buffer.from(key), rangeEnd: request.rangeEnd };
      await show(contextOf(io, command), rpcs.roleRevokePermission, request, text, { details: { name, range } });
    });
}

/** Returns the permissions of a role, as etcdctl prints them. */
function roleText(response: AuthRoleGetResponse, name: string): string {
  const parts = roleParts(response, name).map((part) => (typeof part === 'string' ? part : readable(part)));
  // The caller ends the last line.
  return parts.join('').slice(0, -1);
}
