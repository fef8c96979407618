import { EtcdError } from '../errors/etcd-error.js';
import { methods } from '../gen/methods.js';
import { methodByPath } from '../protobuf/method-table.js';

/** What the process ends with: numbers of sysexits(3), which no ordinary command uses for itself. */
export const ExitCode = {
  OK: 0,
  /** The server refused, or something else went wrong; nothing was done. */
  FAILED: 1,
  /** The arguments are wrong; nothing was sent. */
  USAGE: 64,
  /** JSON or bytes that are not what they should be. */
  DATA: 65,
  /** No member can be reached. */
  UNAVAILABLE: 69,
  /** A file, or standard output, cannot be written. What was done before was done. */
  CANNOT_WRITE: 73,
  /** It is not known whether a write was applied. */
  UNKNOWN: 74,
  /** Not done in time, or the lock is another's. */
  TRY_AGAIN: 75,
  /** The lock was lost while the command ran. */
  LOST: 76,
  /** The server asks for other credentials. */
  NO_PERMISSION: 77,
  /** Of shells: the command cannot be run, or is not there. */
  CANNOT_RUN: 126,
  NOT_FOUND: 127,
} as const;
export type ExitCode = number;

/** Says what the process is to end with, where all went well. */
export type Ends = (code: ExitCode) => void;

/** Of shells: what ended by signal n ends with 128 + n. */
export const SIGNALED = 128;

/** What ends the program with a line on stderr and a code. */
export class CliError extends Error {
  override readonly name = 'CliError';
  readonly exitCode: ExitCode;

  constructor(exitCode: ExitCode, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}

const UNREACHABLE: ReadonlySet<string> = new Set(['ConnectFailed', 'LeaseUnreachable']);
const NO_PERMISSION: ReadonlySet<string> = new Set(['Unauthenticated', 'PermissionDenied']);

/** The line and the code of whatever was thrown. */
export function describeFailure(error: unknown): CliError {
  if (error instanceof CliError) return error;
  if (!(error instanceof EtcdError)) {
    // Only what writes files throws such.
    const ofFile = error instanceof Error && 'syscall' in error && 'path' in error;
    return new CliError(ofFile ? ExitCode.CANNOT_WRITE : ExitCode.FAILED, messageOf(error));
  }
  // Time ran out while it was tried again and again: what it was that failed says more.
  const { cause, reason } = error;
  const last =
    reason === 'DeadlineExceeded' && cause instanceof EtcdError && error.outcome === 'not-sent' ? cause : error;
  const hint = hintFor(last);
  const message = FLAGS.reduce((text, [option, flag]) => text.replaceAll(option, flag), error.message);
  return new CliError(exitCodeOf(last), message + (hint === undefined ? '' : `; ${hint}`));
}

/** Options of the client by what they are called here. */
const FLAGS: readonly (readonly [RegExp, string])[] = [
  [/\btls\.ca\b/g, '--cacert'],
  [/\btls\.(cert|key)\b/g, '--$1'],
  [/\ballowPlaintext: true\b/g, '--plaintext-auth'],
  [/\bconnectTimeoutMs = (\d+)/g, '--dial-timeout, $1 ms'],
  [/\btimeoutMs = (\d+)/g, '--command-timeout, $1 ms'],
];

function exitCodeOf({ reason, code, outcome, method }: EtcdError): ExitCode {
  if (reason === 'InvalidInput') return ExitCode.USAGE;
  if (reason === 'MalformedMessage') return ExitCode.DATA;
  if (reason === 'AuthFailed' || reason === 'UserEmpty' || NO_PERMISSION.has(code)) return ExitCode.NO_PERMISSION;
  if (outcome === 'unknown' && method !== undefined && !isRepeatable(method)) return ExitCode.UNKNOWN;
  if (UNREACHABLE.has(reason) || code === 'Unavailable') return ExitCode.UNAVAILABLE;
  return code === 'DeadlineExceeded' ? ExitCode.TRY_AGAIN : ExitCode.FAILED;
}

function hintFor({ reason, outcome, method, problem }: EtcdError): string | undefined {
  if (outcome === 'unknown' && method !== undefined && !isRepeatable(method))
    return 'look at the key before doing it again';
  switch (reason) {
    case 'ConnectFailed':
      // Somebody is there, and is not to be trusted, or does not trust us.
      if (/\btls\.|certificate/.test(problem)) return undefined;
      return 'is etcd running there? --endpoints or ETCDCTL_ENDPOINTS names it';
    case 'UserEmpty':
    case 'AuthFailed':
      return 'who you are is --user NAME:PASSWORD or ETCDCTL_USER';
    default:
      return undefined;
  }
}

/** Nothing is written by it: a watch too may be begun again. */
function isRepeatable(path: string): boolean {
  return path === methods.watch.watch.path || (methodByPath.get(path)?.repeatable ?? false);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
