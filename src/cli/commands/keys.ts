import { type Command, Option } from 'commander';
import {
  DeleteRangeResponse,
  PutResponse,
  RangeRequest,
  RangeResponse,
  SortOrder,
  SortTarget,
} from '../../gen/etcdserverpb/rpc.js';
import type { KeyValue } from '../../gen/mvccpb/kv.js';
import { keyRange, fromKey as keysFrom, prefix as keysWithPrefix, resolveKeys, type WireRange } from '../../kv/keys.js';
import { toJson } from '../../protobuf/json.js';
import { NO_BYTES, toBytes } from '../../runtime/bytes.js';
import { type Context, contextOf, withClient } from '../context.js';
import { CliError, ExitCode } from '../exit-code.js';
import { type Io, readAll } from '../io.js';
import { leaseHex, readable } from '../output.js';
import { int64, leaseId } from '../values.js';

export interface RangeFlags {
  readonly prefix?: boolean;
  readonly fromKey?: boolean;
}

interface GetFlags extends RangeFlags {
  readonly limit?: bigint;
  readonly rev?: bigint;
  readonly order?: keyof typeof SortOrder;
  readonly sortBy?: string;
  readonly consistency: string;
  readonly keysOnly?: boolean;
  readonly countOnly?: boolean;
  readonly printValueOnly?: boolean;
}

interface PutFlags {
  readonly lease?: bigint;
  readonly prevKv?: boolean;
  readonly ignoreValue?: boolean;
  readonly ignoreLease?: boolean;
}

/** As etcdctl names them. */
const SORT_TARGETS: Readonly<Record<string, SortTarget>> = {
  CREATE: SortTarget.CREATE,
  KEY: SortTarget.KEY,
  MODIFY: SortTarget.MOD,
  VALUE: SortTarget.VALUE,
  VERSION: SortTarget.VERSION,
};
const KEY_HEADS = ['KEY', 'VALUE', 'CREATED', 'MODIFIED', 'VERSION', 'LEASE'];

export function addKeyCommands(program: Command, io: Io): void {
  rangeFlags(program.command('get').argument('<key>').argument('[range-end]'))
    .description('keys and their values')
    .option('--limit <count>', 'so many at most', int64)
    .option('--rev <revision>', 'as of this revision', int64)
    .addOption(new Option('--order <order>').choices(Object.keys(SortOrder).filter((name) => name !== 'NONE')))
    .addOption(new Option('--sort-by <what>').choices(Object.keys(SORT_TARGETS)))
    .addOption(
      new Option('--consistency <which>', 'l: linearizable; s: serializable, as the member knows it')
        .choices(['l', 's'])
        .default('l'),
    )
    .option('--keys-only', 'without the values')
    .option('--count-only', 'how many there are')
    .option('--print-value-only', 'the values alone, as they are')
    .action(async (key: string, end: string | undefined, flags: GetFlags, command: Command) => {
      await get(contextOf(io, command), rangeOf(key, end, flags), flags);
    });
  program
    .command('put')
    .argument('<key>')
    .argument('[value]', 'without it, standard input')
    .description('writes one key')
    .option('--lease <id>', 'attached to this lease (hexadecimal)', leaseId)
    .option('--prev-kv', 'tells what was there before')
    .option('--ignore-value', 'leaves the value as it is')
    .option('--ignore-lease', 'leaves the lease as it is')
    .action(async (key: string, value: string | undefined, flags: PutFlags, command: Command) => {
      await put(contextOf(io, command), key, value, flags);
    });
  rangeFlags(program.command('del').argument('<key>').argument('[range-end]'))
    .description('deletes keys')
    .option('--prev-kv', 'tells what was there before')
    .action(async (key: string, end: string | undefined, flags: RangeFlags & PutFlags, command: Command) => {
      await del(contextOf(io, command), rangeOf(key, end, flags), flags);
    });
}

