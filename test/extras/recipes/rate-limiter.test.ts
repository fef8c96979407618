import { setTimeout } from 'node:timers/promises';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { Client, EtcdError, type Interceptor, prefix } from '../../../src/index.js';
import { RateLimiter, type RateLimiterOptions } from '../../../src/recipes.js';
import { ManualClock, MemoryEtcd, memory } from '../../../src/testing/index.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { proxied, TXN } from '../../support/locks.js';

/** Returns limiters for the same key, each with a client of its own, as if each ran in another process. */
function fleet(size: number, options: RateLimiterOptions): readonly RateLimiter[] {
  const key = unique('limit');
  return Array.from({ length: size }, () => new RateLimiter(openClient(), key, options));
}

/**
 * Returns the excess of tokens in the worst window of time: above 0 if the window has more tokens than the options
 * allow. `times` are the times of the tokens in milliseconds.
 */
function excessOf(times: readonly number[], { perSecond, burst = 1 }: RateLimiterOptions): number {
  const sorted = times.toSorted((a, b) => a - b);
  let most = Number.NEGATIVE_INFINITY;
  for (const [first, from] of sorted.entries())
    for (const [index, to] of sorted.slice(first).entries())
      most = Math.max(most, index + 1 - (burst + (perSecond * (to - from)) / 1_000));
  return most;
}

