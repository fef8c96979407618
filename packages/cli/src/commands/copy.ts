import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type Command, Option } from 'commander';
import {
  type Client,
  type Compare,
  compare,
  EtcdError,
  keyAfter,
  keyRange,
  keysOf,
  type Op,
  op,
  orAborted,
  PartFile,
  type WireRange,
} from '../../../../src/internal.js';
import { ANY_REQUEST_BYTES, int64, opsPerTxn } from '../arguments.js';
import { type Context, contextOf, withClient } from '../context.js';
import { checkExport, type ExportedKey, type ExportSummary, ExportWriter, exportedKeys } from '../copy/export-file.js';
import { TXN_BYTES } from '../copy/mirror-target.js';
import { isEqual, StoredKeys } from '../copy/stored-keys.js';
import { CliError, describeFailure, ExitCode, wrongArguments } from '../exit-code.js';
import { type Io, interruptedBy } from '../io.js';
import type { Sink } from '../output.js';
import { keysText, Progress } from '../progress.js';
import { addRangeFlags, rangeOf } from './key-flags.js';

interface ExportFlags {
  readonly prefix?: boolean;
  readonly fromKey?: boolean;
  readonly rev?: bigint;
  readonly file?: string;
}

interface ImportFlags {
  readonly file?: string;
  readonly existing: Existing;
  readonly maxTxnOps: number;
}

/**
 * What an import does with a key that the store already has: write it anyway, write it unless it has the same value and
 * no lease, or write nothing at all if any key has another value or a lease.
 */
const EXISTING = ['overwrite', 'skip-equal', 'refuse'] as const;
type Existing = (typeof EXISTING)[number];

export function addCopyCommands(program: Command, io: Io): void {
  addRangeFlags(program.command('export').argument('<key>').argument('[range-end]'))
    .description('write keys and values as lines of JSON, all read at one revision')
    .option('--file <file>', 'write to this file, which appears when it is complete; default: standard output')
    .option('--rev <revision>', 'read at this revision', int64)
    .addHelpText(
      'after',
      `
The first line has the revision, and the last line has the number of keys and a SHA-256 checksum, without which etcdwire
import refuses the file. Keys and values that are not UTF-8 are in base64, in the fields key_base64 and value_base64.`,
    )
    .action(async (key: string, end: string | undefined, flags: ExportFlags, command: Command) => {
      await exportKeys(contextOf(io, command), rangeOf(key, end, flags), flags);
    });
  program
    .command('import')
    .description('write the keys and values of a complete export; the keys get no leases')
    .option('--file <file>', 'read from this file; default: standard input')
    .addOption(
      new Option(
        '--existing <mode>',
        'keys that exist: overwrite them, skip those that are equal, or refuse to write if one differs',
      )
        .choices(EXISTING)
        .default('overwrite'),
    )
    .addOption(opsPerTxn())
    .addHelpText(
      'after',
      `
Nothing is written unless the whole export is there and intact. An import that was interrupted can be run again.`,
    )
    .action(async (flags: ImportFlags, command: Command) => {
      await importKeys(contextOf(io, command), flags);
    });
}

