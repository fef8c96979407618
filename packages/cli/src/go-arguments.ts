import { type Command, InvalidArgumentError, Option } from 'commander';
import { BOOLEANS, parseBoolean } from '../../../src/internal.js';
import { wrongArguments } from './exit-code.js';
import type { Io } from './io.js';

// etcdctl reads its arguments with the Go package pflag, which accepts `--prefix=false`, `-i=0` and `-w=json`. This file
// rewrites them to the arguments that commander reads. It also reads the environment variables of flags as etcdctl does.

/** The options whose values are booleans, and that also have a value where other booleans have none. */
const BOOLEAN_OPTIONS = new WeakSet<Option>();

/**
 * Returns an option that takes a boolean. The option without a value means true, unless a boolean follows as an
 * argument of its own, which only etcdwire's normal mode accepts.
 */
export function booleanOption(flags: string, text: string): Option {
  const option = new Option(flags, text).choices(['true', 'false']).argParser((value: string): boolean => {
    const parsed = parseBoolean(value);
    if (parsed === undefined) throw new InvalidArgumentError(`Allowed: ${BOOLEANS}.`);
    return parsed;
  });
  BOOLEAN_OPTIONS.add(option);
  return option;
}

interface Walked {
  /** The arguments as commander reads them. */
  readonly args: readonly string[];
  /** The arguments before `--` that are neither flags nor their values: the names of the command, and its arguments. */
  readonly words: readonly string[];
}

/**
 * Rewrites arguments for commander. If the commands are not added yet, the function knows only the flags of the program.
 *
 * @throws CliError if a boolean flag has another value. In the mode of etcdctl, the error has the text of etcdctl.
 */
export function walkArguments({ etcdctl }: Pick<Io, 'etcdctl'>, program: Command, given: readonly string[]): Walked {
  const args: string[] = [];
  const words: string[] = [];
  const path: string[] = [];
  let command: Command | undefined = program;
  let options: readonly Option[] = program.options;
  for (let at = 0; at < given.length; at += 1) {
    const arg = given[at] as string;
    if (arg === '--') {
      args.push(...given.slice(at));
      break;
    }
    const [name, value] = dividedFlag(arg);
    const option = options.find(({ long, short }) => name === long || name === short);
    if (!arg.startsWith('-') || arg === '-') {
      const whole: string = command === undefined ? arg : (etcdctl?.wholeName(path[0], arg) ?? arg);
      command = command?.commands.find((each) => each.name() === whole || each.aliases().includes(whole));
      if (command !== undefined) options = [...options, ...command.options];
      path.push(whole);
      args.push(whole);
      words.push(whole);
    } else if (option === undefined) {
      // commander takes a negative number for an argument, and pflag does not.
      if (program.commands.length > 0 && /^-[\d.]/.test(arg)) etcdctl?.refuseShorthand(arg);
      args.push(arg);
    } else if (BOOLEAN_OPTIONS.has(option)) {
      const next = given[at + 1];
      const follows =
        value === undefined && etcdctl === undefined && next !== undefined && parseBoolean(next) !== undefined;
      if (follows) at += 1;
      args.push(`${option.long}=${isOn(etcdctl, option, follows ? next : value)}`);
    } else if (option.required || option.optional) {
      args.push(arg.startsWith('--') || value === undefined ? arg : `${name}${value}`);
      if (value === undefined && option.required && at + 1 < given.length) args.push(given[++at] as string);
    } else if (isOn(etcdctl, option, value)) args.push(name);
    else {
      // The last of several flags counts.
      const kept = args.filter((each) => each !== option.long && each !== option.short);
      args.splice(0, args.length, ...kept);
      if (program.options.includes(option)) program.setOptionValueWithSource(option.attributeName(), false, 'cli');
    }
  }
  return { args, words };
}

/** Divides `--name=value` and `-n=value`. */
function dividedFlag(arg: string): readonly [name: string, value?: string] {
  const [, name, value] = /^(--[^=]+|-[^-=])=(.*)$/s.exec(arg) ?? [];
  return name === undefined || (value === '' && !name.startsWith('--')) ? [arg] : [name, value as string];
}

function isOn(etcdctl: Io['etcdctl'], option: Option, value = 'true'): boolean {
  const parsed = parseBoolean(value);
  if (parsed !== undefined) return parsed;
  etcdctl?.refuseBoolean(option, value);
  throw wrongArguments(`${option.long}: got ${JSON.stringify(value)}; allowed: ${BOOLEANS}`);
}

/**
 * Prepares the environment variables of the options of a command and its subcommands. As in etcdctl, an empty variable
 * counts as unset: Docker Compose files often set empty variables. commander regards a flag without a value as set if
 * its variable is set, so this function removes a variable that turns such a flag off.
 *
 * @throws CliError if the variable of a flag without a value is not a boolean.
 */
export function prepareVariables(command: Command): void {
  for (const option of command.options) {
    const { envVar = '', required, optional } = option;
    const value = process.env[envVar];
    if (value === undefined) continue;
    const isOff = value === '' || (!required && !optional && parseBoolean(value) === false);
    if (isOff) delete process.env[envVar];
    else if (!required && !optional && parseBoolean(value) === undefined)
      throw wrongArguments(`${envVar}: got ${JSON.stringify(value)}; allowed: ${BOOLEANS}`);
  }
  for (const each of command.commands) prepareVariables(each);
}
