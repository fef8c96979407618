import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import type { Command } from 'commander';
import type { WireFrame } from '../../inspect/frame.js';
import { tapped } from '../../inspect/tap.js';
import { monotonicMs } from '../../time.js';
import { openByteStream } from '../../transport/hosts/node.js';
import { http2 } from '../../transport/http2/transport.js';
import { CliError, type Ends, ExitCode } from '../exit-code.js';
import { frameJson, frameText } from '../frame-text.js';
import type { Io } from '../io.js';

interface TraceFlags {
  readonly out?: string;
}

type Run = (args: readonly string[], io: Io) => Promise<ExitCode>;

export function addTraceCommand(program: Command, io: Io, ends: Ends, run: Run): void {
  program
    .command('trace')
    .argument('<command...>', 'after --, such as -- lock NAME -- COMMAND')
    .option('--out <file>', 'one JSON line a frame, to this file, in place of lines to standard error')
    .description('runs another command of this program, and tells every frame and message of it; no password or token')
    .action(async (args: string[], { out }: TraceFlags) => {
      if (args[0] === 'trace') throw new CliError(ExitCode.USAGE, 'trace: got itself; allowed: any other command');
      ends(await trace(args, io, out, run));
    });
}

async function trace(args: readonly string[], io: Io, out: string | undefined, run: Run): Promise<ExitCode> {
  const startMs = monotonicMs();
  const file = out === undefined ? undefined : createWriteStream(out, { mode: 0o600 });
  // Where it cannot be written nothing is run.
  if (file !== undefined) await once(file, 'open');
  const tell = (frame: WireFrame): void => {
    if (file === undefined) io.stderr.write(`${frameText(frame, startMs)}\n`);
    else file.write(`${JSON.stringify(frameJson(frame, startMs))}\n`);
  };
  const code = await run(args, { ...io, transport: http2(tapped(openByteStream, tell)) });
  if (file !== undefined) {
    file.end();
    await once(file, 'finish');
  }
  return code;
}
