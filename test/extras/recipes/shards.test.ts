import { describe, expect, inject, test } from 'vitest';
import { textOf } from '../../../src/base/bytes.js';
import { pause } from '../../../src/base/timers.js';
import type { TxnRequest } from '../../../src/gen/etcdserverpb/rpc.js';
import { type Client, type Interceptor, op, prefix } from '../../../src/index.js';
import { Mutex, Session } from '../../../src/locks.js';
import { type Shard, type ShardOwners, type ShardsOptions, shardOwners, shards } from '../../../src/recipes.js';
import { type Child, startScript } from '../../support/child.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { proxied } from '../../support/locks.js';
import { ownEtcd } from '../../support/own-etcd.js';

/** A worker of a test. */
interface Started {
  readonly client: Client;
  /** The numbers of the shards whose handlers run now. */
  readonly running: Set<number>;
  /** All runs of the handler so far. */
  readonly runs: Shard[];
  readonly stop: AbortController;
  readonly ended: Promise<void>;
}

/** A handler that ends when the signal of its shard aborts. */
async function untilAborted({ signal }: Shard): Promise<void> {
  await pause(Number.POSITIVE_INFINITY, signal);
}

function start(
  name: string,
  options: ShardsOptions,
  { client = openClient(), handle = untilAborted }: { client?: Client; handle?: (shard: Shard) => Promise<void> } = {},
): Started {
  const [running, stop, runs] = [new Set<number>(), new AbortController(), [] as Shard[]];
  const handler = async (shard: Shard): Promise<void> => {
    expect(running.has(shard.number)).toBe(false);
    running.add(shard.number);
    runs.push(shard);
    await handle(shard).finally(() => running.delete(shard.number));
  };
  const ended = shards(client, name, { ttl: 60, signal: stop.signal, ...options }, handler);
  ended.catch(() => {});
  return { client, running, runs, stop, ended };
}

async function running(...workers: readonly Started[]): Promise<readonly number[]> {
  return workers.map((each) => each.running.size);
}

async function stopped(...workers: readonly Started[]): Promise<void> {
  for (const { stop } of workers) stop.abort();
  await Promise.all(workers.map(({ ended }) => ended));
}

/** Expects that the workers together run each shard exactly once. */
function expectEachOnce(count: number, ...workers: readonly Started[]): void {
  const numbers = workers.flatMap((each) => [...each.running]).toSorted((a, b) => a - b);
  expect(numbers).toEqual(Array.from({ length: count }, (_, number) => number));
}

function tokens({ shards: all }: ShardOwners): ReadonlyMap<number, bigint | undefined> {
  return new Map(all.map(({ number, owner }) => [number, owner?.token]));
}

/** Returns how many shards have another fencing token than before. */
function movedBetween(before: ShardOwners, after: ShardOwners): number {
  const old = tokens(before);
  return [...tokens(after)].filter(([number, token]) => old.get(number) !== token).length;
}