export function rangeFlags(command: Command): Command {
  return command.option('--prefix', 'all keys that begin with it').option('--from-key', 'this key and all after it');
}

/** @throws CliError, EtcdError on what is no range. */
export function rangeOf(key: string, end: string | undefined, { prefix, fromKey }: RangeFlags): WireRange {
  if ([end !== undefined, prefix, fromKey].filter(Boolean).length > 1)
    throw new CliError(ExitCode.USAGE, 'a range end, --prefix, --from-key: got several; allowed: one of them');
  // As with etcdctl: all keys.
  if (prefix || (key === '' && fromKey)) return keysWithPrefix(key);
  if (fromKey) return keysFrom(key);
  return resolveKeys(end === undefined ? key : keyRange(key, end), 'key');
}

async function get(context: Context, range: WireRange, flags: GetFlags): Promise<void> {
  const { out, call } = context;
  const request: RangeRequest = {
    ...RangeRequest.create(),
    ...range,
    limit: flags.limit ?? 0n,
    revision: flags.rev ?? 0n,
    serializable: flags.consistency === 's',
    keysOnly: flags.keysOnly ?? false,
    countOnly: flags.countOnly ?? false,
    sortOrder: SortOrder[flags.order ?? 'NONE'],
    sortTarget: SORT_TARGETS[flags.sortBy ?? 'KEY'] as SortTarget,
  };
  const response = await withClient(context, (client) => client.raw.kv.range(request, call));
  if (flags.printValueOnly) for (const { value } of response.kvs) out.bytes(Buffer.concat([value, Buffer.from('\n')]));
  else if (out.format === 'json') out.json(toJson(RangeResponse, response));
  else if (flags.countOnly) out.line(String(response.count));
  else if (out.format === 'table') out.table(KEY_HEADS, response.kvs.map(rowOf));
  else for (const { key, value } of response.kvs) out.line(flags.keysOnly ? readable(key) : simple(key, value));
}

async function put(context: Context, key: string, value: string | undefined, flags: PutFlags): Promise<void> {
  const { io, out, call } = context;
  if (flags.ignoreValue && value !== undefined)
    throw new CliError(ExitCode.USAGE, 'value: got one together with --ignore-value; allowed: one of them');
  const request = {
    key: resolveKeys(key, 'key').key,
    value: flags.ignoreValue ? NO_BYTES : value === undefined ? await readAll(io) : toBytes(value, 'value'),
    lease: flags.lease ?? 0n,
    prevKv: flags.prevKv ?? false,
    ignoreValue: flags.ignoreValue ?? false,
    ignoreLease: flags.ignoreLease ?? false,
  };
  const response = await withClient(context, (client) => client.raw.kv.put(request, call));
  if (out.format === 'json') return out.json(toJson(PutResponse, response));
  out.line('OK');
  if (response.prevKv === undefined) return;
  if (out.format === 'table') out.table(KEY_HEADS, [rowOf(response.prevKv)]);
  else out.line(simple(response.prevKv.key, response.prevKv.value));
}

async function del(context: Context, range: WireRange, { prevKv = false }: PutFlags): Promise<void> {
  const { out, call } = context;
  const response = await withClient(context, (client) => client.raw.kv.deleteRange({ ...range, prevKv }, call));
  if (out.format === 'json') return out.json(toJson(DeleteRangeResponse, response));
  out.line(`${response.deleted}`);
  if (response.prevKvs.length === 0) return;
  if (out.format === 'table') out.table(KEY_HEADS, response.prevKvs.map(rowOf));
  else for (const { key, value } of response.prevKvs) out.line(simple(key, value));
}

function simple(key: Uint8Array, value: Uint8Array): string {
  return `${readable(key)}\n${readable(value)}`;
}

function rowOf({ key, value, createRevision, modRevision, version, lease }: KeyValue): readonly string[] {
  return [
    readable(key),
    readable(value),
    ...[createRevision, modRevision, version].map(String),
    lease === 0n ? '' : leaseHex(lease),
  ];
}
