import { constants } from 'node:os';
import { EtcdError, methodByPath, methods } from '../../../src/internal.js';

/**
 * Exit codes of the program. Most of them are codes from sysexits(3), because ordinary commands do not use these codes.
 */
export const ExitCode = {
  OK: 0,
  /**
   * The server refused the call, answers differ in `replay`, or something else failed. Nothing was changed, except by
   * `import`, `mirror`, `defrag`, `alarm disarm`, `check perf`, `auth enable`, `replay --against-server`, and the command
   * of `trace --beside`.
   */
  FAILED: 1,
  /** The arguments are wrong. Nothing was changed. */
  USAGE: 64,
  /** The input or a response contains malformed JSON or malformed bytes, or an export is incomplete. */
  DATA: 65,
  /** No member can be reached. */
  UNAVAILABLE: 69,
  /**
   * The program cannot write to a file or to standard output. Changes that it has already made in etcd stay in effect.
   */
  CANNOT_WRITE: 73,
  /** A write may or may not have been applied. */
  UNKNOWN: 74,
  /** The call timed out, or another contender holds the lock. */
  TRY_AGAIN: 75,
  /** The lock or the leadership was lost while the command ran, or another mirror took over the destination. */
  LOST: 76,
  /** The server refused the credentials, or the user lacks a permission. */
  NO_PERMISSION: 77,
  /** The command that `lock`, `elect` or `watch` should run cannot be executed. Shells use the same code. */
  CANNOT_RUN: 126,
  /** The command that `lock`, `elect` or `watch` should run does not exist. Shells use the same code. */
  NOT_FOUND: 127,
} as const;
export type ExitCode = number;

/** Sets the exit code of a command that has not failed. */
export type SetExitCode = (code: ExitCode) => void;

/** Returns the exit code of a process that a signal has ended: 128 plus the number of the signal, as in shells. */
export function signaledCode(name: NodeJS.Signals): ExitCode {
  return 128 + constants.signals[name];
}

/** An error that ends the program with a line on standard error and an exit code. */
export class CliError extends Error {
  override readonly name = 'CliError';
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** Returns the error for wrong arguments, before anything was changed. */
export function wrongArguments(problem: string): CliError {
  return new CliError(ExitCode.USAGE, problem);
}

const UNREACHABLE: ReadonlySet<string> = new Set(['ConnectFailed', 'LeaseUnreachable']);
const NO_PERMISSION: ReadonlySet<string> = new Set(['Unauthenticated', 'PermissionDenied']);

/** Returns an error with the message and the exit code for a thrown value. */
export function describeFailure(error: unknown): CliError {
  if (error instanceof CliError) return error;
  if (!(error instanceof EtcdError)) {
    // Only the functions that write files throw errors that have the properties `syscall` and `path`.
    const isOfFile = error instanceof Error && 'syscall' in error && 'path' in error;
    const message = error instanceof Error ? error.message : String(error);
    return new CliError(isOfFile ? ExitCode.CANNOT_WRITE : ExitCode.FAILED, message);
  }
  // If the call timed out during retries, describe the last failure, which says more than the timeout.
  const { cause, reason } = error;
  const last =
    reason === 'DeadlineExceeded' && cause instanceof EtcdError && error.outcome === 'not-sent' ? cause : error;
  const hint = hintFor(last);
  const message = withFlagNames(error.message);
  return new CliError(exitCodeOf(last), message + (hint === undefined ? '' : `; ${hint}`));
}

/** Hides the value of an unknown option in an error of commander, because the option may be a misspelt `--password`. */
export function withoutOptionValue(error: string): string {
  return error.replace(/(unknown option '(?:--[^=']*=|-[^-']))[^']+'/, "$1…'");
}

/** Replaces the names of client options in the text of an error by the flags that set them. */
export function withFlagNames(message: string): string {
  return FLAGS.reduce((text, [option, flag]) => text.replaceAll(option, flag), message);
}

/** Pairs of a client option, as error messages name it, and the flag that sets this option. */
const FLAGS: readonly (readonly [RegExp, string])[] = [
  [/\btls\.ca\b/g, '--cacert'],
  [/\btls\.(cert|key)\b/g, '--$1'],
  [/\ballowPlaintext: true\b/g, '--plaintext-auth'],
  [/\bprefix\(""\)/g, '--prefix'],
  [/\bconnectTimeoutMs = (\d+)/g, '--dial-timeout, $1 ms'],
  [/\btimeoutMs = (\d+)/g, '--command-timeout, $1 ms'],
];

function exitCodeOf(error: EtcdError): ExitCode {
  const { reason, code } = error;
  if (reason === 'InvalidInput') return ExitCode.USAGE;
  if (reason === 'MalformedMessage') return ExitCode.DATA;
  if (reason === 'AuthFailed' || reason === 'UserEmpty' || NO_PERMISSION.has(code)) return ExitCode.NO_PERMISSION;
  if (mayHaveWritten(error)) return ExitCode.UNKNOWN;
  if (UNREACHABLE.has(reason) || code === 'Unavailable') return ExitCode.UNAVAILABLE;
  return code === 'DeadlineExceeded' ? ExitCode.TRY_AGAIN : ExitCode.FAILED;
}

function hintFor(error: EtcdError): string | undefined {
  if (mayHaveWritten(error)) {
    const isKeyWrite = error.method?.startsWith('/etcdserverpb.KV/');
    return isKeyWrite
      ? 'read the key before you repeat the write'
      : 'find out whether it was done before you repeat it';
  }
  switch (error.reason) {
    case 'ConnectFailed':
      // A TLS failure shows that a server is running at this address.
      if (/\btls\.|certificate/.test(error.problem)) return undefined;
      if (/answers in HTTP\/1/.test(error.problem))
        return 'is this the port for other members, such as 2380? Clients use another port, such as 2379';
      return 'is etcd running there? Set the address with --endpoints or ETCDCTL_ENDPOINTS';
    case 'UserEmpty':
    case 'AuthFailed':
      return 'give your credentials with --user NAME:PASSWORD or ETCDCTL_USER';
    default:
      return undefined;
  }
}

/**
 * Whether the failed call may have changed something in etcd. Always false for watches and for methods that are safe to
 * repeat.
 */
function mayHaveWritten({ outcome, method }: EtcdError): boolean {
  if (outcome !== 'unknown' || method === undefined || method === methods.watch.watch.path) return false;
  return !(methodByPath.get(method)?.repeatable ?? false);
}
