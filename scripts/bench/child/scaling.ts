import { createHistogram } from 'node:perf_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { gateway } from '../../../src/gateway.js';
import { Client, op, prefix } from '../../../src/index.js';
import { Mutex, Session } from '../../../src/locks.js';
import { measureLongestBlock } from '../../longest-block.js';
import type { Sample } from '../metrics.js';

/** The interval, in milliseconds, between two samples of the event loop's longest block. */
const TICK_MS = 2;
/** How long idle sessions and watches are measured, in milliseconds. It is longer than an interval between renewals. */
const IDLE_MS = 10_000;
const NS_PER_MS = 1e6;
/** The measurements prepare their keys with transactions of this many puts. */
const KEYS_PER_TXN = 100;

/** One measurement whose work grows with `size`. Prepares the work, measures it, and cleans up. */
type Measurement = (size: number, open: (options?: { readonly maxInFlight: number }) => Client) => Promise<Sample>;

const ALL = 'bench/scaling/';

/** The measurements, by the names that the report shows. */
const MEASUREMENTS = {
  'puts at once': async (size, open) => {
    const client = open();
    await client.get('warm-up');
    const latencies = createHistogram();
    const put = (index: number): Promise<void> => {
      const startMs = performance.now();
      const putting = client.put(`${ALL}${index % 1_000}`, 'x');
      return putting.then(() => latencies.record(Math.max(1, Math.round((performance.now() - startMs) * NS_PER_MS))));
    };
    const sample = await measured(() => all(size, put));
    return { ...sample, p50Ms: latencies.percentile(50) / NS_PER_MS, p99Ms: latencies.percentile(99) / NS_PER_MS };
  },
  'sessions that lock at once': async (size, open) => {
    const client = open();
    let lost = 0;
    const sample = await measured(() =>
      all(size, async (index) => {
        const session = await Session.open(client, { ttl: 10 });
        session.signal.addEventListener('abort', () => {
          lost += 1;
        });
        // If etcd's disk stalls for longer than the TTL, leases expire. The report counts the sessions of these leases.
        await new Mutex(session, `${ALL}${index}`).lock().catch((error: unknown) => {
          if (!session.signal.aborted) throw error;
        });
      }),
    );
    const lostBefore = lost;
    await client.close();
    return { ...sample, lost: lostBefore };
  },
  'waiters of one lock, and its release': async (size, open) => {
    const client = open();
    const held = await new Mutex(await Session.open(client, { ttl: 60 }), `${ALL}lock`).lock();
    const stop = new AbortController();
    const queued = async (): Promise<number> => (await client.range(prefix(`${ALL}lock/`), { countOnly: true })).count;
    let waiting: Promise<void>[] = [];
    let releaseMs = 0;
    const sample = await measured(async () => {
      waiting = Array.from({ length: size }, async () => {
        const session = await Session.open(client, { ttl: 60 });
        await new Mutex(session, `${ALL}lock`).lock({ signal: stop.signal }).catch(() => {});
      });
      while ((await queued()) <= size) await sleep(20);
      const startMs = performance.now();
      await held.release();
      releaseMs = performance.now() - startMs;
    });
    stop.abort();
    await Promise.all(waiting);
    return { ...sample, releaseMs };
  },
  'abort of waiting calls': async (size, open) => {
    const client = open();
    await client.get('warm-up');
    const stop = new AbortController();
    const calls = Array.from({ length: size }, () => client.put(ALL, 'x', { signal: stop.signal }).catch(() => {}));
    return measured(async () => {
      stop.abort();
      await Promise.all(calls);
    });
  },
  'expiry of waiting calls': async (size, open) => {
    // With this bound, the server answers few of the calls before they expire.
    const client = open({ maxInFlight: 1 });
    await client.get('warm-up');
    const dueAt = performance.now() + 2_000;
    const put = (): Promise<unknown> => client.put(ALL, 'x', { timeoutMs: dueAt - performance.now() }).catch(() => {});
    const calls = Array.from({ length: size }, put);
    await sleep(Math.max(0, dueAt - performance.now() - 20));
    return measured(() => Promise.all(calls));
  },
  'close of a client with sessions': async (size, open) => {
    const client = open();
    await all(size, () => Session.open(client, { ttl: 60 }));
    return measured(() => client.close());
  },
  'creation of watches': async (size, open) => {
    const client = open();
    await client.get('warm-up');
    const watches = Array.from({ length: size }, (_, index) => client.watch(`${ALL}${index}`));
    return measured(() => Promise.all(watches.map((watch) => watch.created())));
  },
  'creation of watches over the gateway': async (size, open) => {
    const [endpoint] = open().endpoints as [string];
    const client = new Client({ endpoints: [endpoint], transport: gateway() });
    await client.get('warm-up');
    const watches = Array.from({ length: size }, (_, index) => client.watch(`${ALL}${index}`));
    const sample = await measured(() => Promise.all(watches.map((watch) => watch.created())));
    await client.close();
    return sample;
  },
  'range with one response': async (size, open) => {
    const client = open();
    await putKeys(client, size);
    return measured(() => client.range(prefix(`${ALL}keys/`)));
  },
  'deletion of a cached range in tenths': async (size, open) => {
    const client = open();
    await putKeys(client, size);
    await using cached = await client.cachedRange(prefix(`${ALL}keys/`));
    return await measured(async () => {
      for (let digit = 0; digit < 10; digit += 1) {
        const { header } = await client.delete(prefix(`${ALL}keys/${digit}`));
        await cached.waitForRevision(header.revision);
      }
    });
  },
  'waiters for a revision of a cached range': async (size, open) => {
    const client = open();
    await using cached = await client.cachedRange(prefix(`${ALL}keys/`));
    const waiting = Array.from({ length: size }, (_, index) =>
      cached.waitForRevision(cached.revision + BigInt(1 + (index % 10))),
    );
    return await measured(async () => {
      for (let put = 0; put < 10; put += 1) await client.put(`${ALL}keys/x`, 'x');
      await Promise.all(waiting);
    });
  },
  'idle sessions and watches': async (size, open) => {
    const client = open();
    await all(size, () => Session.open(client, { ttl: 10 }));
    await all(size, (index) => client.watch(`${ALL}${index}`).created());
    // The first renewals run code that is not optimized yet.
    await sleep(IDLE_MS);
    // The interval between ticks is `IDLE_MS`, because frequent ticks would take more CPU time than the idle client.
    return measured(() => sleep(IDLE_MS), IDLE_MS);
  },
} as const satisfies Record<string, Measurement>;

