import { expect, inject } from 'vitest';
import { type Client, prefix, type Watch } from '../../src/index.js';
import { FaultProxy } from '../../src/testing/index.js';
import { FaultyCluster } from '../load/cluster.js';
import { faultRow } from '../load/row.js';
import { openClient } from '../support/client.js';

// A slow link with a large buffer carries messages of the largest sizes (rules S30 and S41 in docs/semantics.md). The
// bytes flow all the time, but the answer to a PING waits behind them for longer than the client waits for the answer
// on an idle link. With `npm run test:faults`, the messages have the sizes that users have reported. Otherwise, they
// are smaller, so that the test takes only a few seconds.

const IS_SHORT = process.env.FAULT_ROUNDS === undefined;
/** TTL of the lease in seconds. */
const LEASE_TTL = 10;
const KB = 1_000;
const VALUE_BYTES = 1_200 * KB;
const PAGES = IS_SHORT ? 2 : 17;
/**
 * The client's minimum ping interval, and a ping timeout below a twentieth of the time that the fastest answer takes.
 */
const PINGS = IS_SHORT ? { pingIntervalMs: 5_000, pingTimeoutMs: 250 } : {};
const SLOW = IS_SHORT ? 150 * KB : 64 * KB;
const FASTER = IS_SHORT ? 300 * KB : 400 * KB;

/** A call over a slow link. The link carries at least `bytes` bytes for it. */
interface Slow {
  readonly direction: 'to-client' | 'to-server';
  readonly bytesPerSecond: number;
  readonly bytes: number;
  /** Runs over the same connection before the link becomes slow. */
  readonly before?: (etcd: Client, name: string) => Promise<unknown>;
  readonly run: (etcd: Client, name: string, timeoutMs: number) => Promise<unknown>;
}

const CALLS: Readonly<Record<string, Slow>> = {
  'get of a large value': {
    direction: 'to-client',
    bytesPerSecond: SLOW,
    bytes: VALUE_BYTES,
    run: async (etcd, name, timeoutMs) =>
      expect((await etcd.get(`${name}/00`, { timeoutMs }))?.value.length).toBe(VALUE_BYTES),
  },
  'range of large values': {
    direction: 'to-client',
    bytesPerSecond: FASTER,
    bytes: PAGES * VALUE_BYTES,
    run: async (etcd, name, timeoutMs) =>
      expect((await etcd.range(prefix(`${name}/`), { timeoutMs })).kvs.length).toBe(PAGES),
  },
  snapshot: {
    direction: 'to-client',
    bytesPerSecond: FASTER,
    bytes: PAGES * VALUE_BYTES,
    run: async (etcd, _, timeoutMs) => {
      let bytes = 0;
      for await (const part of etcd.maintenance.snapshot(etcd.endpoints[0] as string, { timeoutMs }))
        bytes += part.length;
      expect(bytes).toBeGreaterThanOrEqual(PAGES * VALUE_BYTES);
    },
  },
  'put of a large value': {
    direction: 'to-server',
    bytesPerSecond: SLOW,
    bytes: VALUE_BYTES,
    run: (etcd, name, timeoutMs) => etcd.put(`${name}-put`, 'x'.repeat(VALUE_BYTES), { timeoutMs }),
  },
  // After some large requests, etcd's flow-control window is so large that etcd sends nothing during the next request.
  'put of a large value within one window': {
    direction: 'to-server',
    bytesPerSecond: SLOW,
    bytes: VALUE_BYTES,
    before: async (etcd, name) => {
      for (let puts = 0; puts < 30; puts += 1) await etcd.put(`${name}-window`, 'x'.repeat(VALUE_BYTES));
    },
    run: (etcd, name, timeoutMs) => etcd.put(`${name}-window`, 'y'.repeat(VALUE_BYTES), { timeoutMs }),
  },
};

faultRow(
  'slow link with a large buffer',
  () => FaultyCluster.start({ members: 1 }),
  async ({ endpoints }, { seed }, context) => {
    if (inject('transport') === 'grpc-js')
      return context.skip('grpc-js closes a connection whose PING is answered late, even if bytes arrive');
    const [endpoint] = endpoints as [string];
    const direct = openClient({ endpoints });
    const name = `slow-${seed}`;
    for (let page = 0; page < PAGES; page += 1)
      await direct.put(`${name}/${String(page).padStart(2, '0')}`, 'x'.repeat(VALUE_BYTES));
    const calls = Object.entries(CALLS);
    const took = await Promise.all(calls.map(([what, call]) => overSlowLink(direct, endpoint, name, what, call)));
    const further = Object.fromEntries(
      calls.map(([what], index) => [`${what}, time as a multiple of the time for its bytes`, took[index] as number]),
    );
    return { faults: calls.length, further };
  },
);

/**
 * Makes the call over a link of its own, beside a watch and a keepalive. Returns the time that the call took, as a
 * multiple of the time that its bytes take.
 */
async function overSlowLink(direct: Client, endpoint: string, name: string, what: string, slow: Slow): Promise<number> {
  await using proxy = await FaultProxy.start(endpoint);
  const etcd = openClient({ endpoints: [proxy.endpoint], ...PINGS });
  await slow.before?.(etcd, name);
  const key = `${name}-${what}`;
  await using watch = etcd.watch(key);
  await watch.created();
  await using alive = etcd.lease.keepAlive(await etcd.lease.grant({ ttl: LEASE_TTL }));
  proxy.throttle({ bytesPerSecond: slow.bytesPerSecond, direction: slow.direction });
  const leastMs = (1_000 * slow.bytes) / slow.bytesPerSecond;
  const startedAt = performance.now();
  // A second transfer of the bytes would not finish within this time.
  await slow.run(etcd, name, 1.9 * leastMs).catch((error: unknown) => {
    throw new Error(`${what} failed after ${Math.round(performance.now() - startedAt)} ms`, { cause: error });
  });
  const tookMs = performance.now() - startedAt;
  expect(alive.valid(), `the lease beside the ${what}`).toBe(true);
  await direct.put(key, 'x');
  expect(await nextValue(watch)).toBe('x');
  return tookMs / leastMs;
}

async function nextValue(watch: Watch): Promise<string | undefined> {
  for await (const event of watch) return event.type === 'put' ? event.kv.text() : undefined;
  return undefined;
}
