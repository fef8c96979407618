import { pause } from '../../src/base/index.js';
import { compare, createKey, op, prefix } from '../../src/index.js';
import {
  Election,
  type Held,
  lead,
  Mutex,
  observe,
  RWMutex,
  SelfHealingSession,
  Semaphore,
  withLock,
} from '../../src/locks.js';
import { type Arena, type Scenario, TTL_S } from './arena.js';
import { fill, holding, LOCK, locking, type Part, scenario } from './parts.js';
import { RECIPE_SCENARIOS } from './recipe-scenarios.js';
import { SERVER } from './world.js';

/** Reports a write whose result contradicts the number of times that etcd applied it. */
function writing(arena: Arena, retryWrites: boolean, signal?: AbortSignal): Part {
  const most = (): number => (!retryWrites && arena.world.struck.some((label) => label.endsWith('sent twice')) ? 2 : 1);
  return async ({ client }) => {
    await client.put('log', 'once', { retryWrites, signal }).then(
      () => arena.atEnd(() => arena.counts('log', 1, most())),
      (error) => arena.atEnd(() => arena.counts('log', 0, error.outcome === 'unknown' ? most() : 0)),
    );
  };
}

export const SCENARIOS: readonly Scenario[] = [
  scenario('two contenders of a mutex', (arena) => {
    const part = locking(arena);
    return { A: part, B: part };
  }),
  scenario('a holder that takes its time', (arena) => ({
    A: holding(arena, ({ session }) => new Mutex(session, LOCK).lock(), { ms: 200 }),
    B: locking(arena),
  })),
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
    arena.addDecision('B cancels', 'B', () => cancel.abort());
    return {
      A: locking(arena),
      B: holding(arena, ({ session }) => new Mutex(session, LOCK).lock({ signal: cancel.signal })),
    };
  }),
  scenario('two lockers in one session', (arena) => ({
    A: async (party) => void (await Promise.all([locking(arena)(party), locking(arena)(party)])),
  })),
  scenario('a reader and a writer', (arena) => ({
    A: holding(arena, ({ session }) => new RWMutex(session, LOCK).readLock(), { isShared: true }),
    B: holding(arena, ({ session }) => new RWMutex(session, LOCK).lock()),
  })),
  scenario<Held>(
    'a contender for the only permit of a semaphore',
    (arena) => ({
      A: (_, permit) => arena.holds('A', permit, { writes: false }),
      B: holding(arena, ({ session }) => new Semaphore(session, LOCK, 1).acquire(), { writes: false }),
    }),
    ([{ session }]) => new Semaphore(session, LOCK, 1).acquire(),
  ),
  scenario('an election', (arena) => {
    const part = holding(arena, ({ session, name }) => new Election(session, LOCK).campaign(name));
    return { A: part, B: part };
  }),
  scenario('withLock beside a contender', (arena) => ({
    A: async ({ client }) => {
      await arena.unlessFailed(withLock(client, LOCK, { ttl: TTL_S }, (held) => arena.holds('A', held)));
    },
    B: locking(arena),
  })),
  scenario('a write with retryWrites', (arena) => ({ A: writing(arena, true) })),
  scenario('a write without retryWrites', (arena) => ({ A: writing(arena, false) })),
  scenario('a write with retryWrites that is canceled', (arena) => {
    const cancel = new AbortController();
    arena.addDecision('A cancels', 'A', () => cancel.abort());
    return {
      A: async (party) => {
        await writing(arena, true, cancel.signal)(party);
        // In this time, the client makes sure that no copy of a canceled write can be applied later.
        await pause(1_000 * TTL_S);
        const puts = arena.putsOf('log');
        if (arena.hasNoFault) arena.atEnd(() => arena.counts('log', puts, puts));
      },
    };
  }),
  scenario('an action that releases its lock when the signal aborts', (arena) => ({
    A: async ({ client }) => {
      const action = (held: Held): Promise<void> => {
        held.signal.addEventListener('abort', () => void arena.unlessFailed(held.release()));
        return arena.holds('A', held);
      };
      await arena.unlessFailed(withLock(client, LOCK, { ttl: TTL_S }, action));
    },
    B: locking(arena),
  })),
  scenario('lead beside a campaign', (arena) => ({
    A: async ({ client }) => {
      const options = { ttl: TTL_S, value: 'A' };
      await arena.unlessFailed(lead(client, LOCK, options, ({ held }) => arena.holds('A', held)));
    },
    B: holding(arena, ({ session }) => new Election(session, LOCK).campaign('B')),
  })),
  scenario('an observer of an election', (arena) => {
    const seen: string[] = [];
    arena.atEnd(() => {
      if (!['', '1', '2', '1,2'].includes(`${seen}`)) arena.breaks(`the observer has seen ${seen}`);
    });
    return {
      A: async ({ session }) => {
        const leadership = await arena.unlessFailed(new Election(session, LOCK).campaign('1'));
        if (leadership !== undefined) await arena.unlessFailed(leadership.proclaim('2'));
        if (leadership !== undefined) await arena.unlessFailed(leadership.resign());
      },
      B: async ({ client }) => {
        const enough = new AbortController();
        void pause(1_000 * TTL_S, enough.signal).then(() => enough.abort());
        const see = async (): Promise<void> => {
          for await (const leader of observe(client, LOCK, { signal: enough.signal })) seen.push(leader.text());
        };
        await arena.unlessFailed(see(), { mayFail: true });
        enough.abort();
      },
    };
  }),
  scenario('two creations of a key', (arena) => {
    const created: string[] = [];
    arena.atEnd(() => {
      if (created.length > 1) arena.breaks(`${created.join(' and ')} have created the key`);
      arena.counts('log', created.length, 1);
    });
    const part: Part = async ({ client, name }) => {
      const result = await arena.unlessFailed(createKey(client, 'log', name, { retryWrites: true }));
      if (result?.succeeded) created.push(name);
    };
    return { A: part, B: part };
  }),
  scenario('a transaction with retryWrites beside a key that comes and goes', (arena) => ({
    A: async ({ client }) => {
      const txn = { if: [compare.createRevision('key', '==', 0n)], then: [op.put('log', 'once')] } as const;
      await client.txn(txn, { retryWrites: true }).then(
        ({ succeeded }) => arena.atEnd(() => arena.counts('log', succeeded ? 1 : 0, succeeded ? 1 : 0)),
        (error) => arena.atEnd(() => arena.counts('log', 0, error.outcome === 'unknown' ? 1 : 0)),
      );
    },
    B: async ({ client }) => {
      await arena.unlessFailed(client.put('key', ''));
      await arena.unlessFailed(client.delete('key'));
    },
  })),
  scenario('a key of a self-healing session', (arena) => ({
    A: async ({ client }) => {
      const healing = await arena.unlessFailed(SelfHealingSession.open(client, { ttl: TTL_S }));
      if (healing === undefined) return;
      await arena.unlessFailed(healing.register('registered', 'A'));
      const isGone = await arena.unlessFailed(healing.unregister('registered').then(() => true));
      if (isGone) arena.atEnd(() => arena.isMissing('registered'));
      await healing.close();
    },
  })),
  scenario('two leases, one of which ends', (arena) => ({
    A: async ({ client, session }) => {
      const granted = await arena.unlessFailed(client.lease.grant({ ttl: TTL_S }));
      if (granted === undefined) return;
      const lease = client.lease.keepAlive(granted);
      await pause(2_000 * TTL_S, lease.signal);
      const isOneEnd = /^lease \w+ ends$/.test(`${arena.world.struck}`);
      const isLost = (id: bigint, signal: AbortSignal): boolean => arena.hasLease(id) && signal.aborted;
      if (isOneEnd && (isLost(session.leaseId, session.signal) || isLost(granted.id, lease.signal)))
        arena.breaks('both leases are lost');
      if (arena.hasNoFault && lease.signal.aborted) arena.breaks('the second lease is lost');
      lease.close();
    },
  })),
  scenario('two leases, one of which the server refuses to renew', (arena) => ({
    A: async ({ client, session }) => {
      const [first, second] = await Promise.all(
        [1, 2].map(() => arena.unlessFailed(client.lease.grant({ ttl: TTL_S }))),
      );
      if (first === undefined || second === undefined) return;
      const refused = client.lease.keepAlive(first);
      const renewed = client.lease.keepAlive(second);
      arena.addDecision('A stops the keepalive of the first lease', 'A', () => refused.close());
      const refusal = 'the server refuses the first lease';
      arena.addFault(refusal, SERVER, () => {
        arena.refuse(first.id);
      });
      await pause(2_000 * TTL_S, renewed.signal);
      const isOtherLost = renewed.signal.aborted || session.signal.aborted;
      if (`${arena.faults}` === refusal && isOtherLost) arena.breaks('another lease is lost, too');
      refused.close();
      renewed.close();
    },
  })),
  scenario('a cached range beside two puts', (arena) => ({
    A: async ({ client }) => {
      arena.mayCompact();
      const cache = await arena.unlessFailed(client.cachedRange(prefix('r/')));
      if (cache === undefined) return;
      if (await arena.unlessFailed(cache.catchUp().then(() => true))) {
        const { revision } = cache;
        const shown = cache.range().map((kv) => `${kv.key}=${kv.text()}`);
        arena.atEnd(() => arena.wasRange('r/', revision, shown));
      }
      await cache.close();
    },
    B: async ({ client }) => {
      await arena.unlessFailed(client.put('r/1', 'a'));
      await arena.unlessFailed(client.put('r/2', 'b'));
      await arena.unlessFailed(client.delete('r/1'));
    },
  })),
  scenario('a watch that reads 1,001 past events', (arena) => ({
    A: async ({ client }) => {
      arena.mayCompact();
      const first = fill(arena, 'past/', 1_001);
      let next = first;
      const read = async (): Promise<void> => {
        for await (const { modRevision } of client.watch(prefix('past/'), { startRevision: first })) {
          if (modRevision !== next) arena.breaks(`after revision ${next - 1n}, the watch shows ${modRevision}`);
          next += 1n;
          if (next === first + 1_001n) return;
        }
      };
      await arena.unlessFailed(read());
    },
  })),
  scenario('two readers and a writer', (arena) => {
    const reading = holding(arena, ({ session }) => new RWMutex(session, LOCK).readLock(), { isShared: true });
    return { A: reading, B: reading, C: holding(arena, ({ session }) => new RWMutex(session, LOCK).lock()) };
  }),
  scenario('three contenders of a mutex', (arena) => {
    const part = locking(arena);
    return { A: part, B: part, C: part };
  }),
  ...RECIPE_SCENARIOS,
];
