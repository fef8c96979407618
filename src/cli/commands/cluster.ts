import type { Command } from 'commander';
import type { CallOptions } from '../../channel/rpc.js';
import type { Client } from '../../client/client.js';
import { EtcdError } from '../../errors/etcd-error.js';
import {
  AlarmAction,
  AlarmResponse,
  AlarmType,
  CompactionResponse,
  HashKVResponse,
  StatusResponse,
} from '../../gen/etcdserverpb/rpc.js';
import { saveSnapshot } from '../../node/index.js';
import { toJson } from '../../reflection/json.js';
import { monotonicMs } from '../../runtime/timers.js';
import { int64, memberId } from '../arguments.js';
import { type Context, contextOf, withClient } from '../context.js';
import { CliError, describeFailure, ExitCode, type SetExitCode } from '../exit-code.js';
import type { Io } from '../io.js';
import { escapeControls, hexId } from '../output.js';
import { Progress } from '../progress.js';

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
      const compact = (client: Client) => client.raw.kv.compact({ revision, physical }, context.call);
      const response = await withClient(context, compact);
      context.out.response(CompactionResponse, response, () => context.out.line(`compacted revision ${revision}`));
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
  program
    .command('snapshot')
    .description('save the database of a member')
    .command('save')
    .argument('<file>')
    .description('save the database for etcdutl snapshot restore; the file appears when it is complete and verified')
    .action((file: string, _, command: Command) => save(contextOf(io, command), file));
}

/** Whether --cluster was given, to the command itself or to `endpoint`. */
function asksCluster(command: Command): boolean {
  return command.optsWithGlobals<{ readonly cluster?: boolean }>().cluster ?? false;
}

function addClusterFlag(command: Command): Command {
  return command.option('--cluster', 'ask all members of the cluster instead of --endpoints');
}

async function alarms(context: Context, action: AlarmAction): Promise<void> {
  const { out, call } = context;
  const response = await withClient(context, async ({ raw }) => {
    const raised = await raw.maintenance.alarm({ action: AlarmAction.GET }, call);
    if (action === AlarmAction.GET) return raised;
    // etcd clears an alarm only if the request names both the alarm and its member.
    const cleared = await Promise.all(raised.alarms.map((each) => raw.maintenance.alarm({ ...each, action }, call)));
    return { ...raised, alarms: cleared.flatMap((each) => each.alarms) };
  });
  out.response(AlarmResponse, response, () => {
    for (const { memberId: id, alarm } of response.alarms) out.line(`memberID:${id} alarm:${alarmName(alarm)}`);
  });
}

function alarmName(alarm: AlarmType): string {
  return Object.entries(AlarmType).find(([, type]) => type === alarm)?.[0] ?? String(alarm);
}

async function moveLeader(context: Context, target: bigint): Promise<void> {
  const { out, call } = context;
  await withClient(context, async (client) => {
    const { header } = await client.maintenance.moveLeader(target, call);
    if (out.format === 'json') return out.json({ leader: hexId(target), revision: String(header.revision) });
    out.line(`Leadership transferred to ${hexId(target)}`);
  });
}

/** The answer of an endpoint, or the failure of the call. */
type Answer<T> = { readonly endpoint: string; readonly tookMs: number } & (
  | { readonly result: T; readonly failure?: undefined }
  | { readonly result?: undefined; readonly failure: CliError }
);

