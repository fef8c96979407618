import { type Command, Option } from 'commander';
import type { Client } from '../../client/client.js';
import {
  DeleteRangeResponse,
  PutResponse,
  type RangeRequest,
  RangeResponse,
  ResponseOp,
  SortOrder,
  SortTarget,
  TxnRequest,
  TxnResponse,
} from '../../gen/etcdserverpb/rpc.js';
import { Event, EventType, KeyValue } from '../../gen/mvccpb/kv.js';
import {
  checkKey,
  keyRange,
  fromKey as keysFrom,
  keysOf,
  prefix as keysWithPrefix,
  resolveKeys,
  type WireRange,
} from '../../kv/keys.js';
import type { Init } from '../../protobuf/codec.js';
import { type JsonValue, toJson } from '../../reflection/json.js';
import { NO_BYTES, textOf, toBase64, toBytes } from '../../runtime/bytes.js';
import type { WatchEvent } from '../../watch/event.js';
import { base64Option, bytesAs, countAfterDashes, hasDashes, int64, leaseId, messageFrom } from '../arguments.js';
import { runProgram } from '../child.js';
import { type Context, contextOf, endpointLogger, readText, withClient } from '../context.js';
import { CliError, ExitCode, type SetExitCode } from '../exit-code.js';
import { type Io, readAll } from '../io.js';
import { BASE64_PREFIX, leaseHex, type Output, textOrBase64 } from '../output.js';

/** The flags of all commands in this file. Each command has only some of them. */
interface KeyFlags {
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
}

/** Maps etcdctl's names of the sort targets to the values of the protocol. */
const SORT_TARGETS: Readonly<Record<string, SortTarget>> = {
  CREATE: SortTarget.CREATE,
  KEY: SortTarget.KEY,
  MODIFY: SortTarget.MOD,
  VALUE: SortTarget.VALUE,
  VERSION: SortTarget.VERSION,
};

export function addKeyCommands(program: Command, io: Io, setExitCode: SetExitCode): void {
  addRangeFlags(program.command('get').argument('<key>').argument('[range-end]'))
    .description('print keys and their values')
    .option('--limit <count>', 'print at most this many keys', int64)
    .option('--rev <revision>', 'read at this revision', int64)
    .option('--min-create-rev <revision>', 'leave out keys that were created before this revision', int64)
    .option('--max-create-rev <revision>', 'leave out keys that were created after this revision', int64)
    .option('--min-mod-rev <revision>', 'leave out keys that were last changed before this revision', int64)
    .option('--max-mod-rev <revision>', 'leave out keys that were last changed after this revision', int64)
    .addOption(new Option('--order <order>').choices(Object.keys(SortOrder).filter((name) => name !== 'NONE')))
    .addOption(new Option('--sort-by <field>').choices(Object.keys(SORT_TARGETS)))
    .addOption(
      new Option('--consistency <level>', 'l: linearizable; s: serializable, the local state of the member')
        .choices(['l', 's'])
        .default('l'),
    )
    .option('--keys-only', 'print no values')
    .option('--count-only', 'print only the number of keys')
    .option('--print-value-only', 'print only the values, byte for byte')
    .action(async (key: string, end: string | undefined, flags: KeyFlags, command: Command) => {
      await get(contextOf(io, command), rangeOf(key, end, flags), flags);
    });
  program
    .command('put')
    .argument('<key>')
    .argument('[value]', 'default: read from standard input')
    .description('write a key')
    .option('--lease <id>', 'attach the key to this lease (hexadecimal)', leaseId)
    .option('--prev-kv', 'print the previous key and value')
    .option('--ignore-value', 'keep the value')
    .option('--ignore-lease', 'keep the lease')
    .action(async (key: string, value: string | undefined, flags: KeyFlags, command: Command) => {
      await put(contextOf(io, command), key, value, flags);
    });
  addRangeFlags(program.command('del').argument('<key>').argument('[range-end]'))
    .description('delete keys')
    .option('--prev-kv', 'print the deleted keys and values')
    .action(async (key: string, end: string | undefined, flags: KeyFlags, command: Command) => {
      await del(contextOf(io, command), rangeOf(key, end, flags), flags);
    });
  program
    .command('txn')
    .argument('<file>', 'etcdserverpb.TxnRequest in JSON; - reads standard input')
    .addOption(base64Option())
    .description('run a transaction; exits with 0 whether its conditions held or not')
    .action(async (file: string, { base64 = false }: KeyFlags, command: Command) => {
      await txn(contextOf(io, command), file, base64);
    });
  addRangeFlags(program.command('watch').argument('<key>').argument('[range-end]').argument('[command...]', 'after --'))
    .description('print events as they arrive, each once and in order, across reconnects, and run a command for each')
    .addHelpText(
      'after',
      `
The command gets the event in ETCDWIRE_WATCH_TYPE (PUT or DELETE), ETCDWIRE_WATCH_KEY, ETCDWIRE_WATCH_VALUE and
ETCDWIRE_WATCH_REVISION. Bytes that are not text are base64 after "base64:". The command also gets the variables of
etcdctl, whose names begin with ETCD_WATCH_ and whose values are in quotes, except the revision. The commands run one
after the other. If one of them fails, watch ends with its exit code.`,
    )
    .option('--rev <revision>', 'start at this revision', int64)
    .option('--prev-kv', 'print the previous key and value too')
    .action(
      async (key: string, given: string | undefined, rest: readonly string[], flags: KeyFlags, command: Command) => {
        const { end, program: run } = splitAtDashes(command, given, rest);
        setExitCode(await watch(contextOf(io, command), rangeOf(key, end, flags), flags, run));
      },
    );
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
    throw new CliError(ExitCode.USAGE, `range: got ${first} together with ${second}; allowed: only one of the two`);
  // As in etcdctl, an empty key with --prefix or --from-key stands for all keys.
  if (prefix || (key === '' && fromKey)) return keysWithPrefix(key);
  if (fromKey) return keysFrom(key);
  return resolveKeys(end === undefined ? key : keyRange(key, end), 'key');
}

