import type { Command, Option } from 'commander';
import { allMethods, shortPath } from '../../../../src/internal.js';
import { contextOf } from '../context.js';
import { wrongArguments } from '../exit-code.js';
import type { Io } from '../io.js';

/**
 * The scripts that connect a shell to the hidden command `__complete`, which prints one candidate per line. They run the
 * program that the user has typed, such as node_modules/.bin/etcdwire. If there is no such program, the typed name is an
 * alias, and they run the program of the project in the current folder with npx.
 */
const SCRIPTS: Readonly<Record<string, string>> = {
  bash: `_etcdwire() {
  local IFS=$'\\n' words=() word afterEquals=
  # bash divides --write-out=json into three words.
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if [[ $word == = || $afterEquals ]]; then
      words[\${#words[@]}-1]+=$word
      if [[ $word == = ]]; then afterEquals=1; else afterEquals=; fi
    else
      words+=("$word")
    fi
  done
  local program=("\${COMP_WORDS[0]/#\\~/$HOME}")
  type -P "\${program[0]}" >/dev/null || program=(npx --no -- etcdwire)
  COMPREPLY=($("\${program[@]}" __complete -- "\${words[@]}" 2>/dev/null))
  if [[ "\${words[\${#words[@]}-1]}" == --*=* ]]; then COMPREPLY=("\${COMPREPLY[@]#*=}"); fi
}
complete -o default -F _etcdwire etcdwire`,
  zsh: `#compdef etcdwire
_etcdwire() {
  local -a candidates program
  program=("\${words[1]/#\\~/$HOME}")
  whence -p -- $program >/dev/null || program=(npx --no -- etcdwire)
  candidates=("\${(@f)$($program __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "$candidates" ]]; then compadd -- $candidates; else _files; fi
}
compdef _etcdwire etcdwire`,
  fish: `function __etcdwire_complete
  set -l program (string replace -r '^~' $HOME -- (commandline -opc)[1])
  command -q $program; or set program npx --no -- etcdwire
  $program __complete -- (commandline -opc)[2..] (commandline -ct) 2>/dev/null
end
complete -c etcdwire -a '(__etcdwire_complete)'`,
};

/** Commands of etcdctl that etcdwire does not have, or has under another name, and what to use instead. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  'make-mirror': 'use etcdwire mirror --to ENDPOINTS',
  'snapshot restore': 'use etcdutl snapshot restore',
  'snapshot status': 'use etcdutl snapshot status',
};

/** Adds the commands that help with the command line itself. */
export function addShellCommands(program: Command, io: Io, version: string): void {
  program
    .command('completion')
    .argument('<shell>', Object.keys(SCRIPTS).join(', '))
    .description('print a script that completes commands in a shell')
    .action((shell: string, _, command: Command) => {
      const script = Object.hasOwn(SCRIPTS, shell) ? SCRIPTS[shell] : undefined;
      if (script === undefined)
        throw wrongArguments(`shell: got "${shell}"; allowed: ${Object.keys(SCRIPTS).join(', ')}`);
      contextOf(io, command).out.line(script);
    });
  program
    .command('__complete', { hidden: true })
    .argument('[words...]')
    .action((words: string[], _, command: Command) => {
      const { out } = contextOf(io, command);
      for (const candidate of candidatesFor(program, words)) out.line(candidate);
    });
  program
    .command('version')
    .description('print the version of etcdwire')
    .action((_, command: Command) => {
      const { out } = contextOf(io, command);
      out.line(`etcdwire version: ${version}`);
      // Scripts compare the version of the API that etcdctl prints.
      if (out.etcdctl !== undefined) out.line('API version: 3.6');
    });
  for (const [path, advice] of Object.entries(ELSEWHERE)) {
    const [first = '', second] = path.split(' ');
    const parent = second === undefined ? program : program.commands.find((each) => each.name() === first);
    parent
      ?.command(second ?? first, { hidden: true })
      .allowUnknownOption()
      .argument('[arguments...]')
      .action(() => {
        throw wrongArguments(`${path}: etcdwire does not have this command of etcdctl; ${advice}`);
      });
  }
}

/** Returns the candidates that may replace the last word. */
function candidatesFor(program: Command, words: readonly string[]): readonly string[] {
  const typed = words.at(-1) ?? '';
  const [flag = '', value] = typed.split('=', 2);
  let command = program;
  let expecting: Option | undefined;
  for (const word of words.slice(0, -1)) {
    if (word === '--') return [];
    const option = optionsOf(command).find((each) => each.long === word || each.short === word);
    if (option !== undefined || expecting !== undefined) {
      expecting = option?.required === true ? option : undefined;
      continue;
    }
    command = command.commands.find((each) => each.name() === word) ?? command;
  }
  if (expecting === undefined && value !== undefined) {
    const choices = optionsOf(command).find(({ long }) => long === flag)?.argChoices ?? [];
    return choices.map((each) => `${flag}=${each}`).filter((each) => each.startsWith(typed));
  }
  const all = expecting === undefined ? wordsOf(command, typed) : (expecting.argChoices ?? []);
  return all.filter((each) => each.startsWith(typed));
}

function wordsOf(command: Command, typed: string): readonly string[] {
  if (typed.startsWith('-'))
    return optionsOf(command).flatMap(({ long, hidden }) => (long == null || hidden ? [] : [long]));
  if (command.commands.length > 0)
    return command
      .createHelp()
      .visibleCommands(command)
      .map((each) => each.name());
  return ['call', 'describe'].includes(command.name()) ? allMethods.map(shortPath) : [];
}

/** The options of a command and of its parent commands. */
function optionsOf(command: Command): readonly Option[] {
  return [...command.options, ...(command.parent === null ? [] : optionsOf(command.parent))];
}
