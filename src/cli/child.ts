import { type ChildProcess, spawn } from 'node:child_process';
import { constants } from 'node:os';
import { onAbort } from '../on-abort.js';
import { after } from '../time.js';
import { CliError, ExitCode, SIGNALED } from './exit-code.js';
import type { Io } from './io.js';

export interface ChildOptions {
  /** Added to this process's own. */
  readonly environment: Readonly<Record<string, string>>;
  /** Ends the command when it aborts: by SIGTERM, and then by SIGKILL. */
  readonly signal: AbortSignal;
  /** Between the two. */
  readonly graceMs: number;
}

/** Runs a command to its end, with this process's input and output; gives the code that a shell would give. */
export async function runChild(
  [program = '', ...args]: readonly string[],
  io: Io,
  { environment, signal, graceMs }: ChildOptions,
): Promise<ExitCode> {
  signal.throwIfAborted();
  // A group of its own, so that what it has started ends with it; on a terminal it has to stay in the foreground's.
  const detached = process.stdin.isTTY !== true;
  const child = spawn(program, args, { stdio: 'inherit', detached, env: { ...process.env, ...environment } });
  const kill = (name: NodeJS.Signals): void => send(child, name, detached);
  let stopTimer = (): void => {};
  const stop = (): void => {
    kill('SIGTERM');
    stopTimer = after(graceMs, () => kill('SIGKILL'));
  };
  const offLost = onAbort(signal, stop);
  const offInterrupted = onAbort(io.interrupted, () => {
    // What a terminal sends it sends to the whole group.
    const name = io.interrupted.reason as NodeJS.Signals;
    if (detached || name !== 'SIGINT') kill(name);
  });
  try {
    return await exitOf(child, program);
  } finally {
    stopTimer();
    offLost();
    offInterrupted();
  }
}

function send(child: ChildProcess, name: NodeJS.Signals, group: boolean): void {
  if (child.pid === undefined) return;
  try {
    process.kill(group ? -child.pid : child.pid, name);
  } catch {
    // It has ended already.
  }
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
