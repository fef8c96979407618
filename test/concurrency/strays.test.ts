import { expect, test } from 'vitest';
import { RWMutex, SelfHealingSession, Session } from '../../src/concurrency/index.js';
import type { Client, UnaryCall } from '../../src/index.js';
import { pause, settledWithin } from '../../src/runtime/timers.js';
import { openClient, unique } from '../support/client.js';
import { answerLost } from '../support/transactions.js';

// Puts whose answers are lost may come through late, and their keys are cleared away then: but for what is in use again.

/** What becomes of calls; each `undefined` is as usual. */
interface Network {
  /** The answer of the next transaction is lost. */
  losesAnswer: boolean;
  /** The next transaction is held up, and taken for lost. */
  delaysPut: boolean;
  /** The next look at a key is held up: before etcd sees it, or on the way back. */
  delaysLook: 'there' | 'back' | undefined;
  /** What is held up goes on. */
  goOn(): void;
}

function open(): { readonly etcd: Client; readonly network: Network } {
  let goOn = (): void => {};
  let held = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  const network: Network = {
    losesAnswer: false,
    delaysPut: false,
    delaysLook: undefined,
    goOn: () => {
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
  const look = async <Q, R>(call: UnaryCall<Q, R>, next: (call: UnaryCall<Q, R>) => Promise<R>): Promise<R> => {
    const delay = network.delaysLook;
    network.delaysLook = undefined;
    const until = held;
    if (delay === 'there') await until;
    const response = await next(call);
    if (delay === 'back') await until;
    return response;
  };
  const etcd = openClient({
    interceptors: [
      {
        unary: (call, next) => {
          if (call.method.path.endsWith('/Txn')) return put(call, next);
          return call.method.path.endsWith('/Range') ? look(call, next) : next(call);
        },
      },
    ],
  });
  return { etcd, network };
}

/** Registered and unregistered, with a put that may yet come; its clearing away has begun, and is held up. */
async function beingCleared(
  session: SelfHealingSession,
  network: Network,
  key: string,
  delay: 'there' | 'back',
): Promise<void> {
  network.losesAnswer = true;
  await session.register(key, 'v');
  network.delaysLook = undefined;
  await session.unregister(key);
  network.delaysLook = delay;
  await expect.poll(() => network.delaysLook).toBeUndefined();
}

test('a key that is registered again while it is cleared away stays', async () => {
  const { etcd, network } = open();
  const [session, key] = [await SelfHealingSession.open(etcd), unique()];
  await beingCleared(session, network, key, 'there');
  const registering = session.register(key, 'again');
  await settledWithin(200, registering);
  network.goOn();
  await registering;
  await pause(300);
  expect((await etcd.get(key))?.text()).toBe('again');
});

test('clearing away that ends late takes none with it that was begun since', async () => {
  const { etcd, network } = open();
  const [session, key] = [await SelfHealingSession.open(etcd), unique()];
  await beingCleared(session, network, key, 'back');
  network.losesAnswer = true;
  const registering = session.register(key, 'v');
  if (!(await settledWithin(200, registering))) network.goOn();
  await registering;
  await session.unregister(key);
  network.goOn();
  await pause(300);
  await session.register(key, 'again');
  await pause(300);
  expect((await etcd.get(key))?.text()).toBe('again');
});

test.each([
  ['text', unique()],
  ['no UTF-8', Uint8Array.from([0xff, 0xfe, ...Buffer.from(unique())])],
])('a put that comes when its key (%s) was registered anew and unregistered is cleared away', async (_, key) => {
  const { etcd, network } = open();
  const session = await SelfHealingSession.open(etcd);
  network.delaysPut = true;
  await session.register(key, 'first');
  await session.register(key, 'second');
  await session.unregister(key);
  const watch = etcd.watch(key);
  await watch.created();
  network.goOn();
  const events = watch[Symbol.asyncIterator]();
  expect((await events.next()).value).toMatchObject({ type: 'put' });
  expect((await events.next()).value).toMatchObject({ type: 'delete' });
  await watch.close();
});

test('a session that looks out for one lost key leaves its others alone', async () => {
  const [etcd, name] = [openClient(), unique('rw')];
  const session = await Session.open(etcd);
  const own = `${name}/read/${session.leaseId.toString(16)}-`;
  session.strays(own).add(`${own}lost`);
  await etcd.put(`${own}lost`, '', { lease: session.leaseId });
  await expect.poll(() => etcd.get(`${own}lost`)).toBeUndefined();
  const held = await new RWMutex(session, name).readLock();
  expect(held.key.startsWith(own)).toBe(true);
  await etcd.put(`${own}lost`, '', { lease: session.leaseId });
  await expect.poll(() => etcd.get(`${own}lost`)).toBeUndefined();
  expect((await etcd.get(held.key))?.createRevision).toBe(held.token);
  await held.unlock();
});

test('a lost put that came through before anybody looked is taken back too', async () => {
  const [etcd, name] = [openClient(), unique('rw')];
  const session = await Session.open(etcd);
  const own = `${name}/read/${session.leaseId.toString(16)}-`;
  await etcd.put(`${own}lost`, '', { lease: session.leaseId });
  session.strays(own).add(`${own}lost`);
  await expect.poll(() => etcd.get(`${own}lost`)).toBeUndefined();
});
