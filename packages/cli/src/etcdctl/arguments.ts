import { type Command, Option } from 'commander';
import { parseDuration } from '../../../../src/internal.js';
import { badArgs, ETCDCTL_EXIT, EtcdctlError } from './errors.js';
import { goQuoted } from './go-format.js';

/** How many arguments a command takes, and what etcdctl says about another number. */
interface Arity {
  readonly from: number;
  readonly to?: number;
  readonly problem: string;
}

const NO_MEMBER: Arity = { from: 1, to: 1, problem: 'member ID is not provided' };
const exactly = (count: number, problem: string): Arity => ({ from: count, to: count, problem });

const ARITIES: Readonly<Record<string, Arity>> = {
  get: { from: 1, problem: 'get command needs one argument as key and an optional argument as range_end' },
  put: { from: 1, problem: 'put command needs 1 argument and input from stdin or 2 arguments' },
  del: { from: 1, to: 2, problem: 'del command needs one argument as key and an optional argument as range_end' },
  txn: exactly(0, 'txn command does not accept argument'),
  compaction: exactly(1, 'compaction command needs 1 argument'),
  'move-leader': exactly(1, 'move-leader command needs 1 argument'),
  'make-mirror': exactly(1, 'make-mirror takes one destination argument'),
  lock: { from: 1, problem: 'lock takes a lock name argument and an optional command to execute' },
  elect: { from: 1, to: 2, problem: 'elect takes one election name argument and an optional proposal argument' },
  'lease grant': exactly(1, 'lease grant command needs TTL argument'),
  'lease revoke': exactly(1, 'lease revoke command needs 1 argument'),
  'lease timetolive': exactly(1, 'lease timetolive command needs lease ID as argument'),
  'lease keep-alive': exactly(1, 'lease keep-alive command needs lease ID as argument'),
  'member remove': NO_MEMBER,
  'member update': NO_MEMBER,
  'member promote': NO_MEMBER,
  'alarm list': exactly(0, 'alarm list command accepts no arguments'),
  'alarm disarm': exactly(0, 'alarm disarm command accepts no arguments'),
  'snapshot save': exactly(1, 'snapshot save expects one argument <filename>'),
  'auth enable': exactly(0, 'auth enable command does not accept any arguments'),
  'auth disable': exactly(0, 'auth disable command does not accept any arguments'),
  'auth status': exactly(0, 'auth status command does not accept any arguments'),
  'user add': exactly(1, 'user add command requires user name as its argument'),
  'user delete': exactly(1, 'user delete command requires user name as its argument'),
  'user get': exactly(1, 'user get command requires user name as its argument'),
  'user list': exactly(0, 'user list command requires no arguments'),
  'user passwd': exactly(1, 'user passwd command requires user name as its argument'),
  'user grant-role': exactly(2, 'user grant command requires user name and role name as its argument'),
  'user revoke-role': exactly(2, 'user revoke-role requires user name and role name as its argument'),
  'role add': exactly(1, 'role add command requires role name as its argument'),
  'role delete': exactly(1, 'role delete command requires role name as its argument'),
  'role get': exactly(1, 'role get command requires role name as its argument'),
  'role list': exactly(0, 'role list command requires no arguments'),
  'role grant-permission': {
    from: 3,
    problem: 'role grant command requires role name, permission type, and key [endkey] as its argument',
  },
  'role revoke-permission': {
    from: 2,
    problem: 'role revoke-permission command requires role name and key [endkey] as its argument',
  },
};

const badFeature = (problem: string): EtcdctlError => new EtcdctlError(ETCDCTL_EXIT.BAD_FEATURE, problem);

/** Options that only etcdctl has, by command. */
const MORE_OPTIONS: Readonly<Record<string, string>> = { del: '--range', watch: '--progress-notify' };

const DURATIONS: ReadonlySet<string> = new Set([
  ...['--dial-timeout', '--command-timeout'],
  ...['--keepalive-time', '--keepalive-timeout'],
]);
const BYTES: ReadonlySet<string> = new Set(['--max-request-bytes', '--max-recv-bytes']);

/**
 * Leaves the check of --write-out to the time when etcdctl checks it: before it connects. Refuses wrong durations with
 * the texts of etcdctl.
 */
