import { closeSync, openSync, writeFileSync, writeSync } from 'node:fs';
import type { Command } from 'commander';
import { openByteStream } from '../../host/node.js';
import type { WireFrame } from '../../inspect/frame.js';
import { mayHoldSecrets } from '../../inspect/secrets.js';
import { tapped } from '../../inspect/tap.js';
import { monotonicMs } from '../../runtime/timers.js';
import { http2 } from '../../transport/http2/transport.js';
import { CliError, type Ends, ExitCode } from '../exit-code.js';
import { frameJson, frameText } from '../frame-text.js';
import type { Io } from '../io.js';
import { findMethod } from '../method-name.js';
import { tracePage } from '../trace/page.js';
import { QueueObserver } from '../trace/queue-observer.js';
import { storyOf } from '../trace/story.js';

interface TraceFlags {
  readonly out?: string;
  readonly html?: string;
}

/** Values of the flags of every command, by name. */
export type Flags = Readonly<Record<string, unknown>>;
type Run = (args: readonly string[], io: Io, inherited: Flags) => Promise<ExitCode>;

/** Values are in it: for nobody else to read. */
const PRIVATE = { mode: 0o600 } as const;

export function addTraceCommand(program: Command, io: Io, ends: Ends, run: Run): void {
  program
    .command('trace')
    .argument('<command...>', 'after --, such as -- lock NAME -- COMMAND')
    .option('--out <file>', 'a line of JSON a frame, to this file, in place of lines to standard error')
    .option(
      '--html <file>',
      'a page to look at: the queue of the lock, who said what to whom, each message to its bytes',
    )
    .description('runs another command of this program, and tells every frame and message of it; no password or token')
    .action(async (args: string[], flags: TraceFlags) => {
      if (args[0] === 'trace') throw new CliError(ExitCode.USAGE, 'trace: got itself; allowed: any other command');
      const given = Object.entries(program.opts()).filter(([name]) => program.getOptionValueSource(name) === 'cli');
      const runs = (inner: Io): Promise<ExitCode> => run(args, inner, Object.fromEntries(given));
      ends(await trace(args, io, flags, runs));
    });
}

async function trace(
  args: readonly string[],
  io: Io,
  { out, html }: TraceFlags,
  run: (io: Io) => Promise<ExitCode>,
): Promise<ExitCode> {
  // Where it cannot be written nothing is run.
  using file = out === undefined ? undefined : new LinesFile(out);
  if (html !== undefined) closeSync(openSync(html, 'a', PRIVATE.mode));
  const startMs = monotonicMs();
  const frames: WireFrame[] = [];
  const tell = (frame: WireFrame): void => {
    file?.line(JSON.stringify(frameJson(frame, startMs)));
    if (html !== undefined) frames.push(frame);
    if (out === undefined && html === undefined) io.stderr.write(`${frameText(frame, startMs)}\n`);
  };
  let observer: QueueObserver | undefined;
  const exitCode = await run({
    ...io,
    transport: http2(tapped(openByteStream, tell)),
    entering: async (options, name) => {
      if (html !== undefined) observer = await QueueObserver.start(options, name);
    },
  });
  const endMs = monotonicMs();
  await observer?.[Symbol.asyncDispose]();
  try {
    // Of what could not be run there is no story: an older one stays.
    if (html !== undefined && exitCode !== ExitCode.USAGE) {
      const command = ['etcdwire', ...withoutSecrets(args)].map(quotedForShell).join(' ');
      const story = storyOf(frames, observer?.states ?? []);
      writeFileSync(html, tracePage(story, { command, exitCode, startMs, endMs }), PRIVATE);
    }
    file?.check();
  } catch (error) {
    io.stderr.write(`etcdwire: the trace is not whole: ${(error as Error).message}\n`);
    // What the command ended with says more, unless all was well.
    return exitCode === ExitCode.OK ? ExitCode.CANNOT_WRITE : exitCode;
  }
  return exitCode;
}

/** Written as it comes: what is traced may go on for long. */
class LinesFile implements Disposable {
  readonly #file: number;
  #problem: unknown;

  constructor(path: string) {
    this.#file = openSync(path, 'w', PRIVATE.mode);
  }

  /** Never throws: what is traced goes on. */
  line(text: string): void {
    if (this.#problem !== undefined) return;
    try {
      writeSync(this.#file, `${text}\n`);
    } catch (problem) {
      this.#problem = problem;
    }
  }

  /** @throws what was in the way of a line. */
  check(): void {
    if (this.#problem !== undefined) throw this.#problem;
  }

  [Symbol.dispose](): void {
    closeSync(this.#file);
  }
}

/** The page is to be shown to others. */
function withoutSecrets(args: readonly string[]): readonly string[] {
  const holdsSecrets = args.some((arg) => mayHoldSecrets(findMethod(arg)?.request.typeName ?? ''));
  return args.map((arg, index) => {
    if (args[index - 1] === '--password' || (holdsSecrets && arg.trimStart().startsWith('{'))) return '…';
    if (args[index - 1] === '--user') return arg.replace(/:.*$/s, ':…');
    return arg.replace(/^(--password=|--user=[^:]*:).*$/s, '$1…');
  });
}

/** As it can be given to a shell again. */
function quotedForShell(arg: string): string {
  return /^[\w@%+=:,./…-]+$/.test(arg) ? arg : `'${arg.replaceAll("'", "'\\''")}'`;
}
