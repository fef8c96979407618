import type { Command } from 'commander';
import { escapeControls, type ShardOwners, shardOwners } from '../../../../src/internal.js';
import { type Context, contextOf, withClient } from '../context.js';
import type { Io } from '../io.js';
import { leaseHex } from '../output.js';

export function addShardsCommand(program: Command, io: Io): void {
  program
    .command('shards')
    .argument('<name>')
    .option('--workers', 'print a row for each worker instead of each shard')
    .description('print which worker owns which shard; JSON output contains the workers and the shards')
    .action((name: string, { workers = false }: { readonly workers?: boolean }, command: Command) =>
      print(contextOf(io, command), name, workers),
    );
}

async function print(context: Context, name: string, showsWorkers: boolean): Promise<void> {
  const { out, call } = context;
  const owners = await withClient(context, (client) => shardOwners(client, name, call));
  if (out.format === 'json') return printJson(context, owners, owners.header.revision);
  if (showsWorkers) {
    const rows = owners.workers.map(({ worker, leaseId, weight, quota, owned }) => [
      escapeControls(worker),
      leaseHex(leaseId),
      ...[weight, quota, owned].map(String),
    ]);
    return out.rows(['WORKER', 'LEASE', 'WEIGHT', 'QUOTA', 'OWNED'], rows);
  }
  const rows = owners.shards.map(({ number, owner }) =>
    owner === undefined
      ? [`${number}`, '', '', '']
      : [`${number}`, escapeControls(owner.worker), leaseHex(owner.leaseId), `${owner.token}`],
  );
  out.rows(['SHARD', 'WORKER', 'LEASE', 'TOKEN'], rows);
}

/** Prints 64-bit numbers as decimal strings, like the JSON gateway of etcd. */
function printJson({ out }: Context, { workers, shards }: ShardOwners, revision: bigint): void {
  out.json({
    revision: String(revision),
    workers: workers.map(({ leaseId, ...worker }) => ({ ...worker, leaseId: String(leaseId) })),
    shards: shards.map(({ number, owner }) => ({
      number,
      owner:
        owner === undefined
          ? null
          : { worker: owner.worker, leaseId: String(owner.leaseId), token: String(owner.token) },
    })),
  });
}
