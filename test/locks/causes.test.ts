import { describe, expect, inject, test } from 'vitest';
import { Election, Mutex, ReentrantMutex, RWMutex, Semaphore, Session, type WaitOptions } from '../../src/locks.js';
import { Barrier, Queue } from '../../src/recipes.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { faultProxy } from '../support/fault-proxy.js';
import { createdWatches } from '../support/locks.js';

// The error of a wait that times out says whether no server answered or another contender held the lock. Each entry of
// WAITS starts such a wait with one method of one class.

const WAITS: Readonly<Record<string, (session: Session, name: string, options: WaitOptions) => Promise<unknown>>> = {
  lock: (session, name, options) => new Mutex(session, name).lock(options),
  tryLock: (session, name, options) => new Mutex(session, name).tryLock(options),
  'lock of a ReentrantMutex': (session, name, options) => new ReentrantMutex(session, name).lock('owner', options),
  readLock: (session, name, options) => new RWMutex(session, name).readLock(options),
  campaign: (session, name, options) => new Election(session, name).campaign('me', options),
  acquire: (session, name, options) => new Semaphore(session, name, 1).acquire(options),
  tryAcquire: (session, name, options) => new Semaphore(session, name, 1).tryAcquire(options),
  dequeue: (session, name, options) => new Queue(session.client, name).dequeue(session, options),
  'wait at a barrier': (session, name, options) => new Barrier(session.client, name).wait(options),
};

describe('a wait that times out', () => {
  test.for(Object.entries(WAITS))(
    'rejects with an error that names the endpoint and the last failure when etcd is down (method: %s)',
    async ([, wait]) => {
      const proxy = await faultProxy(inject('endpoints')[0] as string);
      const session = await Session.open(openClient({ endpoints: [proxy.endpoint] }), { ttl: 60 });
      const { endpoint } = proxy;
      await proxy.close();
      // This call fails, and the client has then closed its old connection. The wait below therefore begins with an
      // attempt to connect.
      await errorOf(session.client.get('k', { timeoutMs: 200 }));
      const error = await errorOf(wait(session, unique('lock'), { maxWaitMs: 300 }));
      expect(error).toMatchObject({
        reason: 'DeadlineExceeded',
        endpoint,
        cause: { reason: 'ConnectFailed', endpoint },
      });
      expect(error.message).toContain(`last failure: cannot connect to ${endpoint}: `);
      expect(error.outcome).toMatch(/^(?:not-sent|rejected)$/);
    },
  );

  test.for(Object.entries(WAITS).slice(0, 5))(
    'rejects with outcome not-sent when the client could not send any request (method: %s)',
    async ([, wait]) => {
      const proxy = await faultProxy(inject('endpoints')[0] as string);
      const session = await Session.open(openClient({ endpoints: [proxy.endpoint] }), { ttl: 60 });
      await proxy.close();
      await errorOf(session.client.get('k', { timeoutMs: 200 }));
      const error = await errorOf(wait(session, unique('lock'), { maxWaitMs: 300 }));
      expect(error.outcome).toBe('not-sent');
    },
  );

  test('rejects with outcome rejected and without a cause when another contender holds the lock', async () => {
    const [name, holder, waiter] = [unique('lock'), await Session.open(openClient()), await Session.open(openClient())];
    await using _held = await new Mutex(holder, name).lock();
    const error = await errorOf(new Mutex(waiter, name).lock({ maxWaitMs: 1_000 }));
    expect(error).toMatchObject({ reason: 'LockTaken', outcome: 'rejected' });
    expect(error.cause).toBeUndefined();
    expect(error.message).toBe(
      'lock: other contenders still had the lock after maxWaitMs = 1000; inspectLock shows them',
    );
  });

  test('rejects with outcome unknown when the client could not confirm the deletion of the queue key', async () => {
    const proxy = await faultProxy(inject('endpoints')[0] as string);
    const name = unique('lock');
    const watches = createdWatches();
    const waiter = openClient({ endpoints: [proxy.endpoint], interceptors: [watches.interceptor] });
    const holder = openClient();
    await using _held = await new Mutex(await Session.open(holder), name).lock();
    const waiting = errorOf(new Mutex(await Session.open(waiter, { ttl: 60 }), name).lock({ maxWaitMs: 1_500 }));
    // The waiter watches its predecessor, so it knows that the lock is taken.
    await expect.poll(() => watches.count).toBeGreaterThan(0);
    proxy.blackhole();
    expect(await waiting).toMatchObject({ reason: 'LockTaken', outcome: 'unknown' });
  });
});
