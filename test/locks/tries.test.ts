import { expect, test } from 'vitest';
import { textOf } from '../../src/base/bytes.js';
import type { TxnRequest } from '../../src/gen/etcdserverpb/rpc.js';
import { type Client, type Interceptor, prefix } from '../../src/index.js';
import { Semaphore, Session } from '../../src/locks.js';
import { Slots } from '../../src/recipes.js';
import type { Init } from '../../src/wire/protobuf/writer.js';
import { openClient, unique } from '../support/client.js';
import { queueLength, TXN } from '../support/locks.js';

// A holder has the only thing. A waits for it with the gate, and B waits behind A. The holder gives the thing back, and
// D tries to take it before A has taken it.

const RANGE = '/etcdserverpb.KV/Range';

interface Takers {
  readonly take: () => Promise<{ release(): Promise<void> }>;
  readonly tryTake: () => Promise<{ release(): Promise<void> } | undefined>;
}

const KINDS = [
  {
    what: '`Slots.tryTake`',
    folder: 'slots',
    takersOf: async (etcd: Client, name: string): Promise<Takers> => {
      const slots = new Slots(await Session.open(etcd), name, 1);
      return { take: () => slots.take(), tryTake: () => slots.tryTake({ maxWaitMs: 10_000 }) };
    },
  },
  {
    what: '`Semaphore.tryAcquire`',
    folder: 'permits',
    takersOf: async (etcd: Client, name: string): Promise<Takers> => {
      const semaphore = new Semaphore(await Session.open(etcd), name, 1);
      return { take: () => semaphore.acquire(), tryTake: () => semaphore.tryAcquire({ maxWaitMs: 10_000 }) };
    },
  },
];

/** Returns an interceptor that delays the puts of keys that contain `text`, after `block` until `unblock`. */
function blockedPuts(text: string): { interceptor: Interceptor; block(): void; unblock(): void } {
  let blocked: Promise<void> | undefined;
  let unblock = (): void => {};
  const isPut = (request: unknown): boolean =>
    (request as Init<TxnRequest>).success?.some(
      ({ request: each }) => each?.case === 'requestPut' && textOf(each.value.key as Uint8Array).includes(text),
    ) === true;
  return {
    interceptor: {
      unary: async (call, next) => {
        if (call.method.path === TXN && isPut(call.request)) await blocked;
        return next(call);
      },
    },
    block: () => {
      blocked = new Promise((resolve) => {
        unblock = resolve;
      });
    },
    unblock: () => unblock(),
  };
}

test.for(KINDS.flatMap((kind) => [true, false].map((sharesSession) => ({ ...kind, sharesSession }))))(
  '$what ends as soon as nothing is free, although another contender waits before it (one session: $sharesSession)',
  async ({ folder, takersOf, sharesSession }) => {
    const name = unique('tries');
    const { interceptor, block, unblock } = blockedPuts(`${name}/${folder}/`);
    // Resolves when D has seen that the thing is free.
    let look = (): void => {};
    const looked = new Promise<void>((resolve) => {
      look = resolve;
    });
    const looking: Interceptor = {
      unary: async (call, next) => {
        const response = await next(call);
        if (call.method.path === RANGE && textOf((call.request as unknown as { key: Uint8Array }).key).includes(folder))
          look();
        return response;
      },
    };
    const etcd = openClient();
    const trying = openClient({ interceptors: [looking] });
    const a = await takersOf(openClient({ interceptors: [interceptor] }), name);
    const [holder, b] = [await takersOf(etcd, name), await takersOf(trying, name)];
    const d = sharesSession ? b : await takersOf(trying, name);
    const first = await holder.take();
    await queueLength(etcd, `${name}/gate`, 0);
    const second = a.take();
    await queueLength(etcd, `${name}/gate`, 1);
    const third = b.take();
    await queueLength(etcd, `${name}/gate`, 2);
    block();
    await first.release();
    const tried = d.tryTake();
    await looked;
    unblock();
    const taken = await second;
    expect(await tried).toBeUndefined();
    // The try leaves no key in the queue, and the contenders that wait get the thing.
    await queueLength(etcd, `${name}/gate`, 1);
    await taken.release();
    await (await third).release();
    await expect.poll(async () => (await etcd.range(prefix(`${name}/`))).count).toBe(0);
    expect(await d.tryTake()).toBeDefined();
  },
);
