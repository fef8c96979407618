import { setTimeout as pause } from 'node:timers/promises';
import { describe, expect, inject, test } from 'vitest';
import type { RequestOp, TxnRequest } from '../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../src/gen/methods.js';
import { type Client, op, prefix } from '../../src/index.js';
import * as locks from '../../src/locks.js';
import * as recipes from '../../src/recipes.js';
import type { Init } from '../../src/wire/protobuf/writer.js';
import { openClient, unique } from '../support/client.js';

// A paused member, a proxy or a network may deliver a copy of any write at any later time (rule S25 in
// docs/semantics.md). Each history below is a sequence of steps that use one exported class or function, such as Mutex.
// The tests send one write of a history again after every later step, and compare the store's contents with the
// contents after a run without copies.

const { Election, Mutex, ReentrantMutex, RWMutex, Semaphore, SelfHealingSession, Session } = locks;
const { lead, tryWithLock, withLock, withLocks } = locks;
const { Barrier, DoubleBarrier, Etcd3Mutex, PriorityQueue, Queue, RateLimiter, stm, WorkQueue } = recipes;

type Step = () => Promise<unknown>;

/** Returns the steps of one run. The tests send again only writes of the client `etcd`, never writes of `other`. */
type History = (etcd: Client, other: Client, name: string) => Promise<readonly Step[]>;

/** Returns a history of a lock with the methods of `Mutex`. */
function lockHistory(Lock: typeof Mutex | typeof Etcd3Mutex): History {
  return async (etcd, other, name) => {
    const [own, others] = [new Lock(await Session.open(etcd), name), new Lock(await Session.open(other), name)];
    let held: locks.Held | undefined;
    let waiting: Promise<locks.Held> | undefined;
    return [
      async () => (held = await own.lock()),
      () => unlock(held),
      async () => (held = await others.lock()),
      async () => {
        waiting = own.lock();
        await expect.poll(async () => (await other.range(prefix(`${name}/`))).count).toBe(2);
      },
      async () => {
        await unlock(held);
        held = await waiting;
      },
      () => unlock(held),
      async () => (held = await own.tryLock()),
      () => unlock(held),
      async () => (held = await others.lock()),
    ];
  };
}

