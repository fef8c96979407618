import { pause, pauseUntil } from '../../src/base/index.js';
import { type Client, compare, op, prefix } from '../../src/index.js';
import { type Held, Mutex, ReentrantMutex } from '../../src/locks.js';
import {
  Barrier,
  DoubleBarrier,
  Etcd3Mutex,
  ExpiringKeys,
  Queue,
  RateLimiter,
  reconcile,
  Service,
  Slots,
  type StmTransaction,
  schedule,
  shards,
  stm,
  WorkQueue,
} from '../../src/recipes.js';
import { type Arena, type Party, type Scenario, TTL_S } from './arena.js';
import { ahead, holding, LOCK, locking, type Part, scenario } from './parts.js';
import { SLOWER } from './world.js';

const enqueueJob = (client: Client): Promise<unknown> => new WorkQueue(client, 'jobs').enqueue('job', { id: '1' });
const jobAhead = (_: unknown, arena: Arena): Promise<void> => ahead(arena, enqueueJob);

/** Returns a part that takes a job, and completes it. */
function working(arena: Arena): Part {
  let completed = 0;
  arena.atEnd(() => {
    if (completed > 1) arena.breaks(`the job was completed ${completed} times`);
  });
  return async ({ client, session }) => {
    const job = await arena.unlessFailed(new WorkQueue(client, 'jobs').take(session, { maxWaitMs: 10_000 }), {
      mayFail: true,
    });
    if (job !== undefined && (await arena.unlessFailed(job.complete().then(() => true)))) completed += 1;
  };
}

/** Returns a part that takes an item from a queue. */
function consuming(arena: Arena): Part {
  const consumers: string[] = [];
  arena.atEnd(() => {
    const isLost = consumers.length === 0 && arena.hasNoFault;
    if (isLost || consumers.length > 1) arena.breaks(`the item was consumed by: ${consumers}`);
  });
  return async ({ client, session, name }) => {
    const options = { maxWaitMs: 3_000 * TTL_S };
    const item = await arena.unlessFailed(new Queue(client, 'q').dequeue(session, options), { mayFail: true });
    if (item !== undefined) consumers.push(name);
  };
}

/** A worker that has the shard, and goes on when `goOn` is called. */
interface Working {
  readonly goOn: () => void;
  readonly running: Promise<void>;
}

/** Works with a shard once, and then stops. `begin` runs before the work. */
async function workingOnce(
  arena: Arena,
  { client, name }: Party,
  begin: () => Promise<void> = async () => {},
): Promise<void> {
  const stop = new AbortController();
  const options = { count: 1, ttl: TTL_S, signal: stop.signal, onFailure: () => {} };
  await shards(client, 'w', options, async ({ held }) => {
    await begin();
    await arena.holds(name, held, { isKept: true });
    stop.abort();
  });
}