export function prepareGlobalFlags(program: Command): void {
  program.configureOutput({ outputError: () => {} }).showSuggestionAfterError(false);
  for (const option of program.options) {
    const { long = '', parseArg } = option;
    if (long === '--write-out') unchecked(option);
    if (DURATIONS.has(long) && parseArg !== undefined)
      option.parseArg = <T>(value: string, previous: T): T => {
        const problem = durationProblem(value);
        if (problem !== undefined) throw flagProblem(option, value)(problem);
        // `checkConnection` decides what a limit of 0 means.
        return (parseDuration(value) ?? parseArg(value, previous)) as T;
      };
    if (BYTES.has(long))
      option.parseArg = ((value: string) => {
        const bytes = goInt(value, 0, flagProblem(option, value));
        return bytes > 0n ? bytes : 0n;
      }) as never;
  }
}

/** Makes all arguments optional and unparsed, because `checkArguments` checks them in the order of etcdctl. */
export function prepare(command: Command): void {
  command.configureOutput({ outputError: () => {} }).showSuggestionAfterError(false);
  for (const argument of command.registeredArguments) {
    argument.required = false;
    // commander's type does not allow a value without a parser, but its own code tests for it.
    (argument as { parseArg?: unknown }).parseArg = undefined;
  }
  if (command.registeredArguments.length > 0 || command.commands.length === 0) command.allowExcessArguments(true);
  for (const option of command.options) {
    const name = option.long ?? '';
    if (UNCHECKED.has(name)) unchecked(option);
    if (NUMBERS.has(name) || (name === '--ttl' && command.name() === 'lock'))
      option.parseArg = ((value: string) => goInt(value, 0, flagProblem(option, value))) as never;
    option.mandatory = false;
  }
  const more = MORE_OPTIONS[command.name()];
  if (more !== undefined && command.options.every(({ long }) => long !== more)) command.addOption(new Option(more));
  for (const each of command.commands) prepare(each);
}

/** Options whose values `checkArguments` checks. */
const UNCHECKED: ReadonlySet<string> = new Set(['--order', '--sort-by', '--consistency', '--load', '--lease']);
/** Options whose values are whole numbers, which may be negative in etcdctl. */
const NUMBERS: ReadonlySet<string> = new Set([
  ...['--limit', '--rev'],
  ...['--min-create-rev', '--max-create-rev', '--min-mod-rev', '--max-mod-rev'],
]);

/** Returns a function that makes the error of pflag for a wrong value of a flag. */
export function flagProblem({ short, long }: Option, value: string): (problem: string) => Error {
  const name = short === undefined ? long : `${short}, ${long}`;
  return (problem) =>
    new EtcdctlError(ETCDCTL_EXIT.ERROR, `invalid argument ${goQuoted(value)} for "${name}" flag: ${problem}`);
}

/** The units of a duration in Go. */
const UNITS: ReadonlySet<string> = new Set(['ns', 'us', 'µs', 'μs', 'ms', 's', 'm', 'h']);

/** Returns the error text of Go's `time.ParseDuration`, or undefined if the text is a duration. */
function durationProblem(text: string): string | undefined {
  const problem = (what: string): string => `time: ${what} duration ${goQuoted(text)}`;
  let rest = text.replace(/^[+-]/, '');
  if (rest === '0') return undefined;
  if (rest === '') return problem('invalid');
  while (rest !== '') {
    const [number = ''] = /^\d*\.?\d*/.exec(rest) ?? [];
    if (!/\d/.test(number)) return problem('invalid');
    const [unit = ''] = /^[^\d.]*/.exec(rest.slice(number.length)) ?? [];
    if (unit === '') return problem('missing unit in');
    if (!UNITS.has(unit)) return problem(`unknown unit ${goQuoted(unit)} in`);
    rest = rest.slice(number.length + unit.length);
  }
  return undefined;
}

function unchecked(option: Option): void {
  (option as { argChoices?: unknown }).argChoices = undefined;
  option.parseArg = ((value: string) => value) as never;
}

/**
 * Checks the arguments of a command and parses its numbers, in the order and with the texts of etcdctl.
 *
 * @throws EtcdctlError if an argument is wrong.
 */
export function checkArguments(path: string, command: Command): void {
  const arity = ARITIES[path];
  const count = command.args.length;
  if (arity !== undefined && (count < arity.from || count > (arity.to ?? count))) throw badArgs(arity.problem);
  CHECKS[path]?.(command);
}