/** A history for each exported class and function that writes. The last test fails if such an export has no history. */
const HISTORIES: Readonly<Record<string, History>> = {
  Session: async (etcd, other, name) => {
    let session = await Session.open(etcd);
    return [
      () => other.put(name, 'x', { lease: session.leaseId }),
      async () => unlock(await new Mutex(session, `${name}/lock`).lock()),
      () => new Election(session, `${name}/election`).campaign('A'),
      async () => {
        await session.orphan();
        session = await Session.open(etcd, { lease: session.leaseId });
      },
      async () => (await new Election(session, `${name}/election`).campaign('B')).resign(),
      async () => unlock(await new Mutex(session, `${name}/lock`).lock()),
      () => session.close(),
      () => new Election(session, `${name}/election`).campaign('C').catch(() => {}),
    ];
  },
  Mutex: lockHistory(Mutex),
  Etcd3Mutex: lockHistory(Etcd3Mutex),
  withLock: async (etcd, other, name) => [
    () => withLock(etcd, name, () => {}),
    async () => new Mutex(await Session.open(other), name).lock(),
  ],
  tryWithLock: async (etcd, other, name) => [
    () => tryWithLock(etcd, name, () => {}),
    async () => new Mutex(await Session.open(other), name).lock(),
  ],
  withLocks: async (etcd, other, name) => [
    () => withLocks(etcd, [`${name}/a`, `${name}/b`], () => {}),
    async () => new Mutex(await Session.open(other), `${name}/a`).lock(),
    async () => new Mutex(await Session.open(other), `${name}/b`).lock(),
  ],
  lead: async (etcd, other, name) => [
    () => lead(etcd, name, { value: 'A' }, ({ held }) => held.proclaim('B')),
    async () => new Election(await Session.open(other), name).campaign('C'),
  ],
  ReentrantMutex: async (etcd, other, name) => {
    const [own, others] = [
      new ReentrantMutex(await Session.open(etcd), name),
      new Mutex(await Session.open(other), name),
    ];
    const holds: locks.ReentrantHeld[] = [];
    return [
      async () => holds.push(await own.lock('owner')),
      async () => holds.push(await own.lock('owner')),
      async () => holds.pop()?.release(),
      async () => holds.pop()?.release(),
      () => others.lock(),
    ];
  },
  RWMutex: async (etcd, other, name) => {
    const [own, others] = [new RWMutex(await Session.open(etcd), name), new RWMutex(await Session.open(other), name)];
    const holds: locks.Held[] = [];
    return [
      async () => holds.push(await own.readLock()),
      async () => holds.push(await own.readLock()),
      () => unlock(holds.pop()),
      () => unlock(holds.pop()),
      async () => holds.push(await own.lock()),
      () => unlock(holds.pop()),
      () => others.lock(),
    ];
  },
  Election: async (etcd, other, name) => {
    const [own, others] = [new Election(await Session.open(etcd), name), new Election(await Session.open(other), name)];
    let leadership: locks.Leadership | undefined;
    return [
      async () => (leadership = await own.campaign('A')),
      () => leadership?.proclaim('B') as Promise<unknown>,
      () => leadership?.proclaim('C') as Promise<unknown>,
      () => leadership?.resign() as Promise<unknown>,
      async () => (leadership = await own.campaign('D')),
      () => leadership?.proclaim('E') as Promise<unknown>,
      () => leadership?.resign() as Promise<unknown>,
      () => others.campaign('F'),
    ];
  },
  Semaphore: async (etcd, other, name) => {
    const own = new Semaphore(await Session.open(etcd), name, 2);
    const others = new Semaphore(await Session.open(other), name, 2);
    const permits: locks.Held[] = [];
    // A waiter holds the semaphore's gate, a lock, while it takes a permit, and releases the gate in the background.
    const acquire = async (semaphore: locks.Semaphore): Promise<void> => {
      permits.push(await semaphore.acquire());
      await expect.poll(async () => (await other.range(prefix(`${name}/gate/`))).count).toBe(0);
    };
    return [
      () => acquire(own),
      () => acquire(own),
      () => unlock(permits.pop()),
      () => unlock(permits.pop()),
      () => acquire(others),
      () => acquire(others),
    ];
  },
  Barrier: async (etcd, other, name) => {
    const [own, others] = [new Barrier(etcd, name), new Barrier(other, name)];
    return [
      () => own.hold(),
      () => own.release(),
      () => others.hold(),
      () => others.release(),
      () => own.hold(),
      () => others.release(),
    ];
  },
  DoubleBarrier: async (etcd, other, name) => {
    const both = [
      new DoubleBarrier(await Session.open(etcd), name, 2),
      new DoubleBarrier(await Session.open(other), name, 2),
    ];
    const all = (action: (barrier: recipes.DoubleBarrier) => Promise<void>) => Promise.all(both.map(action));
    return [
      () => both[0]?.enter({ maxWaitMs: 100 }).catch(() => {}) as Promise<unknown>,
      () => all((barrier) => barrier.enter()),
      () => all((barrier) => barrier.leave()),
      () => all((barrier) => barrier.enter()),
      () => all((barrier) => barrier.leave()),
    ];
  },
  Queue: async (etcd, other, name) => {
    const [own, others] = [new Queue(etcd, name), new Queue(other, name)];
    const [session, otherSession] = [await Session.open(etcd), await Session.open(other)];
    return [
      () => own.enqueue('a'),
      () => own.enqueue('b'),
      () => dequeue(others, otherSession, other, name),
      () => dequeue(own, session, other, name),
      () => others.enqueue('c'),
    ];
  },
  PriorityQueue: async (etcd, other, name) => {
    const [own, others] = [new PriorityQueue(etcd, name), new PriorityQueue(other, name)];
    const [session, otherSession] = [await Session.open(etcd), await Session.open(other)];
    return [
      () => own.enqueue('a', 2),
      () => own.enqueue('b', 1),
      () => dequeue(others, otherSession, other, name),
      () => dequeue(own, session, other, name),
      () => others.enqueue('c', 1),
    ];
  },
  WorkQueue: async (etcd, other, name) => {
    const [own, others] = [new WorkQueue(etcd, name), new WorkQueue(other, name)];
    const [session, otherSession] = [await Session.open(etcd), await Session.open(other)];
    return [
      () => own.enqueue('a', { id: 'a' }),
      async () => (await own.take(session)).retry({ delayMs: 0 }),
      async () => (await own.take(session)).complete(),
      () => own.enqueue('without an ID'),
      async () => (await others.take(otherSession)).complete(),
      () => own.enqueue('without an ID, discarded'),
      async () => (await others.take(otherSession)).bury('failed'),
      async () => others.discard((await others.dead())[0]?.id as string),
      () => own.enqueue('b', { id: 'b', delayMs: 1 }),
      async () => (await others.take(otherSession)).retry({ delayMs: 0 }),
      async () => (await own.take(session)).bury('failed'),
      () => own.requeue('b'),
      async () => (await others.take(otherSession)).bury('failed'),
      () => own.discard('b'),
      () => others.enqueue('c', { id: 'c' }),
    ];
  },
  Job: async (etcd, other, name) => {
    const [own, others] = [new WorkQueue(etcd, name), new WorkQueue(other, name)];
    const [session, otherSession] = [await Session.open(etcd), await Session.open(other)];
    let job: recipes.Job | undefined;
    return [
      () => own.enqueue('a', { id: 'a' }),
      async () => (job = await own.take(session)),
      () => job?.held.release() as Promise<void>,
      async () => (job = await own.take(session)),
      () => job?.complete([op.put(`${name}-result`, 'own')]) as Promise<void>,
      () => others.enqueue('b', { id: 'b' }),
      async () => (await others.take(otherSession)).complete([op.put(`${name}-result`, 'of another')]),
    ];
  },
  RateLimiter: async (etcd, other, name) => {
    const options = { perSecond: 0.001, burst: 1_000 };
    const [own, others] = [new RateLimiter(etcd, name, options), new RateLimiter(other, name, options)];
    return [() => own.take(), () => own.tryTake(2), () => others.take(), () => own.take(3)];
  },
  stm: async (etcd, other, name) => {
    await other.put(name, '0');
    const increment = (client: Client): Promise<void> =>
      stm(client, async (tx) => tx.put(name, String(Number(await tx.text(name)) + 1)));
    return [() => increment(etcd), () => increment(etcd), () => increment(other), () => increment(etcd)];
  },
  SelfHealingSession: async (etcd, other, name) => {
    const session = await SelfHealingSession.open(etcd);
    return [
      () => session.register(name, 'first'),
      () => session.register(name, 'second'),
      () => session.unregister(name),
      () => session.register(name, 'third'),
      () => session.unregister(name),
      async () => (await SelfHealingSession.open(other)).register(name, 'of another'),
    ];
  },
  Service: async (etcd, other, name) => {
    const session = await Session.open(etcd);
    const service = new recipes.Service(etcd, name);
    let registration: recipes.Registration | undefined;
    const register = async (address: string): Promise<void> => {
      registration = await service.register(session, 'id', { address });
    };
    return [
      () => register('first:1'),
      () => register('second:2'),
      () => registration?.close() as Promise<void>,
      () => register('third:3'),
      () => registration?.close() as Promise<void>,
      async () =>
        new recipes.Service(other, name).register(await Session.open(other), 'id', { address: 'of-another:4' }),
    ];
  },
};

