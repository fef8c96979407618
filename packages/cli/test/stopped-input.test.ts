import { describe, expect, it } from 'vitest';
import { RunningCli } from '../../../test/support/cli.js';
import { openClient } from '../../../test/support/client.js';
import { recorded } from '../../../test/support/recordings.js';

/** Starts a command, and resolves when it reads its standard input, which stays open in the middle of a line. */
async function reading(args: readonly string[]): Promise<RunningCli> {
  const running = new RunningCli(args);
  // No pipe holds so many bytes, so the command has read most of them when the write is complete.
  await new Promise<void>((resolve) => running.process.stdin.write('x'.repeat(2_000_000), () => resolve()));
  return running;
}

describe.each([
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const)('the first %s ends, with exit code %i,', (signal, code) => {
  it.each([
    [['txn', '-i']],
    [['watch', '-i']],
    [['user', 'add', 'anne']],
    [['call', 'Watch/Watch', '-']],
    [['--etcdctl', 'txn']],
    [['--etcdctl', 'txn', '-i']],
    [['--etcdctl', 'watch', '-i']],
    [['--etcdctl', 'user', 'add', 'anne']],
    [['--etcdctl', 'user', 'add', 'anne', '--interactive=false']],
  ])('etcdwire %j while it reads a line of standard input', async (args) => {
    const running = await reading(args);
    running.process.kill(signal);
    expect(await running.done).toMatchObject({ code, stderr: '' });
  });

  it('etcdwire replay --step while it waits for Enter', async () => {
    const file = await recorded(async (url) => {
      await using client = openClient({ endpoints: [url] });
      await client.put('a', '1');
    });
    const running = new RunningCli(['replay', file, '--step']);
    await running.stdoutMatches(/put a = 1/);
    running.process.kill(signal);
    expect((await running.done).code).toBe(code);
  });
});
