import { expect, onTestFinished, test } from 'vitest';
import { textOf } from '../../../src/base/bytes.js';
import { pause } from '../../../src/base/timers.js';
import { Client, type ClientOptions, EtcdError, type Interceptor, prefix } from '../../../src/index.js';
import { reconcile, schedule, shards } from '../../../src/recipes.js';
import { MemoryEtcd, memory } from '../../../src/testing/index.js';

/** How long a call may go on after it was asked to end. It gives up a release after 10 s. */
const ENDED_WITHIN_MS = 60_000;

function opened(server: MemoryEtcd, options: Partial<ClientOptions> = {}): Client {
  const client = new Client({ transport: memory(server), ...options });
  onTestFinished(() => client.close());
  return client;
}

function keyOf(request: unknown): string {
  const { key } = request as { readonly key?: Uint8Array };
  return key === undefined ? '' : textOf(key);
}

async function endOf(call: Promise<unknown>): Promise<string> {
  return await Promise.race([call.then(() => 'ended'), pause(ENDED_WITHIN_MS).then(() => 'goes on')]);
}

const untilAborted = ({ signal }: { readonly signal: AbortSignal }): Promise<void> =>
  pause(Number.POSITIVE_INFINITY, signal);

test('`shards` waits while no server answers the first read of its view, also for longer than the time limit of the client', async () => {
  const server = new MemoryEtcd();
  let failedReads = 0;
  let hasJoined = false;
  const interceptor: Interceptor = {
    unary: async (call, next) => {
      if (call.method.path.endsWith('/Range') && hasJoined) {
        failedReads += 1;
        if (failedReads === 2) server.start();
      }
      const response = await next(call);
      if (!hasJoined && call.method.path.endsWith('/Txn')) {
        hasJoined = true;
        server.stop();
      }
      return response;
    },
  };
  const etcd = opened(server, { timeoutMs: 50, interceptors: [interceptor] });
  const stop = new AbortController();
  const begun = new Set<number>();
  const working = shards(etcd, 'orders', { count: 4, ttl: 600, signal: stop.signal }, (shard) => {
    begun.add(shard.number);
    return untilAborted(shard);
  });
  await Promise.race([working, expect.poll(() => begun.size).toBe(4)]);
  stop.abort();
  await working;
  expect(failedReads).toBeGreaterThan(1);
});

test.concurrent('`shards` ends soon after its signal has aborted, although no server answers and its lease is long', async ({
  expect,
}) => {
  const server = new MemoryEtcd();
  const etcd = opened(server, { timeoutMs: 1_000 });
  const stop = new AbortController();
  let begun = 0;
  const working = shards(etcd, 'orders', { count: 2, ttl: 3_600, signal: stop.signal }, (shard) => {
    begun += 1;
    return untilAborted(shard);
  });
  await expect.poll(() => begun).toBe(2);
  server.stop();
  stop.abort();
  expect(await endOf(working)).toBe('ended');
});

test.concurrent.for([
  ['while it waits for the claim of a tick', false],
  ['while a handler runs', true],
] as const)(
  '`schedule` ends soon after its signal has aborted %s, although no server answers and its lease is long',
  async ([, runs], { expect }) => {
    const server = new MemoryEtcd();
    const stop = new AbortController();
    let [ticks, sent] = [0, 0];
    const counting: Interceptor = {
      unary: (call, next) => {
        sent += 1;
        return next(call);
      },
    };
    const etcd = opened(server, { timeoutMs: 1_000, interceptors: [counting] });
    const working = schedule(etcd, 'reports', 50, { ttl: 3_600, signal: stop.signal }, async (tick) => {
      ticks += 1;
      if (ticks === 1) return;
      server.stop();
      if (runs) await untilAborted(tick);
    });
    await expect.poll(() => ticks).toBeGreaterThan(1);
    const before = sent;
    // The server has received no answer to the end of the tick, or the handler runs.
    if (!runs) await expect.poll(() => sent).toBeGreaterThan(before);
    stop.abort();
    expect(await endOf(working)).toBe('ended');
  },
);