async function unlock(held: locks.Held | undefined): Promise<void> {
  await held?.release();
}

/** Dequeues an item, and waits until the consumer's queue key, which is deleted in the background, is gone. */
async function dequeue(
  queue: recipes.Queue | recipes.PriorityQueue,
  session: locks.Session,
  reader: Client,
  name: string,
): Promise<void> {
  await queue.dequeue(session);
  await expect.poll(async () => (await reader.range(prefix(`__${name}/consumers/`))).count).toBe(0);
}

interface Write {
  /** Number of steps that were complete when the client sent the write. */
  readonly step: number;
  readonly path: string;
  readonly sendAgain: () => Promise<unknown>;
}

/** Returns a client, and a list to which the client adds every write that it sends. */
function recordedClient(stepsDone: () => number): { readonly etcd: Client; readonly writes: Write[] } {
  const writes: Write[] = [];
  const etcd = openClient({
    interceptors: [
      {
        unary: (call, next) => {
          if (isWrite(call.method.path, call.request)) {
            const { signal: _, ...copy } = call;
            writes.push({
              step: stepsDone(),
              path: call.method.path,
              sendAgain: () => next({ ...copy, deadline: Number.POSITIVE_INFINITY }),
            });
          }
          return next(call);
        },
      },
    ],
  });
  return { etcd, writes };
}

function isWrite(path: string, request: unknown): boolean {
  if (path === methods.kv.txn.path) return writesKeys(request as Init<TxnRequest>);
  return ([methods.kv.put, methods.kv.deleteRange, methods.lease.leaseRevoke] as { path: string }[]).some(
    (method) => method.path === path,
  );
}

function writesKeys({ success = [], failure = [] }: Init<TxnRequest>): boolean {
  return [...success, ...failure].some(({ request }: Init<RequestOp>) => {
    if (request?.case === 'requestTxn') return writesKeys(request.value);
    return request?.case === 'requestPut' || request?.case === 'requestDeleteRange';
  });
}

/**
 * Describes each key under a name: its value, whether it has a lease, and its version. Replaces the name and the random
 * parts by constants, so that the descriptions of two runs can be compared.
 */
