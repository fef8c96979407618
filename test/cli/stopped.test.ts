import { readFileSync } from 'node:fs';
import { describe, expect, inject, it, onTestFinished } from 'vitest';
import { prefix } from '../../src/index.js';
import { cli, RunningCli } from '../support/cli.js';
import { openClient, unique } from '../support/client.js';
import { compiled } from '../support/compiled.js';

// What becomes of a command whose etcdwire is stopped or killed. The steps of the commands are puts of their fencing
// tokens to one key, so that the revisions of etcd say whether two commands ran side by side.

const STEPPING = compiled(new URL('../support/stepping-command.ts', import.meta.url));
/** Seconds. The shortest lease after which a second locker gets its turn. */
const TTL = '2';
/**
 * Runs a program in a process group of its own whose parent is in another group of the same session, as a shell does with
 * a job. The default action of SIGTSTP does nothing in a group without such a parent.
 */
const AS_JOB = ['bash', '-c', 'set -m; "$@" & wait -f $!', 'bash'];

describe.each([
  ['lock', ['lock']],
  ['elect', ['elect']],
])('%s', (_, [verb = '']) => {
  it.each(['SIGTSTP', 'SIGTTIN', 'SIGTTOU', 'SIGSTOP'] as const)(
    'keeps two commands apart when %s stops etcdwire for longer than the TTL',
    async (signal) => {
      const steps = await Steps.begin();
      const first = await steps.holder(verb);
      process.kill(first.etcdwire, signal);
      await untilStopped(first.etcdwire);
      const second = await steps.holder(verb, 20);
      expect(await second.running.done).toMatchObject({ code: 0 });
      process.kill(first.etcdwire, 'SIGCONT');
      expect(await first.running.done).toMatchObject({ code: 76, stderr: expect.stringMatching(/ was lost: /) });
      expect(await steps.turns()).toEqual([first.token, second.token]);
    },
  );
});

it('a command takes no step while SIGTSTP stops etcdwire, and goes on after SIGCONT when its lock is still held', async () => {
  const steps = await Steps.begin();
  const { running, etcdwire, command } = await steps.holder('lock', 200, '60');
  process.kill(etcdwire, 'SIGTSTP');
  await untilStopped(etcdwire);
  expect(stateOf(command)).toBe('T');
  const { length } = await steps.tokens();
  expect(length).toBeLessThan(200);
  process.kill(etcdwire, 'SIGCONT');
  expect(await running.done).toMatchObject({ code: 0, stderr: expect.not.stringContaining('etcdwire') });
  expect(await steps.tokens()).toHaveLength(200);
});

it('a command ends when its etcdwire is killed, before another locker gets the lock', async () => {
  const steps = await Steps.begin();
  const first = await steps.holder('lock');
  process.kill(first.etcdwire, 'SIGKILL');
  const second = await steps.holder('lock', 20);
  expect(await second.running.done).toMatchObject({ code: 0 });
  expect(stateOf(first.command)).toBeUndefined();
  expect(await steps.turns()).toEqual([first.token, second.token]);
});

it('a lock without a command ends as lost when it was stopped for longer than the TTL', async () => {
  const name = unique('lock');
  const first = new RunningCli(['lock', name, '--ttl', TTL]);
  await first.lines(1);
  first.process.kill('SIGSTOP');
  expect(await cli(['lock', name, '--', 'true'])).toMatchObject({ code: 0 });
  first.process.kill('SIGCONT');
  expect(await first.done).toMatchObject({ code: 76, stderr: expect.stringMatching(/ was lost: /) });
});

it('a waiter does not run its command when it was stopped for longer than the TTL', async () => {
  const name = unique('lock');
  const holder = new RunningCli(['lock', name]);
  const [line = ''] = await holder.lines(1);
  const waiter = new RunningCli(['lock', name, '--ttl', TTL, '--', 'echo', 'ran']);
  const etcd = openClient();
  const { key } = JSON.parse(line);
  const waiting = async (): Promise<number> =>
    (await etcd.range(prefix(`${name}/`))).kvs.filter((kv) => Buffer.from(kv.key).toString() !== key).length;
  await expect.poll(waiting).toBe(1);
  waiter.process.kill('SIGSTOP');
  await expect.poll(waiting).toBe(0);
  holder.process.kill('SIGINT');
  waiter.process.kill('SIGCONT');
  const { code, stdout } = await waiter.done;
  expect(stdout).toBe('');
  expect(code).not.toBe(0);
});

interface Holder {
  readonly running: RunningCli;
  /** The process id of etcdwire. */
  readonly etcdwire: number;
  /** The process id of its command. */
  readonly command: number;
  readonly token: number;
}

/** The key to which commands write, and what they wrote. */
class Steps {
  readonly #name = unique('lock');
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

  /** A locker whose command has taken its first step. */
  async holder(verb: string, count = Number.POSITIVE_INFINITY, ttl = TTL): Promise<Holder> {
    const [endpoint = ''] = inject('endpoints');
    const value = verb === 'elect' ? ['value'] : [];
    const command = [process.execPath, STEPPING, endpoint, this.#key, String(count)];
    const running = new RunningCli([verb, this.#name, ...value, '--ttl', ttl, '--', ...command], {
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
          // It has ended.
        }
      }
    });
    return { running, etcdwire, command: commandPid, token };
  }

  /** The tokens of all steps so far, in the order of their revisions. */
  async tokens(): Promise<number[]> {
    const { header } = await this.#etcd.put(this.#key, 'end');
    const tokens: number[] = [];
    for await (const { kv } of this.#etcd.watch(this.#key, { startRevision: this.#startRevision })) {
      if (kv.modRevision === header.revision) return tokens;
      if (kv.text() !== 'end') tokens.push(Number(kv.text()));
    }
    throw new Error('the watch ended');
  }

  /** The tokens of the commands that took steps, with one entry for each time that a command took over from another. */
  async turns(): Promise<number[]> {
    const tokens = await this.tokens();
    return tokens.filter((token, index) => token !== tokens[index - 1]);
  }
}

async function untilStopped(pid: number): Promise<void> {
  await expect.poll(() => stateOf(pid)).toBe('T');
}

/** The state letter of a process, as ps prints it; undefined when there is none. */
function stateOf(pid: number): string | undefined {
  try {
    const state = /\) (\S)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1];
    return state === 'Z' ? undefined : state;
  } catch {
    return undefined;
  }
}