/** The scenarios of the recipes. */
export const RECIPE_SCENARIOS: readonly Scenario[] = [
  scenario('a barrier', (arena) => {
    let isHeld = false;
    const note = (held: boolean): void => {
      arena.world.touch('barrier', 'write');
      isHeld = held;
    };
    return {
      A: async ({ client, session }) => {
        const barrier = new Barrier(client, LOCK);
        if (await arena.unlessFailed(barrier.hold())) {
          note(true);
          // A holds the barrier until the answer arrives.
          await arena.unlessFailed(client.get(LOCK));
        }
        note(false);
        while (!session.signal.aborted && (await arena.unlessFailed(barrier.release())) === undefined);
      },
      B: async ({ client }) => {
        for (const _ of [1, 2]) {
          arena.world.touch('barrier', 'read');
          const wasHeld = isHeld;
          // The key of a barrier has no lease, so the wait for a party that was killed has no end.
          const wait = new Barrier(client, LOCK).wait({ maxWaitMs: 2_000 * TTL_S }).then(() => true);
          const hasEnded = await arena.unlessFailed(wait);
          if (hasEnded && wasHeld && isHeld) arena.breaks('the wait ended although A held the barrier');
        }
      },
    };
  }),
  scenario('a waiter for a barrier that holds a lock', (arena) => ({
    A: async (party) => {
      const barrier = new Barrier(party.client, 'barrier');
      if (!(await arena.unlessFailed(barrier.hold()))) return;
      const waiting = arena.unlessFailed(barrier.wait({ maxWaitMs: 1_000 * TTL_S }), { mayFail: true });
      // If A closes its client, the client waits for the release of the lock.
      const hold = holding(arena, ({ session }) => new Mutex(session, LOCK).lock(), { ms: 500 });
      await Promise.all([waiting, hold(party)]);
    },
  })),
  scenario(
    'one job and two workers',
    (arena) => {
      const part = working(arena);
      return { A: part, B: part };
    },
    jobAhead,
  ),
  scenario('a job that a worker waits for', (arena) => ({
    A: async ({ client }) => {
      await arena.unlessFailed(enqueueJob(client));
    },
    B: working(arena),
  })),
  scenario('a tick and two schedulers', (arena) => {
    const part: Part = async ({ client }) => {
      const stop = new AbortController();
      const options = { ttl: TTL_S, signal: stop.signal, onFailure: () => {} };
      await schedule(client, 's', 1_000, options, async (tick) => {
        await tick.complete([op.put(`done/${tick.time.getTime()}`, '')]).finally(() => stop.abort());
      });
    };
    arena.atEnd(() => arena.putsOnce('done/'));
    return { A: part, B: part };
  }),
  scenario<Working>(
    'a shard that moves between two workers',
    (arena) => ({
      A: async (_, { goOn, running }) => {
        goOn();
        await running;
      },
      B: (party) => workingOnce(arena, party),
    }),
    (parties, arena) =>
      new Promise((resolve) => {
        const running = workingOnce(arena, parties[0], () => new Promise((goOn) => resolve({ goOn, running })));
      }),
  ),
  scenario('an Etcd3Mutex beside a client of etcd3', (arena) => ({
    A: holding(arena, ({ session }) => new Etcd3Mutex(session, LOCK).lock()),
    // The requests of `lock` and `unlock` of npm's etcd3. Its caller does not wait.
    B: async ({ client, session }) => {
      const free = {
        if: [compare.createRevision(LOCK, '==', 0n)],
        then: [op.put(LOCK, '', { lease: session })],
      } as const;
      const entered = await arena.unlessFailed(client.txn(free));
      if (entered?.succeeded) {
        arena.holdsKey('B', LOCK, entered.header.revision, session);
        await arena.unlessFailed(client.get('anything'));
        arena.leaves('B');
        await arena.unlessFailed(client.delete(LOCK));
      }
      // A copy of the transaction that arrives late puts the key again, until the lease ends.
      await arena.unlessFailed(session.close());
    },
  })),
  scenario('a tryTake beside two waiters', (arena) => {
    const slot = (take: (slots: Slots) => Promise<{ readonly held: Held } | undefined>, ms = 0): Part =>
      holding(arena, async ({ session }) => (await take(new Slots(session, LOCK, 1)))?.held, { ms });
    const trying = slot(async (slots) => {
      const { nowMs } = arena.world;
      const taken = await slots.tryTake();
      if (arena.hasNoFault && arena.world.nowMs > nowMs) arena.breaks('tryTake has waited');
      return taken;
    });
    return { A: slot((slots) => slots.take(), 500), B: slot((slots) => slots.take()), C: trying };
  }),
  scenario('two participants that enter a double barrier', (arena) => {
    const entering = new Set<string>();
    const part: Part = async ({ session, name }) => {
      arena.world.touch('barrier', 'write');
      entering.add(name);
      const hasEntered = new DoubleBarrier(session, LOCK, 2).enter({ maxWaitMs: 3_000 * TTL_S }).then(() => true);
      if ((await arena.unlessFailed(hasEntered)) && entering.size < 2) arena.breaks(`${name} has entered alone`);
    };
    return { A: part, B: part };
  }),
  scenario<ReadonlyMap<string, DoubleBarrier>>(
    'two participants that leave a double barrier',
    (arena) => {
      const leaving = new Set<string>();
      const part = async ({ name }: Party, barriers: ReadonlyMap<string, DoubleBarrier>): Promise<void> => {
        arena.world.touch('barrier', 'write');
        leaving.add(name);
        const leave = (barriers.get(name) as DoubleBarrier).leave({ maxWaitMs: 3_000 * TTL_S });
        const hasLeft = await arena.unlessFailed(leave.then(() => true));
        if (hasLeft && leaving.size < 2 && arena.hasNoFault) arena.breaks(`${name} has left alone`);
      };
      return { A: part, B: part };
    },
    async (parties) => {
      const barriers = new Map(parties.map(({ name, session }) => [name, new DoubleBarrier(session, LOCK, 2)]));
      await Promise.all([...barriers.values()].map((barrier) => barrier.enter()));
      return barriers;
    },
  ),
  scenario(
    'an item and two consumers',
    (arena) => {
      const part = consuming(arena);
      return { A: part, B: part };
    },
    (_, arena) => ahead(arena, (client) => new Queue(client, 'q').enqueue('item')),
  ),
  scenario('an item that a consumer waits for', (arena) => ({
    A: async ({ client }) => {
      await arena.unlessFailed(new Queue(client, 'q').enqueue('item'));
    },
    B: consuming(arena),
  })),
  scenario(
    'a job and two workers that run until they are stopped',
    (arena) => {
      arena.atEnd(() => arena.putsOnce('done/'));
      const part: Part = async ({ client }) => {
        const stop = new AbortController();
        const options = { ttl: TTL_S, signal: stop.signal, onFailure: () => {} };
        void pause(2_000 * TTL_S, stop.signal).then(() => stop.abort());
        const running = new WorkQueue(client, 'jobs').work(options, async (job) => {
          await job.complete([op.put(`done/${job.id}`, '')]);
          stop.abort();
        });
        await arena.unlessFailed(running);
        stop.abort();
      };
      return { A: part, B: part };
    },
    jobAhead,
  ),
  scenario('a rate limiter and two processes', (arena) => {
    const times: number[] = [];
    const part: Part = async ({ client }) => {
      const taking = new RateLimiter(client, 'limit', { perSecond: 1 }).take();
      if (!(await arena.unlessFailed(taking.then(() => true)))) return;
      arena.world.touch('limit', 'write');
      times.push(arena.world.nowMs);
    };
    arena.atEnd(() => {
      const [first = 0, second = Number.POSITIVE_INFINITY] = times.toSorted((a, b) => a - b);
      // The key of the limiter is gone with its lease.
      if (arena.keepsLeases && second - first < 1_000)
        arena.breaks(`two tokens were taken within ${second - first} ms`);
    });
    return { A: part, B: part };
  }),
  scenario('two transactions that count', (arena) => {
    let [least, most] = [0, 0];
    arena.atEnd(() => arena.counts('count', least, most));
    const part: Part = async ({ client }) => {
      const count = async (tx: StmTransaction): Promise<void> =>
        tx.put('count', `${Number((await tx.text('count')) ?? 0) + 1}`);
      // Without `retryWrites`, a transaction whose request arrives twice may count twice.
      const counting = stm(client, { retryWrites: true }, count);
      // A party that is killed does not come to the next lines.
      most += 1;
      await counting.then(
        () => {
          least += 1;
        },
        (error) => {
          if (error.outcome !== 'unknown') most -= 1;
        },
      );
    };
    return { A: part, B: part };
  }),
  scenario('a controller beside two puts', (arena) => ({
    A: async ({ client }) => {
      const stop = new AbortController();
      let seen: string | undefined;
      const check = async (): Promise<void> => {
        await pause(5_000 * TTL_S, stop.signal);
        const before = arena.valueOf('r/1');
        // Each event that is on its way arrives before time passes.
        await pause(1, stop.signal);
        const mayBeLate = stop.signal.aborted || arena.faults.some((label) => label.startsWith(SLOWER));
        if (!mayBeLate && ![before, arena.valueOf('r/1')].includes(seen))
          arena.breaks(`the handler has last seen ${seen}`);
        stop.abort();
      };
      void check();
      const reconciling = reconcile(client, prefix('r/'), { signal: stop.signal }, ({ kv }) => {
        seen = kv?.text();
      });
      await arena.unlessFailed(reconciling);
      stop.abort();
    },
    B: async ({ client }) => {
      await arena.unlessFailed(client.put('r/1', 'a'));
      await arena.unlessFailed(client.put('r/1', 'b'));
    },
  })),
  scenario('an endpoint of a service', (arena) => ({
    A: async ({ client, session }) => {
      const registering = new Service(client, 's').register(session, '1', { address: 'x' });
      const registration = await arena.unlessFailed(registering);
      const isGone = await arena.unlessFailed(registration?.close().then(() => true) ?? Promise.resolve(false));
      // etcd deletes the key of a session that was lost.
      if (isGone && !session.signal.aborted) arena.atEnd(() => arena.isMissing('s/1'));
    },
  })),
  scenario('two keys that expire', (arena) => ({
    A: async ({ client }) => {
      const keys = new ExpiringKeys(client);
      const untilMs = arena.world.nowMs + 1_000 * TTL_S;
      const putting = ['e/1', 'e/2'].map((key) => arena.unlessFailed(keys.put(key, 'value', { ttl: TTL_S })));
      const [first] = await Promise.all(putting);
      await pauseUntil(untilMs - 1);
      const isInTime = first !== undefined && arena.world.nowMs < untilMs;
      if (isInTime && arena.keepsLeases && arena.valueOf('e/1') === undefined)
        arena.breaks('the key has expired too early');
    },
  })),
  scenario('an owner that locks a reentrant mutex twice', (arena) => ({
    A: async ({ session }) => {
      const [mutex, owner] = [new ReentrantMutex(session, LOCK), {}];
      const outer = await arena.unlessFailed(mutex.lock(owner));
      if (outer === undefined) return;
      const inner = await arena.unlessFailed(mutex.lock(owner));
      await arena.holds('A', outer, { isKept: true });
      if (inner !== undefined) await arena.unlessFailed(inner.release());
      await arena.unlessFailed(outer.release());
    },
    B: locking(arena),
  })),
];