const CHECKS: Readonly<Record<string, (command: Command) => void>> = {
  get: checkGet,
  del: (command) => checkRange(command),
  put: (command) => {
    const { ignoreValue } = command.opts();
    if (ignoreValue && command.args.length > 1)
      throw badArgs("put command needs only 1 argument when 'ignore-value' is set");
    const problemOf = (problem: string) => badArgs(`bad lease ID (${problem}), expecting ID in Hex`);
    const lease = command.opts<{ readonly lease?: string }>().lease ?? '0';
    command.setOptionValue('lease', goInt(lease, 16, problemOf));
  },
  compaction: (command) => {
    command.processedArgs[0] = goInt(command.args[0], 10, (problem) => new EtcdctlError(ETCDCTL_EXIT.ERROR, problem));
  },
  'move-leader': (command) => {
    command.processedArgs[0] = goUint(command.args[0], (problem) => badArgs(problem));
  },
  'lease grant': (command) => {
    const ttl = goInt(command.args[0], 10, (problem) => badArgs(`bad TTL (${problem})`));
    command.processedArgs[0] = Number(ttl);
  },
  'lease revoke': parseLease,
  'lease timetolive': parseLease,
  'lease keep-alive': parseLease,
  'member add': (command) => {
    const [name, ...more] = command.args;
    if (name === undefined) throw badArgs('member name not provided');
    const urls = command.args.filter((arg) => arg.toLowerCase().startsWith('http'));
    const hint = urls.map((url) => `, did you mean --peer-urls=${url}`).join('');
    if (more.length > 0) throw badArgs(`too many arguments${hint}`);
    checkPeerUrls(command);
  },
  'member remove': parseMember,
  'member promote': parseMember,
  'member update': (command) => {
    parseMember(command);
    checkPeerUrls(command);
  },
  'member list': (command) => checkConsistency(command, 'l'),
  lock: (command) => {
    const ttl = Number(command.opts<{ readonly ttl: bigint | number }>().ttl);
    command.setOptionValue('ttl', ttl > 0 ? ttl : DEFAULT_TTL);
    if (ttl <= 0)
      command.configureOutput().writeErr?.(`etcdwire: --ttl: got ${ttl}; allowed: above 0; using ${DEFAULT_TTL}\n`);
  },
  elect: (command) => {
    const { listen } = command.opts();
    if (command.args.length === 1 && !listen) throw badArgs('no proposal argument but -l not set');
    if (command.args.length === 2 && listen) throw badArgs('proposal given but -l is set');
  },
  'role grant-permission': (command) => {
    const access = command.args[1] ?? '';
    if (!['READ', 'WRITE', 'READWRITE'].includes(access.toUpperCase()))
      throw badArgs(`invalid permission type: ${access}`);
    checkPermissionRange(command, 2);
  },
  'role revoke-permission': (command) => checkPermissionRange(command, 1),
  'downgrade validate': checkVersion,
  'downgrade enable': checkVersion,
  'check perf': checkLoad,
  'check datascale': checkLoad,
};

/** The TTL in seconds that etcdctl uses for a lock if --ttl is not positive. */
const DEFAULT_TTL = 60;

function checkGet(command: Command): void {
  const { prefix, fromKey, keysOnly, countOnly, order, sortBy, ...limits } = command.opts();
  if (prefix && fromKey) throw badArgs(BOTH_RANGES);
  if (keysOnly && countOnly)
    throw badArgs('`--keys-only` and `--count-only` cannot be set at the same time, choose one');
  checkConsistency(command);
  checkRange(command);
  checkName(command, 'order', order, ['ASCEND', 'DESCEND'], 'bad sort order');
  checkName(command, 'sortBy', sortBy, ['CREATE', 'KEY', 'MODIFY', 'VALUE', 'VERSION'], 'bad sort target');
  for (const what of ['Create', 'Mod']) {
    const [least = 0n, most = 0n] = [limits[`min${what}Rev`], limits[`max${what}Rev`]];
    if (most > 0n && least > most) throw badFeature(`getMin${what}Rev(=${least}) > getMax${what}Rev(=${most})`);
  }
}

const BOTH_RANGES = '`--prefix` and `--from-key` cannot be set at the same time, choose one';

function checkRange(command: Command): void {
  const { prefix, fromKey } = command.opts();
  if (prefix && fromKey) throw badArgs(BOTH_RANGES);
  if (command.args.length > 1 && (prefix || fromKey))
    throw badArgs('too many arguments, only accept one argument when `--prefix` or `--from-key` is set');
}

function checkPermissionRange(command: Command, keyAt: number): void {
  const { prefix, fromKey } = command.opts();
  const hasEnd = command.args.length > keyAt + 1;
  if (hasEnd && command.args[keyAt] !== '' && (prefix || fromKey))
    throw badArgs(`unexpected endkey argument with ${prefix ? '--prefix' : '--from-key'} flag`);
  if (prefix && fromKey) throw badArgs('--from-key and --prefix flags are mutually exclusive');
}