describe('`shards`', () => {
  test('shares all shards among the workers, and moves only the excess when a worker joins or leaves', async () => {
    const [etcd, name] = [openClient(), unique('shards')];
    const one = start(name, { count: 64 });
    await expect.poll(() => running(one)).toEqual([64]);
    const two = start(name, { count: 64 });
    await expect.poll(() => running(one, two)).toEqual([32, 32]);
    const before = await shardOwners(etcd, name);
    const three = start(name, { count: 64 });
    await expect.poll(() => running(one, two, three)).toEqual([22, 21, 21]);
    expectEachOnce(64, one, two, three);
    const after = await shardOwners(etcd, name);
    expect(movedBetween(before, after)).toBe(21);
    await stopped(one);
    await expect.poll(() => running(two, three)).toEqual([32, 32]);
    expectEachOnce(64, two, three);
    expect(movedBetween(after, await shardOwners(etcd, name))).toBe(22);
    await stopped(two, three);
    expect((await etcd.range(prefix(`${name}/`))).count).toBe(0);
  });

  test('gives a worker shards in proportion to its weight', async () => {
    const name = unique('shards');
    const workers = [3, 2, 1].map((weight) => start(name, { count: 60, weight }));
    await expect.poll(async () => (await running(...workers)).toSorted((a, b) => b - a)).toEqual([30, 20, 10]);
    expectEachOnce(60, ...workers);
    expect(workers.map((each) => each.running.size)).toEqual([30, 20, 10]);
    await stopped(...workers);
  });

  test('leaves workers without shards when there are more workers than shards', async () => {
    const name = unique('shards');
    const workers = [start(name, { count: 1 })];
    await expect.poll(() => running(...workers)).toEqual([1]);
    workers.push(start(name, { count: 1 }), start(name, { count: 1 }));
    await expect.poll(async () => (await shardOwners(openClient(), name)).workers.length).toBe(3);
    expect(await running(...workers)).toEqual([1, 0, 0]);
    await stopped(workers[0] as Started);
    await expect.poll(async () => (await running(...workers)).reduce((sum, each) => sum + each)).toBe(1);
    await stopped(...workers);
  });

  test('waits for the handler before it releases a shard that moves', async () => {
    const [etcd, name] = [openClient(), unique('shards')];
    let finish = (): void => {};
    const finished = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const slow = start(name, { count: 2 }, { handle: () => finished });
    await expect.poll(() => running(slow)).toEqual([2]);
    const next = start(name, { count: 2 });
    await expect.poll(() => slow.runs.filter(({ signal }) => signal.aborted).length).toBe(1);
    const moving = slow.runs.find(({ signal }) => signal.aborted) as Shard;
    expect(moving.signal.reason).toMatchObject({ message: expect.stringContaining('moves to another worker') });
    expect(moving.held.valid()).toBe(true);
    await moving.held.txn({ then: [op.put(`${name}-done`, 'x')] });
    expect((await shardOwners(etcd, name)).shards[moving.number]?.owner?.token).toBe(moving.held.token);
    expect(await running(next)).toEqual([0]);
    slow.stop.abort();
    finish();
    await slow.ended;
    await expect.poll(() => running(next)).toEqual([2]);
    expect(next.runs.find(({ number }) => number === moving.number)?.held.token).toBeGreaterThan(moving.held.token);
    await stopped(next);
  });

  test('keeps a shard whose handler has returned', async () => {
    const [etcd, name] = [openClient(), unique('shards')];
    const worker = start(name, { count: 2 }, { handle: async () => {} });
    await expect.poll(() => worker.runs.length).toBe(2);
    await expect.poll(async () => (await shardOwners(etcd, name)).workers[0]?.owned).toBe(2);
    const other = start(name, { count: 2 });
    await expect.poll(() => running(other)).toEqual([1]);
    expect(worker.runs.filter(({ held }) => held.valid()).length).toBe(1);
    await stopped(other);
    await expect.poll(() => worker.runs.length).toBe(3);
    await stopped(worker);
  });

  test('calls `onFailure` when the handler throws, and runs the handler again with the same lock', async () => {
    const name = unique('shards');
    const failures: unknown[] = [];
    const failing = new Error('the handler failed');
    let runs = 0;
    const worker = start(
      name,
      { count: 1, onFailure: (error, { number }) => failures.push([error, number]) },
      {
        handle: async (shard) => {
          runs += 1;
          if (runs === 1) throw failing;
          await untilAborted(shard);
          // `shards` ignores what a handler throws after the signal of its shard has aborted.
          throw failing;
        },
      },
    );
    await expect.poll(() => runs, { timeout: 5_000 }).toBe(2);
    expect(failures).toEqual([[failing, 0]]);
    expect(worker.runs[0]?.held).toBe(worker.runs[1]?.held);
    await stopped(worker);
    expect(failures.length).toBe(1);
  });

  test('rejects with the error of `onFailure` after all handlers have ended, and releases all shards', async () => {
    const [etcd, name] = [openClient(), unique('shards')];
    const failing = new Error('give up');
    const worker = start(
      name,
      {
        count: 4,
        onFailure: (error) => {
          throw error;
        },
      },
      {
        handle: async (shard) => {
          if (shard.number === 3) throw failing;
          await untilAborted(shard);
        },
      },
    );
    await expect(worker.ended).rejects.toBe(failing);
    expect(worker.running.size).toBe(0);
    expect((await etcd.range(prefix(`${name}/`))).count).toBe(0);
  });

  test('joins again when its lease is lost, after all its handlers have ended', async () => {
    const [etcd, name] = [openClient(), unique('shards')];
    let finish = (): void => {};
    const finished = new Promise<void>((resolve) => {
      finish = resolve;
    });
    const worker = start(
      name,
      { count: 4 },
      {
        handle: async (shard) => {
          await untilAborted(shard);
          if (shard.number === 0) await finished;
        },
      },
    );
    await expect.poll(() => running(worker)).toEqual([4]);
    const [old] = (await shardOwners(etcd, name)).workers;
    await etcd.lease.revoke(old?.leaseId ?? 0n);
    await expect.poll(() => running(worker)).toEqual([1]);
    await expect.poll(() => worker.runs.some(({ held }) => held.valid())).toBe(false);
    expect((await shardOwners(etcd, name)).workers).toEqual([]);
    finish();
    await expect.poll(() => running(worker)).toEqual([4]);
    expect((await shardOwners(etcd, name)).workers[0]?.leaseId).not.toBe(old?.leaseId);
    await stopped(worker);
  });

  test('joins again when its lease is lost while it takes a shard', async () => {
    const [etcd, name] = [openClient(), unique('shards')];
    const shard = `${name}/shards/0/`;
    let isRevoked = false;
    const revoking: Interceptor = {
      async unary(call, next) {
        const { compare: compares = [] } = call.request as Partial<TxnRequest>;
        if (!isRevoked && compares.some(({ key }) => textOf(key).startsWith(shard))) {
          isRevoked = true;
          const [worker] = (await shardOwners(etcd, name)).workers;
          await etcd.lease.revoke(worker?.leaseId ?? 0n);
        }
        return next(call);
      },
    };
    const worker = start(name, { count: 1 }, { client: openClient({ interceptors: [revoking] }) });
    await expect.poll(() => running(worker)).toEqual([1]);
    expect(isRevoked).toBe(true);
    await stopped(worker);
  });

  test('hands over all shards and joins again when an operator deletes the key of the worker', async () => {
    const [etcd, name] = [openClient(), unique('shards')];
    const [one, two] = [start(name, { count: 8, worker: 'one' }), start(name, { count: 8, worker: 'two' })];
    await expect.poll(() => running(one, two)).toEqual([4, 4]);
    const { workers } = await shardOwners(etcd, name);
    const lease = workers.find(({ worker }) => worker === 'one')?.leaseId ?? 0n;
    await etcd.delete(`${name}/shards/workers/${lease.toString(16)}`);
    await expect
      .poll(async () => (await shardOwners(etcd, name)).workers.map(({ worker }) => worker))
      .toEqual(['two', 'one']);
    await expect.poll(() => running(one, two)).toEqual([4, 4]);
    expectEachOnce(8, one, two);
    await stopped(one, two);
  });

  test('takes a shard again when an operator deletes the key of its lock', async () => {
    const [etcd, name] = [openClient(), unique('shards')];
    const worker = start(name, { count: 3 });
    await expect.poll(() => running(worker)).toEqual([3]);
    const lost = worker.runs.find(({ number }) => number === 1) as Shard;
    await etcd.delete(lost.held.key);
    await expect.poll(() => worker.runs.length).toBe(4);
    const { number, held } = worker.runs[3] as Shard;
    expect(number).toBe(1);
    expect(held.token).toBeGreaterThan(lost.held.token);
    expect(lost.signal.aborted).toBe(true);
    await stopped(worker);
  });

  test('does not work on a shard that another program has locked, until that program releases it', async () => {
    const [etcd, name] = [openClient(), unique('shards')];
    const session = await Session.open(etcd);
    const locked = await new Mutex(session, `${name}/shards/2`, { value: 'etcdctl' }).lock();
    await etcd.put(`${name}/shards/3/foreign`, 'x');
    const workers = [start(name, { count: 8 }), start(name, { count: 8 })];
    await expect.poll(async () => (await running(...workers)).reduce((sum, each) => sum + each)).toBe(6);
    const { shards: all } = await shardOwners(etcd, name);
    expect(all[2]?.owner).toEqual({ worker: 'etcdctl', leaseId: session.leaseId, token: locked.token });
    expect(all[3]?.owner).toMatchObject({ worker: 'x', leaseId: 0n });
    await locked.release();
    await etcd.delete(`${name}/shards/3/foreign`);
    await expect.poll(() => running(...workers)).toEqual([4, 4]);
    // A program that waits for a shard gets it when the shard is released.
    const waiting = new Mutex(session, `${name}/shards/5`).lock();
    await stopped(...workers);
    await waiting;
  });

  test('rejects when a worker with another count has joined earlier, and leaves no key', async () => {
    const [etcd, name] = [openClient(), unique('shards')];
    const first = start(name, { count: 4 });
    await expect.poll(() => running(first)).toEqual([4]);
    const other = start(name, { count: 8 });
    expect(await errorOf(other.ended)).toMatchObject({ code: 'FailedPrecondition', outcome: 'rejected' });
    expect(other.runs).toEqual([]);
    await expect.poll(async () => (await shardOwners(etcd, name)).workers.length).toBe(1);
    expect(first.runs.length).toBe(4);
    await stopped(first);
    const later = start(name, { count: 8 });
    await expect.poll(() => running(later)).toEqual([8]);
    await stopped(later);
  });

  test('resolves at once when its signal has aborted before, and grants no lease', async () => {
    const etcd = openClient({ endpoints: ['http://127.0.0.1:1'] });
    await shards(etcd, 'x', { count: 1, signal: AbortSignal.abort() }, () => {});
  });

  test('ends when the client closes, after all handlers have ended', async () => {
    const [etcd, name] = [openClient(), unique('shards')];
    const worker = start(name, { count: 4 }, { client: etcd });
    await expect.poll(() => running(worker)).toEqual([4]);
    await etcd.close();
    await worker.ended;
    expect(worker.running.size).toBe(0);
    expect((await openClient().range(prefix(`${name}/`))).count).toBe(0);
  });

  test('refuses wrong arguments', async () => {
    const etcd = openClient();
    const options = { count: 4 };
    const wrong = [
      shards(etcd, '', options, () => {}),
      shards(etcd, 'a/shards', options, () => {}),
      shards(etcd, 'a', options, 1 as never),
      shards(etcd, 'a', undefined as never, () => {}),
      shards(etcd, 'a', {} as never, () => {}),
      shards(etcd, 'a', { count: 0 }, () => {}),
      shards(etcd, 'a', { count: 5_000 }, () => {}),
      shards(etcd, 'a', { count: 4, weight: 0 }, () => {}),
      shards(etcd, 'a', { count: 4, worker: new Uint8Array(1) as never }, () => {}),
      shardOwners(etcd, ''),
    ];
    for (const each of wrong) expect(await errorOf(each)).toMatchObject({ reason: 'InvalidInput' });
  });

  test('follows workers again after an interrupted watch whose events were compacted', async () => {
    const { endpoints } = await ownEtcd();
    const { etcd, direct, proxy } = await proxied(endpoints);
    const name = unique('shards');
    const one = start(name, { count: 16 }, { client: etcd });
    await expect.poll(() => running(one)).toEqual([16]);
    proxy.blackhole();
    const two = start(name, { count: 16 }, { client: direct });
    await expect.poll(async () => (await shardOwners(direct, name)).workers.length).toBe(2);
    const { header } = await direct.put('other', 'x');
    await direct.compact(header.revision);
    proxy.heal();
    proxy.dropConnections();
    await expect.poll(() => running(one, two)).toEqual([8, 8]);
    expectEachOnce(16, one, two);
    await stopped(one, two);
  });

  test('continues after a restart of the server', async () => {
    const { endpoints, members } = await ownEtcd();
    const client = openClient({ endpoints });
    const name = unique('shards');
    const [one, two] = [
      start(name, { count: 8 }, { client }),
      start(name, { count: 8 }, { client: openClient({ endpoints }) }),
    ];
    await expect.poll(() => running(one, two)).toEqual([4, 4]);
    await members[0]?.kill();
    await members[0]?.start();
    await stopped(one);
    await expect.poll(() => running(two)).toEqual([8]);
    await stopped(two);
  });
});

