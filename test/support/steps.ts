import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';
import { expect, inject, onTestFinished } from 'vitest';
import { type CliResult, RunningCli } from './cli.js';
import { openClient, unique } from './client.js';
import { compiled } from './compiled.js';
import { valueText } from './watch-events.js';

const STEPPING = compiled(new URL('stepping-command.ts', import.meta.url));
/** A short TTL in seconds, for tests in which a lease must expire before the next contender gets the lock. */
export const SHORT_TTL = '2';
/**
 * `AS_JOB` runs a program as a shell runs a job: in its own process group, with a parent in another group of the same
 * session. Without such a parent, the default action of SIGTSTP would not suspend the program.
 *
 * `WAIT` defines the function `waited`, which waits until the program ends. `waited` asks again and again whether the
 * program exists, because `wait -f` is not reliable when SIGTSTP has suspended the program: `wait -f` sometimes returns
 * 148, and may not return at all. The function calls itself, because bash ends a loop when a job in it is suspended.
 */
const WAIT = 'waited() { if kill -0 $! 2>/dev/null; then sleep 0.05; waited; else wait $!; code=$?; fi; }';
const AS_JOB = ['bash', '-c', `${WAIT}; set -m; "$@" & waited; exit $code`, 'bash'];

/**
 * The time in milliseconds after which a program that has not ended counts as hanging. It is shorter than the time
 * limit of a test, so that the error names the processes that hang.
 */
const ENDED_WITHIN_MS = 120_000;

interface Holder {
  readonly running: RunningCli;
  /** The process ID of etcdwire. */
  readonly etcdwire: number;
  /** The process ID of the command that etcdwire runs. */
  readonly command: number;
  readonly token: number;
}

/** Starts and observes commands that run under one lock. In each step, a command writes its fencing token to a key. */
export class Steps {
  /** The lock that the commands run under. */
  readonly name = unique('lock');
  readonly #key = unique('steps');
  readonly #etcd = openClient();
  readonly #startRevision: bigint;

  private constructor(startRevision: bigint) {
    this.#startRevision = startRevision;
  }

  static async begin(): Promise<Steps> {
    const { header } = await openClient().put(unique('begin'), '');
    return new Steps(header.revision);
  }

  /** Returns the program and the arguments of a command that takes this many steps. */
  command(count = Number.POSITIVE_INFINITY): readonly string[] {
    return [process.execPath, STEPPING, inject('endpoints')[0] as string, this.#key, String(count)];
  }

  /** Starts `etcdwire` with a command to run under the lock. Resolves when that command has taken its first step. */
  async holder(verb: string, count = Number.POSITIVE_INFINITY, ttl = SHORT_TTL): Promise<Holder> {
    const value = verb === 'elect' ? ['value'] : [];
    const running = new RunningCli([verb, this.name, ...value, '--ttl', ttl, '--', ...this.command(count)], {
      stdin: 'data',
      under: AS_JOB,
    });
    const [line = ''] = await running.lines(1);
    const [etcdwire = 0, commandPid = 0, token = 0] = line.split(' ').map(Number);
    onTestFinished(() => {
      for (const pid of [etcdwire, commandPid]) {
        try {
          process.kill(pid, 'SIGKILL');
        } catch {
          // The process has already ended.
        }
      }
    });
    return { running, etcdwire, command: commandPid, token };
  }

  /**
   * Resolves with the result of a holder's program. If the program does not end, rejects with the states of its
   * processes: a state letter as in ps, or undefined for a process that has ended.
   */
  async result({ running, etcdwire, command }: Holder): Promise<CliResult> {
    const result = await Promise.race([running.done, pause(ENDED_WITHIN_MS)]);
    if (result !== undefined) return result;
    const states = `etcdwire ${stateOf(etcdwire)}, command ${stateOf(command)}, bash ${stateOf(running.process.pid ?? 0)}`;
    throw new Error(`the program did not end within ${ENDED_WITHIN_MS} ms: ${states}`);
  }

  /** Resolves with the tokens of all steps so far, in the order of their revisions. */
  async tokens(): Promise<number[]> {
    const { header } = await this.#etcd.put(this.#key, 'end');
    const tokens: number[] = [];
    for await (const event of this.#etcd.watch(this.#key, { startRevision: this.#startRevision })) {
      if (event.modRevision === header.revision) return tokens;
      if (valueText(event) !== 'end') tokens.push(Number(valueText(event)));
    }
    throw new Error('the watch ended');
  }

  /** Resolves with the tokens of the commands that took steps. Consecutive steps of one command count once. */
  async turns(): Promise<number[]> {
    const tokens = await this.tokens();
    return tokens.filter((token, index) => token !== tokens[index - 1]);
  }
}

export async function untilStopped(pid: number): Promise<void> {
  await expect.poll(() => stateOf(pid)).toBe('T');
}

/** Returns the state letter of a process, as ps prints it. Undefined if the process does not exist or is a zombie. */
export function stateOf(pid: number): string | undefined {
  try {
    const state = /\) (\S)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1];
    return state === 'Z' ? undefined : state;
  } catch {
    return undefined;
  }
}