test('`reconcile` runs the handler for a key that is deleted before the client has read all ranges', async () => {
  const server = new MemoryEtcd();
  const other = opened(server);
  for (const key of ['sites/a', 'sites/b', 'pods/b']) await other.put(key, '1');
  let [readOwned, hasRead, watched] = [(): void => {}, false, 0];
  const held = new Promise<void>((resolve) => {
    readOwned = resolve;
  });
  const etcd = opened(server, {
    interceptors: [
      {
        unary: async (call, next) => {
          const key = keyOf(call.request);
          if (key === 'pods/') await held;
          const response = await next(call);
          hasRead ||= key === 'sites/';
          return response;
        },
        stream: (call, handler, next) => {
          const message = (response: never): void => {
            const { events = [] } = response as { readonly events?: readonly unknown[] };
            handler.message(response);
            watched += events.length;
          };
          return next(call, { ...handler, message, end: (error) => handler.end(error) });
        },
      },
    ],
  });
  const stop = new AbortController();
  const runs: string[] = [];
  const owned = [{ keys: prefix('pods/'), ownerOf: (key: string) => key.replace('pods/', 'sites/') }];
  const working = reconcile(
    etcd,
    prefix('sites/'),
    {
      owned,
      signal: stop.signal,
    },
    ({ key, kv }) => void runs.push(`${key}=${kv?.text()}`),
  );
  await expect.poll(() => hasRead).toBe(true);
  await other.put('sites/b', '2');
  await expect.poll(() => watched).toBe(1);
  await other.delete('sites/a');
  await expect.poll(() => watched).toBe(2);
  readOwned();
  await expect.poll(() => runs.toSorted()).toEqual(['sites/a=undefined', 'sites/b=2']);
  stop.abort();
  await working;
});

test('`reconcile` reports the deletion of a key that a late read of a run shows after the client has read the range again', async () => {
  const server = new MemoryEtcd();
  const other = opened(server);
  let isCut = false;
  let isHeld = false;
  /** Number of times that the client has read the whole range. */
  let reads = 0;
  let release: (() => void) | undefined;
  const ends: (() => void)[] = [];
  const cut = (): EtcdError =>
    new EtcdError('cut', { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' });
  const etcd = opened(server, {
    interceptors: [
      {
        unary: async (call, next) => {
          const response = await next(call);
          if (keyOf(call.request) === 'sites/') reads += 1;
          if (isHeld && keyOf(call.request) === 'sites/x') {
            isHeld = false;
            await new Promise<void>((resolve) => {
              release = resolve;
            });
          }
          return response;
        },
        stream: (call, handler, next) => {
          const stream = next(call, handler);
          const end = (): void => {
            stream.cancel();
            handler.end(cut());
          };
          if (isCut) queueMicrotask(end);
          else ends.push(end);
          return stream;
        },
      },
    ],
  });
  // The range of `sites/` has never contained the key for which the handler runs.
  await other.put('pods/x', '');
  const stop = new AbortController();
  const runs: (string | undefined)[] = [];
  const owned = [{ keys: prefix('pods/'), ownerOf: (key: string) => key.replace('pods/', 'sites/') }];
  const working = reconcile(etcd, prefix('sites/'), { owned, signal: stop.signal }, ({ kv }) => {
    runs.push(kv?.text());
    return release === undefined ? { againMs: 50 } : undefined;
  });
  await expect.poll(() => runs.length).toBeGreaterThan(0);
  await other.delete('pods/x');
  const begun = runs.length;
  await expect.poll(() => runs.length).toBeGreaterThan(begun + 1);
  // The watches are cut off, and the next run reads a state whose answer is late.
  isCut = true;
  for (const end of ends.splice(0)) end();
  isHeld = true;
  await other.put('sites/x', 'late');
  await expect.poll(() => release).toBeDefined();
  await other.delete('sites/x');
  const { header } = await other.put('other', '');
  await other.compact(header.revision);
  const before = reads;
  isCut = false;
  await expect.poll(() => reads).toBeGreaterThan(before);
  const earlier = runs.length;
  release?.();
  await expect.poll(() => runs.length > earlier && runs.at(-1)).toBeUndefined();
  stop.abort();
  await working;
});
