import { constants } from 'node:os';
import { Command, CommanderError, Option } from 'commander';
import { EtcdError } from '../errors/etcd-error.js';
import { addCallCommand } from './commands/call.js';
import { addDecodeCommand } from './commands/decode.js';
import { addDescribeCommands } from './commands/describe.js';
import { addElectCommand } from './commands/elect.js';
import { addKeyCommands } from './commands/keys.js';
import { addLeaseCommands } from './commands/lease.js';
import { addLockCommand } from './commands/lock.js';
import { addMemberCommands } from './commands/members.js';
import { addSnapshotCommand } from './commands/snapshot.js';
import { addTraceCommand, type Flags } from './commands/trace.js';
import { addTxnCommand } from './commands/txn.js';
import { addWatchCommand } from './commands/watch.js';
import { addConnectionFlags } from './connection.js';
import { CliError, describeFailure, type Ends, ExitCode, SIGNALED } from './exit-code.js';
import type { Io } from './io.js';
import { FORMATS, harmless } from './output.js';
import { VERSION } from './version.js';

/** Runs the program, with the flags of one that runs it, if one does. Gives what the process is to end with; never rejects. */
export async function run(args: readonly string[], io: Io, inherited: Flags = {}): Promise<ExitCode> {
  let exitCode: ExitCode = ExitCode.OK;
  const program = createProgram(io, (code) => {
    exitCode = code;
  });
  try {
    // What is no UTF-8 has been changed on its way here, and would be another key.
    if (args.some((arg) => arg.includes('\uFFFD')))
      throw new CliError(ExitCode.USAGE, 'arguments: got bytes that are not UTF-8; allowed: text, or call with base64');
    for (const [name, value] of Object.entries(inherited)) program.setOptionValueWithSource(name, value, 'cli');
    await program.parseAsync(args, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? ExitCode.OK : ExitCode.USAGE;
    if (isInterruption(error, io)) return SIGNALED + constants.signals[io.interrupted.reason as NodeJS.Signals];
    const failure = describeFailure(error);
    io.stderr.write(`etcdwire: ${harmless(failure.message)}\n`);
    return failure.exitCode;
  }
}

/** What was under way ended since the user wanted it to. */
function isInterruption(error: unknown, { interrupted }: Io): boolean {
  return interrupted.aborted && error instanceof EtcdError && error.reason === 'Canceled';
}

function createProgram(io: Io, ends: Ends): Command {
  const program = new Command('etcdwire')
    .description('etcd from the command line: keys, watches, fair locks, and the wire itself')
    .version(VERSION)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void io.stdout.write(text),
      writeErr: (text) => void io.stderr.write(text),
      outputError: (text, write) => write(text.replace(/^error: /, 'etcdwire: ')),
    })
    .configureHelp({ showGlobalOptions: true })
    .showSuggestionAfterError()
    .addOption(new Option('-w, --write-out <format>', 'table on a terminal, json elsewhere').choices(FORMATS));
  addConnectionFlags(program);
  for (const add of COMMANDS) add(program, io, ends);
  addTraceCommand(program, io, ends, run);
  return program;
}

const COMMANDS: readonly ((program: Command, io: Io, ends: Ends) => void)[] = [
  addKeyCommands,
  addTxnCommand,
  addWatchCommand,
  addLeaseCommands,
  addLockCommand,
  addElectCommand,
  addMemberCommands,
  addSnapshotCommand,
  addCallCommand,
  addDescribeCommands,
  addDecodeCommand,
];
