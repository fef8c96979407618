import { Cron } from 'croner';
import { expect, onTestFinished, test } from 'vitest';
import { type Environment, replaceEnvironment } from '../../../src/base/environment.js';
import { type Client, EtcdError, type Interceptor, op, prefix } from '../../../src/index.js';
import { inspectLock } from '../../../src/locks.js';
import { type ScheduleOptions, schedule, type Tick, type When } from '../../../src/recipes.js';
import { containing } from '../../../src/testing/index.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { proxied, TXN } from '../../support/locks.js';
import { aborted } from '../../support/signals.js';
import { answerLost, puts, stagedTransport } from '../../support/transactions.js';

const T0 = Date.parse('2026-01-01T00:00:00.000Z');
const SECOND = 1_000;

/** Replaces the wall clock of this process. It shows `clock.ms`. */
function wallClock(ms: number): { ms: number } {
  const clock = { ms };
  const { performance, crypto, setTimeout, clearTimeout, setImmediate } = globalThis;
  const others = { performance, Math, crypto, setTimeout, clearTimeout, setImmediate } as unknown as Environment;
  onTestFinished(replaceEnvironment({ ...others, Date: { now: () => clock.ms } }));
  return clock;
}

/** A process that runs a schedule until the end of the test. */
function start(
  etcd: Client,
  name: string,
  when: When,
  handler: (tick: Tick) => Promise<void> | void,
  options: ScheduleOptions = {},
): { readonly stop: () => Promise<void>; readonly running: Promise<void> } {
  const controller = new AbortController();
  const running = schedule(etcd, name, when, { signal: controller.signal, ...options }, handler);
  const stop = async (): Promise<void> => {
    controller.abort();
    await running;
  };
  running.catch(() => {});
  onTestFinished(async () => {
    controller.abort();
    await running.catch(() => {});
  });
  return { stop, running };
}

async function stateOf(etcd: Client, name: string): Promise<unknown> {
  return (await etcd.get(`${name}/tick`))?.json();
}

/** Waits until the first leader has begun the schedule. */
async function begun(etcd: Client, name: string): Promise<void> {
  await expect.poll(() => stateOf(etcd, name)).toBeDefined();
}

/** Ends the lease of the leader, as if it had died. */
async function depose(etcd: Client, name: string): Promise<void> {
  await etcd.lease.revoke((await inspectLock(etcd, `${name}/leader`)).holder?.leaseId ?? 0n);
}

async function candidates(etcd: Client, name: string, count: number): Promise<void> {
  await expect.poll(async () => (await etcd.range(prefix(`${name}/leader/`))).count).toBe(count);
}

test('a schedule runs each tick of its interval once although its leaders end one after the other', async () => {
  const [etcd, name] = [openClient(), unique('schedule')];
  const ran: number[] = [];
  const handler = async (tick: Tick): Promise<void> => {
    await tick.complete([op.put(`${name}-done/${tick.time.getTime()}`, '')]);
    ran.push(tick.time.getTime());
  };
  const fleet = [1, 2, 3].map(() => start(openClient(), name, 50, handler, { missed: 'all' }));
  for (const { stop } of fleet) {
    const before = ran.length;
    await expect.poll(() => ran.length).toBeGreaterThan(before + 2);
    await stop();
  }
  expect(ran).toEqual(ran.map((_, index) => (ran[0] as number) + 50 * index));
  expect((ran[0] as number) % 50).toBe(0);
  const { kvs } = await etcd.range(prefix(`${name}-done/`));
  expect(kvs.map(({ version }) => version)).toEqual(ran.map(() => 1n));
});

