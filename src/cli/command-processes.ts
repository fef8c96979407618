import { execFileSync } from 'node:child_process';
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs';
import { monotonicMs, pause } from '../runtime/timers.js';

const POLL_MS = 20;
/** A dead process looks alive until its parent asks for its exit code. In a container, process 1 may never ask. */
const REAPING_MS = 1_000;
/** For how long a command may be busy stopping by itself, as an editor that restores the screen first. */
const STOPPING_MS = 200;

/** Says which processes belong to a command. Plain data, because the guard is sent it. */
export interface CommandProcesses {
  /** The process that was started; undefined before it is known. */
  readonly pid: number | undefined;
  /**
   * Whether the command leads a session and a process group of its own. Otherwise it shares the session of this program,
   * and with it the controlling terminal.
   */
  readonly ownGroup: boolean;
  /** The session of the command where it has no group of its own; undefined where it is not known. */
  readonly session: number | undefined;
  /** Entries of its environment, `NAME=value`, that no other command has. The processes that it starts inherit them. */
  readonly marks: readonly string[];
}

interface Process {
  readonly pid: number;
  readonly parent: number;
  /** The letter of `ps`: T is stopped, Z is dead. */
  readonly state: string;
  readonly session: number | undefined;
  /** The foreground process group of its controlling terminal. */
  readonly foreground: number | undefined;
  readonly group: number;
}

/** Sends a signal to every process of the command; 0 only looks for them. Returns whether there was one. */
export function signalCommand(command: CommandProcesses, name: NodeJS.Signals | 0): boolean {
  if (command.pid !== undefined && command.ownGroup) return send(-command.pid, name);
  return processesOf(command).filter(({ pid }) => send(pid, name)).length > 0;
}

/** Sends SIGKILL to every process of the command, again and again: one may start another meanwhile. */
export async function killCommand(command: CommandProcesses): Promise<void> {
  const endMs = monotonicMs() + REAPING_MS;
  while (signalCommand(command, 'SIGKILL') && monotonicMs() < endMs) await pause(POLL_MS);
}

/** Waits until no process of the command is left, but no longer than that, and sends SIGKILL to the rest. */
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
 * Stops every process of the command. Where the terminal has sent it the signal that stopped this program, the command is
 * given time to stop by itself first. SIGSTOP, because a process group of its own is one that the system calls orphaned,
 * in which the other signals stop nothing.
 */
export async function stopCommand(command: CommandProcesses): Promise<void> {
  const endMs = monotonicMs() + STOPPING_MS;
  while (!command.ownGroup && monotonicMs() < endMs && processesOf(command).some(({ state }) => state !== 'T'))
    await pause(POLL_MS);
  signalCommand(command, 'SIGSTOP');
}

/** Whether this process has a controlling terminal, whatever its standard input is. */
export function hasTerminal(): boolean {
  try {
    closeSync(openSync('/dev/tty', 'r'));
    return true;
  } catch {
    return false;
  }
}

/** Whether what is typed on the terminal to raise a signal may raise it in this process. */
export function mayBeInForeground(): boolean {
  const self = readProcess('self');
  return self === undefined || self.foreground === self.group;
}

/** The session of this process; undefined where the system has no /proc. */
export function ownSession(): number | undefined {
  return readProcess('self')?.session;
}

/** Returns whether there was a process to send it to. */
function send(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}

/** The live ones among the process that was started, its descendants, and those whose parents have ended. */
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
  if (readProcess('self') === undefined) return listedByPs();
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(readProcess)
    .filter((each) => each !== undefined);
}

/** See proc(5). */
function readProcess(name: string): Process | undefined {
  try {
    const stat = readFileSync(`/proc/${name}/stat`, 'latin1');
    // The name of the program stands in parentheses, and may hold any character.
    const [state = '', ...numbers] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    const [parent = 0, group = 0, session = 0, , foreground] = numbers.map(Number);
    return { pid: Number.parseInt(stat, 10), parent, state, session, foreground, group };
  } catch {
    return undefined;
  }
}

/** Where there is no /proc, as on macOS. Processes whose parents have ended are not found there. */
function listedByPs(): readonly Process[] {
  try {
    const lines = execFileSync('ps', ['-A', '-o', 'pid=,ppid=,pgid=,stat='], { encoding: 'utf8' }).trim().split('\n');
    return lines.map((line) => {
      const [pid, parent, group, state = ''] = line.trim().split(/\s+/);
      return {
        pid: Number(pid),
        parent: Number(parent),
        group: Number(group),
        state: state.slice(0, 1),
        session: undefined,
        foreground: undefined,
      };
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
    // It has ended, or belongs to another user.
    return false;
  }
}
