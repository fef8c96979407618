import { execFileSync } from 'node:child_process';
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { monotonicMs, pause } from '../../../src/internal.js';

const POLL_MS = 20;
/**
 * Maximum time in milliseconds to wait for killed processes to disappear. A dead process still exists until its parent
 * reads its exit code. In a container, process 1 may never read the exit code.
 */
const REAPING_MS = 1_000;
/**
 * Maximum time, in milliseconds, that a command gets to suspend itself after the terminal's stop signal, before this
 * program sends SIGSTOP. An editor, for example, restores the screen first.
 */
const STOPPING_MS = 200;

/** Identifies the processes of a command. Contains only plain data, because the guard process receives it as JSON. */
export interface CommandProcesses {
  /** ID of the started process; undefined before the start. */
  readonly pid: number | undefined;
  /**
   * Whether the command leads its own session and process group. Otherwise the command belongs to the session of this
   * program, and so has the same controlling terminal.
   */
  readonly ownGroup: boolean;
  /** Session ID of the command. Undefined if the command leads its own session, or if the session is unknown. */
  readonly session: number | undefined;
  /**
   * Environment entries, `NAME=value`, that only this command has. The processes that the command starts inherit them.
   */
  readonly marks: readonly string[];
}

interface Process {
  readonly pid: number;
  readonly parent: number;
  /** State letter as in `ps`: T for a suspended process, Z for a dead process. */
  readonly state: string;
  readonly group: number;
  readonly session?: number;
  /** The foreground process group of the controlling terminal. */
  readonly foreground?: number;
}

/**
 * Sends a signal to every process of the command. The signal 0 has no effect on the processes. Returns whether the
 * command has a live process.
 */
export function signalCommand(command: CommandProcesses, name: NodeJS.Signals | 0): boolean {
  if (command.pid !== undefined && command.ownGroup) return send(-command.pid, name);
  return processesOf(command).filter(({ pid }) => send(pid, name)).length > 0;
}

/**
 * Sends SIGKILL to every process of the command again and again until no process is left, because a process may start
 * another process meanwhile. Gives up after `REAPING_MS`.
 */
export async function killCommand(command: CommandProcesses): Promise<void> {
  const endMs = monotonicMs() + REAPING_MS;
  while (signalCommand(command, 'SIGKILL') && monotonicMs() < endMs) await pause(POLL_MS);
}

/** Waits until every process of the command has ended. After `graceMs`, sends SIGKILL to the remaining processes. */
export async function killCommandAfter(command: CommandProcesses, graceMs: number): Promise<void> {
  const endMs = monotonicMs() + graceMs;
  for (;;) {
    const leftMs = endMs - monotonicMs();
    if (leftMs <= 0) return killCommand(command);
    if (!signalCommand(command, 0)) return;
    await pause(Math.min(POLL_MS, leftMs));
  }
}

/**
 * Suspends every process of the command. If the terminal may have sent SIGTSTP to the command too, the command first
 * gets time to suspend itself. This function sends SIGSTOP, because SIGTSTP has no effect in an orphaned process group
 * (a POSIX term), such as the command's own group.
 */
export async function stopCommand(command: CommandProcesses): Promise<void> {
  const endMs = monotonicMs() + STOPPING_MS;
  while (!command.ownGroup && monotonicMs() < endMs && processesOf(command).some(({ state }) => state !== 'T'))
    await pause(POLL_MS);
  signalCommand(command, 'SIGSTOP');
}

/** Whether this process has a controlling terminal, even if standard input is not the terminal. */
export function hasTerminal(): boolean {
  try {
    closeSync(openSync('/dev/tty', 'r'));
    return true;
  } catch {
    return false;
  }
}

/** Whether Ctrl-C and Ctrl-\ in the terminal may send their signals to this process. */
export function mayBeInForeground(): boolean {
  const self = readProcess('self');
  return self === undefined || self.foreground === self.group;
}

/** Returns the session ID of this process, or undefined if the system has no /proc. */
export function ownSession(): number | undefined {
  return readProcess('self')?.session;
}

/** Sends a signal. Returns false if no such process or group exists, or if this process may not signal it. */
function send(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}

/**
 * Returns the live processes of a command: the started process and its descendants, even if their parents have ended.
 */
function processesOf({ pid, session, marks }: CommandProcesses): readonly Process[] {
  const all = listProcesses().filter((each) => session === undefined || each.session === session);
  const members = new Set(pid === undefined ? [] : [pid]);
  for (const each of all) if (isMarked(each.pid, marks)) members.add(each.pid);
  for (let size = 0; size < members.size; ) {
    size = members.size;
    for (const each of all) if (members.has(each.parent)) members.add(each.pid);
  }
  return all.filter((each) => members.has(each.pid) && each.state !== 'Z');
}

function listProcesses(): readonly Process[] {
  if (readProcess('self') === undefined) return listWithPs();
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(readProcess)
    .filter((each) => each !== undefined);
}

/** Reads /proc/PID/stat: see proc(5). */
function readProcess(name: string): Process | undefined {
  try {
    const stat = readFileSync(`/proc/${name}/stat`, 'latin1');
    // The program name in parentheses may contain any character, even a parenthesis.
    const [state = '', ...numbers] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [parent = 0, group = 0, session = 0, , foreground = 0] = numbers.map(Number);
    return { pid: Number.parseInt(stat, 10), parent, state, group, session, foreground };
  } catch {
    return undefined;
  }
}

/**
 * Lists the processes on systems without /proc, such as macOS. There, `processesOf` misses descendants whose parents
 * have ended, because it cannot read the environment of a process.
 */
function listWithPs(): readonly Process[] {
  try {
    const lines = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,pgid=,stat='], { encoding: 'utf8' }).trim().split('\n');
    return lines.map((line) => {
      const [pid, parent, group, state = ''] = line.trim().split(/\s+/);
      return { pid: Number(pid), parent: Number(parent), group: Number(group), state: state.slice(0, 1) };
    });
  } catch {
    return [];
  }
}

function isMarked(pid: number, marks: readonly string[]): boolean {
  try {
    const environment = new Set(readFileSync(`/proc/${pid}/environ`, 'utf8').split('\0'));
    return marks.every((mark) => environment.has(mark));
  } catch {
    // The process has ended, or belongs to another user.
    return false;
  }
}
