import { writeFileSync } from 'node:fs';
import type { Command } from 'commander';
import type { WireFrame } from '../../inspect/frame.js';
import { tapped } from '../../inspect/tap.js';
import { monotonicMs } from '../../time.js';
import { openByteStream } from '../../transport/hosts/node.js';
import { http2 } from '../../transport/http2/transport.js';
import { CliError, type Ends, ExitCode } from '../exit-code.js';
import { frameJson, frameText } from '../frame-text.js';
import type { Io } from '../io.js';
import { tracePage } from '../trace/page.js';
import { QueueObserver } from '../trace/queue-observer.js';
import { storyOf } from '../trace/story.js';

interface TraceFlags {
  readonly out?: string;
  readonly html?: string;
}

type Run = (args: readonly string[], io: Io) => Promise<ExitCode>;

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
      ends(await trace(args, io, flags, run));
    });
}

async function trace(args: readonly string[], io: Io, { out, html }: TraceFlags, run: Run): Promise<ExitCode> {
  // Where it cannot be written nothing is run.
  for (const file of [out, html]) if (file !== undefined) writeFileSync(file, '', PRIVATE);
  const startMs = monotonicMs();
  const frames: WireFrame[] = [];
  const tell = (frame: WireFrame): void => {
    frames.push(frame);
    if (out === undefined && html === undefined) io.stderr.write(`${frameText(frame, startMs)}\n`);
  };
  let observer: QueueObserver | undefined;
  const exitCode = await run(args, {
    ...io,
    transport: http2(tapped(openByteStream, tell)),
    entering: async (options, name) => {
      if (html !== undefined) observer = await QueueObserver.start(options, name);
    },
  });
  const endMs = monotonicMs();
  await observer?.[Symbol.asyncDispose]();
  if (out !== undefined)
    writeFileSync(out, frames.map((frame) => `${JSON.stringify(frameJson(frame, startMs))}\n`).join(''), PRIVATE);
  if (html !== undefined) {
    const command = `etcdwire ${withoutSecrets(args).join(' ')}`;
    const story = storyOf(frames, observer?.states ?? []);
    writeFileSync(html, tracePage(story, { command, exitCode, startMs, endMs }), PRIVATE);
  }
  return exitCode;
}

/** The page is to be shown to others. */
function withoutSecrets(args: readonly string[]): readonly string[] {
  return args.map((arg, index) => {
    if (args[index - 1] === '--password') return '…';
    if (args[index - 1] === '--user') return arg.replace(/:.*$/s, ':…');
    return arg.replace(/^(--password=|--user=[^:]*:).*$/s, '$1…');
  });
}