async function exportKeys(context: Context, range: WireRange, { file, rev: revision }: ExportFlags): Promise<void> {
  const { io, out, call } = context;
  const progress = new Progress(io);
  await withClient(context, async (client) => {
    const pages = client.scanPages(keysOf(range), { ...call, revision });
    // Create the file only after the first read has succeeded.
    let page = await pages.next();
    const part = file === undefined ? undefined : await PartFile.create(file);
    const writer = new ExportWriter((bytes) => (part === undefined ? written(io, bytes) : part.write(bytes)));
    try {
      const readAt = page.value?.revision ?? 0n;
      await writer.begin(readAt, range);
      for (; !page.done; page = await pages.next()) {
        await writer.add(page.value.kvs);
        progress.show(() => `exported ${keysText(writer.count)} at revision ${readAt}`);
      }
      await writer.end();
      await part?.commit();
      progress.erase();
      const { count, bytes } = writer;
      if (file === undefined) io.stderr.write(`etcdwire: exported ${keysText(count)} at revision ${readAt}\n`);
      else if (out.format === 'json') out.json({ file, revision: String(readAt), keys: count, bytes });
      else out.line(`exported ${keysText(count)} at revision ${readAt} to ${file}: ${bytes} bytes`);
    } catch (error) {
      await part?.discard();
      throw error instanceof Error && 'syscall' in error && !(error instanceof EtcdError)
        ? new CliError(ExitCode.CANNOT_WRITE, `cannot write ${file ?? 'standard output'}: ${error.message}`)
        : error;
    } finally {
      progress.erase();
      await pages.return();
    }
  });
}

/** Writes to standard output, and waits until the buffer of standard output has room for more bytes. */
async function written(io: Io, bytes: Uint8Array): Promise<void> {
  const stdout: Sink & { once?(event: 'drain', listener: () => void): unknown } = io.stdout;
  if (stdout.write(bytes) === false && stdout.once !== undefined) {
    const drained = new Promise<void>((resolve) => void stdout.once?.('drain', resolve));
    await orAborted(drained, io.interrupted).catch(() => {});
  }
  if (io.interrupted.aborted) throw interruptedBy(io);
}

async function importKeys(context: Context, { file, existing, maxTxnOps }: ImportFlags): Promise<void> {
  const { io, out } = context;
  const source = file ?? 'standard input';
  const progress = new Progress(io);
  await using input = await openInput(io, file);
  try {
    const summary = await checkExport(input.chunks(), source);
    const result = await withClient(
      context,
      async (client) => {
        const { first, last } = summary;
        if (first === undefined || last === undefined) return { written: 0, skipped: 0 };
        const stored = (): StoredKeys =>
          new StoredKeys(client.scan(keysOf(keyRange(first, keyAfter(last))), context.call));
        if (existing === 'refuse') await refuseOthers(exportedKeys(input.chunks(), source), stored());
        const keys = exportedKeys(input.chunks(), source);
        const known = existing === 'overwrite' ? undefined : stored();
        return writeAll(context, client, keys, { summary, known, existing, maxTxnOps, progress });
      },
      undefined,
      { maxTxnOps, maxRequestBytes: ANY_REQUEST_BYTES },
    );
    progress.erase();
    const { revision, count, withLease } = summary;
    if (out.format === 'json')
      return out.json({ revision: String(revision), keys: count, ...result, leases_dropped: withLease });
    const leases = withLease === 0 ? '' : `; ${keysText(withLease)} had a lease, and now have none`;
    out.line(
      `imported ${keysText(count)} of revision ${revision}: wrote ${result.written}, skipped ${result.skipped}${leases}`,
    );
  } finally {
    progress.erase();
  }
}

/** @throws CliError if the store has one of the keys with another value or with a lease. */
async function refuseOthers(keys: AsyncIterable<ExportedKey>, stored: StoredKeys): Promise<void> {
  let others = 0;
  for await (const { key, value } of keys) {
    const kv = await stored.advanceTo(key);
    if (kv !== undefined && !isEqual(kv, value)) others += 1;
  }
  await stored.close();
  if (others > 0)
    throw new CliError(
      ExitCode.FAILED,
      `the store has ${keysText(others)} of the export with another value or with a lease, and --existing refuse is given; ` +
        'nothing was written',
    );
}

interface Writing {
  readonly summary: ExportSummary;
  /** The keys of the store, for a comparison. Undefined if the import writes every key. */
  readonly known: StoredKeys | undefined;
  readonly existing: Existing;
  readonly maxTxnOps: number;
  readonly progress: Progress;
}

