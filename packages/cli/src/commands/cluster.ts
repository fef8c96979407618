import type { Command } from 'commander';
import {
  AlarmAction,
  type AlarmResponse,
  type AlarmType,
  type CallOptions,
  type Client,
  DowngradeAction,
  EtcdError,
  enumName,
  escapeControls,
  HashKVResponse,
  type JsonObject,
  methods,
  type Raw,
  StatusResponse,
  saveSnapshot,
  toJson,
} from '../../../../src/internal.js';
import { int64, memberId } from '../arguments.js';
import { type Answer, askAll } from '../ask-all.js';
import { type Context, contextOf, withClient } from '../context.js';
import * as asEtcdctl from '../etcdctl/endpoints.js';
import { goSize } from '../etcdctl/go-format.js';
import { CliError, ExitCode, type SetExitCode, wrongArguments } from '../exit-code.js';
import type { Io } from '../io.js';
import { hexId, type Output } from '../output.js';
import { printCall } from '../print-call.js';
import { Progress } from '../progress.js';
import { HASH_HEADINGS, HEALTH_HEADINGS, hashRow, STATUS_HEADINGS, statusRow } from '../rows.js';

export function addClusterCommands(program: Command, io: Io, setExitCode: SetExitCode): void {
  const endpoint = addClusterFlag(program.command('endpoint')).description(
    'ask each endpoint for its health, status or hash',
  );
  for (const status of [program.command('status'), endpoint.command('status')])
    addClusterFlag(status)
      .description('print version, database size and leader for each endpoint')
      .action(async (_, command: Command) => {
        setExitCode(await showStatus(contextOf(io, command), asksCluster(command)));
      });
  addClusterFlag(endpoint.command('health'))
    .description('check that each endpoint answers a linearizable read and has no alarm; the exit code is 1 otherwise')
    .action(async (_, command: Command) => {
      setExitCode(await showHealth(contextOf(io, command), asksCluster(command)));
    });
  addClusterFlag(endpoint.command('hashkv'))
    .option('--rev <revision>', 'hash the keys up to this revision; default: the newest', int64)
    .description('print a hash of all keys at each endpoint; members with the same data have the same hash')
    .action(async ({ rev = 0n }: { readonly rev?: bigint }, command: Command) => {
      setExitCode(await showHashes(contextOf(io, command), asksCluster(command), rev));
    });
  program
    .command('compaction')
    .argument('<revision>', 'the oldest revision to keep', int64)
    .option('--physical', 'wait until the history is removed from the database')
    .description('delete the history before a revision')
    .action(async (revision: bigint, { physical = false }: { readonly physical?: boolean }, command: Command) => {
      const context = contextOf(io, command);
      const print = (): void => context.out.line(`compacted revision ${revision}`);
      await printCall(context, methods.kv.compact, { revision, physical }, print, { sameInAllFormats: true });
    });
  addClusterFlag(program.command('defrag'))
    .description('give free space of the database back to the file system; a member does not answer meanwhile')
    .action(async (_, command: Command) => {
      setExitCode(await defragment(contextOf(io, command), asksCluster(command)));
    });
  const alarm = program.command('alarm').description('list and clear alarms');
  for (const [name, description, action] of [
    ['list', 'list the alarms', AlarmAction.GET],
    ['disarm', 'clear all alarms', AlarmAction.DEACTIVATE],
  ] as const)
    alarm
      .command(name)
      .description(description)
      .action((_, command: Command) => alarms(contextOf(io, command), action));
  program
    .command('move-leader')
    .argument('<member>', 'ID of the new leader in hexadecimal', memberId)
    .description('make another member the leader; needs the endpoint of the leader among --endpoints')
    .action((target: bigint, _, command: Command) => moveLeader(contextOf(io, command), target));
  addDowngradeCommands(program, io);
  program
    .command('snapshot')
    .description('save the database of a member')
    .command('save')
    .argument('<file>')
    .description('save the database for etcdutl snapshot restore; the file appears when it is complete and verified')
    .action((file: string, _, command: Command) => save(contextOf(io, command), file));
}

