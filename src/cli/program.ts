import { Command, CommanderError, Option } from 'commander';
import { EtcdError } from '../errors/etcd-error.js';
import { addAuthCommands } from './commands/auth.js';
import { addCheckCommands } from './commands/check.js';
import { addClusterCommands } from './commands/cluster.js';
import { addCopyCommands } from './commands/copy.js';
import { addHistoryCommand } from './commands/history.js';
import { addKeyCommands } from './commands/keys.js';
import { addLeaseCommands } from './commands/lease.js';
import { addLockCommands } from './commands/lock.js';
import { addMemberCommands } from './commands/member.js';
import { addMigrateCommand } from './commands/migrate-etcd3.js';
import { addMirrorCommand } from './commands/mirror.js';
import { addRpcCommands } from './commands/rpc.js';
import { addShardsCommand } from './commands/shards.js';
import { addShellCommands } from './commands/shell.js';
import { addTraceCommand, type FlagValues } from './commands/trace.js';
import { addConnectionFlags } from './context.js';
import { addExamples } from './examples.js';
import { CliError, describeFailure, ExitCode, type SetExitCode, signaledCode } from './exit-code.js';
import type { Io } from './io.js';
import { escapeControls, FORMATS } from './output.js';

/** The version in package.json. The program cannot read that file, because the bundle does not contain it. */
const VERSION = '0.1.0';

/**
 * Runs the program and resolves with its exit code. Never rejects. If `etcdwire trace` runs the program, `inherited`
 * contains the global flags that the user gave to `etcdwire trace`.
 */
export async function run(args: readonly string[], io: Io, inherited: FlagValues = {}): Promise<ExitCode> {
  let exitCode: ExitCode = ExitCode.OK;
  const program = createProgram(io, (code) => {
    exitCode = code;
  });
  try {
    // Node.js replaces bytes that are not UTF-8 with U+FFFD. The program refuses such an argument, because it would
    // otherwise use a different key than the user gave.
    if (args.some((arg) => arg.includes('\uFFFD')))
      throw new CliError(
        ExitCode.USAGE,
        'arguments: got bytes that are not UTF-8; allowed: UTF-8 text (for other bytes, use etcdwire call with base64)',
      );
    for (const [name, value] of Object.entries(inherited)) program.setOptionValueWithSource(name, value, 'cli');
    await program.parseAsync(args, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? ExitCode.OK : ExitCode.USAGE;
    if (io.interrupted.aborted && error instanceof EtcdError && error.reason === 'Canceled')
      return signaledCode(io.interrupted.reason as NodeJS.Signals);
    const failure = describeFailure(error);
    io.stderr.write(`etcdwire: ${escapeControls(failure.message)}\n`);
    return failure.exitCode;
  }
}

function createProgram(io: Io, setExitCode: SetExitCode): Command {
  const program = new Command('etcdwire')
    .description('etcd from the command line: keys, watches, fair locks, any RPC, and traces of the wire')
    .version(VERSION)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void io.stdout.write(text),
      writeErr: (text) => void io.stderr.write(text),
      outputError: (text, write) => write(text.replace(/^error: /, 'etcdwire: ')),
    })
    .addHelpText('afterAll', ({ command }) =>
      command.parent === null ? '' : '\nFor the connection and output options, see etcdwire --help.',
    )
    .showSuggestionAfterError()
    .addOption(
      new Option('-w, --write-out <format>', 'output format; default: table on a terminal, json elsewhere')
        .choices(FORMATS)
        .env('ETCDCTL_WRITE_OUT'),
    )
    .addOption(new Option('--hex', 'print keys and values in hexadecimal, except in JSON'));
  addConnectionFlags(program);
  addKeyCommands(program, io, setExitCode);
  addHistoryCommand(program, io);
  addCopyCommands(program, io);
  addMirrorCommand(program, io);
  addLeaseCommands(program, io);
  addLockCommands(program, io, setExitCode);
  addShardsCommand(program, io);
  addMemberCommands(program, io);
  addClusterCommands(program, io, setExitCode);
  addAuthCommands(program, io);
  addRpcCommands(program, io);
  addTraceCommand(program, io, setExitCode, run);
  addCheckCommands(program, io, setExitCode);
  addMigrateCommand(program, io);
  addShellCommands(program, io, VERSION);
  addExamples(program);
  return program;
}