test('`shardOwners` shows each shard with its owner, and the workers with their quotas', async () => {
  const [etcd, name] = [openClient(), unique('shards')];
  expect(await shardOwners(etcd, name)).toMatchObject({ workers: [], shards: [] });
  const one = start(name, { count: 3, worker: 'one', weight: 2 });
  await expect.poll(() => running(one)).toEqual([3]);
  const two = start(name, { count: 3, worker: 'two' });
  await expect.poll(() => running(one, two)).toEqual([2, 1]);
  const { workers, shards: all, header } = await shardOwners(etcd, name);
  expect(workers).toMatchObject([
    { worker: 'one', weight: 2, quota: 2, owned: 2 },
    { worker: 'two', weight: 1, quota: 1, owned: 1 },
  ]);
  expect(header.revision).toBeGreaterThan(0n);
  for (const { number, owner } of all) {
    const worker = one.running.has(number) ? one : two;
    const run = worker.runs.findLast((each) => each.number === number);
    expect(owner).toEqual({
      worker: worker === one ? 'one' : 'two',
      leaseId: workers[worker === one ? 0 : 1]?.leaseId,
      token: run?.held.token,
    });
  }
  await stopped(one, two);
});

describe('workers in processes of their own', () => {
  const PROGRAM = new URL('../../support/sharded-program.ts', import.meta.url);
  const COUNT = 16;
  const startProcess = (name: string, ttl: number): Child =>
    startScript(PROGRAM, [inject('endpoints')[0] ?? '', name, `${COUNT}`, `${ttl}`, '20']);

  /** Checks that the tokens written for each shard never decrease: no owner has written after a later owner. */
  async function expectOrder(name: string, startRevision: bigint): Promise<void> {
    const etcd = openClient();
    const { header } = await etcd.put(`${name}-written/end`, 'end');
    const last = new Map<string, bigint>();
    for await (const event of etcd.watch(prefix(`${name}-written/`), { startRevision })) {
      if (event.modRevision === header.revision || event.type === 'delete') return;
      const token = BigInt(event.kv.text().split(' ')[1] ?? 0);
      expect(token).toBeGreaterThanOrEqual(last.get(event.key) ?? 0n);
      last.set(event.key, token);
    }
  }

  test.each([
    // With this TTL, the test would take too long unless the worker released its shards.
    ['SIGTERM', 300],
    ['SIGKILL', 2],
    ['SIGSTOP', 2],
  ] as const)('take the shards of a process that got %s', async (signal, ttl) => {
    const [etcd, name] = [openClient(), unique('shards')];
    const { header } = await etcd.get(`${name}-written/0`).then(() => etcd.range(`${name}-written/0`));
    const children = [startProcess(name, ttl), startProcess(name, ttl), startProcess(name, ttl)] as const;
    const ownedBy = async (): Promise<ReadonlyMap<string, number>> =>
      new Map((await shardOwners(etcd, name)).workers.map(({ worker, owned }) => [worker, owned]));
    const isShared = async (workers: readonly Child[]): Promise<boolean> => {
      const owned = await ownedBy();
      const counts = workers.map(({ process }) => owned.get(`${process.pid}`) ?? 0);
      return (
        owned.size === workers.length && counts.reduce((sum, each) => sum + each) === COUNT && Math.min(...counts) > 4
      );
    };
    await expect.poll(() => isShared(children)).toBe(true);
    const [first, second, third] = children;
    first.process.kill(signal);
    await expect.poll(() => isShared([second, third])).toBe(true);
    if (signal === 'SIGSTOP') {
      first.process.kill('SIGCONT');
      await expect.poll(() => isShared(children)).toBe(true);
    }
    // A second SIGTERM would end the process before it has closed its client.
    if (signal === 'SIGTERM') await first.exited;
    for (const { process } of children) process.kill('SIGTERM');
    for (const child of children) expect(await child.exited).toBe(signal === 'SIGKILL' && child === first ? null : 0);
    await expectOrder(name, header.revision + 1n);
    expect((await etcd.range(prefix(`${name}/`))).count).toBe(0);
  });
});
