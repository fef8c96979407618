import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { prefix } from '../../../src/index.js';
import { cli, RunningCli } from '../../../test/support/cli.js';
import { openClient, unique } from '../../../test/support/client.js';
import { SHORT_TTL, Steps, stateOf, untilStopped } from '../../../test/support/steps.js';

// These tests suspend etcdwire, for example with SIGTSTP, or kill etcdwire while its command runs. Each command puts
// its fencing token to the same key many times. The history of this key shows whether two commands ran at the same
// time.

describe.each(['lock', 'elect'])('etcdwire %s', (verb) => {
  it.each(['SIGTSTP', 'SIGTTIN', 'SIGTTOU', 'SIGSTOP'] as const)(
    'never runs the commands of two contenders at the same time, even when %s suspends the holder for longer than the TTL',
    async (signal) => {
      const steps = await Steps.begin();
      const first = await steps.holder(verb);
      process.kill(first.etcdwire, signal);
      await untilStopped(first.etcdwire);
      const second = await steps.holder(verb, 20);
      expect(await steps.result(second)).toMatchObject({ code: 0 });
      process.kill(first.etcdwire, 'SIGCONT');
      expect(await steps.result(first)).toMatchObject({ code: 76, stderr: expect.stringMatching(/ was lost: /) });
      expect(await steps.turns()).toEqual([first.token, second.token]);
    },
  );
});

it('SIGTSTP suspends etcdwire lock together with its command, and SIGCONT resumes both if the lock is still held', async () => {
  const steps = await Steps.begin();
  const { running, etcdwire, command } = await steps.holder('lock', 200, '60');
  process.kill(etcdwire, 'SIGTSTP');
  await untilStopped(etcdwire);
  // On a busy machine, the kernel may take a moment to suspend a process that waits for a CPU.
  await untilStopped(command);
  const { length } = await steps.tokens();
  expect(length).toBeLessThan(200);
  process.kill(etcdwire, 'SIGCONT');
  expect(await running.done).toMatchObject({ code: 0, stderr: expect.not.stringContaining('etcdwire') });
  expect(await steps.tokens()).toHaveLength(200);
});

it('when an etcdwire lock process is killed, its command ends before another contender acquires the lock', async () => {
  const steps = await Steps.begin();
  const first = await steps.holder('lock');
  process.kill(first.etcdwire, 'SIGKILL');
  const second = await steps.holder('lock', 20);
  expect(await second.running.done).toMatchObject({ code: 0 });
  expect(stateOf(first.command)).toBeUndefined();
  expect(await steps.turns()).toEqual([first.token, second.token]);
});

// The guard process ends the command if etcdwire is suspended or killed.
it('etcdwire lock prints a warning and keeps its command running when its guard process is killed', async () => {
  const steps = await Steps.begin();
  const { running, etcdwire, command } = await steps.holder('lock', 200, '60');
  const children = readFileSync(`/proc/${etcdwire}/task/${etcdwire}/children`, 'utf8').trim().split(' ').map(Number);
  for (const pid of children) if (pid !== command) process.kill(pid, 'SIGKILL');
  expect(await running.done).toMatchObject({
    code: 0,
    stderr: expect.stringMatching(/^etcdwire: the guard process has ended: /m),
  });
});

it('etcdwire lock without a command exits with exit code 76 after SIGSTOP has suspended etcdwire for longer than the TTL', async () => {
  const name = unique('lock');
  const first = new RunningCli(['lock', name, '--ttl', SHORT_TTL]);
  await first.lines(1);
  first.process.kill('SIGSTOP');
  expect(await cli(['lock', name, '--', 'true'])).toMatchObject({ code: 0 });
  first.process.kill('SIGCONT');
  expect(await first.done).toMatchObject({ code: 76, stderr: expect.stringMatching(/ was lost: /) });
});

it('etcdwire lock does not run its command when SIGSTOP suspends etcdwire for longer than the TTL during the wait for the lock', async () => {
  const name = unique('lock');
  const holder = new RunningCli(['lock', name]);
  const [line = ''] = await holder.lines(1);
  const waiter = new RunningCli(['lock', name, '--ttl', SHORT_TTL, '--', 'echo', 'ran']);
  const etcd = openClient();
  const { key } = JSON.parse(line);
  const waiting = async (): Promise<number> =>
    (await etcd.range(prefix(`${name}/`))).kvs.filter((kv) => kv.key !== key).length;
  await expect.poll(waiting).toBe(1);
  waiter.process.kill('SIGSTOP');
  await expect.poll(waiting).toBe(0);
  holder.process.kill('SIGINT');
  waiter.process.kill('SIGCONT');
  const { code, stdout } = await waiter.done;
  expect(stdout).toBe('');
  expect(code).not.toBe(0);
});