/** Writes the keys in transactions. Returns how many keys were written, and how many were equal already. */
async function writeAll(
  { call }: Context,
  client: Client,
  keys: AsyncIterable<ExportedKey>,
  { summary, known, existing, maxTxnOps, progress }: Writing,
): Promise<{ readonly written: number; readonly skipped: number }> {
  let [writtenKeys, skipped, bytes] = [0, 0, 0];
  let batch: ExportedKey[] = [];
  const flush = async (): Promise<void> => {
    const [first, ...more] = batch;
    if (first === undefined) return;
    // A put without a transaction needs the fewest bytes, so that a value near the server's limit for requests fits.
    if (more.length === 0 && existing !== 'refuse') await client.put(first.key, first.value, call);
    else {
      const conditions: Compare[] = existing === 'refuse' ? batch.map(({ key }) => compare.missing(key)) : [];
      const puts: Op[] = batch.map(({ key, value }) => op.put(key, value));
      const { succeeded } = await client.txn({ if: conditions, then: puts }, call);
      if (!succeeded)
        throw new CliError(ExitCode.FAILED, 'another client has written one of the keys during the import');
    }
    writtenKeys += batch.length;
    batch = [];
    bytes = 0;
  };
  try {
    for await (const exported of keys) {
      const { key, value } = exported;
      if (known !== undefined && isEqual(await known.advanceTo(key), value)) skipped += 1;
      else {
        const size = key.length + value.length;
        if (batch.length === maxTxnOps || bytes + size > TXN_BYTES) await flush();
        batch.push(exported);
        bytes += size;
      }
      progress.show(() => `imported ${(writtenKeys + skipped).toLocaleString('en')} of ${keysText(summary.count)}`);
    }
    await flush();
  } catch (error) {
    if (error instanceof EtcdError && error.reason === 'Canceled') throw error;
    const { exitCode } = describeFailure(error);
    const done = `${writtenKeys + skipped} of ${keysText(summary.count)} are in the store`;
    throw new CliError(exitCode, `${(error as Error).message}; ${done}; the import can be run again`);
  } finally {
    await known?.close();
  }
  return { written: writtenKeys, skipped };
}

/** The bytes of an export, which can be read several times. */
interface Input extends AsyncDisposable {
  chunks(): AsyncIterable<Uint8Array>;
}

/**
 * Opens the file or standard input. Copies standard input, and a file that is a pipe, to a temporary file that only the
 * owner may read, because an import checks the whole export before it writes anything.
 */
async function openInput(io: Io, file: string | undefined): Promise<Input> {
  const inputOf = (handle: FileHandle, folder?: string): Input => ({
    async *chunks() {
      for await (const chunk of handle.createReadStream({ start: 0, autoClose: false })) {
        if (io.interrupted.aborted) throw interruptedBy(io);
        yield chunk as Uint8Array;
      }
    },
    [Symbol.asyncDispose]: async () => {
      await handle.close();
      if (folder !== undefined) await rm(folder, { recursive: true, force: true });
    },
  });
  let given: FileHandle | undefined;
  if (file !== undefined) {
    try {
      given = await open(file, 'r');
      const stat = await given.stat();
      if (stat.isFile()) return inputOf(given);
      if (stat.isDirectory()) throw new Error('it is a directory');
    } catch (error) {
      await given?.close();
      throw wrongArguments(`cannot read ${file}: ${(error as Error).message}`);
    }
  }
  const folder = await mkdtemp(join(tmpdir(), 'etcdwire-import-'));
  const copy = await open(join(folder, 'export'), 'wx+', 0o600);
  const input = inputOf(copy, folder);
  try {
    const copying = (async () => {
      for await (const chunk of given?.createReadStream() ?? io.stdin) await copy.writeFile(chunk);
    })();
    copying.catch(() => {});
    await orAborted(copying, io.interrupted);
    return input;
  } catch (error) {
    await input[Symbol.asyncDispose]();
    throw io.interrupted.aborted ? interruptedBy(io) : error;
  }
}
