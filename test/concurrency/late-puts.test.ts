import { expect, test } from 'vitest';
import { RWMutex, SelfHealingSession, Session } from '../../src/concurrency/index.js';
import { LATE_PUT_TIMES, LatePuts } from '../../src/concurrency/late-puts.js';
import { type Client, prefix } from '../../src/index.js';
import { pause, settledWithin } from '../../src/runtime/timers.js';
import type { UnaryCall } from '../../src/transport/index.js';
import { openClient, unique } from '../support/client.js';
import { answerLost } from '../support/transactions.js';
import { VirtualClock } from '../support/virtual-clock.js';

// A put whose answer is lost may take effect late, after the session has released the key. The session then deletes the
// key, unless the key is in use again.

/** Controls which of the client's calls are delayed and which answers are lost. */
interface Network {
  /** Loses the answer to the next transaction. */
  losesAnswer: boolean;
  /** Delays the next transaction until `resume()`, and makes its call fail at once as if the answer were lost. */
  delaysPut: boolean;
  /** Delays the next read of a key: either the request, before the server receives it, or the answer. */
  delaysRead: 'request' | 'answer' | undefined;
  /** Ends all current delays. */
  resume(): void;
}

function open(): { readonly etcd: Client; readonly network: Network } {
  let goOn = (): void => {};
  let held = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const network: Network = {
    losesAnswer: false,
    delaysPut: false,
    delaysRead: undefined,
    resume: () => {
      goOn();
      held = new Promise<void>((resolve) => {
        goOn = resolve;
      });
    },
  };
  const put = async <Q, R>(call: UnaryCall<Q, R>, next: (call: UnaryCall<Q, R>) => Promise<R>): Promise<R> => {
    if (network.delaysPut) {
      network.delaysPut = false;
      const { signal: _, ...late } = call;
      void held.then(() => next({ ...late, deadline: Number.POSITIVE_INFINITY })).catch(() => {});
      throw answerLost();
    }
    const response = await next(call);
    if (!network.losesAnswer) return response;
    network.losesAnswer = false;
    throw answerLost();
  };
  const read = async <Q, R>(call: UnaryCall<Q, R>, next: (call: UnaryCall<Q, R>) => Promise<R>): Promise<R> => {
    const delay = network.delaysRead;
    network.delaysRead = undefined;
    const until = held;
    if (delay === 'request') await until;
    const response = await next(call);
    if (delay === 'answer') await until;
    return response;
  };
  const etcd = openClient({
    interceptors: [
      {
        unary: (call, next) => {
          if (call.method.path.endsWith('/Txn')) return put(call, next);
          return call.method.path.endsWith('/Range') ? read(call, next) : next(call);
        },
      },
    ],
  });
  return { etcd, network };
}

/**
 * Registers a key with a put whose answer is lost, and unregisters it. Waits until the session's deletion of the key is
 * under way and delayed.
 */
async function duringDeletion(
  session: SelfHealingSession,
  network: Network,
  key: string,
  delay: 'request' | 'answer',
): Promise<void> {
  network.losesAnswer = true;
  await session.register(key, 'v');
  network.delaysRead = undefined;
  await session.unregister(key);
  network.delaysRead = delay;
  await expect.poll(() => network.delaysRead).toBeUndefined();
}

test('a SelfHealingSession stores a key that is registered again while the session is deleting the key', async () => {
  const { etcd, network } = open();
  const [session, key] = [await SelfHealingSession.open(etcd), unique()];
  await duringDeletion(session, network, key, 'request');
  const registering = session.register(key, 'again');
  await settledWithin(200, registering);
  network.resume();
  await registering;
  await pause(300);
  expect((await etcd.get(key))?.text()).toBe('again');
});

test('a SelfHealingSession does not delete a key that is registered again while the deletion of the key is delayed', async () => {
  const { etcd, network } = open();
  const [session, key] = [await SelfHealingSession.open(etcd), unique()];
  await duringDeletion(session, network, key, 'answer');
  network.losesAnswer = true;
  const registering = session.register(key, 'v');
  if (!(await settledWithin(200, registering))) network.resume();
  await registering;
  await session.unregister(key);
  network.resume();
  await pause(300);
  await session.register(key, 'again');
  await pause(300);
  expect((await etcd.get(key))?.text()).toBe('again');
});

test.each([
  ['text', unique()],
  ['bytes that are not UTF-8', Uint8Array.from([0xff, 0xfe, ...Buffer.from(unique())])],
])(
  'a SelfHealingSession deletes a late put of a key (%s) that was registered twice and then unregistered',
  async (_, key) => {
    const { etcd, network } = open();
    const session = await SelfHealingSession.open(etcd);
    network.delaysPut = true;
    await session.register(key, 'first');
    await session.register(key, 'second');
    await session.unregister(key);
    const watch = etcd.watch(key);
    await watch.created();
    network.resume();
    const events = watch[Symbol.asyncIterator]();
    expect((await events.next()).value).toMatchObject({ type: 'put' });
    expect((await events.next()).value).toMatchObject({ type: 'delete' });
    await watch.close();
  },
);

test('a session that watches for a late put of one key does not delete its other keys', async () => {
  const [etcd, name] = [openClient(), unique('rw')];
  const session = await Session.open(etcd);
  const own = `${name}/read/${session.leaseId.toString(16)}-`;
  (await session.latePuts.use(`${own}lost`, session.signal)).release(prefix(own));
  await etcd.put(`${own}lost`, '', { lease: session.leaseId });
  await expect.poll(() => etcd.get(`${own}lost`)).toBeUndefined();
  const held = await new RWMutex(session, name).readLock();
  expect(held.key.startsWith(own)).toBe(true);
  await etcd.put(`${own}lost`, '', { lease: session.leaseId });
  await expect.poll(() => etcd.get(`${own}lost`)).toBeUndefined();
  expect((await etcd.get(held.key))?.createRevision).toBe(held.token);
  await held.release();
});

test('a session deletes a late put that took effect before the session created its watch for late puts', async () => {
  const [etcd, name] = [openClient(), unique('rw')];
  const session = await Session.open(etcd);
  const own = `${name}/read/${session.leaseId.toString(16)}-`;
  await etcd.put(`${own}lost`, '', { lease: session.leaseId });
  (await session.latePuts.use(`${own}lost`, session.signal)).release(prefix(own));
  await expect.poll(() => etcd.get(`${own}lost`)).toBeUndefined();
});

test('the end of a session stops the timer of its search for late puts, so that the session can be freed', async () => {
  const clock = new VirtualClock();
  try {
    const lifetime = new AbortController();
    const client = openClient();
    const timers = clock.timers;
    const latePuts = new LatePuts(client, 1n, lifetime.signal, LATE_PUT_TIMES);
    const use = await latePuts.use('a', lifetime.signal);
    use.release();
    expect(clock.timers).toBe(timers + 1);
    lifetime.abort();
    expect(clock.timers).toBe(timers);
  } finally {
    clock.restore();
  }
});
