import { Command } from 'commander';
import { onAbort } from '../../../src/internal.js';
import type { KeyFlags } from './commands/key-flags.js';
import { addWatchFlags, noCommand, type Watched, watchedBy } from './commands/watched.js';
import type { Context } from './context.js';
import { ExitCode, wrongArguments } from './exit-code.js';
import { walkArguments } from './go-arguments.js';
import { type Io, linesOf } from './io.js';
import { wordsOf } from './txn-text.js';

/** Prints the events of a watch that a line describes, until `context.io.interrupted` aborts. Resolves with the exit code. */
type Follow = (context: Context, watched: Watched, flags: KeyFlags) => Promise<ExitCode>;

/**
 * Reads lines such as `watch --prefix config/ -- COMMAND` from standard input, and follows these watches together. At
 * the end of the input, the watches continue until the user interrupts them. In the mode of etcdctl, they end then. The
 * first failure of a line, a watch or a program ends all watches.
 */
export async function watchLines(context: Context, follow: Follow): Promise<ExitCode> {
  const { io } = context;
  const ended = new AbortController();
  const offInterrupted = onAbort(io.interrupted, () => ended.abort(io.interrupted.reason));
  const ofWatches = { ...context, io: { ...io, interrupted: ended.signal } };
  const watches: Promise<ExitCode>[] = [];
  let stop: (failure: Promise<ExitCode>) => void = () => {};
  const stopped = new Promise<ExitCode>((resolve) => {
    stop = resolve;
  });
  const start = (watched: Watched, flags: KeyFlags): void => {
    const watch = follow(ofWatches, watched, flags);
    watches.push(watch);
    watch.then(
      (code) => code !== ExitCode.OK && stop(watch),
      () => stop(watch),
    );
  };
  const read = async (): Promise<ExitCode> => {
    for await (const line of linesOf(io)) startLine(context, line, start);
    io.etcdctl?.refuse('endOfWatchText');
    await Promise.all(watches);
    return ExitCode.OK;
  };
  try {
    return await Promise.race([read(), stopped]);
  } finally {
    offInterrupted();
    ended.abort();
    await Promise.allSettled(watches);
  }
}

function startLine(
  { io }: Pick<Context, 'io'>,
  line: string,
  start: (watched: Watched, flags: KeyFlags) => void,
): void {
  const [name, ...words] = wordsOf(io, line);
  const complain = (problem: string): void => void io.stderr.write(`Invalid command${problem}\n`);
  if (name === undefined) return complain(`: ${line} (watch and progress supported)`);
  // etcdctl asks the server for its progress, and prints nothing.
  if (name === 'progress') return;
  if (name !== 'watch') return complain(` ${line} (only support watch)`);
  const isNamed = (process.env.ETCDCTL_WATCH_KEY ?? '') !== '';
  if (words.length === 0 && !isNamed) return complain(` ${line} (command type or key is not provided)`);
  const dashes = words.indexOf('--');
  if (dashes === words.length - 1 && dashes !== -1) throw noCommand(io);
  const program = dashes === -1 ? [] : words.slice(dashes + 1);
  const { args, flags } = parsed(io, dashes === -1 ? words : words.slice(0, dashes));
  start(watchedBy(io, flags, [...args, ...program], program.length), flags);
}

/** @throws CliError if a flag is unknown or has a wrong value. */
function parsed(io: Io, words: readonly string[]): { readonly args: readonly string[]; readonly flags: KeyFlags } {
  const parser = addWatchFlags(new Command())
    .argument('[key]')
    .argument('[range-end]')
    .allowExcessArguments()
    .exitOverride()
    .configureOutput({ writeErr: () => {} });
  try {
    parser.parse(walkArguments(io, parser, words).args, { from: 'user' });
  } catch (error) {
    throw wrongArguments(`watch: ${(error as Error).message.replace(/^error: /, '')}`);
  }
  return { args: parser.args, flags: parser.opts<KeyFlags>() };
}
