import { type ChildProcess, spawn } from 'node:child_process';
import { constants } from 'node:os';
import { onAbort } from '../runtime/signals.js';
import {
  type CommandProcesses,
  hasTerminal,
  killCommand,
  killCommandAfter,
  mayBeInForeground,
  ownSession,
  signalCommand,
  stopCommand,
} from './command-processes.js';
import { CliError, ExitCode, SIGNALED } from './exit-code.js';
import { Guard } from './guard.js';

export interface ChildOptions {
  /** Added to this process's own. No other command has the same, so that it marks what this command has started. */
  readonly environment: Readonly<Record<string, string>>;
  /** Ends the command, and what it has started, when it aborts: by SIGTERM, and then by SIGKILL. */
  readonly signal: AbortSignal;
  /** Between the two. */
  readonly graceMs: number;
  /** For how long it is certain that the signal does not abort because a lease was not renewed. */
  remainingMs(): number;
  /** Told a problem that does not end the command. */
  warn(problem: string): void;
}

/** Passed on to a command, each as often as it comes; without one they end this program. */
export const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const;
/** Their default action stops a process. */
export const STOPPING = ['SIGTSTP', 'SIGTTIN', 'SIGTTOU'] as const;
/** Sent by a terminal, to all of its foreground's group. */
const OF_TERMINAL: ReadonlySet<NodeJS.Signals> = new Set(['SIGINT', 'SIGQUIT']);

/**
 * Runs a command to its end, with this process's input and output; gives the code that a shell would give. Throws the
 * reason of the signal where it aborts before the command is started.
 */
export async function runChild(argv: readonly string[], options: ChildOptions): Promise<ExitCode> {
  const { environment, signal, graceMs, remainingMs, warn } = options;
  const [program = '', ...args] = argv;
  // Without a terminal the command gets a process group, so that what it has started ends with it. With one it has to
  // stay in the session of the terminal, and in the process group that the shell puts into the foreground.
  const ownGroup = !hasTerminal();
  const marks = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
  let command: CommandProcesses = { pid: undefined, ownGroup, session: ownGroup ? undefined : ownSession(), marks };
  // The guard and the listeners come before the command: this process may be stopped as soon as the command runs.
  using guard = new Guard({
    command,
    graceMs,
    remainingMs,
    onEnd: () => {
      if (!signal.aborted) warn('the guard has ended: what stops or kills this process does not end the command now');
    },
  });
  let ended: Promise<void> | undefined;
  const offLost = onAbort(signal, () => {
    guard.asked();
    signalCommand(command, 'SIGTERM');
    ended = killCommandAfter(command, graceMs);
  });
  const offStops = onStops(() => command, signal);
  let offForwarded = (): void => {};
  try {
    signal.throwIfAborted();
    const child = start(program, args, ownGroup, environment);
    const exited = exitOf(child, program);
    if (child.pid !== undefined) {
      command = { ...command, pid: child.pid };
      guard.started(command);
    }
    offForwarded = onForwarded((name) => {
      if (ownGroup) signalCommand(command, name);
      else if (!OF_TERMINAL.has(name) || !mayBeInForeground()) child.kill(name);
    });
    const code = await exited;
    // Where this process was stopped, it learns of the loss here. What the command has started may outlive it.
    if (signal.aborted) await ended;
    return code;
  } finally {
    offForwarded();
    offStops();
    offLost();
  }
}

function onForwarded(forward: (name: NodeJS.Signals) => void): () => void {
  for (const name of FORWARDED) process.on(name, forward);
  return () => {
    for (const name of FORWARDED) process.off(name, forward);
  };
}

/**
 * When this process is told to stop, stops the command first. When this process continues, it compares clocks before the
 * command continues. Returns what takes the listeners away.
 */
function onStops(commandNow: () => CommandProcesses, signal: AbortSignal): () => void {
  // A write to a terminal that refuses background output would raise SIGTTOU again and again if this process caught it.
  const names = commandNow().ownGroup ? STOPPING : STOPPING.filter((name) => name !== 'SIGTTOU');
  let stopping = false;
  const stop = async (name: NodeJS.Signals): Promise<void> => {
    if (stopping) return;
    stopping = true;
    const command = commandNow();
    await stopCommand(command);
    process.off(name, onStop);
    // The default action. It returns when this process continues, or at once where the system ignores the signal because
    // no shell watches this process group.
    process.kill(process.pid, name);
    process.on(name, onStop);
    stopping = false;
    // The command may not run its handler of SIGTERM, because the lock may be another's by now.
    if (signal.aborted) await killCommand(command);
    else signalCommand(command, 'SIGCONT');
  };
  const onStop = (name: NodeJS.Signals): void => void stop(name);
  // After SIGSTOP too. To read it is to compare clocks, and ends the command of a lock that is lost.
  const onContinue = (): boolean => signal.aborted;
  for (const name of names) process.on(name, onStop);
  process.on('SIGCONT', onContinue);
  return () => {
    for (const name of names) process.off(name, onStop);
    process.off('SIGCONT', onContinue);
  };
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
