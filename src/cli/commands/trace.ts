import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs';
import type { Command } from 'commander';
import { openByteStream } from '../../host/node.js';
import { mayHoldSecrets, tapped, type WireFrame } from '../../inspect/frames.js';
import { textOf } from '../../runtime/bytes.js';
import { monotonicMs } from '../../runtime/timers.js';
import { http2Over } from '../../transport/http2/transport.js';
import { rawArguments } from '../arguments.js';
import type { Io } from '../context.js';
import { CliError, ExitCode, type SetExitCode } from '../exit-code.js';
import { frameJson, frameText } from '../frames.js';
import { tracePage } from '../trace/page.js';
import { observeQueue, type QueueObserver, storyOf } from '../trace/story.js';
import { findMethod } from './rpc.js';

interface TraceFlags {
  readonly out?: string;
  readonly html?: string;
}

/** The values of flags. Each key is the name of a flag. */
export type FlagValues = Readonly<Record<string, unknown>>;
type Run = (args: readonly string[], io: Io, inherited: FlagValues) => Promise<ExitCode>;

/** Permissions of the written files. Only the owner may read a trace, because it contains keys and values. */
const FILE_MODE = 0o600;

export function addTraceCommand(program: Command, io: Io, setExitCode: SetExitCode, run: Run): void {
  program
    .command('trace')
    .configureOutput({
      outputError: (text, write) => {
        // commander takes the options of the command to trace for options of `trace`, unless -- precedes the command.
        const all = rawArguments(program);
        const rest = all.slice(all.indexOf('trace') + 1).map(quotedForShell);
        const hint = /unknown option/.test(text)
          ? `, or give the command after --: etcdwire trace -- ${rest.join(' ')}`
          : '';
        write(`${text.replace(/^error: /, 'etcdwire: ').trimEnd()}${hint}\n`);
      },
    })
    .argument('<command...>', 'after --, such as -- lock NAME -- COMMAND')
    .option('--out <file>', 'write one line of JSON for each frame to this file instead of text to standard error')
    .option('--html <file>', 'write a page with the queue of the lock, all messages, and the meaning of each byte')
    .description('run another etcdwire command and print all its frames and messages, without passwords and tokens')
    .action(async (args: string[], flags: TraceFlags) => {
      checkDashes(program, args, flags);
      if (args[0] === 'trace')
        throw new CliError(ExitCode.USAGE, 'command to trace: got trace; allowed: any etcdwire command except trace');
      const given = Object.entries(program.opts()).filter(([name]) => program.getOptionValueSource(name) === 'cli');
      const runTraced = (tracedIo: Io): Promise<ExitCode> => run(args, tracedIo, Object.fromEntries(given));
      setExitCode(await trace(args, io, flags, runTraced));
    });
}

/** Whether `trace` can run a command of this name. */
function isCommand(program: Command, name: string | undefined): boolean {
  return program.commands.some((command) => command.name() === name);
}

/**
 * Refuses `trace --html get foo`, which would write the page to the file `get` and run the command `foo`.
 *
 * @throws CliError with the command line that the user probably meant.
 */
function checkDashes(program: Command, args: readonly string[], { html, out }: TraceFlags): void {
  for (const [flag, file] of [
    ['--html', html],
    ['--out', out],
  ] as const)
    if (isCommand(program, file) && !isCommand(program, args[0]))
      throw new CliError(
        ExitCode.USAGE,
        `${flag}: got "${file}", which is a command; allowed: a file, as in etcdwire trace ${flag} trace.html -- ${[file, ...args].join(' ')}`,
      );
}

