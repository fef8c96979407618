import { describe, expect, test } from 'vitest';
import { methods } from '../../../src/gen/methods.js';
import { type Client, type EtcdError, type RetryPolicy, retryPolicy } from '../../../src/index.js';
import { Mutex, Session } from '../../../src/locks.js';
import { containing } from '../../../src/testing/index.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { faultProxy } from '../../support/fault-proxy.js';
import { proxied } from '../../support/locks.js';
import { scriptedServer, scriptedUnary } from '../../support/scripted-server.js';

const UNAVAILABLE = { code: 14, details: 'etcdserver: leader changed' };
const DENIED = { code: 7, details: 'etcdserver: permission denied' };

/**
 * Returns a client with the policy, whose first calls fail with these errors, and a function that counts the attempts.
 */
async function failing(
  policy: RetryPolicy,
  ...errors: readonly object[]
): Promise<{ readonly etcd: Client; readonly attempts: () => number }> {
  let attempts = 0;
  const answer = (): object => {
    const error = errors[attempts];
    attempts += 1;
    if (error !== undefined) throw error;
    return { header: { revision: 1n, clusterId: 1n } };
  };
  const endpoint = await scriptedServer(scriptedUnary(methods.kv.range, answer), scriptedUnary(methods.kv.put, answer));
  return { etcd: openClient({ endpoints: [endpoint], interceptors: [retryPolicy(policy)] }), attempts: () => attempts };
}

