import { type ChildProcess, spawn } from 'node:child_process';
import { constants } from 'node:os';
import { onAbort } from '../on-abort.js';
import { after, monotonicMs, pause } from '../time.js';
import { CliError, ExitCode, SIGNALED } from './exit-code.js';

export interface ChildOptions {
  /** Added to this process's own. */
  readonly environment: Readonly<Record<string, string>>;
  /** Ends the command, and what it has started, when it aborts: by SIGTERM, and then by SIGKILL. */
  readonly signal: AbortSignal;
  /** Between the two. */
  readonly graceMs: number;
}

/** Passed on to a command, each as often as it comes; without one they end this program. */
export const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const;
/** Sent by a terminal, to all of its foreground's group. */
const OF_TERMINAL: ReadonlySet<NodeJS.Signals> = new Set(['SIGINT', 'SIGQUIT']);
const POLL_MS = 10;
/** Who is dead looks alive until somebody has asked for its exit code; where this is a container's first process nobody does. */
const REAPING_MS = 1_000;

/** Runs a command to its end, with this process's input and output; gives the code that a shell would give. */
export async function runChild(
  [program = '', ...args]: readonly string[],
  { environment, signal, graceMs }: ChildOptions,
): Promise<ExitCode> {
  signal.throwIfAborted();
  // A group of its own, so that what it has started ends with it; on a terminal it has to stay in the foreground's.
  const detached = process.stdin.isTTY !== true;
  const child = start(program, args, detached, environment);
  const forward = (name: NodeJS.Signals): void => {
    if (detached || !OF_TERMINAL.has(name)) send(child, name, detached);
  };
  for (const name of FORWARDED) process.on(name, forward);
  let stopTimer = (): void => {};
  const offLost = onAbort(signal, () => {
    send(child, 'SIGTERM', detached);
    stopTimer = after(graceMs, () => send(child, 'SIGKILL', detached));
  });
  try {
    const code = await exitOf(child, program);
    // What it has started may listen less well than it does.
    if (signal.aborted && detached) await groupEnd(child, graceMs + REAPING_MS);
    return code;
  } finally {
    stopTimer();
    offLost();
    for (const name of FORWARDED) process.off(name, forward);
  }
}

/** @throws CliError */
function start(
  program: string,
  args: readonly string[],
  detached: boolean,
  environment: ChildOptions['environment'],
): ChildProcess {
  try {
    return spawn(program, args, { stdio: 'inherit', detached, env: { ...process.env, ...environment } });
  } catch (error) {
    throw new CliError(ExitCode.CANNOT_RUN, `cannot run ${JSON.stringify(program)}: ${(error as Error).message}`);
  }
}

/** Whether there was anybody to send it to. */
function send(child: ChildProcess, name: NodeJS.Signals | 0, group: boolean): boolean {
  if (child.pid === undefined) return false;
  try {
    return process.kill(group ? -child.pid : child.pid, name);
  } catch {
    return false;
  }
}

/** Until all of its group have ended, or for so long. */
async function groupEnd(child: ChildProcess, limitMs: number): Promise<void> {
  const endMs = monotonicMs() + limitMs;
  while (monotonicMs() < endMs && send(child, 0, true)) await pause(POLL_MS);
}

function exitOf(child: ChildProcess, program: string): Promise<ExitCode> {
  return new Promise((resolve, reject) => {
    child.once('error', (error: NodeJS.ErrnoException) => {
      const code = error.code === 'ENOENT' ? ExitCode.NOT_FOUND : ExitCode.CANNOT_RUN;
      reject(new CliError(code, `cannot run ${program}: ${error.message}`));
    });
    child.once('exit', (code, name) => {
      resolve(name === null ? (code ?? ExitCode.FAILED) : SIGNALED + constants.signals[name]);
    });
  });
}
