import { setTimeout as sleep } from 'node:timers/promises';
import { Client, type Interceptor, prefix } from '../../../src/index.js';
import { ExpiringKeys } from '../../../src/recipes.js';
import { inTurn } from '../in-turn.js';
import type { Sample } from '../metrics.js';

const ALL = 'bench/expiring/';
const VALUE = 'v'.repeat(100);
const IN_FLIGHT = 256;
/** The TTLs of the keys in turn, in seconds. */
const TTLS = [10, 11, 12, 13, 14, 15, 16, 17, 18, 19];
/**
 * The TTL in seconds of the lease that all keys share in the way `puts under one lease`. It is longer than the
 * measurement, which revokes the lease at its end.
 */
const LONG_TTL = 300;
/** How many keys each process writes before the measurement, because Node.js compiles frequently called functions late. */
const WARM_UP_KEYS = 5_000;
const GRANT = '/etcdserverpb.Lease/LeaseGrant';
/** The interval, in milliseconds, at which the measurement checks whether all keys are gone. */
const POLL_MS = 50;

/** The ways to write keys with TTLs. `puts under one lease` is for comparison: all keys end at the same time. */
export const EXPIRING_WAYS = ['puts under one lease', 'ExpiringKeys', 'a lease per key'] as const;
export type ExpiringWay = (typeof EXPIRING_WAYS)[number];

export interface Expiring {
  readonly way: ExpiringWay;
  readonly keys: number;
}

/** How long a key may live in seconds: the bound that `ExpiringKeys` states, or the TTL of the key's lease. */
const BOUNDS: Readonly<Record<ExpiringWay, (ttl: number) => number>> = {
  'puts under one lease': () => LONG_TTL,
  ExpiringKeys: (ttl) => Math.max(ttl + 1, ttl * 1.1),
  'a lease per key': (ttl) => ttl,
};

/**
 * Measures how long a client takes to write keys with TTLs of 10 to 19 s. Then waits until all keys have expired, and
 * measures how late etcd deletes them: the time since their bound, and the time since the end of their lease.
 */
export async function measureExpiring(endpoint: string, { way, keys }: Expiring): Promise<Sample> {
  const ends = new Map<bigint, number>();
  await using client = new Client({ endpoints: [endpoint], timeoutMs: 60_000, interceptors: [endsOfLeases(ends)] });
  await using watcher = new Client({ endpoints: [endpoint] });
  const bounds = new Map<string, number>();
  const [lateMs, revokedMs]: [number[], number[]] = [[], []];
  // The watch gets no events of the puts, so that it costs nothing while the client writes.
  await using events = watcher.watch(prefix(`${ALL}keys/`), { only: 'delete', prevKv: true });
  await events.created();
  const receiving = (async () => {
    for await (const event of events) {
      const nowMs = performance.now();
      lateMs.push(nowMs - (bounds.get(event.key) as number));
      revokedMs.push(nowMs - (ends.get(event.prevKv?.lease ?? 0n) as number));
    }
  })();
  const put = await putOf(client, way);
  const write = (folder: string, count: number) =>
    inTurn(IN_FLIGHT, count, async (index) => {
      const ttl = TTLS[index % TTLS.length] as number;
      const key = `${ALL}${folder}/${index}`;
      await put(key, ttl);
      bounds.set(key, performance.now() + BOUNDS[way](ttl) * 1_000);
    });
  await write('warm-up', WARM_UP_KEYS);
  await sleep(200);
  const grantsBefore = ends.size;
  const startCpu = process.cpuUsage();
  const startMs = performance.now();
  await write('keys', keys);
  const totalMs = performance.now() - startMs;
  const { user, system } = process.cpuUsage(startCpu);
  const sample = { totalMs, cpuMs: (user + system) / 1_000, leases: Math.max(1, ends.size - grantsBefore) };
  if (way === 'puts under one lease') {
    await client.delete(prefix(ALL));
    return sample;
  }
  while (lateMs.length < keys) await sleep(POLL_MS);
  await events.close();
  await receiving;
  return { ...sample, goneMs: greatest(lateMs), revokedMs: greatest(revokedMs) };
}

/** Returns an interceptor that records when each granted lease ends, if the server received the grant as late as possible. */
function endsOfLeases(ends: Map<bigint, number>): Interceptor {
  return {
    unary: async (call, next) => {
      const response = await next(call);
      if (call.method.path === GRANT) {
        const { id, ttl } = response as { readonly id: bigint; readonly ttl: bigint };
        ends.set(id, performance.now() + Number(ttl) * 1_000);
      }
      return response;
    },
  };
}

async function putOf(client: Client, way: ExpiringWay): Promise<(key: string, ttl: number) => Promise<unknown>> {
  if (way === 'ExpiringKeys') {
    const expiring = new ExpiringKeys(client);
    return (key, ttl) => expiring.put(key, VALUE, { ttl });
  }
  if (way === 'a lease per key')
    return async (key, ttl) => client.put(key, VALUE, { lease: (await client.lease.grant({ ttl })).id });
  const { id: lease } = await client.lease.grant({ ttl: LONG_TTL });
  return (key) => client.put(key, VALUE, { lease });
}

function greatest(values: readonly number[]): number {
  return values.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY);
}
