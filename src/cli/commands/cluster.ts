import type { Command } from 'commander';
import type { Client } from '../../client.js';
import { type Member, MemberListResponse, StatusResponse } from '../../gen/etcdserverpb/rpc.js';
import { saveSnapshot } from '../../node.js';
import { toJson } from '../../protobuf/json.js';
import { type Context, contextOf, type Io, withClient } from '../context.js';
import { CliError, describeFailure, ExitCode, type SetExitCode } from '../exit-code.js';
import { escapeControls, hexId, type Output } from '../output.js';

export function addClusterCommands(program: Command, io: Io, setExitCode: SetExitCode): void {
  program
    .command('member')
    .description('list the members of the cluster')
    .command('list')
    .description('list the members')
    .action((_, command: Command) => listMembers(contextOf(io, command)));
  program
    .command('status')
    .description('print version, database size and leader for each endpoint')
    .option('--cluster', 'ask all members of the cluster instead of --endpoints')
    .action(async ({ cluster = false }: { readonly cluster?: boolean }, command: Command) => {
      setExitCode(await showStatus(contextOf(io, command), cluster));
    });
  program
    .command('snapshot')
    .description('save the database of a member')
    .command('save')
    .argument('<file>')
    .description('save the database for etcdutl snapshot restore; the file appears when it is complete and verified')
    .action((file: string, _, command: Command) => save(contextOf(io, command), file));
}

const MEMBER_HEADINGS = ['ID', 'STATUS', 'NAME', 'PEER ADDRS', 'CLIENT ADDRS', 'IS LEARNER'];

async function listMembers(context: Context): Promise<void> {
  const { out, call } = context;
  const response = await withClient(context, (client) => client.raw.cluster.memberList({ linearizable: true }, call));
  out.response(MemberListResponse, response, () => printRows(out, MEMBER_HEADINGS, response.members.map(memberRow)));
}

function memberRow({ id, name, peerUrls, clientUrls, isLearner }: Member): readonly string[] {
  // A member reports its name when it starts for the first time, so a member without a name has not started.
  const status = name === '' ? 'unstarted' : 'started';
  return [hexId(id), status, name, peerUrls.join(','), clientUrls.join(','), String(isLearner)].map(escapeControls);
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

interface EndpointStatus {
  readonly endpoint: string;
  readonly status?: StatusResponse;
  readonly failure?: CliError;
}

/** Prints the status of each endpoint. Resolves with the exit code of the first failure, or 0. */
async function showStatus(context: Context, cluster: boolean): Promise<ExitCode> {
  const { out } = context;
  return withClient(context, async (client) => {
    if (cluster) await client.sync(context.call);
    const all = await Promise.all(client.endpoints.map((endpoint) => statusOf(client, endpoint, context)));
    if (out.format === 'json') {
      out.json(
        all.map(({ endpoint, status, failure }) => ({
          endpoint,
          ...(status === undefined ? { error: failure?.message ?? '' } : { status: toJson(StatusResponse, status) }),
        })),
      );
    } else printRows(out, STATUS_HEADINGS, all.map(statusRow));
    return all.find(({ failure }) => failure !== undefined)?.failure?.exitCode ?? ExitCode.OK;
  });
}

async function statusOf(client: Client, endpoint: string, { call }: Context): Promise<EndpointStatus> {
  try {
    return { endpoint, status: await client.raw.maintenance.status({}, { ...call, endpoint }) };
  } catch (error) {
    return { endpoint, failure: describeFailure(error) };
  }
}

function statusRow({ endpoint, status, failure }: EndpointStatus): readonly string[] {
  if (status === undefined) return [endpoint, ...STATUS_HEADINGS.slice(2).map(() => ''), failure?.message ?? ''];
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

function printRows(out: Output, headings: readonly string[], rows: readonly (readonly string[])[]): void {
  if (out.format === 'table') out.table(headings, rows);
  else for (const row of rows) out.line(row.join(', '));
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
    const bytes = await saveSnapshot(client, endpoint, file, { signal: call.signal, timeoutMs: call.timeoutMs });
    if (out.format === 'json') out.json({ file, bytes, endpoint });
    else out.line(`snapshot of ${endpoint} saved to ${file}: ${bytes} bytes`);
  });
}
