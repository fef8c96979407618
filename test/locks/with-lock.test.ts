import { describe, expect, inject, test } from 'vitest';
import { timedOut } from '../../src/base/etcd-error.js';
import { prefix } from '../../src/index.js';
import { tryWithLock, withLock, withLocks } from '../../src/locks.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { faultProxy } from '../support/fault-proxy.js';
import { lock, proxied, queueLength } from '../support/locks.js';

describe('`withLock`', () => {
  test('runs the action while it holds the lock, returns the result of the action, and leaves no key and no lease', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    let lease = 0n;
    const result = await withLock(etcd, name, async (held) => {
      lease = (await etcd.get(held.key))?.lease as bigint;
      return held.token;
    });
    expect(result).toBeGreaterThan(0n);
    expect((await etcd.range(prefix(`${name}/`))).count).toBe(0);
    expect(await etcd.lease.timeToLive(lease)).toMatchObject({ remainingTtl: undefined });
  });

  test("releases the lock and rejects with the action's error when the action fails", async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    await expect(withLock(etcd, name, () => Promise.reject(new Error('no luck')))).rejects.toThrow('no luck');
    expect((await etcd.range(prefix(`${name}/`))).count).toBe(0);
  });

  test('rejects after `maxWaitMs` when no server accepts a connection', async () => {
    const proxy = await faultProxy(inject('endpoints')[0] as string);
    const { endpoint } = proxy;
    await proxy.close();
    const etcd = openClient({ endpoints: [endpoint] });
    const error = await errorOf(withLock(etcd, 'x', { maxWaitMs: 1_500 }, () => {}));
    expect(error).toMatchObject({
      reason: 'DeadlineExceeded',
      outcome: 'not-sent',
      endpoint,
      cause: { reason: 'ConnectFailed' },
    });
    expect(error.message).toContain(
      `withLock did not finish within maxWaitMs = 1500, because it reached no etcd: start etcd, or correct endpoints; last failure: cannot connect to ${endpoint}: `,
    );
  });

  test('waits for a server for longer than the time limit of one call when `maxWaitMs` is not set', async () => {
    let attempts = 0;
    let isDown = true;
    const etcd = openClient({
      interceptors: [
        {
          unary: async (call, next) => {
            if (!isDown) return next(call);
            // The first three calls time out.
            attempts += 1;
            isDown = attempts < 3;
            throw timedOut('call', call.timeoutMs, 'not-sent', call.method.path);
          },
        },
      ],
    });
    expect(await withLock(etcd, unique('lock'), () => 'done')).toBe('done');
    expect(attempts).toBe(3);
  });

  test('returns the result of an action that releases the lock itself', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const result = await withLock(etcd, name, async (held) => {
      await held.release();
      expect(held.signal.reason).toMatchObject({ reason: 'LockReleased' });
      return 'done';
    });
    expect(result).toBe('done');
  });

  test('rejects without waiting for the cleanup when the server stops answering during the wait for the lock', async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('lock');
    const holder = await lock(direct, name);
    const waiting = errorOf(withLock(etcd, name, { maxWaitMs: 4_000, ttl: 60 }, () => {}));
    await queueLength(direct, name, 2);
    proxy.blackhole();
    const start = performance.now();
    // The reason depends on whether the client was waiting for an answer when the server fell silent.
    expect(['LockTaken', 'DeadlineExceeded']).toContain((await waiting).reason);
    // The call must not wait for the deletion of its queue key and the revocation of its lease, which would take 10 s.
    expect(performance.now() - start).toBeLessThan(9_000);
    await holder.release();
  });

  test('rejects when the lock is lost before the action ends', async () => {
    const etcd = openClient();
    const lost = withLock(etcd, unique('lock'), async (held) => {
      const gone = new Promise((resolve) => held.signal.addEventListener('abort', resolve));
      await openClient().delete(held.key);
      await gone;
    });
    expect(await errorOf(lost)).toMatchObject({ reason: 'LockLost' });
  });

  test('refuses a call inside its action for the same lock of the same client, at any depth, and suggests a ReentrantMutex', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const nested = (): Promise<unknown> => withLock(etcd, name, () => 'never');
    const [direct, deep, several] = await withLock(etcd, name, async () => [
      await errorOf(nested()),
      await withLock(etcd, `${name}-other`, async () => {
        await etcd.get(name);
        return errorOf(nested());
      }),
      await errorOf(withLocks(etcd, [`${name}-third`, name], () => 'never')),
    ]);
    for (const error of [direct, deep, several]) {
      expect(error).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
      expect(error?.message).toContain('ReentrantMutex');
    }
    expect((await etcd.range(prefix(name))).count).toBe(0);
  });

  test('accepts calls inside its action for another lock, of another client or with a limit, and calls after the action has ended', async () => {
    const [etcd, other, name] = [openClient(), openClient(), unique('lock')];
    let later: Promise<string> | undefined;
    let end = (): void => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    const results = await withLock(etcd, name, async () => {
      later = ended.then(() => withLock(etcd, name, () => 'later'));
      const outer = errorOf(withLock(other, name, { maxWaitMs: 2_000 }, () => 'never'));
      const limited = await errorOf(withLock(etcd, name, { maxWaitMs: 2_000 }, () => 'never'));
      return [await withLock(etcd, `${name}-2`, () => 'inner'), (await outer).reason, limited.reason];
    });
    end();
    expect([...results, await later]).toEqual(['inner', 'LockTaken', 'LockTaken', 'later']);
  });
});

describe('`tryWithLock`', () => {
  test('runs the action if the lock is free, and resolves with undefined and leaves no key if the lock is taken', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    expect(await tryWithLock(etcd, name, ({ token }) => token > 0n)).toBe(true);
    const held = await lock(openClient(), name);
    let ran = false;
    const result = await tryWithLock(etcd, name, () => {
      ran = true;
    });
    expect({ result, ran }).toEqual({ result: undefined, ran: false });
    expect((await etcd.range(prefix(`${name}/`))).kvs.map((kv) => kv.key)).toEqual([held.key]);
  });

  test('resolves with undefined inside an action that holds the lock', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    expect(await withLock(etcd, name, () => tryWithLock(etcd, name, () => 'inner'))).toBeUndefined();
  });

  test('rejects if the lock is lost before the action returns', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const error = await errorOf(
      tryWithLock(etcd, name, async (held) => {
        await etcd.delete(held.key);
        await errorOf(held.txn({ then: [] }));
      }),
    );
    expect(error).toMatchObject({ reason: 'LockLost' });
  });
});