test('a tick of a schedule runs again when its leader dies, and `complete` of the first run has no effect', async () => {
  const [etcd, name, clock] = [openClient(), unique('schedule'), wallClock(T0 - 5)];
  const ticks: Tick[] = [];
  const [first] = [
    start(openClient(), name, SECOND, async (tick) => {
      ticks.push(tick);
      await aborted(tick.signal);
    }),
  ];
  await begun(etcd, name);
  start(openClient(), name, SECOND, (tick) => void ticks.push(tick));
  await candidates(etcd, name, 2);
  clock.ms = T0;
  await expect.poll(() => ticks.length).toBe(1);
  await depose(etcd, name);
  await expect.poll(() => ticks.length).toBe(2);
  const [lost, again] = ticks as [Tick, Tick];
  expect([lost.attempt, again.attempt]).toEqual([1, 2]);
  expect([lost.time, again.time]).toEqual([new Date(T0), new Date(T0)]);
  expect(await errorOf(lost.complete([op.put(`${name}-late`, '')]))).toMatchObject({
    reason: 'LockLost',
    outcome: 'rejected',
  });
  expect(await etcd.get(`${name}-late`)).toBeUndefined();
  await expect.poll(() => stateOf(etcd, name)).toMatchObject({ status: 'done', attempt: 2 });
  await first.stop();
});

test('a tick of a schedule with `interrupted: skip` is skipped when its leader dies during the run', async () => {
  const [etcd, name, clock] = [openClient(), unique('schedule'), wallClock(T0 - 5)];
  const ticks: Tick[] = [];
  const handler = async (tick: Tick): Promise<void> => {
    ticks.push(tick);
    if (tick.time.getTime() === T0) await aborted(tick.signal);
  };
  start(openClient(), name, SECOND, handler, { interrupted: 'skip' });
  await begun(etcd, name);
  clock.ms = T0;
  await expect.poll(() => ticks.length).toBe(1);
  await depose(etcd, name);
  await expect.poll(() => stateOf(etcd, name)).toMatchObject({ status: 'done', attempt: 1 });
  clock.ms = T0 + SECOND;
  await expect.poll(() => ticks.map(({ time }) => time.getTime())).toEqual([T0, T0 + SECOND]);
});

test('a schedule that is asked to stop marks a tick as done if the handler returns, and leaves the tick to another process if the handler throws', async () => {
  const [etcd, name, clock] = [openClient(), unique('schedule'), wallClock(T0 - 5)];
  const ran: string[] = [];
  const running =
    (how: 'return' | 'throw') =>
    async ({ time, attempt, signal }: Tick) => {
      ran.push(`${(time.getTime() - T0) / SECOND} ${attempt}`);
      await aborted(signal);
      if (how === 'throw') throw signal.reason;
    };
  const failures: unknown[] = [];
  const first = start(etcd, name, SECOND, running('return'));
  await begun(etcd, name);
  clock.ms = T0;
  await expect.poll(() => ran).toEqual(['0 1']);
  await first.stop();
  expect(await stateOf(etcd, name)).toMatchObject({ status: 'done' });
  const second = start(etcd, name, SECOND, running('throw'), { onFailure: (error) => failures.push(error) });
  clock.ms = T0 + SECOND;
  await expect.poll(() => ran).toEqual(['0 1', '1 1']);
  await second.stop();
  expect(await stateOf(etcd, name)).toMatchObject({ status: 'running' });
  start(etcd, name, SECOND, running('return'));
  await expect.poll(() => ran).toEqual(['0 1', '1 1', '1 2']);
  expect(failures).toEqual([]);
});

test.each([
  ['last', 7_000, [3]],
  ['all', 7_000, [1, 2, 3]],
  ['skip', 7_000, [3]],
  ['skip', 2_500, []],
] as const)(
  'a schedule runs the ticks that were missed as the option `missed: %s` says (interval %i)',
  async (missed, intervalMs, expected) => {
    const [etcd, name] = [openClient(), unique('schedule')];
    const clock = wallClock(Math.ceil(T0 / intervalMs) * intervalMs);
    const beginMs = clock.ms;
    const first = start(etcd, name, intervalMs, () => {});
    await begun(etcd, name);
    await first.stop();
    // No process runs for a while.
    clock.ms += 3 * intervalMs + (expected.length === 0 ? intervalMs - 1 : 0);
    const ran: number[] = [];
    const options = { missed, ttl: 1 } as const;
    start(etcd, name, intervalMs, ({ time }) => void ran.push((time.getTime() - beginMs) / intervalMs), options);
    await expect
      .poll(() => stateOf(etcd, name))
      .toMatchObject({ status: 'done', time: new Date(beginMs + 3 * intervalMs).toISOString() });
    expect(ran).toEqual(expected);
  },
);

