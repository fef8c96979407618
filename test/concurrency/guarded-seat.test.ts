import { setTimeout as pause } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { Mutex, Session } from '../../src/concurrency/index.js';
import { Seat } from '../../src/concurrency/seat.js';
import { openClient, unique } from '../support/client.js';
import { answerLost } from '../support/transactions.js';

vi.mock('../../src/concurrency/late-puts.js', async (original) => ({ ...(await original<object>()), GUARD_MS: 100 }));

test('a lock that was held for longer than its key is guarded has one holder after it, and no second', async () => {
  let losesAnswer = true;
  const etcd = openClient({
    interceptors: [
      {
        unary: async (call, next) => {
          const response = await next(call);
          if (!losesAnswer || !call.method.path.endsWith('/Txn')) return response;
          losesAnswer = false;
          throw answerLost();
        },
      },
    ],
  });
  const session = await Session.open(etcd);
  const mutex = new Mutex(session, unique('lock'));
  const first = await mutex.lock();
  await new Promise((resolve) => setTimeout(resolve, 300));
  await first.unlock();
  // Waits for the guard, which waited for the lock.
  const second = await mutex.tryLock();
  expect(second?.valid()).toBe(true);
  expect(await mutex.tryLock()).toBeUndefined();
  await second?.unlock();
  expect((await mutex.tryLock())?.token).toBeGreaterThan(second?.token as bigint);
});

test('a seat that nobody uses is forgotten when it is guarded no longer', async () => {
  const lifetime = new AbortController();
  let vacant = 0;
  const seat = new Seat(openClient(), unique('lock'), 1n, lifetime.signal, () => {
    vacant += 1;
  });
  seat.guard();
  (await seat.localQueue.enter(lifetime.signal))();
  await pause(20);
  expect(vacant).toBe(0);
  lifetime.abort();
  await expect.poll(() => vacant).toBe(1);
});
