import type { Command, Option } from 'commander';

/** The commands of etcdctl, which can be shortened as long as the name is unambiguous. */
const COMMANDS: Readonly<Record<string, readonly string[]>> = {
  alarm: ['disarm', 'list'],
  auth: ['disable', 'enable', 'status'],
  check: ['datascale', 'perf'],
  compaction: [],
  completion: [],
  defrag: [],
  del: [],
  downgrade: ['cancel', 'enable', 'validate'],
  elect: [],
  endpoint: ['hashkv', 'health', 'status'],
  get: [],
  help: [],
  lease: ['grant', 'keep-alive', 'list', 'revoke', 'timetolive'],
  lock: [],
  'make-mirror': [],
  member: ['add', 'list', 'promote', 'remove', 'update'],
  'move-leader': [],
  put: [],
  role: ['add', 'delete', 'get', 'grant-permission', 'list', 'revoke-permission'],
  snapshot: ['save'],
  txn: [],
  user: ['add', 'delete', 'get', 'grant-role', 'list', 'passwd', 'revoke-role'],
  version: [],
  watch: [],
};

/** Flags that always take `true` or `false` in this program, and for which etcdctl also accepts no value. */
const VALUED = new Set(['--insecure-discovery', '--insecure-transport', '--dest-insecure-transport']);
const BOOLEAN = /^(--[\w-]+)=(1|t|T|true|TRUE|True|0|f|F|false|FALSE|False)$/;

/**
 * Returns the arguments in the form that commander reads. etcdctl reads its arguments with the package pflag, which
 * accepts `--prefix=true`, and the package cobra, which accepts the beginning of a command's name.
 */
export function normalized(program: Command, args: readonly string[]): readonly string[] {
  const end = args.includes('--') ? args.indexOf('--') : args.length;
  const [name] = program.parseOptions([...args]).operands;
  // The flag --interactive has a value only in the commands about users.
  const valued = name !== undefined && 'user'.startsWith(name) ? new Set([...VALUED, '--interactive']) : VALUED;
  const flags = args.slice(0, end).flatMap((arg) => flagOf(program, arg, valued));
  return [...withWholeNames(program, flags), ...args.slice(end)];
}

/** Returns the arguments with `-wjson` instead of `-w=json`. */
export function withoutEquals(args: readonly string[]): readonly string[] {
  const end = args.includes('--') ? args.indexOf('--') : args.length;
  return args.map((arg, at) => (at < end && /^-[wd]=/.test(arg) ? arg.replace('=', '') : arg));
}

function flagOf(program: Command, arg: string, valued: ReadonlySet<string>): readonly string[] {
  if (valued.has(arg)) return [`${arg}=true`];
  const [, name = '', value = ''] = BOOLEAN.exec(arg) ?? [];
  if (name === '' || valued.has(name) || !isSwitch(program, name)) return [arg];
  return /^[1tT]/.test(value) ? [name] : [];
}

/** Whether an option of any command has this name and no value. */
function isSwitch(command: Command, name: string): boolean {
  const isNamed = ({ long, required, optional }: Option): boolean => long === name && !required && !optional;
  return command.options.some(isNamed) || command.commands.some((each) => isSwitch(each, name));
}

/** Replaces the shortened names of commands. */
function withWholeNames(program: Command, args: readonly string[]): readonly string[] {
  const result = [...args];
  let allowed: readonly string[] | undefined = Object.keys(COMMANDS);
  const { operands } = program.parseOptions([...args]);
  let from = 0;
  for (const typed of operands.slice(0, 2)) {
    if (allowed === undefined || allowed.length === 0) break;
    const matches: readonly string[] = allowed.includes(typed)
      ? [typed]
      : allowed.filter((name) => name.startsWith(typed));
    const [whole] = matches;
    if (matches.length !== 1 || whole === undefined) break;
    const at = result.indexOf(typed, from);
    result[at] = whole;
    from = at + 1;
    allowed = COMMANDS[whole];
  }
  return result;
}
