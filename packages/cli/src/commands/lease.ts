import type { Command } from 'commander';
import {
  type LeaseGrantResponse,
  LeaseKeepAliveResponse,
  type LeaseTimeToLiveResponse,
  methods,
  pause,
} from '../../../../src/internal.js';
import { leaseId, seconds } from '../arguments.js';
import { type Context, contextOf, withClient } from '../context.js';
import { CliError, ExitCode } from '../exit-code.js';
import { type Io, interruptedBy } from '../io.js';
import { leaseHex, readable } from '../output.js';
import { printCall } from '../print-call.js';

export function addLeaseCommands(program: Command, io: Io): void {
  const lease = program.command('lease').description('grant, renew, revoke and list leases');
  lease
    .command('grant')
    .argument('<ttl>', 'seconds', seconds)
    .description('grant a lease')
    .action((ttl: number, _, command: Command) => grant(contextOf(io, command), ttl));
  lease
    .command('revoke')
    .argument('<id>', 'in hexadecimal', leaseId)
    .description('revoke a lease and delete its keys')
    .action((id: bigint, _, command: Command) => revoke(contextOf(io, command), id));
  lease
    .command('timetolive')
    .argument('<id>', 'in hexadecimal', leaseId)
    .option('--keys', 'list the keys attached to the lease too')
    .description('print the remaining time of a lease')
    .action((id: bigint, { keys = false }: { readonly keys?: boolean }, command: Command) =>
      timeToLive(contextOf(io, command), id, keys),
    );
  lease
    .command('list')
    .description('list the leases')
    .action((_, command: Command) => list(contextOf(io, command)));
  lease
    .command('keep-alive')
    .argument('<id>', 'in hexadecimal', leaseId)
    .option('--once', 'renew the lease once')
    .description('renew a lease until it is lost or etcdwire is interrupted')
    .action((id: bigint, { once }: { readonly once?: boolean }, command: Command) =>
      once ? renewOnce(contextOf(io, command), id) : keepAlive(contextOf(io, command), id),
    );
}

const { leaseGrant, leaseRevoke, leaseTimeToLive, leaseLeases } = methods.lease;

function grant(context: Context, seconds: number): Promise<void> {
  const print = ({ id, ttl }: LeaseGrantResponse): void =>
    context.out.line(`lease ${leaseHex(id)} granted with TTL(${ttl}s)`);
  return printCall(context, leaseGrant, { ttl: BigInt(seconds) }, print);
}

function revoke(context: Context, id: bigint): Promise<void> {
  return printCall(context, leaseRevoke, { id }, () => context.out.line(`lease ${leaseHex(id)} revoked`));
}

function timeToLive(context: Context, id: bigint, withKeys: boolean): Promise<void> {
  const { out } = context;
  const print = ({ ttl, grantedTtl, keys }: LeaseTimeToLiveResponse): void => {
    if (ttl < 0n) return out.line(`lease ${leaseHex(id)} already expired`);
    const attached = withKeys ? `, attached keys(${keys.map(readable).join(', ')})` : '';
    out.line(`lease ${leaseHex(id)} granted with TTL(${grantedTtl}s), remaining(${ttl}s)${attached}`);
  };
  return printCall(context, leaseTimeToLive, { id, keys: withKeys }, print, { details: { keys: withKeys } });
}

function list(context: Context): Promise<void> {
  const { out } = context;
  return printCall(context, leaseLeases, {}, ({ leases }) => {
    out.line(`found ${leases.length} leases`);
    for (const { id } of leases) out.line(leaseHex(id));
  });
}

async function renewOnce(context: Context, id: bigint): Promise<void> {
  const { out, call } = context;
  const response = await withClient(context, async (client) => {
    const stream = client.raw.lease.leaseKeepAlive({ signal: call.signal });
    stream.send({ id });
    for await (const answer of stream) return answer;
    throw new CliError(ExitCode.FAILED, 'the server ended the keepalive stream without answering the renewal');
  });
  // etcd answers with TTL 0 if the lease does not exist.
  if (response.ttl <= 0n) throw context.io.etcdctl?.problem('leaseNotFound') ?? gone(id);
  out.response(LeaseKeepAliveResponse, response, () => out.line(renewed(response)));
}

/** How often `lease keep-alive` checks whether the lease was renewed, in milliseconds. */
const RENEWAL_POLL_MS = 100;

async function keepAlive(context: Context, id: bigint): Promise<void> {
  const { io, out, call } = context;
  if (out.etcdctl !== undefined) return keepAliveAsEtcdctl(context, id);
  await withClient(context, async (client) => {
    if ((await client.lease.timeToLive(id, call)).remainingTtl === undefined) throw gone(id);
    const keepalive = client.lease.keepAlive(id);
    // The remaining time grows only with a renewal.
    for (let lastMs = 0; !keepalive.signal.aborted && !io.interrupted.aborted; ) {
      const remainingMs = keepalive.remainingMs();
      const { ttl = 0 } = keepalive;
      if (remainingMs > lastMs && out.format === 'json') out.json({ ID: String(id), TTL: String(ttl) });
      else if (remainingMs > lastMs) out.line(`lease ${leaseHex(id)} keepalived with TTL(${ttl})`);
      lastMs = remainingMs;
      await pause(RENEWAL_POLL_MS, keepalive.signal, io.interrupted);
    }
    throw keepalive.signal.aborted ? keepalive.signal.reason : interruptedBy(io);
  });
}

/** Prints the response to each renewal, as etcdctl does. etcdctl renews a lease after a third of its TTL. */
async function keepAliveAsEtcdctl({ io, out, ...context }: Context, id: bigint): Promise<void> {
  await withClient({ io, out, ...context }, async (client) => {
    const stream = client.raw.lease.leaseKeepAlive({ signal: context.call.signal });
    stream.send({ id });
    for await (const response of stream) {
      if (response.ttl <= 0n) break;
      out.response(LeaseKeepAliveResponse, response, () => out.line(renewed(response)));
      await pause((Number(response.ttl) * 1_000) / 3, io.interrupted);
      if (io.interrupted.aborted) throw interruptedBy(io);
      stream.send({ id });
    }
  });
  if (out.etcdctl?.format === 'simple') out.line(`lease ${leaseHex(id)} expired or revoked.`);
}

function renewed({ id, ttl }: LeaseKeepAliveResponse): string {
  return `lease ${leaseHex(id)} keepalived with TTL(${ttl})`;
}

function gone(id: bigint): CliError {
  return new CliError(ExitCode.FAILED, `lease ${leaseHex(id)} expired or revoked`);
}
