import { setTimeout as pause } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { Mutex, SelfHealingSession, Session } from '../../src/concurrency/index.js';
import { Service } from '../../src/discovery/index.js';
import { methods } from '../../src/gen/methods.js';
import { openClient, unique } from '../support/client.js';
import { recordingTransport } from '../support/recording-transport.js';
import { answerLost } from '../support/transactions.js';

// A late put is a put that takes effect after the session has released the key. A session looks for late puts of a key
// for the time `expectedMs` after the release, which these tests shorten.
vi.mock('../../src/concurrency/late-puts.js', async (original) => ({
  ...(await original<object>()),
  LATE_PUT_TIMES: { firstSweepMs: 20, expectedMs: 100 },
}));

test('a lock has one holder at a time even if the first holder keeps the lock for longer than `expectedMs`', async () => {
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
  await pause(300);
  await first.release();
  // This call first waits until the session has deleted the late put.
  const second = await mutex.tryLock();
  expect(second?.valid()).toBe(true);
  expect(await mutex.tryLock()).toBeUndefined();
  await second?.release();
  expect((await mutex.tryLock())?.token).toBeGreaterThan(second?.token as bigint);
});

test('a session cancels its watch for late puts when the time `expectedMs` has passed', async () => {
  const { transport, sent } = recordingTransport();
  const session = await Session.open(openClient({ transport }));
  const key = `${unique('lock')}/key`;
  const requests = (kind: string): number =>
    sent.filter(({ request }) => (request as { requestUnion?: { case: string } }).requestUnion?.case === kind).length;
  (await session.latePuts.use(key, session.signal)).release(key);
  await expect.poll(() => requests('createRequest')).toBe(1);
  await expect.poll(() => requests('cancelRequest')).toBe(1);
});

test('a service endpoint that is registered twice stays when the caller closes the first registration', async () => {
  const { transport, sent } = recordingTransport();
  const etcd = openClient({ transport });
  const session = await Session.open(etcd);
  const service = new Service(etcd, unique('service'));
  const first = await service.register(session, 'id', { address: 'first:1' });
  const second = await service.register(session, 'id', { address: 'second:2' });
  await first.close();
  // The release of a lock makes the session list the keys of its lease (a sweep) and delete late puts.
  await (await new Mutex(session, unique('lock')).lock()).release();
  await expect.poll(() => sent.some(({ path }) => path === methods.lease.leaseTimeToLive.path)).toBe(true);
  await session.client.get('after the sweep');
  expect((await service.list()).get(second.key)).toEqual({ address: 'second:2' });
});

test.each(['SelfHealingSession', 'Session'] as const)(
  'a registered key of a %s stays when a second registration of the key fails',
  async (kind) => {
    let losesAnswers = false;
    const { transport, sent } = recordingTransport();
    const etcd = openClient({
      transport,
      interceptors: [
        {
          unary: async (call, next) => {
            const response = await next(call);
            if (losesAnswers && call.method.path.endsWith('/Range')) throw answerLost();
            return response;
          },
        },
      ],
    });
    const session = await (kind === 'Session' ? Session : SelfHealingSession).open(etcd);
    const service = new Service(etcd, unique('service'));
    const { key } = await service.register(session, 'id', { address: 'first:1' });
    losesAnswers = true;
    await expect(service.register(session, 'id', { address: 'second:2' }, { timeoutMs: 200 })).rejects.toMatchObject({
      reason: 'DeadlineExceeded',
    });
    losesAnswers = false;
    const sweeps = (): number => sent.filter(({ path }) => path === methods.lease.leaseTimeToLive.path).length;
    // The release of a lock makes a Session list the keys of its lease and delete late puts (a sweep). The failed
    // registration must not cause the deletion of the registered key.
    if (session instanceof Session) {
      await (await new Mutex(session, unique('lock')).lock()).release();
      await expect.poll(sweeps).toBeGreaterThan(0);
    } else await pause(200);
    expect((await service.list()).get(key)).toEqual({ address: 'first:1' });
  },
);