test('a run of a schedule that takes longer than the interval delays the next run, and no two runs overlap', async () => {
  const [etcd, name, clock] = [openClient(), unique('schedule'), wallClock(T0 - 5)];
  const ran: number[] = [];
  let running = 0;
  start(etcd, name, SECOND, async ({ time }) => {
    running += 1;
    expect(running).toBe(1);
    ran.push((time.getTime() - T0) / SECOND);
    clock.ms += 2_500;
    await etcd.get('k');
    running -= 1;
  });
  await begun(etcd, name);
  clock.ms = T0;
  await expect.poll(() => ran.length).toBeGreaterThan(3);
  expect(ran.slice(0, 3)).toEqual([0, 2, 5]);
});

test('a leader of a schedule whose clock is behind runs only ticks that are later than the last tick, and continues when its clock has passed that tick', async () => {
  const [etcd, name, clock] = [openClient(), unique('schedule'), wallClock(T0 - 5)];
  const ran: number[] = [];
  const handler = ({ time }: Tick): void => void ran.push((time.getTime() - T0) / SECOND);
  const first = start(etcd, name, SECOND, handler);
  await begun(etcd, name);
  clock.ms = T0 + 3 * SECOND;
  await expect.poll(() => ran).toEqual([3]);
  clock.ms = T0 + SECOND;
  await first.stop();
  start(etcd, name, SECOND, handler);
  await begun(etcd, name);
  clock.ms = T0 + 3 * SECOND + 999;
  await expect.poll(() => stateOf(etcd, name)).toMatchObject({ status: 'done' });
  clock.ms = T0 + 4 * SECOND;
  await expect.poll(() => ran).toEqual([3, 4]);
});

test('a schedule begins again from now when an operator deletes its key because a clock was far ahead', async () => {
  const [etcd, name, clock] = [openClient(), unique('schedule'), wallClock(T0 - 5)];
  const ran: number[] = [];
  start(etcd, name, SECOND, ({ time }) => void ran.push(time.getTime()), { ttl: 1 });
  await begun(etcd, name);
  // The jump also ends the lease of the leader. The same process then becomes the leader again.
  clock.ms = T0 + 1_000_000_000_000;
  await expect.poll(() => ran.length).toBe(1);
  clock.ms = T0 - 5;
  await etcd.delete(`${name}/tick`);
  await expect.poll(() => stateOf(etcd, name), { timeout: 15_000 }).toMatchObject({ attempt: 0 });
  clock.ms = T0;
  await expect.poll(() => ran.at(-1)).toBe(T0);
});

test('a schedule runs the tick after the deletion of its key by an operator while the leader waits for this tick', async () => {
  const [etcd, name, clock] = [openClient(), unique('schedule'), wallClock(T0 - 5)];
  const ran: number[] = [];
  start(etcd, name, SECOND, ({ time }) => void ran.push(time.getTime() - T0));
  await begun(etcd, name);
  clock.ms = T0;
  await expect.poll(() => stateOf(etcd, name)).toMatchObject({ status: 'done', attempt: 1 });
  await etcd.delete(`${name}/tick`);
  clock.ms = T0 + SECOND + 5;
  await expect.poll(() => ran).toEqual([0, SECOND]);
});