/** Checks the name of a sort order or a sort target, which may be in lower case, and stores it in upper case. */
function checkName(
  command: Command,
  option: string,
  given: string | undefined,
  allowed: readonly string[],
  problem: string,
): void {
  if (given === undefined || given === '') return command.setOptionValue(option, undefined) as never;
  if (!allowed.includes(given.toUpperCase())) throw badFeature(`${problem} ${given}`);
  command.setOptionValue(option, given.toUpperCase());
}

/** etcdctl names the value of the flag of `get` also for `member list`: `shown` is that value. */
function checkConsistency(command: Command, shown?: string): void {
  const { consistency = 'l' } = command.opts<{ readonly consistency?: string }>();
  if (consistency !== 'l' && consistency !== 's')
    throw badFeature(`unknown consistency flag "${shown ?? consistency}"`);
}

function checkLoad(command: Command): void {
  const names: Readonly<Record<string, string>> = { small: 's', medium: 'm', large: 'l', xLarge: 'xl' };
  const { load } = command.opts<{ readonly load: string }>();
  const short = names[load] ?? load;
  if (!Object.values(names).includes(short)) throw badFeature(`unknown load option ${load}`);
  command.setOptionValue('load', short);
  if (command.getOptionValueSource('prefix') === 'default')
    command.setOptionValue('prefix', `/etcdctl-check-${command.name()}/`);
}

function checkPeerUrls(command: Command): void {
  const { peerUrls } = command.opts<{ readonly peerUrls?: string }>();
  if (peerUrls === undefined || peerUrls === '') throw badArgs('member peer urls not provided');
}

function checkVersion(command: Command): void {
  const [version, ...more] = command.args;
  if (version === undefined) throw badArgs('TARGET_VERSION not provided');
  if (more.length > 0) throw badArgs('too many arguments');
  if (version === '') throw badArgs('target version not provided');
}

function parseLease(command: Command): void {
  const problemOf = (problem: string) => badArgs(`bad lease ID arg (${problem}), expecting ID in Hex`);
  command.processedArgs[0] = goInt(command.args[0], 16, problemOf);
}

function parseMember(command: Command): void {
  const problemOf = (problem: string) => badArgs(`bad member ID arg (${problem}), expecting ID in Hex`);
  command.processedArgs[0] = goUint(command.args[0], problemOf);
}

/** Parses a number as `strconv.ParseInt` does. In base 0, the text may have a prefix such as 0x, and underscores. */
function goInt(text: string | undefined, base: 0 | 10 | 16, errorOf: (problem: string) => Error): bigint {
  return parsed('ParseInt', text ?? '', base, [-(2n ** 63n), 2n ** 63n - 1n], errorOf);
}

function goUint(text: string | undefined, errorOf: (problem: string) => Error): bigint {
  return parsed('ParseUint', text ?? '', 16, [0n, 2n ** 64n - 1n], errorOf);
}

/** Matches the sign and the digits of a number, by base. In base 0, an underscore separates two digits or the prefix. */
const NUMBERS_OF_GO = {
  0: /^([+-]?)(0x(?:_?[\da-f])+|0b(?:_?[01])+|0o(?:_?[0-7])+|0(?:_?[0-7])*|[1-9](?:_?\d)*)$/i,
  10: /^([+-]?)(\d+)$/,
  16: /^([+-]?)([\da-f]+)$/i,
} as const;

function parsed(
  name: string,
  text: string,
  base: 0 | 10 | 16,
  [least, most]: readonly [bigint, bigint],
  errorOf: (problem: string) => Error,
): bigint {
  const problem = `strconv.${name}: parsing ${goQuoted(text)}`;
  const [, sign = '', digits = ''] = NUMBERS_OF_GO[base].exec(text) ?? [];
  if (digits === '' || (least === 0n && sign !== '')) throw errorOf(`${problem}: invalid syntax`);
  const plain = base === 16 ? `0x${digits}` : digits.replaceAll('_', '').toLowerCase();
  // Go takes a number that begins with 0 for an octal one, and `BigInt` for a decimal one.
  const size = BigInt(base === 0 ? plain.replace(/^0(?=\d)/, '0o') : plain);
  const value = sign === '-' ? -size : size;
  if (value < least || value > most) throw errorOf(`${problem}: value out of range`);
  return value;
}
