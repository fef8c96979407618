import { expect, test } from 'vitest';
import { orAborted } from '../../src/base/signals.js';
import type { Interceptor } from '../../src/index.js';
import { Mutex, Session } from '../../src/locks.js';
import { containing } from '../../src/testing/index.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { proxied, TXN, WATCH } from '../support/locks.js';
import { recordingTransport } from '../support/recording-transport.js';

// These tests abort a `lock` call while its put is in flight. The call then changes the guard key of the put (rule S24
// in docs/semantics.md). The answer tells whether the queue key exists, and the server can no longer apply the put.

/** Returns a client whose first transaction is never answered. */
function open() {
  const { transport, sent } = recordingTransport();
  const answered = new Promise<never>(() => {});
  let isFirst = true;
  const delaying: Interceptor = {
    unary: async (call, next) => {
      if (call.method.path !== TXN || !isFirst) return next(call);
      // Set before the answer arrives, because the test may abort the call while the call waits for the answer.
      isFirst = false;
      const response = await next(call);
      await orAborted(answered, call.signal as AbortSignal);
      return response;
    },
  };
  const etcd = openClient({ transport, interceptors: [delaying] });
  return { etcd, paths: () => sent.map(({ path }) => path) };
}

/** Aborts a `lock` call when the server has received its put, and the answer is still outstanding. */
async function abortedWhilePutIsInFlight() {
  const { etcd, paths } = open();
  const session = await Session.open(etcd);
  const name = unique('lock');
  const stop = new AbortController();
  const error = errorOf(new Mutex(session, name).lock({ signal: stop.signal }));
  const key = `${name}/${session.leaseId.toString(16)}`;
  await expect.poll(() => openClient().get(key)).toBeDefined();
  stop.abort();
  return { paths, error, key };
}

test('a `lock` call that is aborted while its put is in flight deletes its key, and creates no watch', async () => {
  const { paths, error, key } = await abortedWhilePutIsInFlight();
  expect(await error).toMatchObject({ reason: 'Canceled', outcome: 'rejected' });
  expect(await openClient().get(key)).toBeUndefined();
  expect(paths()).not.toContain(WATCH);
  // The three transactions put the queue key, change the guard key, and delete the queue key.
  expect(paths().filter((path) => path === TXN)).toHaveLength(3);
});

test('a `lock` call whose cleanup stays unanswered rejects with outcome unknown, and deletes its key later', async () => {
  const { etcd, proxy } = await proxied();
  const session = await Session.open(etcd, { ttl: 60 });
  const name = unique('lock');
  const key = `${name}/${session.leaseId.toString(16)}`;
  const lost = proxy.loseNextAnswer(containing(name));
  const error = errorOf(new Mutex(session, name).lock({ maxWaitMs: 200 }));
  void lost.then(() => proxy.pause());
  expect(await error).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'unknown' });
  expect(await openClient().get(key)).toBeDefined();
  proxy.heal();
  await expect.poll(() => openClient().get(key)).toBeUndefined();
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
