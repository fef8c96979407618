import { existsSync } from 'node:fs';
import type { Command, Option } from 'commander';
import { loginOf } from '../../../../src/internal.js';
import type { Sink } from '../output-base.js';
import { checkArguments, flagProblem, prepare, prepareGlobalFlags } from './arguments.js';
import { COMMANDS } from './commands.js';
import { badArgs, ETCDCTL_EXIT, EtcdctlError, etcdctlFailure, failsAtLogin, usageError } from './errors.js';
import { goQuoted } from './go-format.js';
import { ETCDCTL_FORMATS, type EtcdctlFormat, EtcdctlPrinter } from './printer.js';

/** What differs when etcdwire stands in for etcdctl. The program loads this class only in that mode. */
export class EtcdctlMode {
  /** The path of the command that runs, such as `lease grant`. Empty before the command is known. */
  #path = '';
  /** Whether the command logs in, which etcdctl does before everything else. */
  #hasUser = false;

  /** Changes the global flags, before the program knows which command runs. */
  begin(program: Command): void {
    prepareGlobalFlags(program);
  }

  /** Changes the commands so that they accept what etcdctl accepts. */
  prepare(program: Command): void {
    prepare(program);
    program.hook('preAction', (_, command) => {
      this.#path = pathOf(command);
      checkArguments(this.#path, command);
    });
  }

  /** Returns the whole name of a command of etcdctl that `typed` shortens. `parent` is the name before it. */
  wholeName(parent: string | undefined, typed: string): string {
    const names = parent === undefined ? Object.keys(COMMANDS) : (COMMANDS[parent] ?? []);
    const [whole, ...others] = names.filter((name) => name.startsWith(typed));
    return names.includes(typed) || whole === undefined || others.length > 0 ? typed : whole;
  }

  /** @throws EtcdctlError, because pflag takes a negative number for a flag. */
  refuseShorthand(arg: string): never {
    throw new EtcdctlError(ETCDCTL_EXIT.ERROR, `unknown shorthand flag: '${arg[1]}' in ${arg}`);
  }

  /** @throws EtcdctlError, because the value of a boolean flag is not a boolean. */
  refuseBoolean(option: Option, value: string): never {
    throw flagProblem(option, value)(`strconv.ParseBool: parsing ${goQuoted(value)}: invalid syntax`);
  }

  /** @throws EtcdctlError if etcdctl does not have the format. */
  printer(sink: Sink, format: string, isHex: boolean): EtcdctlPrinter {
    if (!(ETCDCTL_FORMATS as readonly string[]).includes(format))
      throw new EtcdctlError(ETCDCTL_EXIT.BAD_FEATURE, 'unsupported output format');
    return new EtcdctlPrinter(sink, format as EtcdctlFormat, isHex);
  }

  /** Checks the flags of a connection. @throws EtcdctlError if a certificate or a key is missing. */
  checkConnection(flags: ConnectionFlags): void {
    const {
      endpoints,
      cacert = '',
      cert = '',
      key = '',
      commandTimeout,
      maxRequestBytes = 0n,
      maxRecvBytes = 0n,
    } = flags;
    this.#hasUser = this.hasLogin(flags.user ?? '', flags.password);
    for (const name of ['cert', 'key', 'cacert'] as const)
      if (flags[name] === '') throw badArgs(`empty string is passed to --${name} option`);
    if ((cert === '') !== (key === ''))
      throw badArgs(`KeyFile and CertFile must both be present[key: ${key}, cert: ${cert}]`);
    for (const file of [cert, key, cacert]) if (file !== '' && !existsSync(file)) throw badArgs(noSuchFile(file));
    if (endpoints.length === 0)
      throw new EtcdctlError(ETCDCTL_EXIT.BAD_CONNECTION, 'at least one Endpoint is required in client config');
    if (maxRecvBytes > 0n && maxRequestBytes > maxRecvBytes)
      throw new EtcdctlError(
        ETCDCTL_EXIT.BAD_CONNECTION,
        `gRPC message recv limit (${maxRecvBytes} bytes) must be greater than send limit (${maxRequestBytes} bytes)`,
      );
    if (commandTimeout <= 0) throw new EtcdctlError(ETCDCTL_EXIT.ERROR, 'context deadline exceeded');
  }

  /** Whether etcdctl logs in. It does not if the name or the password is empty, except when it asks for the password. */
  hasLogin(user: string, ownPassword: string | undefined): boolean {
    const { username, password } = loginOf(user, ownPassword);
    return username !== '' && (password !== undefined || !user.includes(':'));
  }

  /** @throws EtcdctlError for a problem that only the mode of etcdctl has. */
  refuse(name: keyof typeof PROBLEMS): never {
    throw this.problem(name);
  }

  /** Returns the error of etcdctl for a problem. */
  problem(name: keyof typeof PROBLEMS): EtcdctlError {
    const [code, text] = PROBLEMS[name];
    return new EtcdctlError(code, text);
  }

  /** Returns the error for a wrong line on standard input. */
  invalidInput(problem: string): EtcdctlError {
    return new EtcdctlError(ETCDCTL_EXIT.INVALID_INPUT, problem);
  }

  /** Checks the peer URLs of a new member. @throws EtcdctlError if one is wrong. */
  checkPeerUrls(urls: readonly string[]): void {
    const refused = (problem: string): EtcdctlError => new EtcdctlError(ETCDCTL_EXIT.ERROR, problem);
    for (const url of urls) {
      if (!/^(?:https?|unixs?):\/\//.test(url)) throw refused(`URL scheme must be http, https, unix, or unixs: ${url}`);
      if (/^http/.test(url) && !/^https?:\/\/[^/]*:\d+/.test(url))
        throw refused(`URL address does not have the form "host:port": ${url}`);
    }
  }

  /** Checks the arguments of `watch`, and the keys that the environment names. @throws EtcdctlError if they are wrong. */
  checkWatch({ prefix }: { readonly prefix?: boolean }, typed: readonly string[], named: readonly string[]): void {
    const { ETCDCTL_WATCH_KEY: key = '', ETCDCTL_WATCH_RANGE_END: rangeEnd = '' } = process.env;
    if (key === '' && rangeEnd !== '')
      throw badArgs(`ETCDCTL_WATCH_KEY is empty but got ETCDCTL_WATCH_RANGE_END=${goQuoted(rangeEnd)}`);
    if (typed.length > 0 && named.length > 0)
      throw badArgs('bad number of arguments (found conflicting environment key)');
    const keys = typed.length === 0 ? named : typed;
    if (keys.length === 0) throw badArgs('bad number of arguments');
    if (keys.length === 2 && prefix) throw badArgs('`range_end` and `--prefix` are mutually exclusive');
  }

  /** Returns the error of `check` for a prefix under which the store has keys. */
  prefixHasKeys(start: string, name: 'perf' | 'datascale'): EtcdctlError {
    const command = `etcdctl del --prefix ${start}`;
    const shown = name === 'perf' ? `'${command}'` : command;
    return this.invalidInput(`prefix ${goQuoted(start)} has keys. Delete with ${shown} first`);
  }

  /** @throws EtcdctlError if the program that `lock` has run has failed. */
  checkProgram(code: number): void {
    if (code !== 0) throw new EtcdctlError(code, `exit status ${code}`);
  }

  /** Whether etcdctl would have failed while it logs in, before the call of the command. */
  failsAtLogin(error: unknown): boolean {
    return failsAtLogin(error, this.#hasUser);
  }

  /** Returns the line on standard error and the exit code of etcdctl for a failure. */
  failure(error: unknown): EtcdctlError {
    return usageError(error) ?? etcdctlFailure(error, this.#path, this.#hasUser);
  }
}

const { BAD_ARGS, BAD_CONNECTION, INVALID_INPUT } = ETCDCTL_EXIT;

/** The exit codes and the texts of etcdctl for problems that the commands find. */
const PROBLEMS = {
  /** The value that `put` reads from standard input is empty. */
  emptyValue: [BAD_ARGS, 'put command needs 1 argument and input from stdin or 2 arguments'],
  emptyUser: [BAD_ARGS, 'empty user name is not allowed'],
  /** etcdctl itself refuses an empty password only at a question. */
  emptyPassword: [BAD_ARGS, 'empty password'],
  /** A `watch` ends with `--`. */
  noWatchCommand: [BAD_ARGS, 'bad number of arguments (found separator --, but no commands)'],
  /** The lease that `lease keep-alive` renews does not exist. */
  leaseNotFound: [BAD_CONNECTION, 'etcdserver: requested lease not found'],
  endOfText: [INVALID_INPUT, 'EOF'],
  /** The standard input of `watch -i` has ended. */
  endOfWatchText: [INVALID_INPUT, 'error reading watch request line: EOF'],
} as const satisfies Readonly<Record<string, readonly [number, string]>>;

/** The flags of a connection that etcdctl checks before it connects. */
export interface ConnectionFlags {
  readonly endpoints: readonly string[];
  readonly cacert?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  readonly user?: string | undefined;
  readonly password?: string | undefined;
  /** In milliseconds. */
  readonly commandTimeout: number;
  /** 0 for the default. */
  readonly maxRequestBytes?: bigint;
  /** 0 for the default. */
  readonly maxRecvBytes?: bigint;
}

function noSuchFile(file: string): string {
  return `open ${file}: no such file or directory`;
}

/** Returns the names of a command and its parents without the name of the program. */
function pathOf(command: Command): string {
  const { parent } = command;
  return parent === null || parent.parent === null ? command.name() : `${pathOf(parent)} ${command.name()}`;
}