test('a schedule runs the ticks of a cron parser, even on days when the clocks change', async () => {
  // In Berlin, 2:30 does not exist on 29 March 2026, and exists twice on 25 October 2026.
  const [etcd, name, clock] = [openClient(), unique('schedule'), wallClock(Date.parse('2026-03-28T12:00:00.000Z'))];
  const cron = new Cron('30 2 * * *', { timezone: 'Europe/Berlin' });
  const ran: string[] = [];
  const handler = ({ time }: Tick): void => void ran.push(time.toISOString());
  const first = start(etcd, name, (after) => cron.nextRun(after), handler, { missed: 'all' });
  await begun(etcd, name);
  await first.stop();
  clock.ms = Date.parse('2026-03-30T12:00:00.000Z');
  const second = start(etcd, name, (after) => cron.nextRun(after), handler, { missed: 'all' });
  const lastTick = (time: string): Promise<void> =>
    expect.poll(() => stateOf(etcd, name)).toMatchObject({ time, status: 'done' });
  await lastTick('2026-03-30T00:30:00.000Z');
  expect(ran).toHaveLength(2);
  await second.stop();
  // Without a process for months, only the latest tick runs.
  clock.ms = Date.parse('2026-10-25T12:00:00.000Z');
  start(etcd, name, (after) => cron.nextRun(after), handler);
  await expect.poll(() => ran.length).toBe(3);
  expect(ran[2]).toMatch(/^2026-10-25T0[01]:30:00\.000Z$/);
});

test('a schedule marks a tick as done when its handler throws, and passes the error to `onFailure`', async () => {
  const [etcd, name, clock] = [openClient(), unique('schedule'), wallClock(T0 - 5)];
  const failures: unknown[] = [];
  const handler = (): void => {
    throw new Error('broken');
  };
  const { stop } = start(etcd, name, SECOND, handler, {
    onFailure: (error, { time }) => failures.push([(error as Error).message, time.getTime() - T0]),
  });
  await begun(etcd, name);
  clock.ms = T0;
  await expect.poll(() => failures.length).toBe(1);
  clock.ms = T0 + SECOND;
  await expect
    .poll(() => failures)
    .toEqual([
      ['broken', 0],
      ['broken', SECOND],
    ]);
  await stop();
  const loud = start(etcd, name, SECOND, handler);
  clock.ms = T0 + 2 * SECOND;
  await expect(loud.running).rejects.toThrow('broken');
  expect(await stateOf(etcd, name)).toMatchObject({ status: 'done', attempt: 1 });
});

test('`complete` of a tick takes effect once, even if its answer is lost or the server has refused an attempt', async () => {
  const [{ etcd, direct, proxy }, name, clock] = [await proxied(), unique('schedule'), wallClock(T0 - 5)];
  const errors: unknown[] = [];
  start(etcd, name, SECOND, async (tick) => {
    const [put, refused] = [op.put(`${name}-done`, 'x'), op.put(`${name}-none`, '', { ignoreValue: true })];
    errors.push(await errorOf(tick.complete([refused])));
    errors.push(await errorOf(tick.complete([put, op.get(name, { revision: 1n })])));
    const losing = proxy.loseNextAnswer(containing(`${name}-done`));
    await tick.complete([put]);
    await losing;
    errors.push(await errorOf(tick.complete([put])));
  });
  await begun(direct, name);
  clock.ms = T0;
  await expect.poll(() => errors.length).toBe(3);
  expect(errors).toMatchObject([
    { reason: 'KeyNotFound' },
    { reason: 'InvalidInput', outcome: 'not-sent' },
    { reason: 'LockReleased', outcome: 'rejected' },
  ]);
  expect((await direct.get(`${name}-done`))?.version).toBe(1n);
  expect(await stateOf(direct, name)).toMatchObject({ status: 'done' });
});

test('`complete` of a tick rejects with outcome unknown when its answer is lost and another client deletes the key', async () => {
  const [direct, name, clock] = [openClient(), unique('schedule'), wallClock(T0 - 5)];
  let loses = true;
  const transport = stagedTransport({
    onTransaction: async (ops, send) => {
      const result = await send();
      if (!loses || !puts(ops, `${name}-done`)) return result;
      loses = false;
      await direct.delete(`${name}/tick`);
      throw answerLost();
    },
  });
  const errors: unknown[] = [];
  start(openClient({ transport }), name, SECOND, async (tick) => {
    errors.push(await errorOf(tick.complete([op.put(`${name}-done`, 'x')])));
  });
  await begun(direct, name);
  clock.ms = T0;
  await expect.poll(() => errors.length).toBe(1);
  expect(errors).toMatchObject([{ reason: 'LockLost', outcome: 'unknown' }]);
  expect((await direct.get(`${name}-done`))?.text()).toBe('x');
});

