import { expect, onTestFinished, test } from 'vitest';
import { eventLoopTurn } from '../../src/base/timers.js';
import { Client, type Interceptor, prefix } from '../../src/index.js';
import { Session } from '../../src/locks.js';
import { Etcd3Mutex, ExpiringKeys } from '../../src/recipes.js';
import { MemoryEtcd, memory } from '../../src/testing/index.js';
import { errorOf } from '../support/errors.js';

const LIMIT_MS = 60_000;

function clientOf(interceptor: Interceptor): Client {
  const server = new MemoryEtcd();
  const client = new Client({ transport: memory(server), interceptors: [interceptor] });
  onTestFinished(async () => {
    await client.close();
    server.stop();
  });
  return client;
}

/** The functions that make several calls within one time limit. The last column is the number of limited calls. */
const FUNCTIONS: readonly (readonly [string, (etcd: Client) => Promise<unknown>, number])[] = [
  ['ExpiringKeys.put', (etcd) => new ExpiringKeys(etcd).put('a', '1', { ttl: 60, timeoutMs: LIMIT_MS }), 1],
  ['ExpiringKeys.touch', (etcd) => new ExpiringKeys(etcd).touch('a', { ttl: 60, timeoutMs: LIMIT_MS }), 1],
  ['ExpiringKeys.remainingTtl', (etcd) => new ExpiringKeys(etcd).remainingTtl('a', { timeoutMs: LIMIT_MS }), 2],
  ['maintenance.moveLeader', (etcd) => errorOf(etcd.maintenance.moveLeader(1n, { timeoutMs: LIMIT_MS })), 2],
];

test.each(FUNCTIONS)(
  'all calls of %s end at one deadline, and their errors name the time limit that the caller gave',
  async (_, run, count) => {
    const calls: { readonly timeoutMs: number; readonly deadline: number }[] = [];
    let isRecording = false;
    const etcd = clientOf({
      unary: async (call, next) => {
        if (isRecording && call.timeoutMs !== Number.POSITIVE_INFINITY) calls.push(call);
        const response = await next(call);
        // The next call of the function begins later than this one.
        const now = performance.now();
        while (performance.now() === now) await eventLoopTurn();
        return response;
      },
    });
    const { id: lease } = await etcd.lease.grant({ ttl: 60 });
    await etcd.put('a', '1', { lease });
    isRecording = true;
    const beforeMs = performance.now();
    const running = run(etcd);
    const afterMs = performance.now();
    await running;
    expect(calls.map(({ timeoutMs }) => timeoutMs)).toEqual(Array(count).fill(LIMIT_MS));
    const deadlines = new Set(calls.map(({ deadline }) => deadline));
    expect(deadlines.size).toBe(1);
    for (const deadline of deadlines) {
      expect(deadline).toBeGreaterThanOrEqual(beforeMs + LIMIT_MS);
      expect(deadline).toBeLessThanOrEqual(afterMs + LIMIT_MS);
    }
  },
);

test('the error of `catchUp` names the time limit that the caller gave, although the read has used a part of it', async () => {
  let isAhead = false;
  const etcd = clientOf({
    unary: async (call, next) => {
      const response = await next(call);
      if (!isAhead) return response;
      isAhead = false;
      const now = performance.now();
      while (performance.now() < now + 5) await eventLoopTurn();
      const { header } = response as { readonly header: object };
      return { ...response, header: { ...header, revision: 1_000n } };
    },
  });
  await using range = await etcd.cachedRange(prefix('a'));
  isAhead = true;
  expect((await errorOf(range.catchUp({ timeoutMs: 50 }))).message).toMatch(/timeoutMs = 50$/);
});

test('the error of `release` of an `Etcd3Mutex` names the time limit that the caller gave, and the release goes on', async () => {
  let [isSlow, answer] = [false, (): void => {}];
  const answered = new Promise<void>((resolve) => {
    answer = resolve;
  });
  const etcd = clientOf({
    unary: async (call, next) => {
      if (isSlow) await answered;
      return await next(call);
    },
  });
  const held = await new Etcd3Mutex(await Session.open(etcd, { ttl: 600 }), 'jobs').lock();
  isSlow = true;
  const error = await errorOf(held.release({ timeoutMs: 30 }));
  expect(error).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'unknown' });
  expect(error.message).toBe('release did not finish within timeoutMs = 30');
  isSlow = false;
  answer();
  await expect.poll(async () => (await etcd.range(prefix('jobs'))).count).toBe(0);
});
