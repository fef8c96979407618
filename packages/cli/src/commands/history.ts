import { type Command, InvalidArgumentError } from 'commander';
import {
  type Client,
  checkKey,
  compare,
  type HistoryEntry,
  history,
  type KeyValue,
  op,
} from '../../../../src/internal.js';
import { int64 } from '../arguments.js';
import { type Context, contextOf, withClient } from '../context.js';
import { CliError, ExitCode, wrongArguments } from '../exit-code.js';
import type { Io } from '../io.js';
import { leaseHex, type Output } from '../output.js';
import { eventJson } from './keys.js';

interface HistoryFlags {
  readonly limit?: number;
  readonly restore?: bigint;
}

export function addHistoryCommand(program: Command, io: Io): void {
  program
    .command('history')
    .argument('<key>')
    .description('print the versions of a key from the newest to the oldest, or restore one of them')
    .option('--limit <count>', 'print at most this many versions', count)
    .option('--restore <revision>', 'put the value that the key had at this revision, instead of printing', revision)
    .action(async (key: string, { limit, restore }: HistoryFlags, command: Command) => {
      if (limit !== undefined && restore !== undefined)
        throw wrongArguments('history: got --limit together with --restore; allowed: only one of the two');
      const context = contextOf(io, command);
      if (restore === undefined) await print(context, key, limit);
      else await restoreAt(context, key, restore);
    });
}

function revision(text: string): bigint {
  const value = int64(text);
  if (value === 0n) throw new InvalidArgumentError('Allowed: a revision, 1 or more.');
  return value;
}

function count(text: string): number {
  const value = /^\d{1,15}$/.test(text) ? Number(text) : 0;
  if (value === 0) throw new InvalidArgumentError('Allowed: a whole number, 1 or more.');
  return value;
}

async function print(context: Context, key: string, limit: number | undefined): Promise<void> {
  const { out, call, clientOptions } = context;
  // This time limit applies to each read, and to the search for deletions as a whole.
  const { timeoutMs } = await clientOptions();
  await withClient(context, async (client) => {
    if (out.format === 'table') out.line(COLUMNS);
    let last: HistoryEntry | undefined;
    for await (const entry of history(client, key, { ...call, timeoutMs, limit })) {
      printEntry(out, key, entry);
      last = entry;
    }
    if (last !== undefined && last.type !== 'end')
      printEntry(out, key, { type: 'end', revision: last.revision - 1n, reason: 'limit' });
  });
}

const COLUMNS = 'REVISION  CHANGE  VERSION  LEASE             VALUE';

/** An entry of the history, or the end that `--limit` causes: the output contains every change after `revision`. */
type Shown = HistoryEntry | { readonly type: 'end'; readonly revision: bigint; readonly reason: 'limit' };

const END_TEXTS: Readonly<Record<Extract<Shown, { type: 'end' }>['reason'], (at: bigint) => string>> = {
  beginning: () => 'there are no earlier changes',
  compacted: (at) => `the changes up to revision ${at} are compacted, so they are not shown`,
  limit: (at) => `changes up to revision ${at} are not shown, because of --limit`,
};

/** Prints one entry, before the next entry is read, because a long history needs many reads. */
function printEntry(out: Output, key: string, entry: Shown): void {
  const { type, revision: at } = entry;
  if (out.format === 'json') return out.json(jsonOf(key, entry));
  if (type === 'end') {
    if (out.format === 'simple') return out.line(['end', entry.reason, at].join(', '));
    return out.line(END_TEXTS[entry.reason](at));
  }
  const kv = type === 'put' ? entry.kv : undefined;
  const lease = kv === undefined || kv.lease === 0n ? '' : leaseHex(kv.lease);
  const row = [String(at), type, String(kv?.version ?? ''), lease, kv === undefined ? '' : out.keyText(kv.value)];
  if (out.format === 'simple') return out.line(row.join(', '));
  const [first = '', change = '', version = '', id = '', value = ''] = row;
  out.line(`${first.padStart(8)}  ${change.padEnd(6)}  ${version.padStart(7)}  ${id.padEnd(16)}  ${value}`.trimEnd());
}

function jsonOf(key: string, entry: Shown): ReturnType<typeof eventJson> {
  const { type, revision: at } = entry;
  if (type === 'end') return { type: 'END', reason: entry.reason, revision: String(at) };
  return eventJson(type, type === 'put' ? entry.kv : { keyBytes: checkKey(key, 'key'), modRevision: at });
}

/**
 * Puts the value that the key had at a revision, unless the key has been changed since this function has read it. A key
 * that exists keeps its present lease.
 */
async function restoreAt(context: Context, key: string, at: bigint): Promise<void> {
  const { out } = context;
  await withClient(context, async (client) => {
    const { current, wanted } = await readBoth(context, client, key, at);
    const from = String(wanted.modRevision);
    if (current?.modRevision === wanted.modRevision) {
      if (out.format === 'json') return out.json({ restored: false, mod_revision: from });
      return out.line(`the key has not been changed since revision ${from}; nothing was written`);
    }
    const { call } = context;
    const put = op.put(key, wanted.value, { ignoreLease: current !== undefined });
    const isUnchanged = [compare.modRevision(key, '==', current?.modRevision ?? 0n)];
    const { succeeded, header } = await client.txn({ if: isUnchanged, then: [put] }, call);
    if (!succeeded)
      throw new CliError(ExitCode.FAILED, 'another client changed the key at the same time; nothing was written');
    if (out.format === 'json') out.json({ restored: true, mod_revision: from, revision: String(header.revision) });
    else out.line(`restored the value of revision ${from} at revision ${header.revision}`);
  });
}

async function readBoth(
  { call }: Context,
  client: Client,
  key: string,
  at: bigint,
): Promise<{ readonly current: KeyValue | undefined; readonly wanted: KeyValue }> {
  const current = await client.get(key, call);
  const wanted = await client.get(key, { ...call, revision: at });
  if (wanted !== undefined) return { current, wanted };
  throw new CliError(
    ExitCode.FAILED,
    `the key did not exist at revision ${at}; nothing was written (etcdwire del deletes a key)`,
  );
}
