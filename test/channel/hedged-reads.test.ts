import { describe, expect, test } from 'vitest';
import { methods } from '../../src/gen/methods.js';
import { type Client, hedgedReads, type Interceptor } from '../../src/index.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { faultProxy } from '../support/fault-proxy.js';
import { ownEtcd } from '../support/own-etcd.js';

interface Two {
  readonly etcd: Client;
  /** The proxies in front of the first and the second endpoint. */
  readonly proxies: readonly Awaited<ReturnType<typeof faultProxy>>[];
  /** The endpoints of the reads in the order in which they were sent. */
  readonly sent: string[];
  /** The signals of the reads in the same order. */
  readonly signals: (AbortSignal | undefined)[];
  readonly key: string;
}

/** Returns a client that uses the first of two endpoints and hedges its reads. */
async function hedging(options: { delayMs?: number } = {}): Promise<Two> {
  const { endpoints } = await ownEtcd();
  const proxies = await Promise.all([0, 1].map(() => faultProxy(endpoints[0] as string)));
  const sent: string[] = [];
  const signals: (AbortSignal | undefined)[] = [];
  const recording: Interceptor = {
    unary: (call, next) => {
      const attempt = (url: string): void => {
        sent.push(url);
        signals.push(call.signal);
        call.observer?.attempt?.(url);
      };
      return next({ ...call, observer: { attempt } });
    },
  };
  const etcd: Client = openClient({
    endpoints: proxies.map(({ endpoint }) => endpoint),
    balance: 'in-order',
    interceptors: [hedgedReads({ endpoints: () => etcd.endpoints, ...options }), recording],
  });
  const key = unique();
  await etcd.put(key, 'v');
  sent.length = 0;
  signals.length = 0;
  return { etcd, proxies, sent, signals, key };
}

describe('`hedgedReads`', () => {
  test('answers each of several reads from the second endpoint while the first endpoint is silent', async () => {
    const { etcd, proxies, sent, key } = await hedging();
    proxies[0]?.blackhole();
    for (let read = 0; read < 5; read += 1) expect((await etcd.get(key))?.text()).toBe('v');
    expect(sent.slice(0, 2)).toEqual(proxies.map(({ endpoint }) => endpoint));
  });

  test('cancels the first call of a read when the second call has answered', async () => {
    const { etcd, proxies, signals, key } = await hedging();
    proxies[0]?.blackhole();
    await etcd.get(key);
    expect(signals.map((signal) => signal?.aborted)).toEqual([true, false]);
  });

  test('cancels the second call of a read when the first call has answered', async () => {
    const { etcd, proxies, signals, key } = await hedging();
    for (const proxy of proxies) proxy.pause();
    const reading = etcd.get(key);
    await expect.poll(() => signals.length).toBe(2);
    proxies[0]?.heal();
    await reading;
    expect(signals.map((signal) => signal?.aborted)).toEqual([false, true]);
  });

  test('sends no second call for writes, or for reads that name their endpoint', async () => {
    const { etcd, proxies, sent, key } = await hedging();
    const [first] = etcd.endpoints;
    proxies[0]?.blackhole();
    const calls = [etcd.put(key, 'w', { timeoutMs: 300 }), etcd.range(key, { endpoint: first, timeoutMs: 300 })];
    const errors = await Promise.all(calls.map((call) => errorOf(call)));
    expect(errors.map(({ reason }) => reason)).toEqual(['DeadlineExceeded', 'DeadlineExceeded']);
    expect(sent).toEqual([first, first]);
  });

  test('continues with the first call when the second endpoint refuses the read', async () => {
    const { etcd, proxies, sent, key } = await hedging();
    await proxies[1]?.close();
    proxies[0]?.blackhole();
    const reading = etcd.get(key);
    await expect.poll(() => sent.length).toBeGreaterThan(1);
    proxies[0]?.heal();
    expect((await reading)?.text()).toBe('v');
  });

  test('rejects when the first call is refused, and does not wait for a second endpoint that is silent', async () => {
    const { etcd, proxies, sent, key } = await hedging();
    const { header } = await etcd.put(key, 'w');
    await etcd.compact(header.revision);
    for (const proxy of proxies) proxy.pause();
    const reading = errorOf(etcd.get(key, { revision: header.revision - 1n, timeoutMs: 60_000 }));
    await expect.poll(() => sent.length).toBeGreaterThan(1);
    proxies[0]?.heal();
    expect(await reading).toMatchObject({ reason: 'Compacted' });
  });

  test('cancels both calls when the signal aborts, and ends them at the time limit', async () => {
    const { etcd, proxies, sent, key } = await hedging();
    for (const proxy of proxies) proxy.blackhole();
    const stop = new AbortController();
    const reading = errorOf(etcd.get(key, { signal: stop.signal }));
    await expect.poll(() => sent.length).toBe(2);
    stop.abort(new Error('not needed any more'));
    expect(await reading).toMatchObject({ reason: 'Canceled', cause: { message: 'not needed any more' } });
    expect(await errorOf(etcd.get(key, { timeoutMs: 100 }))).toMatchObject({ reason: 'DeadlineExceeded' });
    expect(await errorOf(etcd.get(key, { signal: AbortSignal.abort() }))).toMatchObject({ reason: 'Canceled' });
  });

  test('sends second calls for only some reads when the second calls never answer first', async () => {
    // Each answer takes longer than the delay, so without a limit the interceptor would send each read twice.
    const { etcd, sent, key } = await hedging({ delayMs: 0.001 });
    for (let read = 0; read < 500; read += 1) await etcd.get(key);
    expect(sent.length - 500).toBeLessThan(500);
  });

  test('sends few second calls while both endpoints are silent, and rejects with Canceled when the signal then aborts', async () => {
    const { etcd, proxies, sent, key } = await hedging();
    for (const proxy of proxies) proxy.blackhole();
    const stop = new AbortController();
    const reads = Array.from({ length: 200 }, () => errorOf(etcd.get(key, { signal: stop.signal })));
    await expect.poll(() => sent.length).toBeGreaterThan(200);
    stop.abort();
    for (const error of await Promise.all(reads)) expect(error.reason).toBe('Canceled');
    expect(sent.length).toBeLessThanOrEqual(200 + 50 + 20);
  });

  test('still answers reads when its function `endpoints` throws', async () => {
    const etcd = openClient({
      interceptors: [
        hedgedReads({
          endpoints: () => {
            throw new Error('no endpoints');
          },
          delayMs: 0.001,
        }),
      ],
    });
    for (let read = 0; read < 20; read += 1) expect(await etcd.get(unique())).toBeUndefined();
  });

  test('tells the observer of a read about the requests of both calls, but only about the attempts of the first call', async () => {
    const { unary } = hedgedReads({ endpoints: () => ['a', 'b'], delayMs: 1 });
    const told: string[] = [];
    const observer = { attempt: (url: string) => void told.push(url), sent: () => void told.push('sent') };
    const call = { method: methods.kv.range, request: {}, timeoutMs: 1_000, deadline: 1_000, observer };
    await unary?.(call, async ({ endpoint = 'a', observer: given }) => {
      given?.attempt?.(endpoint);
      given?.sent?.();
      return endpoint === 'a' ? new Promise<never>(() => {}) : ({} as never);
    });
    expect(told).toEqual(['a', 'sent', 'sent']);
  });

  test('refuses wrong options', () => {
    expect(() => hedgedReads({ endpoints: ['http://127.0.0.1:1'] as never })).toThrow(/endpoints/);
    expect(() => hedgedReads({ endpoints: () => [], delayMs: 0 })).toThrow(/delayMs/);
  });
});
