import { expect, test } from 'vitest';
import { Mutex, Session } from '../../src/concurrency/index.js';
import type { Interceptor } from '../../src/index.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { TXN, WATCH } from '../support/locks.js';
import { recordingTransport } from '../support/recording-transport.js';
import { answerLost } from '../support/transactions.js';

// A `lock` call is aborted while its put is in flight. The put continues, because its answer tells whether the key
// exists.

/** Returns a client whose first transaction is answered when `answer` is called. */
function open() {
  const { transport, sent } = recordingTransport();
  let answer = (_lost?: boolean): void => {};
  const answered = new Promise<boolean>((resolve) => {
    answer = (lost = false) => resolve(lost);
  });
  let isFirst = true;
  const delaying: Interceptor = {
    unary: async (call, next) => {
      const response = await next(call);
      if (call.method.path !== TXN || !isFirst) return response;
      isFirst = false;
      if (await answered) throw answerLost();
      return response;
    },
  };
  const etcd = openClient({ transport, interceptors: [delaying] });
  return { etcd, answer, paths: () => sent.map(({ path }) => path) };
}

/** Aborts a `lock` call when the server has received its put, and the answer is still outstanding. */
async function abortedWhilePutIsInFlight() {
  const { etcd, answer, paths } = open();
  const session = await Session.open(etcd);
  const name = unique('lock');
  const stop = new AbortController();
  const error = errorOf(new Mutex(session, name).lock({ signal: stop.signal }));
  const key = `${name}/${session.leaseId.toString(16)}`;
  await expect.poll(() => openClient().get(key)).toBeDefined();
  stop.abort();
  return { answer, paths, error, key };
}

test('a `lock` call that is aborted while its put is in flight deletes its key once the put is answered, and creates no watch', async () => {
  const { answer, paths, error, key } = await abortedWhilePutIsInFlight();
  answer();
  expect(await error).toMatchObject({ reason: 'Canceled', outcome: 'rejected' });
  expect(await openClient().get(key)).toBeUndefined();
  expect(paths()).not.toContain(WATCH);
  expect(paths().filter((path) => path === TXN)).toHaveLength(2);
});

test('a `lock` call whose put stays unanswered rejects with outcome unknown, and deletes its key later', async () => {
  const { etcd, answer, paths } = open();
  const session = await Session.open(etcd);
  const name = unique('lock');
  const error = errorOf(new Mutex(session, name).lock({ maxWaitMs: 200 }));
  expect(await error).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'unknown' });
  answer();
  const key = `${name}/${session.leaseId.toString(16)}`;
  await expect.poll(() => openClient().get(key)).toBeUndefined();
  expect(paths()).not.toContain(WATCH);
});

test('a `lock` call whose put is lost after the abort watches for the put', async () => {
  const { answer, paths, error, key } = await abortedWhilePutIsInFlight();
  answer(true);
  expect(await error).toMatchObject({ reason: 'Canceled', outcome: 'rejected' });
  expect(await openClient().get(key)).toBeUndefined();
  await expect.poll(paths).toContain(WATCH);
});

test('a `lock` call that is aborted while its put waits in the client never sends the put', async () => {
  const { transport, sent } = recordingTransport();
  const etcd = openClient({ transport, maxInFlight: 1 });
  const session = await Session.open(etcd);
  const blocked = etcd.put(unique('first'), 'x');
  const stop = new AbortController();
  const error = errorOf(new Mutex(session, unique('lock')).lock({ signal: stop.signal }));
  // The call needs several turns of the microtask queue to reach the queue of calls.
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
  stop.abort();
  expect(await error).toMatchObject({ reason: 'Canceled', outcome: 'not-sent' });
  await blocked;
  expect(sent.map(({ path }) => path)).not.toContain(TXN);
});
