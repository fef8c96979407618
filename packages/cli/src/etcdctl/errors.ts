import { CommanderError } from 'commander';
import { EtcdError } from '../../../../src/internal.js';
import { CliError } from '../exit-code.js';

/** The exit codes of etcdctl. */
export const ETCDCTL_EXIT = {
  ERROR: 1,
  BAD_CONNECTION: 2,
  /** The text of `txn` or `watch` on standard input is wrong. */
  INVALID_INPUT: 3,
  /** A flag has a value that etcdctl does not support. */
  BAD_FEATURE: 4,
  INTERRUPTED: 5,
  BAD_ARGS: 128,
} as const;

/** An error with the exit code and the text of etcdctl. */
export class EtcdctlError extends CliError {
  /** Set if the text of etcdctl does not say what went wrong, so that a second line has to say it. */
  readonly isVague: boolean;
  /** Whether etcdctl prints the text without "Error:" before it. */
  readonly isBare: boolean;

  constructor(exitCode: number, message: string, { isVague = false, isBare = false } = {}) {
    super(exitCode, message);
    this.isVague = isVague;
    this.isBare = isBare;
  }
}

/** Returns the error of etcdctl for wrong arguments. */
export function badArgs(problem: string): EtcdctlError {
  return new EtcdctlError(ETCDCTL_EXIT.BAD_ARGS, problem);
}

/** Returns the exit code and the line on standard error, as etcdctl has them, for a thrown value. */
export function etcdctlFailure(error: unknown, path: string, hasUser: boolean): EtcdctlError {
  if (error instanceof EtcdctlError) return error;
  if (error instanceof CliError) return new EtcdctlError(ETCDCTL_EXIT.ERROR, error.message);
  const text = goErrorText(error);
  // etcdctl logs in while it creates its client, before the call of the command.
  if (failsAtLogin(error, hasUser))
    return new EtcdctlError(ETCDCTL_EXIT.BAD_CONNECTION, text, { isVague: text === TIMED_OUT });
  if (path === 'lease grant') return new EtcdctlError(ETCDCTL_EXIT.ERROR, `failed to grant lease (${text})`);
  if (path === 'lease revoke') return new EtcdctlError(ETCDCTL_EXIT.ERROR, `failed to revoke lease (${text})`);
  return new EtcdctlError(codeOf(path), text, { isVague: text === TIMED_OUT });
}

/** Whether etcdctl would fail while it logs in: the credentials are refused, or the server cannot be reached. */
export function failsAtLogin(error: unknown, hasUser: boolean): boolean {
  if (!(error instanceof EtcdError)) return false;
  return (
    LOGIN.test(error.method ?? '') || NO_TOKEN.test(error.problem) || (hasUser && goErrorText(error) === TIMED_OUT)
  );
}

function codeOf(path: string): number {
  if (['lease timetolive', 'lease list', 'lease keep-alive'].includes(path)) return ETCDCTL_EXIT.BAD_CONNECTION;
  return path === 'snapshot save' ? ETCDCTL_EXIT.INTERRUPTED : ETCDCTL_EXIT.ERROR;
}

const LOGIN = /\/Authenticate$/;
const NO_TOKEN = /^could not obtain a token: /;
/** The text of Go for a call that timed out. etcdctl prints it also if no endpoint can be reached. */
const TIMED_OUT = 'context deadline exceeded';

/** Returns the text that etcd's Go client has for an error: the message of the server, or the gRPC status in Go's form. */
export function goErrorText(error: unknown): string {
  if (!(error instanceof EtcdError)) return error instanceof Error ? error.message : String(error);
  const { code, problem, reason } = error;
  if (reason === 'Compacted') return 'etcdserver: mvcc: required revision has been compacted';
  if (reason === 'NoSpace') return 'etcdserver: mvcc: database space exceeded';
  if (reason === 'LeaseExpired') return 'etcdserver: requested lease not found';
  if (reason === 'DeadlineExceeded' || reason === 'ConnectFailed') return TIMED_OUT;
  // The client adds the user and the keys to the text of the server.
  if (reason === 'PermissionDenied') return 'etcdserver: permission denied';
  if (/^key: got an empty key\b/.test(problem)) return 'etcdserver: key is not provided';
  const text = problem.replace(NO_TOKEN, '');
  return text.startsWith('etcdserver: ') ? text : `rpc error: code = ${code} desc = ${text}`;
}

/** Returns the error of etcdctl for a command line that commander has refused, or undefined for another error. */
export function usageError(error: unknown): EtcdctlError | undefined {
  if (!(error instanceof CommanderError)) return undefined;
  const { code, message } = error;
  const [, first = '', second = ''] = /'([^']*)'(?: argument '([^']*)')?/.exec(message) ?? [];
  const refused = (problem: string): EtcdctlError => new EtcdctlError(ETCDCTL_EXIT.ERROR, problem);
  // etcdctl ignores a variable that it cannot read.
  if (/ from env '/.test(message)) return refused(message.replace(/^error: /, ''));
  switch (code) {
    case 'commander.unknownCommand':
      return refused(`unknown command "${first}" for "etcdctl"\nRun 'etcdctl --help' for usage.`);
    case 'commander.unknownOption':
      return refused(first.startsWith('--') ? `unknown flag: ${first.split('=')[0]}` : shorthand(first));
    case 'commander.optionMissingArgument':
      return refused(`flag needs an argument: ${/--[\w-]+/.exec(message)?.[0] ?? first}`);
    case 'commander.invalidArgument':
      return refused(`invalid argument "${second}" for "${/--[\w-]+/.exec(first)?.[0] ?? first}" flag`);
    default:
      return refused(message.replace(/^error: /, ''));
  }
}

function shorthand(flag: string): string {
  return `unknown shorthand flag: '${flag[1]}' in ${flag}`;
}