export type ScalingName = keyof typeof MEASUREMENTS;

export interface Scaling {
  readonly name: ScalingName;
  readonly size: number;
  /** The client's bound of calls in flight, instead of its default. */
  readonly maxInFlight?: number;
}

export async function measureScaling(endpoint: string, { name, size, maxInFlight }: Scaling): Promise<Sample> {
  const clients: Client[] = [];
  const open = (options?: { readonly maxInFlight: number }): Client => {
    const client = new Client({ endpoints: [endpoint], timeoutMs: 280_000, maxInFlight, ...options });
    clients.push(client);
    return client;
  };
  try {
    return await MEASUREMENTS[name](size, open);
  } finally {
    await Promise.all(clients.map((client) => client.close()));
    await using cleaner = new Client({ endpoints: [endpoint], timeoutMs: 60_000 });
    await cleaner.delete(prefix(ALL));
  }
}

/**
 * Measures the time, the CPU time and the longest block of the event loop of `work`. A timer that fires every `tickMs`
 * milliseconds measures the blocks.
 */
async function measured(work: () => Promise<unknown>, tickMs = TICK_MS): Promise<Sample> {
  const block = measureLongestBlock(tickMs);
  const startCpu = process.cpuUsage();
  const startMs = performance.now();
  await work();
  const totalMs = performance.now() - startMs;
  const { user, system } = process.cpuUsage(startCpu);
  const rssKb = process.memoryUsage().rss / 1_000;
  await sleep(2 * TICK_MS);
  block.stop();
  const cpuMs = (user + system) / 1_000;
  return { totalMs, cpuMs, corePercent: (cpuMs / totalMs) * 100, longestBlockMs: block.longestMs(), rssKb };
}

function all(size: number, action: (index: number) => Promise<unknown>): Promise<unknown> {
  return Promise.all(Array.from({ length: size }, (_, index) => action(index)));
}

/** Puts `size` keys, of which a tenth begins with each digit. */
async function putKeys(client: Client, size: number): Promise<void> {
  const keys = Array.from({ length: size }, (_, index) => `${ALL}keys/${index % 10}/${index}`);
  const batches = Math.ceil(size / KEYS_PER_TXN);
  await all(batches, (batch) =>
    client.txn({ then: keys.slice(batch * KEYS_PER_TXN, (batch + 1) * KEYS_PER_TXN).map((key) => op.put(key, 'x')) }),
  );
}
