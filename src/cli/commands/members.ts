import type { Command } from 'commander';
import type { Client } from '../../client.js';
import { type Member, MemberListResponse, StatusResponse } from '../../gen/etcdserverpb/rpc.js';
import { toJson } from '../../protobuf/json.js';
import { type Context, contextOf, withClient } from '../context.js';
import { describeFailure, type Ends, type ExitCode } from '../exit-code.js';
import type { Io } from '../io.js';
import { harmless, hexId } from '../output.js';

export function addMemberCommands(program: Command, io: Io, ends: Ends): void {
  program
    .command('member')
    .description('members of the cluster')
    .command('list')
    .action((_, command: Command) => listMembers(contextOf(io, command)));
  program
    .command('status')
    .description('each endpoint: version, size, who leads')
    .option('--cluster', 'of all members, in place of --endpoints')
    .action(async ({ cluster = false }: { readonly cluster?: boolean }, command: Command) => {
      ends(await showStatus(contextOf(io, command), cluster));
    });
}

async function listMembers(context: Context): Promise<void> {
  const { out, call } = context;
  const response = await withClient(context, (client) => client.raw.cluster.memberList({ linearizable: true }, call));
  if (out.format === 'json') return out.json(toJson(MemberListResponse, response));
  const rows = response.members.map(memberRow);
  if (out.format === 'table') out.table(['ID', 'STATUS', 'NAME', 'PEER ADDRS', 'CLIENT ADDRS', 'IS LEARNER'], rows);
  else for (const row of rows) out.line(row.join(', '));
}

function memberRow({ id, name, peerUrls, clientUrls, isLearner }: Member): readonly string[] {
  // Who was never started has not told its name yet.
  const status = name === '' ? 'unstarted' : 'started';
  return [hexId(id), status, name, peerUrls.join(','), clientUrls.join(','), String(isLearner)].map(harmless);
}

const STATUS_HEADS = ['ENDPOINT', 'ID', 'VERSION', 'DB SIZE', 'LEADER', 'LEARNER', 'RAFT TERM', 'RAFT INDEX', 'ERRORS'];

/** Says what is to be known of those that answer; where one does not, so does the code. */
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
    } else {
      const rows = all.map(statusRow);
      if (out.format === 'table') out.table(STATUS_HEADS, rows);
      else for (const row of rows) out.line(row.join(', '));
    }
    return all.find(({ failure }) => failure !== undefined)?.failure?.exitCode ?? 0;
  });
}

interface EndpointStatus {
  readonly endpoint: string;
  readonly status?: StatusResponse;
  readonly failure?: ReturnType<typeof describeFailure>;
}

async function statusOf(client: Client, endpoint: string, { call }: Context): Promise<EndpointStatus> {
  try {
    return { endpoint, status: await client.raw.maintenance.status({}, { ...call, endpoint }) };
  } catch (error) {
    return { endpoint, failure: describeFailure(error) };
  }
}

function statusRow({ endpoint, status, failure }: EndpointStatus): readonly string[] {
  if (status === undefined) return [endpoint, ...STATUS_HEADS.slice(2).map(() => ''), failure?.message ?? ''];
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
  ].map(harmless);
}

/** As etcdctl writes it, in powers of 1000. */
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
