import { expect, onTestFinished, test } from 'vitest';
import { PROGRAM } from '../../../test/support/cli.js';
import { runChild } from '../src/child.js';

// While `etcdwire lock` or `etcdwire elect` runs a command, it also runs a guard process. The guard process ends the
// command if etcdwire cannot do so, for example because etcdwire is suspended.

test('`runChild` does not start the command when the lock is lost while the guard process starts', async () => {
  const [, script = ''] = process.argv;
  process.argv[1] = PROGRAM;
  onTestFinished(() => {
    process.argv[1] = script;
  });
  const lost = new AbortController();
  const running = runChild(['sh', '-c', 'exit 3'], {
    environment: { ETCDWIRE_LOCK_KEY: 'key' },
    signal: lost.signal,
    graceMs: 1_000,
    remainingMs: () => {
      lost.abort();
      return 0;
    },
    warn: () => {},
  });
  await expect(running).rejects.toBe(lost.signal.reason);
});
