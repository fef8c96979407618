import { type ChildProcess, spawn } from 'node:child_process';
import { constants } from 'node:os';
import { onAbort } from '../runtime/signals.js';
import { after } from '../runtime/timers.js';
import { linesOf } from './context.js';
import { CliError, ExitCode, SIGNALED } from './exit-code.js';
import {
  type CommandProcesses,
  hasTerminal,
  killCommand,
  killCommandAfter,
  mayBeInForeground,
  ownSession,
  signalCommand,
  stopCommand,
} from './processes.js';

export interface ChildOptions {
  /** Environment variables that only this command has. They identify the processes that the command starts. */
  readonly environment: Readonly<Record<string, string>>;
  /** When this signal aborts, the command and the processes that it has started get SIGTERM and later SIGKILL. */
  readonly signal: AbortSignal;
  /** Milliseconds between SIGTERM and SIGKILL. */
  readonly graceMs: number;
  /** Milliseconds until this program loses the lock or the leadership, unless it renews the lease in time. */
  remainingMs(): number;
  /** Reports a problem that does not end the command. */
  warn(problem: string): void;
}

/** Signals that this program passes on to a command. Without a command, they end this program. */
export const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const;
/** Signals whose default action stops a process. */
export const STOPPING = ['SIGTSTP', 'SIGTTIN', 'SIGTTOU'] as const;
/** Signals that a terminal sends to its whole foreground process group. */
const OF_TERMINAL: ReadonlySet<NodeJS.Signals> = new Set(['SIGINT', 'SIGQUIT']);

/**
 * Runs a command with the input and the output of this process. Resolves with the exit code that a shell would report.
 * Rejects with the reason of `options.signal` if it aborts before the command has started.
 */