function addDowngradeCommands(program: Command, io: Io): void {
  const downgrade = program
    .command('downgrade')
    .description('prepare the cluster for a downgrade by one minor version');
  const add = (usage: string, description: string, action: DowngradeAction): void => {
    downgrade
      .command(usage)
      .description(description)
      .action(async (...given: readonly unknown[]) => {
        const context = contextOf(io, given.at(-1) as Command);
        // The command `cancel` has no argument.
        const version = action === DowngradeAction.CANCEL ? '' : (given[0] as string);
        const [name = ''] = usage.split(' ');
        await printCall(context, methods.maintenance.downgrade, { action, version }, (response) =>
          context.out.line(`Downgrade ${name} success, cluster version ${response.version}`),
        );
      });
  };
  add('validate <version>', 'check whether the cluster can be downgraded to this version', DowngradeAction.VALIDATE);
  add('enable <version>', 'start the downgrade; then replace the members one by one', DowngradeAction.ENABLE);
  add('cancel', 'cancel a downgrade that is in progress', DowngradeAction.CANCEL);
}

/** Whether --cluster was given, to the command itself or to `endpoint`. */
function asksCluster(command: Command): boolean {
  return command.optsWithGlobals<{ readonly cluster?: boolean }>().cluster ?? false;
}

function addClusterFlag(command: Command): Command {
  return command.option('--cluster', 'ask all members of the cluster instead of --endpoints');
}

async function alarms(context: Context, action: AlarmAction): Promise<void> {
  const { out } = context;
  const run = async ({ maintenance }: Raw, call: CallOptions): Promise<AlarmResponse> => {
    const raised = await maintenance.alarm({ action: AlarmAction.GET }, call);
    if (action === AlarmAction.GET) return raised;
    // etcd clears an alarm only if the request names both the alarm and its member.
    const cleared = await Promise.all(raised.alarms.map((each) => maintenance.alarm({ ...each, action }, call)));
    // etcdctl prints no header here.
    const header = out.etcdctl === undefined ? raised.header : undefined;
    return { header, alarms: cleared.flatMap((each) => each.alarms) };
  };
  const end = out.etcdctl === undefined ? '' : ' ';
  await printCall(context, methods.maintenance.alarm, run, ({ alarms: shown }) => {
    for (const { memberId: id, alarm } of shown) out.line(`memberID:${id} alarm:${alarmName(alarm)}${end}`);
  });
}

function alarmName(alarm: AlarmType): string {
  return enumName('etcdserverpb.AlarmType', alarm) ?? String(alarm);
}

async function moveLeader(context: Context, target: bigint): Promise<void> {
  const { out, call } = context;
  if (out.etcdctl !== undefined) return asEtcdctl.moveLeader(context, target);
  await withClient(context, async (client) => {
    const { header } = await client.maintenance.moveLeader(target, call);
    if (out.format === 'json') return out.json({ leader: hexId(target), revision: String(header.revision) });
    out.line(`Leadership transferred to ${hexId(target)}`);
  });
}

function exitCodeOf(answers: readonly Answer<unknown>[]): ExitCode {
  return answers.find(({ failure }) => failure !== undefined)?.failure?.exitCode ?? ExitCode.OK;
}

async function showHealth(context: Context, cluster: boolean): Promise<ExitCode> {
  const { out } = context;
  const answers = await askAll(context, cluster, async (client, options) => {
    try {
      await client.get('health', options);
      const { alarms: raised } = await client.raw.maintenance.alarm({ action: AlarmAction.GET }, options);
      if (out.etcdctl !== undefined || raised.length === 0) return raised.map(({ alarm }) => alarm);
      const names = raised.map(({ alarm }) => alarmName(alarm)).join(', ');
      throw new CliError(ExitCode.FAILED, `Active Alarm(s): ${names}`);
    } catch (error) {
      // A member that refuses the user has answered, so it is healthy.
      if (error instanceof EtcdError && error.reason === 'PermissionDenied') return [];
      throw error;
    }
  });
  if (out.etcdctl !== undefined) return asEtcdctl.printHealth(context, answers);
  const rows = answers.map(({ endpoint, failure, tookMs }) => {
    const took = `${tookMs.toFixed(1)}ms`;
    return {
      endpoint,
      health: failure === undefined,
      took,
      ...(failure === undefined ? {} : { error: failure.message }),
    };
  });
  if (out.format === 'json') out.json(rows);
  else if (out.format === 'table')
    out.table(
      HEALTH_HEADINGS,
      rows.map(({ endpoint, health, took, error = '' }) => [endpoint, String(health), took, error].map(escapeControls)),
    );
  else
    for (const { endpoint, took, error } of rows)
      out.line(
        error === undefined
          ? `${endpoint} is healthy: successfully committed proposal: took = ${took}`
          : `${endpoint} is unhealthy: failed to commit proposal: ${escapeControls(error)}`,
      );
  return rows.every(({ health }) => health) ? ExitCode.OK : ExitCode.FAILED;
}