/** Asks all endpoints or, if `cluster` is true, all members. If an endpoint fails, its answer contains the failure. */
function askAll<T>(
  context: Context,
  cluster: boolean,
  ask: (client: Client, options: Context['call'] & { readonly endpoint: string }) => Promise<T>,
  order: 'at once' | 'in turn' = 'at once',
): Promise<Answer<T>[]> {
  return withClient(context, async (client) => {
    if (cluster) await client.sync(context.call);
    const answer = async (endpoint: string): Promise<Answer<T>> => {
      const startMs = monotonicMs();
      const tookMs = (): number => monotonicMs() - startMs;
      try {
        return { endpoint, result: await ask(client, { ...context.call, endpoint }), tookMs: tookMs() };
      } catch (error) {
        return { endpoint, failure: describeFailure(error), tookMs: tookMs() };
      }
    };
    if (order === 'at once') return Promise.all(client.endpoints.map(answer));
    const answers: Answer<T>[] = [];
    for (const endpoint of client.endpoints) answers.push(await answer(endpoint));
    return answers;
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
      if (raised.length === 0) return;
      const names = raised.map(({ alarm }) => alarmName(alarm)).join(', ');
      throw new CliError(ExitCode.FAILED, `Active Alarm(s): ${names}`);
    } catch (error) {
      // A member that refuses the user has answered, so it is healthy.
      if (!(error instanceof EtcdError) || error.reason !== 'PermissionDenied') throw error;
    }
  });
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
      ['ENDPOINT', 'HEALTH', 'TOOK', 'ERROR'],
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
  if (out.format === 'json')
    out.json(
      answers.map(({ endpoint, result, failure }) => ({
        endpoint,
        ...(result === undefined ? { error: failure?.message ?? '' } : { hashKV: toJson(HashKVResponse, result) }),
      })),
    );
  else
    out.rows(
      ['ENDPOINT', 'HASH', 'HASH REVISION'],
      answers.map(({ endpoint, result, failure }) =>
        [endpoint, String(result?.hash ?? ''), failure?.message ?? String(result?.hashRevision ?? '')].map(
          escapeControls,
        ),
      ),
    );
  return exitCodeOf(answers);
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
  if (out.format === 'json')
    out.json(
      answers.map(({ endpoint, failure }) =>
        failure === undefined ? { endpoint } : { endpoint, error: failure.message },
      ),
    );
  else
    for (const { endpoint, failure, tookMs } of answers)
      out.line(
        failure === undefined
          ? `Finished defragmenting etcd member[${endpoint}]. took ${tookMs.toFixed(0)}ms`
          : `Failed to defragment etcd member[${endpoint}]: ${escapeControls(failure.message)}`,
      );
  return exitCodeOf(answers);
}

const STATUS_HEADINGS = [
  'ENDPOINT',
  'ID',
  'VERSION',
  'DB SIZE',
  'LEADER',
  'LEARNER',
  'RAFT TERM',
  'RAFT INDEX',
  'ERRORS',
];

/** Prints the status of each endpoint. Resolves with the exit code of the first failure, or 0. */
async function showStatus(context: Context, cluster: boolean): Promise<ExitCode> {
  const { out } = context;
  const answers = await askAll(context, cluster, ({ raw }, options) => raw.maintenance.status({}, options));
  if (out.format === 'json') {
    out.json(
      answers.map(({ endpoint, result, failure }) => ({
        endpoint,
        ...(result === undefined ? { error: failure?.message ?? '' } : { status: toJson(StatusResponse, result) }),
      })),
    );
  } else out.rows(STATUS_HEADINGS, answers.map(statusRow));
  return exitCodeOf(answers);
}

function statusRow({ endpoint, result: status, failure }: Answer<StatusResponse>): readonly string[] {
  if (status === undefined)
    return [endpoint, ...STATUS_HEADINGS.slice(2).map(() => ''), escapeControls(failure?.message ?? '')];
  const id = status.header?.memberId ?? 0n;
  return [
    endpoint,
    hexId(id),
    status.version,
    sizeText(status.dbSize),
    String(status.leader === id),
    String(status.isLearner),
    String(status.raftTerm),
    String(status.raftIndex),
    status.errors.join('; '),
  ].map(escapeControls);
}

/** Formats a size as etcdctl does, in powers of 1000. */
function sizeText(bytes: bigint): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let value = Number(bytes);
  let unit = 0;
  while (value >= 1_000 && unit < units.length - 1) {
    value /= 1_000;
    unit += 1;
  }
  return `${value >= 10 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

async function save(context: Context, file: string): Promise<void> {
  const { out, call } = context;
  await withClient(context, async (client) => {
    const [endpoint = '', ...more] = client.endpoints;
    if (more.length > 0)
      throw new CliError(
        ExitCode.USAGE,
        `--endpoints: got ${more.length + 1} endpoints; allowed: only one, that of the member to save`,
      );
    // The database grows and shrinks, so this is only an estimate.
    const { dbSize } = await client.maintenance.status(endpoint, { signal: call.signal });
    const progress = new Progress(context.io);
    const bytes = await saveSnapshot(client, endpoint, file, {
      signal: call.signal,
      timeoutMs: call.timeoutMs,
      onProgress: (written) => progress.show(() => `saved ${sizeText(BigInt(written))} of about ${sizeText(dbSize)}`),
    }).finally(() => progress.erase());
    if (out.format === 'json') out.json({ file, bytes, endpoint });
    else out.line(`snapshot of ${endpoint} saved to ${file}: ${bytes} bytes`);
  });
}