async function get(context: Context, range: WireRange, flags: KeyFlags): Promise<void> {
  const { out, call } = context;
  const request: Init<RangeRequest> = {
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
  const response = await withClient(context, (client) => client.raw.kv.range(request, call));
  if (flags.printValueOnly && out.isHex) for (const { value } of response.kvs) out.line(out.keyText(value));
  else if (flags.printValueOnly)
    for (const { value } of response.kvs) out.bytes(Buffer.concat([value, Buffer.from('\n')]));
  else if (out.format === 'json') out.json(toJson(RangeResponse, response));
  else if (flags.countOnly) out.line(String(response.count));
  else if (flags.keysOnly && out.format === 'simple') for (const { key } of response.kvs) out.line(out.keyText(key));
  else printKeys(out, response.kvs);
}

async function put(context: Context, key: string, value: string | undefined, flags: KeyFlags): Promise<void> {
  const { io, out, call } = context;
  if (flags.ignoreValue && value !== undefined)
    throw new CliError(ExitCode.USAGE, 'value: got a value together with --ignore-value; allowed: only one of the two');
  const { lease, prevKv, ignoreValue, ignoreLease } = flags;
  // Read the value after `withClient` has asked for a missing password, because both come from standard input.
  const response = await withClient(context, async (client) => {
    const bytes = ignoreValue ? NO_BYTES : value === undefined ? await readAll(io) : toBytes(value, 'value');
    const request = { key: checkKey(key, 'key'), value: bytes, lease, prevKv, ignoreValue, ignoreLease };
    return client.raw.kv.put(request, call);
  });
  out.response(PutResponse, response, () => {
    out.line('OK');
    if (response.prevKv !== undefined) printKeys(out, [response.prevKv]);
  });
}

async function del(context: Context, range: WireRange, { prevKv = false }: KeyFlags): Promise<void> {
  const { out, call } = context;
  const response = await withClient(context, (client) => client.raw.kv.deleteRange({ ...range, prevKv }, call));
  out.response(DeleteRangeResponse, response, () => {
    out.line(String(response.deleted));
    if (response.prevKvs.length > 0) printKeys(out, response.prevKvs);
  });
}

async function txn(context: Context, file: string, base64: boolean): Promise<void> {
  const { io, out, call } = context;
  const { bytesFromJson, bytesToJson } = bytesAs(base64);
  const response = await withClient(context, async (client) => {
    const json = file === '-' ? textOf(await readAll(io)) : readText(file);
    const request = messageFrom(TxnRequest, json, file === '-' ? 'standard input' : file, { bytesFromJson });
    return client.raw.kv.txn(request, call);
  });
  const print = (): void => {
    out.line(response.succeeded ? 'SUCCESS' : 'FAILURE');
    for (const each of response.responses) out.json(toJson(ResponseOp, each, textOrBase64));
  };
  out.response(TxnResponse, response, print, bytesToJson);
}

/** Divides the arguments after the key at `--`. The range end is before `--`, and a program with arguments after it. */
function splitAtDashes(
  command: Command,
  given: string | undefined,
  rest: readonly string[],
): { readonly end: string | undefined; readonly program: readonly string[] } {
  const after = countAfterDashes(command);
  const all = given === undefined ? rest : [given, ...rest];
  if (after > all.length || (after === 0 && hasDashes(command)))
    throw new CliError(ExitCode.USAGE, 'key or command: missing; give a key before --, and a command after it');
  const before = all.slice(0, all.length - after);
  if (before.length > 1)
    throw new CliError(ExitCode.USAGE, `command: got "${before[1]}" without -- before it; allowed: -- and a command`);
  return { end: before[0], program: all.slice(before.length) };
}

async function watch(
  context: Context,
  range: WireRange,
  { rev, prevKv }: KeyFlags,
  program: readonly string[],
): Promise<ExitCode> {
  const { io, out } = context;
  const startRevision = rev === 0n ? undefined : rev;
  const follow = async (client: Client): Promise<ExitCode> => {
    const events = client.watch(keysOf(range), { startRevision, prevKv, signal: io.interrupted });
    for await (const event of events) {
      printEvent(out, event);
      const code = program.length === 0 ? ExitCode.OK : await runForEvent(program, event);
      if (code !== ExitCode.OK) return code;
    }
    return ExitCode.OK;
  };
  return withClient(context, follow, endpointLogger(io));
}

/** Formats bytes for an environment variable, which cannot contain a 0 byte. */
function variableOf(bytes: Uint8Array): string {
  return bytes.includes(0) ? BASE64_PREFIX + toBase64(bytes) : textOrBase64(bytes);
}

function runForEvent(program: readonly string[], event: WatchEvent): Promise<ExitCode> {
  const [key, value] = [variableOf(event.key), event.type === 'put' ? variableOf(event.kv.value) : ''];
  const [type, revision] = [event.type === 'put' ? 'PUT' : 'DELETE', String(event.modRevision)];
  const environment = {
    ETCDWIRE_WATCH_TYPE: type,
    ETCDWIRE_WATCH_KEY: key,
    ETCDWIRE_WATCH_VALUE: value,
    ETCDWIRE_WATCH_REVISION: revision,
    ETCD_WATCH_EVENT_TYPE: JSON.stringify(type),
    ETCD_WATCH_KEY: JSON.stringify(key),
    ETCD_WATCH_VALUE: JSON.stringify(value),
    ETCD_WATCH_REVISION: revision,
  };
  return runProgram(program, environment);
}

/** Returns an event as JSON, as etcd's gateway does. The event of a deletion has only the key and the revision. */
export function eventJson(
  type: 'put' | 'delete',
  { key, modRevision, ...others }: Pick<KeyValue, 'key' | 'modRevision'>,
  prevKv?: KeyValue,
): Readonly<Record<string, JsonValue>> {
  const wireType = type === 'put' ? 'PUT' : 'DELETE';
  const kv = { ...KeyValue.create(), ...(type === 'put' ? others : {}), key, modRevision };
  // toJson leaves out the type PUT, because PUT is the default.
  return { ...toJson(Event, { type: EventType[wireType], kv, prevKv }), type: wireType };
}

function printEvent(out: Output, event: WatchEvent): void {
  const { type, key, modRevision, prevKv } = event;
  const wireType = type === 'put' ? 'PUT' : 'DELETE';
  if (out.format === 'json') return out.json(eventJson(type, event.type === 'put' ? event.kv : event, prevKv));
  if (out.format === 'simple') {
    const previous = prevKv === undefined ? [] : [out.keyText(prevKv.key), out.keyText(prevKv.value)];
    const value = event.type === 'put' ? out.keyText(event.kv.value) : '';
    return out.line([wireType, ...previous, out.keyText(key), value].join('\n'));
  }
  const value = event.type === 'put' ? `  ${out.keyText(event.kv.value)}` : '';
  const before = prevKv === undefined ? '' : `  (before: ${out.keyText(prevKv.value)})`;
  out.line(`${String(modRevision).padStart(8)}  ${type.padEnd(6)}  ${out.keyText(key)}${value}${before}`);
}

function printKeys(out: Output, kvs: readonly KeyValue[]): void {
  if (out.format === 'table')
    out.table(
      ['KEY', 'VALUE', 'CREATED', 'MODIFIED', 'VERSION', 'LEASE'],
      kvs.map((kv) => rowOf(out, kv)),
    );
  else for (const { key, value } of kvs) out.line(`${out.keyText(key)}\n${out.keyText(value)}`);
}

function rowOf(out: Output, { key, value, createRevision, modRevision, version, lease }: KeyValue): readonly string[] {
  const revisions = [createRevision, modRevision, version].map(String);
  return [out.keyText(key), out.keyText(value), ...revisions, lease === 0n ? '' : leaseHex(lease)];
}
