import { basename } from 'node:path';
import { Command, CommanderError, Option } from 'commander';
import { EtcdError, escapeControls, parseBoolean } from '../../../src/internal.js';
import { flag } from './arguments.js';
import { addHelpCommands } from './commands/help.js';
import { addKeyCommands } from './commands/keys.js';
import { addLeaseCommands } from './commands/lease.js';
import { addLockCommands } from './commands/lock.js';
import type { FlagValues } from './commands/trace.js';
import { addWatchCommand } from './commands/watch.js';
import { addConnectionFlags } from './context.js';
import { addExamples } from './examples.js';
import {
  describeFailure,
  ExitCode,
  type SetExitCode,
  signaledCode,
  withoutOptionValue,
  wrongArguments,
} from './exit-code.js';
import { prepareVariables, walkArguments } from './go-arguments.js';
import type { Io } from './io.js';
import { FORMATS } from './output.js';

/** The version in package.json. The program cannot read that file, because the bundle does not contain it. */
const VERSION = '0.1.0';

/**
 * The commands that programs and scripts run often. If the command line names one of them, the program loads and adds
 * only the entry of that command, so that it starts quickly.
 */
const COMMON_COMMANDS: readonly {
  readonly names: readonly string[];
  readonly add: (program: Command, io: Io, setExitCode: SetExitCode) => void;
}[] = [
  { names: ['get', 'put', 'del', 'txn'], add: addKeyCommands },
  { names: ['watch'], add: addWatchCommand },
  { names: ['lease'], add: addLeaseCommands },
  { names: ['lock', 'elect'], add: addLockCommands },
];

/**
 * Runs the program and resolves with its exit code. Never rejects. If `etcdwire trace` runs the program, `inherited`
 * contains the global flags that the user gave to `etcdwire trace`.
 */
export async function run(given: readonly string[], outerIo: Io, inherited: FlagValues = {}): Promise<ExitCode> {
  const io = await inMode(given, outerIo);
  const { etcdctl } = io;
  let exitCode: ExitCode = ExitCode.OK;
  const setExitCode = (code: ExitCode): void => {
    exitCode = code;
  };
  const program = createProgram(io);
  try {
    // Node.js replaces bytes that are not UTF-8 with U+FFFD. The program refuses such an argument, because it would
    // otherwise use a different key than the user gave.
    if (given.some((arg) => arg.includes('\uFFFD')))
      throw wrongArguments(
        'arguments: got bytes that are not UTF-8; allowed: UTF-8 text (for other bytes, use etcdwire call with base64)',
      );
    for (const [name, value] of Object.entries(inherited)) program.setOptionValueWithSource(name, value, 'cli');
    etcdctl?.begin(program);
    const { args, words } = walkArguments(io, program, given);
    await addCommands(program, words[0], io, setExitCode);
    etcdctl?.prepare(program);
    prepareVariables(program);
    await program.parseAsync(walkArguments(io, program, args).args, { from: 'user' });
    return exitCode;
  } catch (error) {
    if (error instanceof CommanderError) {
      if (error.exitCode === 0 || (etcdctl !== undefined && error.code === 'commander.help')) return ExitCode.OK;
      if (etcdctl === undefined) return ExitCode.USAGE;
    }
    if (io.interrupted.aborted && error instanceof EtcdError && error.reason === 'Canceled')
      return signaledCode(io.interrupted.reason as NodeJS.Signals);
    const failure = describeFailure(error);
    if (etcdctl === undefined) {
      io.stderr.write(`etcdwire: ${escapeControls(failure.message)}\n`);
      return failure.exitCode;
    }
    const { message, exitCode: code, isVague, isBare } = etcdctl.failure(error);
    // etcdctl logs the cause of a failed connection in a line of its own, in another format.
    if (isVague) io.stderr.write(`etcdwire: ${escapeControls(failure.message)}\n`);
    io.stderr.write(isBare ? `${message}\n` : `Error: ${message}\n`);
    return code;
  }
}

/** Returns the input and output with the mode of etcdctl, if the arguments, the environment or the name ask for it. */
async function inMode(args: readonly string[], io: Io): Promise<Io> {
  const end = args.indexOf('--');
  const isAsked =
    args.slice(0, end === -1 ? undefined : end).includes('--etcdctl') ||
    parseBoolean(process.env.ETCDWIRE_ETCDCTL ?? '') === true ||
    [process.argv[1] ?? '', process.argv0].some((path) => /^etcdctl(?:\.\w+)?$/.test(basename(path)));
  if (!isAsked) return io;
  const { EtcdctlMode } = await import('./lazy.js');
  // Keep the getters of `io`, such as that of `stdin`, which notes that the program reads standard input.
  return Object.create(io, { etcdctl: { value: new EtcdctlMode(), enumerable: true } }) as Io;
}

/** Returns the program without commands. */
function createProgram(io: Io): Command {
  const program = new Command('etcdwire')
    .description('etcd from the command line: keys, watches, fair locks, any RPC, and traces of the wire')
    .version(VERSION)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void io.stdout.write(text),
      // etcdctl prints the help of a command that lacks its subcommand on standard output.
      writeErr: (text) => void (io.etcdctl === undefined ? io.stderr : io.stdout).write(text),
      outputError: (text, write) => write(withoutOptionValue(text).replace(/^error: /, 'etcdwire: ')),
    })
    .addHelpText('afterAll', ({ command }) =>
      command.parent === null ? '' : '\nFor the connection and output options, see etcdwire --help.',
    )
    .showSuggestionAfterError()
    .addOption(
      flag('-w, --write-out <format>', 'output format; default: table on a terminal, json elsewhere').choices(FORMATS),
    )
    .addOption(flag('--hex', 'print keys and values in hexadecimal, except in JSON'))
    .addOption(new Option('--etcdctl', 'print, and exit, as etcdctl 3.6 does; also with ETCDWIRE_ETCDCTL=1'));
  return addConnectionFlags(program);
}

/** Adds the command of this name, or all commands if it is not one of `COMMON_COMMANDS`. */
async function addCommands(program: Command, name = '', io: Io, setExitCode: SetExitCode): Promise<void> {
  const common = COMMON_COMMANDS.find(({ names }) => names.includes(name));
  for (const { add } of common === undefined ? COMMON_COMMANDS : [common]) add(program, io, setExitCode);
  if (common === undefined) {
    const { addOtherCommands } = await import('./other-commands.js');
    addOtherCommands(program, io, setExitCode, run, VERSION);
  }
  addHelpCommands(program, io);
  addExamples(program);
}