describe('RateLimiter', () => {
  test('lets several processes together take a burst, and then only as many tokens as are due after the time that has passed', async () => {
    const limiters = fleet(3, { perSecond: 0.1, burst: 5 });
    const clock = vi.spyOn(Date, 'now').mockReturnValue(1_000_000);
    const taken = async (calls: number): Promise<number> => {
      const results = await Promise.all(Array.from({ length: calls }, (_, index) => limiters[index % 3]?.tryTake()));
      return results.filter(Boolean).length;
    };
    expect(await taken(12)).toBe(5);
    clock.mockReturnValue(1_028_000);
    expect(await taken(12)).toBe(2);
    clock.mockReturnValue(1_038_000);
    expect(await taken(12)).toBe(1);
    clock.mockReturnValue(2_000_000);
    expect(await taken(12)).toBe(5);
    clock.mockRestore();
  });

  test('leaves no key after its burst is available again, and shares leases with other limiters of its client', async () => {
    const clock = new ManualClock();
    const etcd = new Client({ transport: memory(new MemoryEtcd({ clock })) });
    for (let user = 0; user < 300; user += 1)
      await new RateLimiter(etcd, `limits/${user}`, { perSecond: 1, burst: 2 }).take();
    expect((await etcd.lease.list()).ids.length).toBeLessThan(5);
    await clock.advance(59_000);
    expect((await etcd.range(prefix('limits/'))).count).toBe(300);
    await clock.advance(90_000);
    expect((await etcd.range(prefix('limits/'))).count).toBe(0);
    await etcd.close();
  });

  test('keeps the key for as long as a token of the burst is missing', async () => {
    const clock = new ManualClock();
    const etcd = new Client({ transport: memory(new MemoryEtcd({ clock })) });
    await new RateLimiter(etcd, 'limit', { perSecond: 0.001 }).take();
    await clock.advance(1_000_000);
    expect(await etcd.get('limit')).toBeDefined();
    await clock.advance(1_100_000);
    expect(await etcd.get('limit')).toBeUndefined();
    await etcd.close();
  });

  test('takes a token with another lease when a client has revoked the lease', async () => {
    const [etcd, key] = [openClient(), unique('limit')];
    const limiter = new RateLimiter(etcd, key, { perSecond: 1_000, burst: 10 });
    await limiter.take();
    await openClient().lease.revoke((await etcd.get(key))?.lease as bigint);
    expect(await limiter.tryTake()).toBe(true);
    expect(await etcd.get(key)).toBeDefined();
  });

  test('counts each of several tokens that are taken at once', async () => {
    const [limiter] = fleet(1, { perSecond: 0.1, burst: 5 }) as [RateLimiter];
    const clock = vi.spyOn(Date, 'now').mockReturnValue(1_000_000);
    const taken: boolean[] = [];
    for (const tokens of [3, 3, 2, 1]) taken.push(await limiter.tryTake(tokens));
    expect(taken).toEqual([true, false, true, false]);
    // After 38 s, three of the five tokens are available again.
    clock.mockReturnValue(1_038_000);
    for (const tokens of [4, 3, 1]) taken.push(await limiter.tryTake(tokens));
    expect(taken.slice(4)).toEqual([false, true, false]);
    clock.mockRestore();
  });

  test('never lets processes with different clocks take more than the clock that is ahead allows', async () => {
    const [ahead, behind] = fleet(2, { perSecond: 10, burst: 2 }) as [RateLimiter, RateLimiter];
    const clock = vi.spyOn(Date, 'now');
    const at = async (limiter: RateLimiter, nowMs: number): Promise<boolean> => {
      clock.mockReturnValue(nowMs);
      return limiter.tryTake();
    };
    let taken = 0;
    // The clock of one process is a second ahead of the other. For 2 s, both try to take a token every 50 ms.
    for (let ms = 0; ms < 2_000; ms += 50) {
      if (await at(ahead, 11_000 + ms)) taken += 1;
      if (await at(behind, 10_000 + ms)) taken += 1;
    }
    clock.mockRestore();
    expect(taken).toBeGreaterThan(2);
    expect(taken).toBeLessThanOrEqual(2 + 19);
  });

  test('resolves calls of `take` in the order in which the calls took their tokens', async () => {
    const etcd = openClient();
    // A call whose answer or timer is late takes another token, so its turn comes later. The test then begins again.
    for (let takings = 0n; takings !== 4n; ) {
      const limiters = fleet(2, { perSecond: 2 });
      const takingsNow = async (): Promise<bigint> => (await etcd.get(limiters[0]?.key ?? ''))?.version ?? 0n;
      const startedAt = performance.now();
      const order: number[] = [];
      const waiting: Promise<void>[] = [];
      for (const index of [0, 1, 2, 3]) {
        const before = await takingsNow();
        waiting.push((limiters[index % 2] as RateLimiter).take().then(() => void order.push(index)));
        await expect.poll(takingsNow, { interval: 2 }).toBeGreaterThan(before);
      }
      await Promise.all(waiting);
      takings = await takingsNow();
      if (takings === 4n) expect(order).toEqual([0, 1, 2, 3]);
      expect(performance.now() - startedAt).toBeGreaterThanOrEqual(1_490);
    }
  });

  test('rejects at once and takes nothing when the tokens are due later than `maxWaitMs`', async () => {
    const [limiter] = fleet(1, { perSecond: 0.001 }) as [RateLimiter];
    await limiter.take();
    const before = await openClient().get(limiter.key);
    const error = await errorOf(limiter.take(1, { maxWaitMs: 60_000 }));
    expect(error).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'rejected' });
    expect((await openClient().get(limiter.key))?.version).toBe(before?.version);
    const stop = new AbortController();
    const waiting = errorOf(limiter.take(1, { signal: stop.signal }));
    await expect.poll(async () => (await openClient().get(limiter.key))?.version).not.toBe(before?.version);
    stop.abort();
    expect(await waiting).toMatchObject({ reason: 'Canceled' });
  });

  test('takes tokens although the answer to its write is lost', async () => {
    const { etcd, direct, proxy } = await proxied();
    const limiter = new RateLimiter(etcd, unique('limit'), { perSecond: 1_000, burst: 10 });
    // Only the transaction contains a time in microseconds.
    const lost = proxy.loseNextAnswer((bytes) => /\d{16}/.test(Buffer.from(bytes).toString('latin1')));
    await limiter.take();
    await lost;
    expect((await direct.get(limiter.key))?.version).toBeGreaterThanOrEqual(2n);
  });

  test('rejects calls that wait for their tokens when the client is closed', async () => {
    const [etcd, key] = [openClient(), unique('limit')];
    for (const client of [openClient(), etcd.namespace('limits/')]) {
      const limiter = new RateLimiter(client, key, { perSecond: 0.001 });
      await limiter.take();
      const before = (await client.get(key))?.version;
      const waiting = [errorOf(limiter.take()), errorOf(limiter.take(1, { maxWaitMs: 10_000_000 }))];
      await expect
        .poll(async () => (await client.get(key))?.version, { interval: 5 })
        .toBeGreaterThanOrEqual((before ?? 0n) + 2n);
      await client.close();
      for (const error of await Promise.all(waiting)) expect(error).toMatchObject({ reason: 'ClientClosed' });
    }
    const closed = openClient();
    await closed.close();
    const limiter = new RateLimiter(closed, key, { perSecond: 1 });
    expect(await errorOf(limiter.take())).toMatchObject({ reason: 'ClientClosed' });
    expect(await errorOf(limiter.tryTake())).toMatchObject({ reason: 'ClientClosed' });
  });

  test('rejects with outcome `applied` when the client closes after the call has taken its tokens', async () => {
    let answers = 0;
    const counting: Interceptor = {
      unary: async (call, next) => {
        const response = await next(call);
        if (call.method.path === TXN) answers += 1;
        return response;
      },
    };
    const etcd = openClient({ interceptors: [counting] });
    const limiter = new RateLimiter(etcd, unique('limit'), { perSecond: 0.001 });
    await limiter.take();
    const before = answers;
    const waiting = errorOf(limiter.take());
    await expect.poll(() => answers, { interval: 5 }).toBe(before + 1);
    await etcd.close();
    expect(await waiting).toMatchObject({ reason: 'ClientClosed', outcome: 'applied' });
  });

  test('rejects with outcome `applied` when it has given up late tokens, and the next ones are due after `maxWaitMs`', async () => {
    const startMs = Date.now();
    const clock = vi.spyOn(Date, 'now').mockReturnValue(startMs);
    onTestFinished(() => clock.mockRestore());
    const late: Interceptor = {
      unary: async (call, next) => {
        const response = await next(call);
        if (call.method.path === TXN) clock.mockReturnValue(startMs + 60_000);
        return response;
      },
    };
    const limiter = new RateLimiter(openClient({ interceptors: [late] }), unique('limit'), { perSecond: 0.001 });
    const error = await errorOf(limiter.take(1, { maxWaitMs: 10_000 }));
    expect(error).toMatchObject({ reason: 'DeadlineExceeded', outcome: 'applied' });
  });

  test('keeps the outcome `applied` when the signal that ends the wait has an EtcdError as its reason', async () => {
    const [limiter] = fleet(1, { perSecond: 0.001 }) as [RateLimiter];
    await limiter.take();
    const before = await openClient().get(limiter.key);
    const stop = new AbortController();
    const waiting = errorOf(limiter.take(1, { signal: stop.signal }));
    await expect.poll(async () => (await openClient().get(limiter.key))?.version).not.toBe(before?.version);
    // The answer of the write has arrived when another call of the client has its answer.
    await limiter.tryTake();
    stop.abort(new EtcdError('lost', { code: 'Aborted', reason: 'LockLost', outcome: 'rejected' }));
    expect(await waiting).toMatchObject({ reason: 'LockLost', outcome: 'applied' });
  });

  test('never exceeds the rate in a window of time, counted when `take` resolves, although answers are late', async () => {
    // The interval is long compared with the time that a busy machine may need until this test reads its clock.
    const [perSecond, burst, count, key] = [5, 1, 12, unique('limit')];
    const limiters = [0, 1, 2].map((first) => {
      let calls = first;
      const late: Interceptor = {
        unary: async (call, next) => {
          const response = await next(call);
          if (call.method.path === TXN && ++calls % 3 === 0) await setTimeout(390);
          return response;
        },
      };
      return new RateLimiter(openClient({ interceptors: [late] }), key, { perSecond, burst });
    });
    const taken: number[] = [];
    const takers = limiters.map(async (limiter) => {
      while (taken.length < count) {
        await limiter.take();
        taken.push(performance.now());
      }
    });
    await Promise.all(takers);
    expect(excessOf(taken, { perSecond, burst })).toBeLessThanOrEqual(0.5);
  });

  test('takes a later token when another process has used the next token before the answer arrives', async () => {
    const [options, key] = [{ perSecond: 5, burst: 1 }, unique('limit')];
    let holds = false;
    let arrived = (): void => {};
    let release = (): void => {};
    const answer = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    const holding: Interceptor = {
      unary: async (call, next) => {
        const response = await next(call);
        if (!holds || call.method.path !== TXN) return response;
        holds = false;
        arrived();
        await new Promise<void>((resolve) => {
          release = resolve;
        });
        return response;
      },
    };
    const limiter = new RateLimiter(openClient({ interceptors: [holding] }), key, options);
    const taken: number[] = [];
    const take = async (from: RateLimiter): Promise<void> => {
      await from.take();
      taken.push(performance.now());
    };
    await take(limiter);
    holds = true;
    const late = take(limiter);
    await answer;
    await take(new RateLimiter(openClient(), key, options));
    release();
    await late;
    expect(excessOf(taken, options)).toBeLessThanOrEqual(0.5);
  });

  test('never grants a token early when the process stops between its reads of two clocks', async () => {
    const options = { perSecond: 2, burst: 1 };
    const [limiter] = fleet(1, options) as [RateLimiter];
    const taken: number[] = [];
    await limiter.take();
    taken.push(performance.now());
    const { now } = Date;
    let stops = 0;
    const clock = vi.spyOn(Date, 'now').mockImplementation(() => {
      if (stops === 0 && new Error('who reads').stack?.includes('#reserve')) {
        stops += 1;
        const endMs = performance.now() + 220;
        while (performance.now() < endMs);
      }
      return now();
    });
    await limiter.take();
    taken.push(performance.now());
    clock.mockRestore();
    expect(stops).toBe(1);
    expect(excessOf(taken, options)).toBeLessThanOrEqual(0);
  });

  test('starts again with a full burst when the value of its key is malformed', async () => {
    const [limiter] = fleet(1, { perSecond: 1, burst: 2 }) as [RateLimiter];
    for (const value of ['not a time', '', '1e400 2', '-1', '1 1000000']) {
      await openClient().put(limiter.key, value);
      expect([await limiter.tryTake(), await limiter.tryTake(), await limiter.tryTake()]).toEqual([true, true, false]);
    }
  });

  test('rejects wrong arguments', async () => {
    const [limiter] = fleet(1, { perSecond: 1, burst: 2 }) as [RateLimiter];
    for (const tokens of [0, 3, 1.5, '1' as never])
      expect(await errorOf(limiter.take(tokens))).toMatchObject({ reason: 'InvalidInput' });
    expect(() => new RateLimiter(openClient(), 'x', { perSecond: 0 })).toThrow(/perSecond/);
    expect(() => new RateLimiter(openClient(), 'x', { perSecond: 1e-10 })).toThrow(/perSecond/);
    expect(() => new RateLimiter(openClient(), '', { perSecond: 1 })).toThrow(/key/);
  });
});
