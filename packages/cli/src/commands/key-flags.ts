import { type Command, Option } from 'commander';
import {
  type BytesLike,
  checkKey,
  type Init,
  keyRange,
  fromKey as keysFrom,
  prefix as keysWithPrefix,
  NO_BYTES,
  type PutRequest,
  type RangeRequest,
  resolveKeys,
  SortOrder,
  SortTarget,
  toBytes,
  type WireRange,
} from '../../../../src/internal.js';
import { int64, leaseId } from '../arguments.js';
import { wrongArguments } from '../exit-code.js';

// The flags and arguments of the commands that read and write keys, which the lines of `txn` and `watch -i` have, too.

/** The flags of all commands about keys. Each command has only some of them. */
export interface KeyFlags {
  readonly prefix?: boolean;
  readonly fromKey?: boolean;
  readonly limit?: bigint;
  readonly rev?: bigint;
  readonly minCreateRev?: bigint;
  readonly maxCreateRev?: bigint;
  readonly minModRev?: bigint;
  readonly maxModRev?: bigint;
  readonly order?: keyof typeof SortOrder;
  readonly sortBy?: string;
  readonly consistency?: 'l' | 's';
  readonly keysOnly?: boolean;
  readonly countOnly?: boolean;
  readonly printValueOnly?: boolean;
  readonly lease?: bigint;
  readonly prevKv?: boolean;
  readonly ignoreValue?: boolean;
  readonly ignoreLease?: boolean;
  readonly base64?: boolean;
  readonly interactive?: boolean;
  /** Whether `del` of etcdctl should delete a range without a warning. */
  readonly range?: boolean;
}

const SORT_ORDERS = Object.keys(SortOrder).filter((name) => name !== 'NONE');

/** Maps etcdctl's names of the sort targets to the values of the protocol. */
const SORT_TARGETS: Readonly<Record<string, SortTarget>> = {
  CREATE: SortTarget.CREATE,
  KEY: SortTarget.KEY,
  MODIFY: SortTarget.MOD,
  VALUE: SortTarget.VALUE,
  VERSION: SortTarget.VERSION,
};

type Act<Arguments extends readonly unknown[]> = (...given: [...Arguments, KeyFlags, Command]) => Promise<void>;

/** Adds `get`, also to the parser of the lines of `txn`. */
export function defineGet(program: Command, act: Act<[Init<RangeRequest>]>): void {
  addRangeFlags(program.command('get').argument('<key>').argument('[range-end]'))
    .description('print keys and their values')
    .option('--limit <count>', 'print at most this many keys', int64)
    .option('--rev <revision>', 'read at this revision', int64)
    .option('--min-create-rev <revision>', 'leave out keys that were created before this revision', int64)
    .option('--max-create-rev <revision>', 'leave out keys that were created after this revision', int64)
    .option('--min-mod-rev <revision>', 'leave out keys that were last changed before this revision', int64)
    .option('--max-mod-rev <revision>', 'leave out keys that were last changed after this revision', int64)
    .addOption(nameOption('--order <order>', SORT_ORDERS))
    .addOption(nameOption('--sort-by <field>', Object.keys(SORT_TARGETS)))
    .addOption(
      new Option('--consistency <level>', 'l: linearizable; s: serializable, the local state of the member')
        .choices(['l', 's'])
        .default('l'),
    )
    .option('--keys-only', 'print no values')
    .option('--count-only', 'print only the number of keys')
    .option('--print-value-only', 'print only the values, byte for byte')
    .action(async (key: string, end: string | undefined, flags: KeyFlags, command: Command) => {
      await act(rangeRequest(rangeOf(key, end, flags), flags), flags, command);
    });
}

/** Adds `put`, also to the parser of the lines of `txn`. */
export function definePut(program: Command, act: Act<[key: string, value: string | undefined]>): void {
  program
    .command('put')
    .argument('<key>')
    .argument('[value]', 'default: read from standard input')
    .description('write a key')
    .option('--lease <id>', 'attach the key to this lease (hexadecimal)', leaseId)
    .option('--prev-kv', 'print the previous key and value')
    .option('--ignore-value', 'keep the value')
    .option('--ignore-lease', 'keep the lease')
    .action(act);
}

/** Adds `del`, also to the parser of the lines of `txn`. */
export function defineDel(program: Command, act: Act<[WireRange]>): void {
  addRangeFlags(program.command('del').argument('<key>').argument('[range-end]'))
    .description('delete keys')
    .option('--prev-kv', 'print the deleted keys and values')
    .action(async (key: string, end: string | undefined, flags: KeyFlags, command: Command) => {
      await act(rangeOf(key, end, flags), flags, command);
    });
}

/** Returns an option for one of several names, which may be in lower case. */
function nameOption(flags: string, names: readonly string[]): Option {
  const option = new Option(flags).choices(names);
  const { parseArg } = option;
  return option.argParser((value: string, previous) => parseArg?.(value.toUpperCase(), previous as never));
}

export function addRangeFlags(command: Command): Command {
  return command
    .option('--prefix', 'all keys that begin with <key>')
    .option('--from-key', 'all keys that are equal to or greater than <key>');
}

/** Returns the range that the arguments and flags describe. @throws CliError or EtcdError if they are invalid. */
export function rangeOf(key: string, end: string | undefined, { prefix, fromKey }: KeyFlags): WireRange {
  const [first, second] = [end !== undefined && 'a range end', prefix && '--prefix', fromKey && '--from-key'].filter(
    Boolean,
  );
  if (second !== undefined)
    throw wrongArguments(`range: got ${first} together with ${second}; allowed: only one of the two`);
  // As in etcdctl, an empty key with --prefix or --from-key stands for all keys.
  if (prefix || (key === '' && fromKey)) return keysWithPrefix(key);
  if (fromKey) return keysFrom(key);
  // As in etcdctl, an empty range end counts as none.
  return resolveKeys(end === undefined || end === '' ? key : keyRange(key, end), 'key');
}

/** Returns the request of `get`. */
function rangeRequest(range: WireRange, flags: KeyFlags): Init<RangeRequest> {
  return {
    ...range,
    limit: flags.limit,
    revision: flags.rev,
    serializable: flags.consistency === 's',
    keysOnly: flags.keysOnly,
    countOnly: flags.countOnly,
    minCreateRevision: flags.minCreateRev,
    maxCreateRevision: flags.maxCreateRev,
    minModRevision: flags.minModRev,
    maxModRevision: flags.maxModRev,
    sortOrder: SortOrder[flags.order ?? 'NONE'],
    sortTarget: SORT_TARGETS[flags.sortBy ?? 'KEY'],
  };
}

/** Returns the request of `put`. @throws CliError or EtcdError if the arguments are invalid. */
export function putRequest(key: string, value: BytesLike | undefined, flags: KeyFlags): Init<PutRequest> {
  const { lease, prevKv, ignoreValue, ignoreLease } = flags;
  if (ignoreValue && value !== undefined)
    throw wrongArguments('value: got a value together with --ignore-value; allowed: only one of the two');
  return {
    key: checkKey(key, 'key'),
    value: value === undefined ? NO_BYTES : toBytes(value, 'value'),
    lease,
    prevKv,
    ignoreValue,
    ignoreLease,
  };
}