export async function runChild(argv: readonly string[], options: ChildOptions): Promise<ExitCode> {
  const { environment, signal, graceMs, warn } = options;
  const [program = '', ...args] = argv;
  // Without a terminal, the command gets a process group of its own, so that one signal reaches all processes that it
  // has started. With a terminal, the command must stay in the session of the terminal, and in the process group that
  // the shell puts in the foreground.
  const ownGroup = !hasTerminal();
  const marks = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
  let command: CommandProcesses = { pid: undefined, ownGroup, session: ownGroup ? undefined : ownSession(), marks };
  // The guard process and the listeners start first, because a signal may stop this process once the command runs.
  using guard = startGuard(command, options, () => {
    if (!signal.aborted)
      warn('the guard process has ended: if etcdwire is stopped or killed now, the command does not end');
  });
  let ended: Promise<void> | undefined;
  const offLost = onAbort(signal, () => {
    guard.terminated();
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
    offForwarded = onSignals(FORWARDED, (name) => {
      if (ownGroup) signalCommand(command, name);
      else if (!OF_TERMINAL.has(name) || !mayBeInForeground()) child.kill(name);
    });
    const code = await exited;
    // Reading `aborted` compares the clocks, so a process that was stopped learns here that the lock is lost. The
    // command has exited, but processes that it has started may still run.
    if (signal.aborted) await ended;
    return code;
  } finally {
    offForwarded();
    offStops();
    offLost();
  }
}

/** Adds a listener for signals. Returns a function that removes it. */
function onSignals(names: readonly NodeJS.Signals[], listener: (name: NodeJS.Signals) => void): () => void {
  for (const name of names) process.on(name, listener);
  return () => {
    for (const name of names) process.off(name, listener);
  };
}

/**
 * Before this process stops, stops the command. After this process continues, checks the clocks before the command
 * continues. Returns a function that removes the listeners.
 */
function onStops(commandNow: () => CommandProcesses, signal: AbortSignal): () => void {
  // If this process handled SIGTTOU, a write to a terminal that refuses background output would raise the signal again
  // and again.
  const names = commandNow().ownGroup ? STOPPING : STOPPING.filter((name) => name !== 'SIGTTOU');
  let stopping = false;
  const stop = async (name: NodeJS.Signals): Promise<void> => {
    if (stopping) return;
    stopping = true;
    const command = commandNow();
    await stopCommand(command);
    process.off(name, onStop);
    // The default action stops this process, so `kill` returns when the process continues. The call returns at once if
    // the system ignores the signal, because no shell watches this process group.
    process.kill(process.pid, name);
    process.on(name, onStop);
    stopping = false;
    // SIGKILL, because the command must not even run a handler of SIGTERM: another contender may hold the lock by now.
    if (signal.aborted) await killCommand(command);
    else signalCommand(command, 'SIGCONT');
  };
  const onStop = (name: NodeJS.Signals): void => void stop(name);
  // SIGCONT also follows a SIGSTOP, which cannot be handled. Reading `aborted` compares the clocks, so the signal
  // aborts and the command ends if the lock is lost.
  const offContinue = onSignals(['SIGCONT'], () => signal.aborted);
  const offStops = onSignals(names, onStop);
  return () => {
    offStops();
    offContinue();
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

/** The argument with which this program starts itself as a guard process. */
export const GUARD_ARGUMENT = '--guard-of-a-command';

/**
 * Milliseconds that the guard process waits after the end of the hold, so that this process can end the command itself.
 * The guard process waits at most half of the grace.
 */
const LAG_MS = 25;
/** Limits of the interval between reports to the guard process, which is a quarter of the remaining time. */
const MIN_REPORT_MS = 10;
const MAX_REPORT_MS = 1_000;

/** A report to the guard process, sent as a line of JSON. */
interface GuardReport {
  readonly command: CommandProcesses;
  readonly graceMs: number;
  /** When the hold ends, on the clock of `systemMs`, unless a later report says that the lease was renewed. */
  readonly untilMs: number;
  /** Whether the command has already received SIGTERM. */
  readonly isTerminated: boolean;
}

interface GuardProcess extends Disposable {
  /** Tells the guard process which process the command is. */
  started(command: CommandProcesses): void;
  /** Tells the guard process that the hold has ended, and that this process sends SIGTERM to the command now. */
  terminated(): void;
  /** Ends the guard process without any effect on the command. */
  [Symbol.dispose](): void;
}

/**
 * Starts the guard process. It ends the command when this process cannot: when the hold of the lock or the leadership
 * ends while this process is stopped, and when this process dies. After each renewal of the lease, this process reports
 * the new end of the hold. The guard process has a session of its own, so that the terminal does not stop or interrupt
 * it together with this process.
 */
function startGuard(beforeStart: CommandProcesses, options: ChildOptions, onEnd: () => void): GuardProcess {
  // Leaves out the debugger flags, because the guard process cannot use the port of this process's debugger.
  const execArgv = process.execArgv.filter((each) => !each.startsWith('--inspect'));
  const args = [...execArgv, process.argv[1] as string, GUARD_ARGUMENT];
  // The guard process inherits no output. Otherwise, a reader of this program's output would wait until the guard
  // process closes the output.
  const guard = spawn(process.execPath, args, { stdio: ['pipe', 'ignore', 'ignore'], detached: true });
  guard.once('error', onEnd).once('exit', onEnd);
  guard.stdin.on('error', () => {});
  let command = beforeStart;
  let untilMs = Number.NEGATIVE_INFINITY;
  let stopReporting = (): void => {};
  const send = (endMs: number, isTerminated: boolean): void => {
    const report: GuardReport = { command, graceMs: options.graceMs, untilMs: endMs, isTerminated };
    guard.stdin.write(`${JSON.stringify(report)}\n`);
  };
  const report = (): void => {
    const leftMs = options.remainingMs();
    // The hold has ended. `terminated` reports this.
    if (leftMs <= 0) return;
    const endMs = systemMs() + leftMs;
    // Without a renewal, two computed end times still differ by microseconds.
    if (Math.abs(endMs - untilMs) > 1) {
      untilMs = endMs;
      send(endMs, false);
    }
    stopReporting = after(Math.min(Math.max(leftMs / 4, MIN_REPORT_MS), MAX_REPORT_MS), report, 'background');
  };
  report();
  return {
    started: (started) => {
      command = started;
      send(untilMs, false);
    },
    terminated: () => {
      stopReporting();
      send(systemMs(), true);
    },
    [Symbol.dispose]: () => {
      stopReporting();
      guard
        .off('error', onEnd)
        .off('exit', onEnd)
        .on('error', () => {});
      guard.kill('SIGKILL');
    },
  };
}

/** Runs the guard process until it has ended the command. If the command ends by itself, the main process kills it. */
export async function runGuard(input: AsyncIterable<Uint8Array>): Promise<void> {
  let stopTimer = (): void => {};
  let last: GuardReport | undefined;
  await new Promise<void>((resolve) => {
    const follow = async (): Promise<void> => {
      for await (const line of linesOf({ stdin: input })) {
        const report: GuardReport = JSON.parse(line);
        last = report;
        stopTimer();
        const lagMs = Math.min(LAG_MS, report.graceMs / 2);
        const delayMs = report.untilMs + lagMs - systemMs();
        stopTimer = after(delayMs, () => resolve(endCommand(report, report.graceMs - lagMs)));
      }
      stopTimer();
      // The input has ended because the main process has died. A main process that ends normally kills this one first.
      resolve(last === undefined ? undefined : endCommand(last, last.graceMs));
    };
    void follow();
  });
}

async function endCommand({ command, isTerminated }: GuardReport, graceMs: number): Promise<void> {
  if (!isTerminated) signalCommand(command, 'SIGTERM');
  await killCommandAfter(command, graceMs);
}

/** Milliseconds on the monotonic clock that all processes of a machine share, unlike `performance.now()`. */
function systemMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