test('a second `complete` of a tick does not resolve because of the first call, whose outcome was unknown', async () => {
  const [direct, name, clock] = [openClient(), unique('schedule'), wallClock(T0 - 5)];
  let loses = false;
  const losing: Interceptor = {
    unary: async (call, next) => {
      const response = await next(call);
      if (!loses || call.method.path !== TXN) return response;
      loses = false;
      throw new EtcdError('the answer is malformed', {
        code: 'Internal',
        reason: 'MalformedMessage',
        outcome: 'unknown',
      });
    },
  };
  const errors: unknown[] = [];
  start(openClient({ interceptors: [losing] }), name, SECOND, async (tick) => {
    loses = true;
    errors.push(await errorOf(tick.complete([op.put(`${name}-done`, 'first')])));
    errors.push(await errorOf(tick.complete([op.put(`${name}-done`, 'second')])));
  });
  await begun(direct, name);
  clock.ms = T0;
  await expect.poll(() => errors.length).toBe(2);
  expect(errors).toMatchObject([
    { reason: 'MalformedMessage', outcome: 'unknown' },
    { reason: 'LockReleased', outcome: 'rejected' },
  ]);
  expect((await direct.get(`${name}-done`))?.text()).toBe('first');
  clock.ms = T0 + SECOND;
  await expect.poll(() => stateOf(direct, name)).toMatchObject({ time: new Date(T0 + SECOND).toISOString() });
});

test('`schedule` ends when `when` returns null, and rejects dates that are not later', async () => {
  const [etcd, name] = [openClient(), unique('schedule')];
  let left = 2;
  const ran: number[] = [];
  const twice = (after: Date): Date | null => (left-- > 0 ? new Date(after.getTime() + 1) : null);
  await schedule(etcd, name, twice, ({ attempt }) => void ran.push(attempt));
  expect(ran.length).toBeLessThanOrEqual(2);
  for (const wrong of [new Date(Number.NaN), new Date(0), 5, 'soon', Promise.resolve(new Date())]) {
    const when = (() => wrong) as unknown as When;
    expect(await errorOf(schedule(etcd, unique('schedule'), when, () => {}))).toMatchObject({
      reason: 'InvalidInput',
      message: expect.stringMatching(/^when: got a function that returned /),
    });
  }
  const broken = (): Date => {
    throw new Error('no cron');
  };
  await expect(schedule(etcd, unique('schedule'), broken, () => {})).rejects.toThrow('no cron');
});

test('`schedule` rejects when the value of its key is malformed, and says what to do', async () => {
  const [etcd, name] = [openClient(), unique('schedule')];
  for (const value of ['', 'x', '{}', 'null', '{"time":"no","status":"done","attempt":1}']) {
    await etcd.put(`${name}/tick`, value);
    expect(await errorOf(schedule(etcd, name, SECOND, () => {}))).toMatchObject({
      reason: 'InvalidJson',
      message: expect.stringContaining('delete the key to begin the schedule again'),
    });
  }
});

test('`schedule` resolves at once with an aborted signal, and when the client closes in the middle', async () => {
  const [etcd, name] = [openClient(), unique('schedule')];
  await schedule(etcd, name, SECOND, { signal: AbortSignal.abort() }, () => {});
  const closing = start(etcd, name, 10, () => {});
  await candidates(openClient(), name, 1);
  await etcd.close();
  await closing.running;
});

test('a schedule continues after an outage that lasts longer than the lease of its leader', async () => {
  const [{ etcd, direct, proxy }, name] = [await proxied(), unique('schedule')];
  const ran: number[] = [];
  start(etcd, name, 20, ({ time }) => void ran.push(time.getTime()), { ttl: 1 });
  await expect.poll(() => ran.length).toBeGreaterThan(1);
  proxy.blackhole();
  await expect.poll(async () => (await inspectLock(direct, `${name}/leader`)).holder).toBeUndefined();
  const before = ran.length;
  proxy.heal();
  proxy.dropConnections();
  await expect.poll(() => ran.length).toBeGreaterThan(before + 1);
  expect(ran).toEqual(ran.toSorted((a, b) => a - b));
});
