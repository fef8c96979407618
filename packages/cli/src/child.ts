import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { after, onAbort } from '../../../src/internal.js';
import { CliError, ExitCode, signaledCode } from './exit-code.js';
import { linesOf } from './io.js';
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
  /** Returns the milliseconds until this program loses the lock or the leadership if it does not renew the lease. */
  remainingMs(): number;
  /** Reports a problem that does not end the command. */
  warn(problem: string): void;
}

/** Signals that this program passes on to a command. If no command is running, these signals end this program. */
export const FORWARDED = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2'] as const;
/** Signals whose default action suspends a process. */
export const STOPPING = ['SIGTSTP', 'SIGTTIN', 'SIGTTOU'] as const;
/** Signals that a terminal sends to its whole foreground process group. */
const OF_TERMINAL: ReadonlySet<NodeJS.Signals> = new Set(['SIGINT', 'SIGQUIT']);

/**
 * Runs a command with the input and the output of this process. Resolves with the exit code that a shell would report.
 * Rejects with the reason of `options.signal` if this signal aborts before the command has started, and with a
 * `CliError` if the command cannot run.
 */
export async function runChild(argv: readonly string[], options: ChildOptions): Promise<ExitCode> {
  const { environment, signal, graceMs, warn } = options;
  const [program = ''] = argv;
  // Without a terminal, the command gets its own process group, so that one signal reaches all processes that it has
  // started. With a terminal, the command must stay in the session of the terminal, and in the process group that the
  // shell puts in the foreground.
  const ownGroup = !hasTerminal();
  const marks = Object.entries(environment).map(([name, value]) => `${name}=${value}`);
  let command: CommandProcesses = { pid: undefined, ownGroup, session: ownGroup ? undefined : ownSession(), marks };
  // The guard process ends the command if this process cannot; see `startGuard`. Start the guard process and add the
  // listeners before the command starts. Otherwise, a signal could suspend or end this process and leave the command
  // running.
  using guard = startGuard(command, options, () => {
    if (!signal.aborted)
      warn('the guard process has ended: if etcdwire is now suspended or killed, the command keeps running');
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
    const child = start(argv, { stdio: 'inherit', detached: ownGroup, env: environment });
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
    // Reading `aborted` compares the lease's deadline with the clock, so a process that was suspended learns here that
    // the lock is lost. The command has exited, but processes that it has started may still run.
    if (signal.aborted) await ended;
    return code;
  } finally {
    offForwarded();
    offStops();
    offLost();
  }
}

/**
 * Runs a command with the output of this process, and passes signals on to it. With `stdin` 'inherit', the
 * command also reads the input of this process. The command does not get the variables of `environment` that are
 * undefined. Resolves with the exit code that a shell would report.
 */
export async function runProgram(
  argv: readonly string[],
  stdin: 'inherit' | 'ignore',
  environment: Readonly<Record<string, string | undefined>>,
): Promise<ExitCode> {
  const [program = ''] = argv;
  const child = start(argv, { stdio: [stdin, 'inherit', 'inherit'], env: environment });
  const offForwarded = onSignals(FORWARDED, (name) => {
    if (!OF_TERMINAL.has(name) || !mayBeInForeground()) child.kill(name);
  });
  try {
    return await exitOf(child, program);
  } finally {
    offForwarded();
  }
}

/** Adds a listener for signals. Returns a function that removes the listener. */
function onSignals(names: readonly NodeJS.Signals[], listener: (name: NodeJS.Signals) => void): () => void {
  for (const name of names) process.on(name, listener);
  return () => {
    for (const name of names) process.off(name, listener);
  };
}

/**
 * Adds listeners for the signals that suspend and resume this process. The listeners suspend the command before this
 * process is suspended. After this process has resumed, they resume the command, or kill it if the lock is lost.
 * Returns a function that removes the listeners.
 */
function onStops(commandNow: () => CommandProcesses, signal: AbortSignal): () => void {
  // If this process handled SIGTTOU, a write to a terminal that refuses background output would raise the signal again
  // and again. A command with its own group has no terminal.
  const names = commandNow().ownGroup ? STOPPING : STOPPING.filter((name) => name !== 'SIGTTOU');
  let stopping = false;
  const stop = async (name: NodeJS.Signals): Promise<void> => {
    if (stopping) return;
    stopping = true;
    const command = commandNow();
    await stopCommand(command);
    process.off(name, onStop);
    // The default action suspends this process, so `kill` returns when the process resumes. If no shell controls this
    // process group, the system ignores the signal and `kill` returns at once.
    process.kill(process.pid, name);
    process.on(name, onStop);
    stopping = false;
    // Send SIGKILL, because the command must not even run a SIGTERM handler. Another contender may hold the lock by
    // now.
    if (signal.aborted) await killCommand(command);
    else signalCommand(command, 'SIGCONT');
  };
  const onStop = (name: NodeJS.Signals): void => void stop(name);
  // This process also receives SIGCONT after SIGSTOP, which a process cannot handle. Reading `aborted` compares the
  // lease's deadline with the clock, so `signal` aborts and the command ends if the lock is lost.
  const offContinue = onSignals(['SIGCONT'], () => signal.aborted);
  const offStops = onSignals(names, onStop);
  return () => {
    offStops();
    offContinue();
  };
}

/**
 * Starts a program. `options.env` contains the variables to change.
 *
 * @throws CliError if `spawn` throws, for example because the arguments are too long.
 */
function start([program = '', ...args]: readonly string[], options: SpawnOptions): ChildProcess {
  try {
    return spawn(program, args, { ...options, env: { ...process.env, ...options.env } });
  } catch (error) {
    throw new CliError(ExitCode.CANNOT_RUN, `cannot run ${JSON.stringify(program)}: ${(error as Error).message}`);
  }
}

function exitOf(child: ChildProcess, program: string): Promise<ExitCode> {
  return new Promise((resolve, reject) => {
    child.once('error', (error: NodeJS.ErrnoException) => {
      const code = error.code === 'ENOENT' ? ExitCode.NOT_FOUND : ExitCode.CANNOT_RUN;
      reject(new CliError(code, `cannot run ${JSON.stringify(program)}: ${error.message}`));
    });
    child.once('exit', (code, name) => {
      resolve(name === null ? (code ?? ExitCode.FAILED) : signaledCode(name));
    });
  });
}

/** The argument that this program passes when it starts itself as a guard process; see `startGuard`. */
export const GUARD_ARGUMENT = '--guard-of-a-command';

/**
 * How long, in milliseconds, the guard process waits after this program no longer holds the lock or the leadership, so
 * that this process can end the command itself. The guard process waits at most half of `graceMs`.
 */
const LAG_MS = 25;
/**
 * Limits, in milliseconds, of the interval at which this program checks whether there is a renewal to report to the
 * guard process. Within these limits, the interval is a quarter of the time for which this program still holds the
 * lock.
 */
const MIN_REPORT_MS = 10;
const MAX_REPORT_MS = 1_000;

/** A report to the guard process, sent as a line of JSON. */
interface GuardReport {
  readonly command: CommandProcesses;
  readonly graceMs: number;
  /**
   * Time when this program loses the lock or the leadership, on the clock of `systemMs`. If the lease is renewed, a
   * later report contains a later time.
   */
  readonly untilMs: number;
  /** Whether the command has already received SIGTERM. */
  readonly isTerminated: boolean;
}

interface GuardProcess extends Disposable {
  /** Tells the guard process which processes belong to the command. */
  started(command: CommandProcesses): void;
  /** Tells the guard process that the lock is lost, and that this process sends SIGTERM to the command now. */
  terminated(): void;
  /** Ends the guard process without any effect on the command. */
  [Symbol.dispose](): void;
}

/**
 * Starts the guard process. The guard process ends the command when this process cannot: when the lock or the
 * leadership is lost while this process is suspended, and when this process dies. After each renewal of the lease, this
 * process reports the new end of the lease to the guard process. The guard process has its own session, so that the
 * terminal does not suspend or interrupt the guard process together with this process.
 */
function startGuard(beforeStart: CommandProcesses, options: ChildOptions, onEnd: () => void): GuardProcess {
  // Leaves out the debugger flags, because the guard process cannot use the port of this process's debugger.
  const execArgv = process.execArgv.filter((each) => !each.startsWith('--inspect'));
  // In a single executable application, Node.js itself adds the path of the program to the arguments.
  const program = process.getBuiltinModule?.('node:sea')?.isSea() ? [] : [process.argv[1] as string];
  const args = [...execArgv, ...program, GUARD_ARGUMENT];
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
    // The lock is lost. `terminated` reports the loss.
    if (leftMs <= 0) return;
    const endMs = systemMs() + leftMs;
    // Report only a renewal. Without a renewal, two computed end times still differ by microseconds.
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

/**
 * The program of the guard process: reads reports from `input`, and resolves when it has ended the command. If the
 * command ends earlier, the main process kills the guard process.
 */
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
      // The input has ended because the main process has died. A main process that ends normally kills the guard
      // process first.
      resolve(last === undefined ? undefined : endCommand(last, last.graceMs));
    };
    void follow();
  });
}

async function endCommand({ command, isTerminated }: GuardReport, graceMs: number): Promise<void> {
  if (!isTerminated) signalCommand(command, 'SIGTERM');
  await killCommandAfter(command, graceMs);
}

/**
 * Returns the time in milliseconds on the system's monotonic clock. All processes of a machine share this clock,
 * whereas `performance.now()` starts at 0 in each process.
 */
function systemMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
