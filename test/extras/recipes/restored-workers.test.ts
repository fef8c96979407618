import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest';
import type { WatchResponse } from '../../../src/gen/etcdserverpb/rpc.js';
import { methods } from '../../../src/gen/methods.js';
import { Client, type ClientOptions } from '../../../src/index.js';
import { withSessions } from '../../../src/locks.js';
import { shards, WorkQueue } from '../../../src/recipes.js';
import { MemoryEtcd, memory } from '../../../src/testing/index.js';
import type { TransportFactory } from '../../../src/wire/transport.js';
import { VirtualClock } from '../../support/virtual-clock.js';

// Workers continue when the store was restored from an older copy (S40), and when the response to a watch comes from
// another cluster, on a virtual clock.

let clock: VirtualClock;
let server: MemoryEtcd;

beforeEach(() => {
  clock = new VirtualClock();
  server = new MemoryEtcd();
});

afterEach(() => clock.restore());

function opened(options: Partial<ClientOptions> = {}): Client {
  const client = new Client({ transport: memory(server), ...options });
  onTestFinished(() => client.close());
  return client;
}

/**
 * Returns a transport, and a function that gives the next response to a watch the ID of another cluster. The leases of
 * the client stay alive.
 */
function misrouting(): { readonly transport: TransportFactory; readonly misroute: () => void } {
  let misroutes = false;
  const transport: TransportFactory = (endpoint, options) => {
    const real = memory(server)(endpoint, options);
    return {
      unary: (call) => real.unary(call),
      stream: (call, handler) =>
        real.stream(call, {
          message: (message) => {
            const { header } = message as Partial<WatchResponse>;
            if (!misroutes || call.method.path !== methods.watch.watch.path || header === undefined)
              return handler.message(message);
            misroutes = false;
            handler.message({ ...message, header: { ...header, clusterId: header.clusterId + 1n } });
          },
          end: (error) => handler.end(error),
          leaving: () => handler.leaving?.(),
        }),
      close: () => real.close(),
    };
  };
  return {
    transport,
    misroute: () => {
      misroutes = true;
    },
  };
}

/** Runs until the test ends. */
function running(run: (signal: AbortSignal) => Promise<void>): { readonly error: () => unknown } {
  const stop = new AbortController();
  let error: unknown;
  const ended = run(stop.signal).catch((thrown: unknown) => {
    error = thrown;
  });
  onTestFinished(async () => {
    stop.abort();
    await ended;
  });
  return { error: () => error };
}

test('a worker of a queue handles jobs again after the store was restored from an older copy', async () => {
  const [etcd, worker] = [opened(), opened()];
  const copy = server.snapshot();
  const done: string[] = [];
  const { error } = running((signal) =>
    new WorkQueue(worker, 'emails').work({ signal }, (job) => void done.push(job.text())),
  );
  const queue = new WorkQueue(etcd, 'emails');
  for (const job of ['1', '2', '3']) await queue.enqueue(job);
  await clock.pass(1_000);
  expect(done).toEqual(['1', '2', '3']);
  server.restore(copy);
  await clock.pass(5_000);
  await queue.enqueue('4');
  await clock.pass(30_000);
  expect([error(), done]).toEqual([undefined, ['1', '2', '3', '4']]);
});

test('`withSessions` runs its action again with another session after the store was restored from an older copy', async () => {
  const etcd = opened();
  const copy = server.snapshot();
  let runs = 0;
  const { error } = running(async (stop) => {
    const action = async (signal: AbortSignal): Promise<void> => {
      runs += 1;
      await new Promise((resolve) => signal.addEventListener('abort', resolve));
    };
    await withSessions(etcd, { signal: stop }, (_, signal) => action(signal));
  });
  await etcd.put('key', '');
  await clock.pass(1_000);
  server.restore(copy);
  // This read shows the client that the store went back.
  await etcd.get('key');
  await clock.pass(5_000);
  expect([error(), runs]).toEqual([undefined, 2]);
});

test('a worker of shards owns all shards again after the store was restored from an older copy', async () => {
  const copy = server.snapshot();
  const owned = new Set<number>();
  const { error } = running((signal) => ownShards(opened(), owned, signal));
  await clock.pass(10_000);
  expect(owned.size).toBe(4);
  server.restore(copy);
  await clock.pass(30_000);
  expect([error(), owned.size]).toEqual([undefined, 4]);
});

test('a worker of a queue continues when the response to a watch comes from another cluster', async () => {
  const { transport, misroute } = misrouting();
  const done: string[] = [];
  const { error } = running((signal) =>
    new WorkQueue(opened({ transport }), 'emails').work({ signal }, (job) => void done.push(job.text())),
  );
  await clock.pass(1_000);
  misroute();
  const queue = new WorkQueue(opened(), 'emails');
  for (const job of ['1', '2']) await queue.enqueue(job);
  await clock.pass(30_000);
  expect([error(), done.toSorted()]).toEqual([undefined, ['1', '2']]);
});

test('a worker of shards owns all shards when the response to a watch comes from another cluster', async () => {
  const { transport, misroute } = misrouting();
  const owned = new Set<number>();
  const { error } = running((signal) => ownShards(opened({ transport }), owned, signal));
  await clock.pass(10_000);
  expect(owned.size).toBe(4);
  misroute();
  await opened().put('shards/orders/workers/other', 'not a worker');
  await clock.pass(30_000);
  expect([error(), owned.size]).toEqual([undefined, 4]);
});

/** Runs a worker of four shards, which records the shards that it owns. */
function ownShards(etcd: Client, owned: Set<number>, signal: AbortSignal): Promise<void> {
  return shards(etcd, 'orders', { count: 4, signal }, async (shard) => {
    owned.add(shard.number);
    await new Promise((resolve) => shard.signal.addEventListener('abort', resolve));
    owned.delete(shard.number);
  });
}
