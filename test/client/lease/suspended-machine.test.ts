import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, inject, onTestFinished, test } from 'vitest';
import { Deadlines } from '../../../src/base/timers.js';
import { KeepAlive, Moment } from '../../../src/client/lease/keep-alive.js';
import { WallClock } from '../../load/wall-clock.js';
import { type Child, startChild } from '../../support/child.js';
import { unique } from '../../support/client.js';
import { compiled } from '../../support/compiled.js';
import { temporaryFolder } from '../../support/temporary-folder.js';
import { VirtualClock } from '../../support/virtual-clock.js';

// Rule S44 (docs/semantics.md): The deadline of a lease counts the time for which the machine was suspended. In these
// tests, the clocks of a program with a lock behave as after a suspension: the wall clock or the boot clock has
// advanced, and the monotonic clock has not. libfaketime changes the wall clock. On Node.js, the client gets the boot
// clock from `os.uptime()`, which reads the file /proc/uptime. The test mounts another file there.

const TTL = '60';
const SUSPENDED = /may have expired, because the machine was suspended for 6\d s, or its wall clock was set forward$/;
const LOST = { granted: false, valid: false, remainingMs: 0, aborted: true, wrote: false };
const KEPT = { granted: true, valid: true, aborted: false, wrote: true };

test('a holder has lost its lock as soon as the wall clock is ahead by more than the TTL', async (context) => {
  using clock = await WallClock.open();
  if (clock === undefined) return context.skip('libfaketime is not available');
  const child = await holding(process.execPath, [], clock.environment);
  expect(await lookOf(child)).toMatchObject(KEPT);
  clock.set('-1h');
  expect(await lookOf(child)).toMatchObject(KEPT);
  clock.set('-1d');
  expect(await lookOf(child)).toMatchObject(KEPT);
  clock.set('+61s');
  const look = await lookOf(child);
  expect(look).toMatchObject(LOST);
  expect(look.problem).toMatch(SUSPENDED);
});

test('a holder has lost its lock when the boot clock is ahead by more than the TTL', async (context) => {
  const file = join(temporaryFolder(), 'uptime');
  const set = (seconds: number): void => writeFileSync(file, `${seconds.toFixed(2)} 0.00\n`);
  set(100);
  const mounted = ['-m', 'sh', '-c', 'mount --bind "$0" /proc/uptime && exec "$@"', file];
  if (spawnSync('unshare', [...mounted, 'true']).status !== 0) return context.skip('this user may not mount files');
  const child = await holding('unshare', [...mounted, process.execPath]);
  expect(await lookOf(child)).toMatchObject(KEPT);
  set(130);
  expect(await lookOf(child)).toMatchObject(KEPT);
  set(161);
  // The client reads this clock at most once in each of its steps of 10 ms.
  await expect.poll(() => lookOf(child)).toMatchObject(LOST);
  expect((await lookOf(child)).problem).toMatch(SUSPENDED);
});

/** Starts a program that holds a lock. */
async function holding(command: string, args: readonly string[], environment: NodeJS.ProcessEnv = {}): Promise<Child> {
  const program = compiled(new URL('../../support/suspended-program.ts', import.meta.url));
  const [endpoint = ''] = inject('endpoints');
  const child = startChild(command, [...args, program, endpoint, unique(), TTL], {
    stdin: 'pipe',
    environment: environment as Record<string, string>,
  });
  expect(await child.line()).toBe('held');
  return child;
}

/** Asks the program for the state of its lock. Resolves with its answer. */
async function lookOf(child: Child): Promise<{ readonly problem: string }> {
  child.process.stdin?.write('\n');
  return JSON.parse(await child.line());
}

test('a keepalive has no timer left when it has lost its lease to a wall clock that was set forward', () => {
  const clock = new VirtualClock();
  onTestFinished(clock.restore);
  const alive = new KeepAlive(1n, new Deadlines());
  alive.acknowledged(new Moment(), 60);
  expect(clock.timers).toBe(1);
  clock.wallOffsetMs += 60_000;
  expect([alive.valid(), clock.timers]).toEqual([false, 0]);
});

test('the error of a lease whose renewals failed does not blame a wall clock that is ahead by a millisecond', () => {
  const clock = new VirtualClock();
  onTestFinished(clock.restore);
  const alive = new KeepAlive(1n, new Deadlines());
  alive.acknowledged(new Moment(), 60);
  const left = alive.remainingMs();
  clock.block(left - 0.5);
  clock.wallOffsetMs += 1;
  expect(alive.valid()).toBe(false);
  expect(String(alive.signal.reason)).toContain('no server acknowledged a renewal in time');
});
