import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs';
import type { Command } from 'commander';
import { openByteStream } from '../../host/node.js';
import { mayHoldSecrets, tapped, type WireFrame } from '../../inspect/frames.js';
import { monotonicMs } from '../../runtime/timers.js';
import { http2Over } from '../../transport/http2/transport.js';
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
    .argument('<command...>', 'after --, such as -- lock NAME -- COMMAND')
    .option('--out <file>', 'write one line of JSON for each frame to this file instead of text to standard error')
    .option('--html <file>', 'write a page with the queue of the lock, all messages, and the meaning of each byte')
    .description('run another etcdwire command and print all its frames and messages, without passwords and tokens')
    .action(async (args: string[], flags: TraceFlags) => {
      if (args[0] === 'trace')
        throw new CliError(ExitCode.USAGE, 'command to trace: got trace; allowed: any etcdwire command except trace');
      const given = Object.entries(program.opts()).filter(([name]) => program.getOptionValueSource(name) === 'cli');
      const runTraced = (tracedIo: Io): Promise<ExitCode> => run(args, tracedIo, Object.fromEntries(given));
      setExitCode(await trace(args, io, flags, runTraced));
    });
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
  const exitCode = await run({
    ...io,
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
      const story = storyOf(frames, observer?.states ?? []);
      writeFileSync(html, tracePage(story, { command, exitCode, startMs, endMs }), { mode: FILE_MODE });
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

/**
 * Replaces passwords in the arguments with "…", because users may show the page to other people. Also replaces the JSON
 * requests of RPCs whose requests may contain passwords or tokens.
 */
function withoutSecrets(args: readonly string[]): readonly string[] {
  const holdsSecrets = args.some((arg) => mayHoldSecrets(findMethod(arg)?.request.typeName ?? ''));
  return args.map((arg, index) => {
    if (/^--(dest-)?password$/.test(args[index - 1] ?? '') || (holdsSecrets && arg.trimStart().startsWith('{')))
      return '…';
    if (/^--(dest-)?user$/.test(args[index - 1] ?? '')) return arg.replace(/:.*$/s, ':…');
    return arg.replace(/^(--(?:dest-)?password=|--(?:dest-)?user=[^:]*:).*$/s, '$1…');
  });
}

/** Quotes an argument for a shell. */
function quotedForShell(arg: string): string {
  return /^[\w@%+=:,./…-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", "'\\''")}'`;
}
