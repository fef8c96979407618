import type { Command } from 'commander';
import type { WireRange } from '../../../../src/internal.js';
import { int64 } from '../arguments.js';
import { type CliError, wrongArguments } from '../exit-code.js';
import type { Io } from '../io.js';
import { addRangeFlags, type KeyFlags, rangeOf } from './key-flags.js';

/** Adds the flags that a line of `watch -i` has, too. */
export function addWatchFlags(command: Command): Command {
  return addRangeFlags(command)
    .option('--rev <revision>', 'start at this revision', int64)
    .option('--prev-kv', 'print the previous key and value too');
}

/** The keys to watch, and the program to run for each event. */
export interface Watched {
  readonly range: WireRange;
  readonly program: readonly string[];
}

/** Divides the arguments of a watch, the last `after` of which follow `--`. @throws CliError if they are invalid. */
export function watchedBy(io: Io, flags: KeyFlags, args: readonly string[], after: number): Watched {
  const typed = args.slice(0, args.length - after);
  const program = args.slice(args.length - after);
  // etcdctl reads the keys from these variables, too.
  const { ETCDCTL_WATCH_KEY: key, ETCDCTL_WATCH_RANGE_END: rangeEnd } = process.env;
  const named = [key, rangeEnd].filter((each) => each !== undefined && each !== '') as string[];
  io.etcdctl?.checkWatch(flags, typed, named);
  const before = typed.length === 0 ? named : typed;
  if (before.length === 0)
    throw wrongArguments('key: missing; give a key before -- or the end, or set ETCDCTL_WATCH_KEY');
  if (before.length > 2)
    throw wrongArguments(`command: got "${before[2]}" without -- before it; allowed: -- and a command`);
  return { range: rangeOf(before[0] as string, before[1], flags), program };
}

/** Returns the error for a command line that ends with `--`. */
export function noCommand({ etcdctl }: Io): CliError {
  return (
    etcdctl?.problem('noWatchCommand') ??
    wrongArguments('command: missing; give a key before --, and a command after it')
  );
}