describe('`retryPolicy`', () => {
  test('ends a call after `maxAttempts` with the last error', async () => {
    const { etcd, attempts } = await failing({ maxAttempts: 2 }, UNAVAILABLE, UNAVAILABLE, UNAVAILABLE);
    expect(await errorOf(etcd.get('k'))).toMatchObject({ reason: 'LeaderChanged' });
    expect(attempts()).toBe(2);
    expect(await etcd.get('k')).toBeUndefined();
  });

  test('ends a call after `maxAttempts` of an outer policy although an inner one has a backoff', async () => {
    let attempts = 0;
    const endpoint = await scriptedServer(
      scriptedUnary(methods.kv.range, () => {
        attempts += 1;
        throw UNAVAILABLE;
      }),
    );
    const policies = [retryPolicy({ maxAttempts: 2 }), retryPolicy({ minBackoffMs: 1, maxBackoffMs: 2 })];
    const etcd = openClient({ endpoints: [endpoint], interceptors: policies });
    expect(await errorOf(etcd.get('k'))).toMatchObject({ reason: 'LeaderChanged' });
    expect(attempts).toBe(2);
  });

  test('repeats no call with `maxAttempts: 1`', async () => {
    const { etcd, attempts } = await failing({ maxAttempts: 1 }, UNAVAILABLE);
    expect(await errorOf(etcd.get('k'))).toMatchObject({ reason: 'LeaderChanged' });
    expect(attempts()).toBe(1);
  });

  test('lets `retryRead` repeat a read that the client would not repeat, and not repeat a read that the client would repeat', async () => {
    const seen: unknown[] = [];
    const eager = await failing(
      {
        maxBackoffMs: 1,
        retryRead: ({ reason }, failures, isSafe) => {
          seen.push([reason, failures, isSafe]);
          return true;
        },
      },
      DENIED,
      UNAVAILABLE,
      DENIED,
    );
    await eager.etcd.get('k');
    expect(seen).toEqual([
      ['PermissionDenied', 1, false],
      ['LeaderChanged', 2, true],
      ['PermissionDenied', 3, false],
    ]);
    const reluctant = await failing({ retryRead: () => false }, UNAVAILABLE);
    expect(await errorOf(reluctant.etcd.get('k'))).toMatchObject({ reason: 'LeaderChanged' });
    expect(reluctant.attempts()).toBe(1);
  });

  test('does not repeat a read with a refused token, because the client repeats it with a new token', async () => {
    const tokens: unknown[] = [];
    const asked: unknown[] = [];
    const endpoint = await scriptedServer(
      scriptedUnary(methods.auth.authenticate, () => ({ token: `token ${tokens.length}` })),
      scriptedUnary(methods.kv.range, (_, metadata) => {
        tokens.push(metadata.token);
        if (tokens.length === 1) throw { code: 16, details: 'etcdserver: invalid auth token' };
        return {};
      }),
    );
    const retryRead = ({ reason }: EtcdError): boolean => asked.push(reason) > 0;
    const etcd = openClient({
      endpoints: [endpoint],
      auth: { username: 'root', password: 'secret', allowPlaintext: true },
      interceptors: [retryPolicy({ maxBackoffMs: 1, retryRead })],
    });
    await etcd.get('k');
    expect(tokens).toEqual(['token 0', 'token 1']);
    expect(asked).toEqual([]);
  });

  test('does not call `retryRead` for calls that the client itself has refused or ended', async () => {
    const { etcd, attempts } = await failing({ retryRead: () => true });
    expect(await errorOf(etcd.get('k', { signal: AbortSignal.abort() }))).toMatchObject({ reason: 'Canceled' });
    expect(await errorOf(etcd.range('k', { endpoint: 'http://127.0.0.1:1' }))).toMatchObject({
      reason: 'InvalidInput',
    });
    await etcd.close();
    expect(await errorOf(etcd.get('k'))).toMatchObject({ reason: 'ClientClosed' });
    expect(attempts()).toBe(0);
  });

  test('ends a read at its time limit when `retryRead` always returns true', async () => {
    const { etcd } = await failing({ maxBackoffMs: 5, retryRead: () => true }, ...new Array(10_000).fill(DENIED));
    await errorOf(etcd.get('k', { timeoutMs: 50 }));
    const error = await errorOf(etcd.get('k', { timeoutMs: 500 }));
    expect(error).toMatchObject({ reason: 'DeadlineExceeded', cause: { reason: 'PermissionDenied' } });
  });

  test('never makes the client repeat a write whose outcome is unknown or that the server has refused', async () => {
    const { etcd, attempts } = await failing({ retryRead: () => true, maxBackoffMs: 1 }, DENIED);
    expect(await errorOf(etcd.put('k', 'v'))).toMatchObject({ reason: 'PermissionDenied' });
    expect(attempts()).toBe(1);
    const { direct, proxy } = await proxied();
    const writer = openClient({ endpoints: [proxy.endpoint], interceptors: [retryPolicy({ retryRead: () => true })] });
    const key = unique();
    const lost = proxy.loseNextAnswer(containing(key));
    expect(await errorOf(writer.put(key, 'v'))).toMatchObject({ outcome: 'unknown' });
    await lost;
    expect((await direct.get(key))?.version).toBe(1n);
  });

  test('delays each repetition by up to `minBackoffMs` if that is above the default of `maxBackoffMs`', async () => {
    const policy = retryPolicy({ minBackoffMs: 60_000 });
    const call = { method: methods.kv.range, request: {}, timeoutMs: 1, deadline: 1 };
    const delays: number[] = [];
    await policy.unary?.(call, async (given) => {
      for (let failures = 1; failures <= 200; failures += 1)
        delays.push(given.retryAfter?.({ outcome: 'rejected' } as never, failures, true) as number);
      return {} as never;
    });
    expect(Math.max(...delays)).toBeGreaterThan(20_000);
    expect(Math.max(...delays)).toBeLessThanOrEqual(60_000);
  });

  test('delays the first repetition by at most `minBackoffMs` and each later one by at most `maxBackoffMs`', async () => {
    const delays: number[] = [];
    const policy = retryPolicy({ minBackoffMs: 10, maxBackoffMs: 15 });
    const { etcd } = await failing({}, UNAVAILABLE);
    await etcd.get('k');
    const call = { method: methods.kv.range, request: {}, timeoutMs: 1, deadline: 1 };
    await policy.unary?.(call, async (given) => {
      for (let failures = 1; failures <= 200; failures += 1) {
        const delayMs = given.retryAfter?.({ outcome: 'rejected' } as never, failures, true);
        delays.push(delayMs as number);
      }
      return {} as never;
    });
    expect(Math.max(...delays)).toBeLessThanOrEqual(15);
    expect(Math.max(...delays)).toBeGreaterThan(10);
    expect(delays[0]).toBeLessThanOrEqual(10);
  });

  test('does not end a `lock` call whose first answer is lost, even if `maxAttempts` is 1', async () => {
    const proxy = await faultProxy((openClient().endpoints as string[])[0] as string);
    const etcd = openClient({ endpoints: [proxy.endpoint], interceptors: [retryPolicy({ maxAttempts: 1 })] });
    const session = await Session.open(etcd);
    const name = unique('lock');
    const lost = proxy.loseNextAnswer(containing(name));
    const held = await new Mutex(session, name).lock();
    await lost;
    expect(held.valid()).toBe(true);
  });

  test('refuses wrong options', () => {
    expect(() => retryPolicy({ maxAttempts: 0 })).toThrow(/maxAttempts/);
    expect(() => retryPolicy({ minBackoffMs: -1 })).toThrow(/minBackoffMs/);
    expect(() => retryPolicy({ minBackoffMs: 2, maxBackoffMs: 1 })).toThrow(
      /minBackoffMs: got 2; allowed: at most maxBackoffMs, which is 1/,
    );
    expect(() => retryPolicy({ retryRead: 1 as never })).toThrow(/retryRead/);
    expect(() => retryPolicy({ retry: false } as never)).toThrow(/retry/);
  });
});