async function showHashes(context: Context, cluster: boolean, revision: bigint): Promise<ExitCode> {
  const { out } = context;
  const ask = (client: Client, options: CallOptions) => client.raw.maintenance.hashKv({ revision }, options);
  const answers = await askAll(context, cluster, ask);
  if (out.etcdctl !== undefined) return asEtcdctl.printHashes(context, answers);
  const json = (hash: HashKVResponse) => ({ hashKV: toJson(HashKVResponse, hash) });
  return printAnswers(out, answers, json, HASH_HEADINGS, hashRow, 'HASH REVISION');
}

async function defragment(context: Context, cluster: boolean): Promise<ExitCode> {
  const { out, call } = context;
  // Ask one member after the other, because a member serves no other requests during the defragmentation. The calls
  // have no time limit, because the defragmentation of a large database takes long.
  const answers = await askAll(
    context,
    cluster,
    ({ maintenance }, { endpoint }) => maintenance.defragment(endpoint, { signal: call.signal }),
    'in turn',
  );
  if (out.etcdctl !== undefined) return asEtcdctl.printDefragmented(context, answers);
  if (out.format === 'json') out.json(answers.map((answer) => answerJson(answer, () => ({}))));
  else
    for (const { endpoint, failure, tookMs } of answers)
      out.line(
        failure === undefined
          ? `Finished defragmenting etcd member[${endpoint}]. took ${tookMs.toFixed(0)}ms`
          : `Failed to defragment etcd member[${endpoint}]: ${escapeControls(failure.message)}`,
      );
  return exitCodeOf(answers);
}

/** Prints the status of each endpoint. Resolves with the exit code of the first failure, or 0. */
async function showStatus(context: Context, cluster: boolean): Promise<ExitCode> {
  const { out } = context;
  const answers = await askAll(context, cluster, ({ raw }, options) => raw.maintenance.status({}, options));
  if (out.etcdctl !== undefined) return asEtcdctl.printStatus(context, answers);
  const json = (status: StatusResponse) => ({ status: toJson(StatusResponse, status) });
  return printAnswers(out, answers, json, STATUS_HEADINGS, statusRow, 'ERRORS');
}

/**
 * Prints the answer of each endpoint, with a failure in the column `problemHeading`. Returns the exit code of the first
 * failure, or 0.
 */
function printAnswers<T>(
  out: Output,
  answers: readonly Answer<T>[],
  jsonOf: (result: T) => JsonObject,
  headings: readonly string[],
  rowOf: (endpoint: string, result: T) => readonly string[],
  problemHeading: string,
): ExitCode {
  if (out.format === 'json') out.json(answers.map((answer) => answerJson(answer, jsonOf)));
  else {
    const rows = answers.map(({ endpoint, result, failure }) => {
      if (failure === undefined) return rowOf(endpoint, result);
      const failed: Readonly<Record<string, string>> = { ENDPOINT: endpoint, [problemHeading]: failure.message };
      return headings.map((heading) => failed[heading] ?? '');
    });
    const escaped = rows.map((row) => row.map(escapeControls));
    out.rows(headings, escaped);
  }
  return exitCodeOf(answers);
}

function answerJson<T>({ endpoint, result, failure }: Answer<T>, jsonOf: (result: T) => JsonObject): JsonObject {
  return failure === undefined ? { endpoint, ...jsonOf(result) } : { endpoint, error: failure.message };
}

async function save(context: Context, file: string): Promise<void> {
  const { out, call } = context;
  if (out.etcdctl !== undefined) return asEtcdctl.saveAsEtcdctl(context, file);
  await withClient(context, async (client) => {
    const [endpoint = '', ...more] = client.endpoints;
    if (more.length > 0)
      throw wrongArguments(
        `--endpoints: got ${more.length + 1} endpoints; allowed: only one, that of the member to save`,
      );
    // The database grows and shrinks, so this is only an estimate.
    const { dbSize } = await client.maintenance.status(endpoint, { signal: call.signal });
    const progress = new Progress(context.io);
    const bytes = await saveSnapshot(client, endpoint, file, {
      signal: call.signal,
      timeoutMs: call.timeoutMs,
      onProgress: (written) => progress.show(() => `saved ${goSize(BigInt(written))} of about ${goSize(dbSize)}`),
    }).finally(() => progress.erase());
    if (out.format === 'json') out.json({ file, bytes, endpoint });
    else out.line(`snapshot of ${endpoint} saved to ${file}: ${bytes} bytes`);
  });
}
