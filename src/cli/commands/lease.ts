import type { Command } from 'commander';
import {
  LeaseGrantResponse,
  LeaseKeepAliveResponse,
  LeaseLeasesResponse,
  LeaseRevokeResponse,
  LeaseTimeToLiveResponse,
} from '../../gen/etcdserverpb/rpc.js';
import { toJson } from '../../protobuf/json.js';
import { pause } from '../../runtime/timers.js';
import { type Context, contextOf, withClient } from '../context.js';
import { CliError, ExitCode } from '../exit-code.js';
import { type Io, interruptedBy } from '../io.js';
import { leaseHex, readable } from '../output.js';
import { leaseId, seconds } from '../values.js';

export function addLeaseCommands(program: Command, io: Io): void {
  const lease = program.command('lease').description('grants, renews, revokes and shows leases');
  lease
    .command('grant')
    .argument('<ttl>', 'seconds', seconds)
    .action((ttl: number, _, command: Command) => grant(contextOf(io, command), ttl));
  lease
    .command('revoke')
    .argument('<id>', 'in hexadecimal', leaseId)
    .action((id: bigint, _, command: Command) => revoke(contextOf(io, command), id));
  lease
    .command('timetolive')
    .argument('<id>', 'in hexadecimal', leaseId)
    .option('--keys', 'with the keys attached to it')
    .action((id: bigint, { keys = false }: { readonly keys?: boolean }, command: Command) =>
      timeToLive(contextOf(io, command), id, keys),
    );
  lease.command('list').action((_, command: Command) => list(contextOf(io, command)));
  lease
    .command('keep-alive')
    .argument('<id>', 'in hexadecimal', leaseId)
    .option('--once', 'renews it once')
    .description('renews it until it is lost, or this program interrupted')
    .action((id: bigint, { once }: { readonly once?: boolean }, command: Command) =>
      once ? renewOnce(contextOf(io, command), id) : keepAlive(contextOf(io, command), id),
    );
}

async function grant(context: Context, ttl: number): Promise<void> {
  const { out, call } = context;
  const response = await withClient(context, (client) => client.raw.lease.leaseGrant({ ttl: BigInt(ttl) }, call));
  if (out.format === 'json') out.json(toJson(LeaseGrantResponse, response));
  else out.line(`lease ${leaseHex(response.id)} granted with TTL(${response.ttl}s)`);
}

async function revoke(context: Context, id: bigint): Promise<void> {
  const { out, call } = context;
  const response = await withClient(context, (client) => client.raw.lease.leaseRevoke({ id }, call));
  if (out.format === 'json') out.json(toJson(LeaseRevokeResponse, response));
  else out.line(`lease ${leaseHex(id)} revoked`);
}

async function timeToLive(context: Context, id: bigint, keys: boolean): Promise<void> {
  const { out, call } = context;
  const response = await withClient(context, (client) => client.raw.lease.leaseTimeToLive({ id, keys }, call));
  if (out.format === 'json') return out.json(toJson(LeaseTimeToLiveResponse, response));
  if (response.ttl < 0n) return out.line(`lease ${leaseHex(id)} already expired`);
  const attached = keys ? `, attached keys(${response.keys.map(readable).join(', ')})` : '';
  out.line(`lease ${leaseHex(id)} granted with TTL(${response.grantedTtl}s), remaining(${response.ttl}s)${attached}`);
}

async function list(context: Context): Promise<void> {
  const { out, call } = context;
  const response = await withClient(context, (client) => client.raw.lease.leaseLeases({}, call));
  if (out.format === 'json') out.json(toJson(LeaseLeasesResponse, response));
  else
    for (const line of [`found ${response.leases.length} leases`, ...response.leases.map(({ id }) => leaseHex(id))])
      out.line(line);
}

async function renewOnce(context: Context, id: bigint): Promise<void> {
  const { out, call } = context;
  const response = await withClient(context, async (client) => {
    const stream = client.raw.lease.leaseKeepAlive({ signal: call.signal });
    stream.send({ id });
    for await (const answer of stream) return answer;
    throw new CliError(ExitCode.FAILED, 'the stream of keepalives ended without an answer');
  });
  // S13: an answer without time left means that it is gone.
  if (response.ttl <= 0n) throw gone(id);
  if (out.format === 'json') out.json(toJson(LeaseKeepAliveResponse, response));
  else out.line(`lease ${leaseHex(id)} keepalived with TTL(${response.ttl})`);
}

async function keepAlive(context: Context, id: bigint): Promise<void> {
  await withClient(context, async (client) => {
    // Nothing is kept alive that is not there, or cannot be asked for.
    if ((await client.lease.timeToLive(id, context.call)).ttl < 0) throw gone(id);
    const alive = client.lease.keepAlive(id);
    if (context.out.format !== 'json') context.out.line(`lease ${leaseHex(id)} is kept alive`);
    await pause(Number.POSITIVE_INFINITY, alive.signal, context.io.interrupted);
    throw alive.signal.aborted ? alive.signal.reason : interruptedBy(context.io);
  });
}

function gone(id: bigint): CliError {
  return new CliError(ExitCode.FAILED, `lease ${leaseHex(id)} expired or revoked`);
}
