import { Election, type Held, Mutex, RWMutex, Semaphore, withLock } from '../../src/locks.js';
import { Barrier, WorkQueue } from '../../src/recipes.js';
import { type Arena, type Party, type Scenario, TTL_S, unlessFailed } from './arena.js';

/** What a party does. */
type Part = (party: Party) => Promise<void>;

/** Returns a scenario whose parties begin at the same time. `partsOf` returns what each of them does, by its name. */
function scenario(name: string, partsOf: (arena: Arena) => Readonly<Record<string, Part>>): Scenario {
  return {
    name,
    prepare: async (arena) => {
      const parts = partsOf(arena);
      const parties = await arena.open(Object.keys(parts));
      return new Map(parties.map((party) => [party.name, () => (parts[party.name] as Part)(party)]));
    },
  };
}

/** Returns a part that calls `acquire`, and holds what it resolves with for a moment. */
function holding(
  arena: Arena,
  acquire: (party: Party) => Promise<Held | undefined>,
  options: { readonly isShared?: boolean } = {},
): Part {
  return async (party) => {
    const held = await unlessFailed(acquire(party));
    if (held !== undefined) await arena.holds(party.name, held, options.isShared);
  };
}

const LOCK = 'x';
const locking = (arena: Arena): Part => holding(arena, ({ session }) => new Mutex(session, LOCK).lock());

/** Reports a write whose result contradicts the number of times that etcd applied it. */
function writing(arena: Arena, retryWrites: boolean): Part {
  const most = retryWrites ? 1 : 2;
  return async ({ client }) => {
    await client.put('log', 'once', { retryWrites }).then(
      () => arena.atEnd(() => arena.counts('log', 1, most)),
      (error) => arena.atEnd(() => arena.counts('log', 0, error.outcome === 'unknown' ? most : 0)),
    );
  };
}

export const SCENARIOS: readonly Scenario[] = [
  scenario('two contenders of a mutex', (arena) => ({ A: locking(arena), B: locking(arena) })),
  scenario('a contender that locks twice', (arena) => ({
    A: async (party) => {
      await locking(arena)(party);
      await locking(arena)(party);
    },
    B: locking(arena),
  })),
  scenario('lock beside tryLock', (arena) => ({
    A: locking(arena),
    B: holding(arena, ({ session }) => new Mutex(session, LOCK).tryLock()),
  })),
  scenario('a waiter that is canceled', (arena) => {
    const cancel = new AbortController();
    arena.addFault('B cancels', 'B', () => cancel.abort());
    return {
      A: locking(arena),
      B: holding(arena, ({ session }) => new Mutex(session, LOCK).lock({ signal: cancel.signal })),
    };
  }),
  scenario('two lockers in one session', (arena) => ({
    A: async (party) => void (await Promise.all([locking(arena)(party), locking(arena)(party)])),
    B: locking(arena),
  })),
  scenario('a reader and a writer', (arena) => ({
    A: holding(arena, ({ session }) => new RWMutex(session, LOCK).readLock(), { isShared: true }),
    B: holding(arena, ({ session }) => new RWMutex(session, LOCK).lock()),
  })),
  scenario('a semaphore with one permit', (arena) => {
    const part = holding(arena, ({ session }) => new Semaphore(session, LOCK, 1).acquire());
    return { A: part, B: part };
  }),
  scenario('an election', (arena) => {
    const part = holding(arena, ({ session, name }) => new Election(session, LOCK).campaign(name));
    return { A: part, B: part };
  }),
  scenario('withLock beside a contender', (arena) => ({
    A: async ({ client }) => {
      await unlessFailed(withLock(client, LOCK, { ttl: TTL_S }, (held) => arena.holds('A', held)));
    },
    B: locking(arena),
  })),
  scenario('a write with retryWrites', (arena) => ({ A: writing(arena, true) })),
  scenario('a write without retryWrites', (arena) => ({ A: writing(arena, false) })),
  scenario('a barrier', () => ({
    A: async ({ client }) => {
      const barrier = new Barrier(client, LOCK);
      await unlessFailed(barrier.hold());
      while ((await unlessFailed(barrier.release())) === undefined);
    },
    B: async ({ client }) => {
      await unlessFailed(new Barrier(client, LOCK).wait());
    },
  })),
  scenario('one job and two workers', (arena) => {
    let completed = 0;
    arena.atEnd(() => {
      if (completed > 1) arena.breaks(`the job was completed ${completed} times`);
    });
    const working: Part = async ({ client, session }) => {
      const job = await unlessFailed(new WorkQueue(client, 'jobs').take(session, { maxWaitMs: 10_000 }));
      if (job !== undefined && (await unlessFailed(job.complete().then(() => true)))) completed += 1;
    };
    return {
      A: async (party) => {
        await unlessFailed(new WorkQueue(party.client, 'jobs').enqueue('job', { id: '1' }));
        await working(party);
      },
      B: working,
    };
  }),
  scenario('three contenders of a mutex', (arena) => ({ A: locking(arena), B: locking(arena), C: locking(arena) })),
];