async function contents(reader: Client, name: string): Promise<readonly string[]> {
  const keys: string[] = [];
  for (const start of [name, `__${name}`]) {
    for (const kv of (await reader.range(prefix(start))).kvs) {
      const key = kv.key.replace(name, 'NAME').replace(/[0-9a-f]{13,}/g, 'X');
      // The key `epoch` is a counter, whose version and value do not matter.
      const isCounter = key.endsWith('/epoch');
      const value = kv
        .text()
        .replace(name, 'NAME')
        .replace(/[0-9a-f]{13,}/g, 'X');
      keys.push(
        isCounter ? key : `${key} = ${value}, ${kv.lease === 0n ? 'no lease' : 'lease'}, put ${kv.version} times`,
      );
    }
  }
  return keys.sort();
}

/**
 * Runs the steps of a history. Returns the writes and, without `expected`, the store's contents after each step. With
 * `copied`, sends the write with this index again after each later step. The contents after each step must be
 * `expected` before and after the copy, and the copy must put no key in between.
 */
async function play(
  history: History,
  copied: number | undefined,
  expected?: readonly (readonly string[])[],
): Promise<Played> {
  const [name, reader] = [unique('late'), openClient()];
  let done = 0;
  const { etcd, writes } = recordedClient(() => done);
  const states: (readonly string[])[] = [];
  const steps = await history(etcd, openClient(), name);
  for (const [index, step] of steps.entries()) {
    await step();
    done += 1;
    const write = copied === undefined ? undefined : writes[copied];
    const message = `after step ${index + 1}, with a copy of ${write?.path} of step ${write?.step}`;
    if (expected === undefined) states.push(await contents(reader, name));
    else await expect.poll(() => contents(reader, name), { message }).toEqual(expected[index]);
    if (write !== undefined) expect(await putsOf(write, reader, name), message).toEqual([]);
  }
  const end = async (): Promise<void> => {
    await etcd.close({ drainMs: 50 });
  };
  return { name, reader, states, writes, end };
}

interface Played {
  readonly name: string;
  readonly reader: Client;
  readonly states: readonly (readonly string[])[];
  readonly writes: readonly Write[];
  readonly end: () => Promise<void>;
}

/**
 * Sends a copy of the write, and returns the keys that the copy has put, except the epoch of a DoubleBarrier: a changed
 * epoch only makes the participants read the barrier again.
 */
async function putsOf(write: Write, reader: Client, name: string): Promise<readonly string[]> {
  const { header } = await reader.range(name);
  // The server may refuse the copy. A refused copy changes nothing.
  await write.sendAgain().catch(() => {});
  const changed = { minModRevision: header.revision + 1n, keysOnly: true };
  const ranges = await Promise.all([name, `__${name}`].map((start) => reader.range(prefix(start), changed)));
  return ranges.flatMap(({ kvs }) => kvs.map((kv) => kv.key)).filter((key) => key !== `${name}/epoch`);
}

/** How long the test pauses before each time that it sends all writes of a history again, in milliseconds. */
const DELAYS_MS = inject('thorough') ? [1, 1_000, 5_000, 30_000] : [1, 1_000];

describe('a late copy of a write', () => {
  test.for(Object.entries(HISTORIES))('does not change the keys and values that %s has stored', async ([, history]) => {
    const { states, writes, end } = await play(history, undefined);
    await end();
    expect(writes.length).toBeGreaterThan(0);
    await Promise.all(
      writes.map(async (_, copied) => {
        const played = await play(history, copied, states);
        await played.end();
      }),
    );
  });

  test('puts no key of any class or function, however late it arrives', async () => {
    await Promise.all(
      Object.values(HISTORIES).map(async (history) => {
        const { name, reader, states, writes, end } = await play(history, undefined);
        await expect.poll(() => contents(reader, name)).toEqual(states.at(-1));
        for (const delayMs of DELAYS_MS) {
          await pause(delayMs);
          for (const write of writes) expect(await putsOf(write, reader, name), write.path).toEqual([]);
        }
        expect(await contents(reader, name)).toEqual(states.at(-1));
        await end();
        for (const write of writes) expect(await putsOf(write, reader, name), write.path).toEqual([]);
      }),
    );
  });

  test('is tested for every exported class and function that writes', () => {
    const exported = [...Object.keys(locks), ...Object.keys(recipes)];
    const withoutWrites = [
      'history',
      'inspectLock',
      'observe',
      'persisted',
      'ServiceView',
      'shardOwners',
      'withSessions',
    ];
    // The simulation sends copies of the writes of these, in workloads of their own.
    const simulated = ['ExpiringKeys', 'reconcile', 'schedule', 'shards', 'Slots'];
    expect(exported.filter((name) => !(name in HISTORIES)).sort()).toEqual([...withoutWrites, ...simulated].sort());
  });
});
