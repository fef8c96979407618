import { type Command, InvalidArgumentError } from 'commander';
import { captureArgument, programOf } from '../arguments.js';
import { contextOf } from '../context.js';
import { type SetExitCode, wrongArguments } from '../exit-code.js';
import type { Io } from '../io.js';
import type { ReplayFlags } from '../replay/run.js';

export function addReplayCommand(program: Command, io: Io, setExitCode: SetExitCode): void {
  program
    .command('replay')
    .addArgument(captureArgument())
    .option('--test <file>', 'write the recording as a test for vitest, instead of replaying it; - for standard output')
    .option('--against-server', 'repeat all calls, also the writes, at the cluster of --endpoints')
    .option('--step', 'wait for Enter after each step')
    .option('--to-revision <revision>', 'end before the first step of a later recorded revision', positive)
    .option('--speed <factor>', 'with --against-server: 1 as recorded, 2 in half the time; default: at once', positive)
    .option('--quiet', 'print only the steps whose answers differ')
    .description(
      'repeat the calls in a recording at an etcd in memory, or at a cluster, and print where its answers differ',
    )
    .action(async (file: string, flags: ReplayFlags, command: Command) => {
      checkFlags(flags, programOf(command).getOptionValueSource('endpoints') === 'cli');
      // Loads the etcd in memory only for this command, because it is large.
      const { runReplay } = await import('../replay/run.js');
      setExitCode(await runReplay(file, flags, io, contextOf(io, command)));
    });
}

/** @throws CliError if the flags contradict each other. */
function checkFlags({ againstServer, speed, test, step }: ReplayFlags, hasEndpoints: boolean): void {
  if (hasEndpoints && againstServer === undefined)
    throw wrongArguments(
      '--endpoints: got the flag without --against-server; by default, the replay uses an etcd in memory; add ' +
        '--against-server to repeat the calls, also the writes, at these endpoints',
    );
  if (speed !== undefined && againstServer === undefined)
    throw wrongArguments('--speed: got the flag without --against-server; an etcd in memory needs no waiting');
  if (test !== undefined && (againstServer !== undefined || step !== undefined))
    throw wrongArguments('--test: got the flag together with --against-server or --step; allowed: only one of them');
}

function positive(text: string): number {
  const value = Number(text);
  if (!/^\d+(?:\.\d+)?$/.test(text) || value <= 0) throw new InvalidArgumentError('Allowed: a number above 0.');
  return value;
}