async function trace(
  args: readonly string[],
  io: Io,
  { out, html }: TraceFlags,
  run: (io: Io) => Promise<ExitCode>,
): Promise<ExitCode> {
  // Opens both files first, so that the command does not run if a file cannot be written.
  const file = out === undefined ? undefined : openSync(out, 'w', FILE_MODE);
  if (html !== undefined) closeSync(openSync(html, 'a', FILE_MODE));
  const startMs = monotonicMs();
  const frames: WireFrame[] = [];
  let problem: unknown;
  const onFrame = (frame: WireFrame): void => {
    if (html !== undefined) frames.push(frame);
    if (file === undefined) {
      if (html === undefined) io.stderr.write(`${frameText(frame, startMs)}\n`);
    } else if (problem === undefined) {
      try {
        // Writes each line at once, because the command may run for a long time.
        writeSync(file, `${JSON.stringify(frameJson(frame, startMs))}\n`);
      } catch (error) {
        // The command must continue even if the trace cannot be written, so the problem is reported at the end.
        problem = error;
      }
    }
  };
  let observer: QueueObserver | undefined;
  let problems = '';
  const stderr = {
    ...(io.stderr.isTTY === undefined ? {} : { isTTY: io.stderr.isTTY }),
    write: (data: string | Uint8Array): unknown => {
      problems += typeof data === 'string' ? data : textOf(data);
      return io.stderr.write(data);
    },
  };
  const exitCode = await run({
    ...io,
    stderr: html === undefined ? io.stderr : stderr,
    transport: http2Over(tapped(openByteStream, onFrame)),
    onEnterQueue: async (options, name) => {
      if (html !== undefined) observer = await observeQueue(options, name);
    },
  });
  const endMs = monotonicMs();
  await observer?.stop();
  try {
    // A command with wrong arguments did not run, so the file keeps the page of a previous run.
    if (html !== undefined && exitCode !== ExitCode.USAGE) {
      const command = ['etcdwire', ...withoutSecrets(args)].map(quotedForShell).join(' ');
      const story = storyOf(frames, observer?.states ?? [], args.includes('elect') ? 'leadership' : 'lock');
      writeFileSync(
        html,
        tracePage(story, { command, exitCode, startMs, endMs, problems: problemsOf(args, problems) }),
        { mode: FILE_MODE },
      );
      io.stderr.write(`etcdwire: the trace is in ${html}\n`);
    }
    if (problem !== undefined) throw problem;
  } catch (error) {
    io.stderr.write(`etcdwire: the trace is incomplete: ${(error as Error).message}\n`);
    // If the command failed too, its exit code is more important than that of the trace.
    return exitCode === ExitCode.OK ? ExitCode.CANNOT_WRITE : exitCode;
  } finally {
    if (file !== undefined) closeSync(file);
  }
  return exitCode;
}

/** Returns what a page may show of standard error. An error about a request can contain a part of the request. */
function problemsOf(args: readonly string[], stderr: string): string {
  if (holdsSecrets(args)) return '';
  // A terminal erases status lines.
  return stderr
    .split('\r\x1b[K')
    .map((part, index) => (index === 0 ? part : part.replace(/^[^\n]*$/, '')))
    .join('');
}

/** Whether the arguments name an RPC whose request may contain passwords or tokens. */
function holdsSecrets(args: readonly string[]): boolean {
  return args.some((arg) => mayHoldSecrets(findMethod(arg)?.request.typeName ?? ''));
}

/**
 * Replaces passwords in the arguments with "…", because users may show the page to other people. Also replaces the JSON
 * requests of RPCs whose requests may contain passwords or tokens.
 */
function withoutSecrets(args: readonly string[]): readonly string[] {
  const areSecret = holdsSecrets(args);
  const user = args.indexOf('user');
  const added = user === -1 ? -1 : args.indexOf('add', user);
  return args.map((arg, index) => {
    if (/^--(dest-|new-user-)?password$/.test(args[index - 1] ?? '') || (areSecret && arg.trimStart().startsWith('{')))
      return '…';
    // The argument of `user add` may be NAME:PASSWORD. It may follow after options.
    if (added !== -1 && index > added && !/^(-|https?:\/\/)/.test(arg)) return arg.replace(/:.*$/s, ':…');
    if (/^--(dest-)?user$/.test(args[index - 1] ?? '')) return arg.replace(/:.*$/s, ':…');
    return arg.replace(/^(--(?:dest-|new-user-)?password=|--(?:dest-)?user=[^:]*:).*$/s, '$1…');
  });
}

/** Quotes an argument for a shell. */
function quotedForShell(arg: string): string {
  return /^[\w@%+=:,./…-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", "'\\''")}'`;
}
