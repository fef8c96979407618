import type { Command } from 'commander';
import { wrongArguments } from '../exit-code.js';
import type { Io } from '../io.js';

/**
 * Adds `help` to the program and to each command with subcommands. commander's own command of this name knows
 * only one level of commands, and its exit code is the one that the process has so far.
 */
export function addHelpCommands(parent: Command, io: Io): void {
  for (const each of parent.commands) if (each.commands.length > 0) addHelpCommands(each, io);
  parent
    .helpCommand(false)
    .command('help')
    .argument('[command...]')
    .description('print the help of a command')
    .action((path: readonly string[]) => helpTarget(parent, path, io).outputHelp());
}

/** Returns the command that the path names. @throws CliError if there is no such command. */
function helpTarget(parent: Command, path: readonly string[], { etcdctl }: Io): Command {
  let target = parent;
  for (const name of path) {
    const next = target.commands.find((each) => each.name() === name || each.aliases().includes(name));
    // etcdctl prints the help of the command that it has found so far.
    if (next === undefined && etcdctl !== undefined) return target;
    if (next === undefined)
      throw wrongArguments(
        `command: got "${path.join(' ')}"; allowed: the name of a command; etcdwire help lists them`,
      );
    target = next;
  }
  return target;
}
