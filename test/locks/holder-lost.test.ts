import { describe, expect, inject, test } from 'vitest';
import { methods } from '../../src/gen/methods.js';
import { type Client, compare, EtcdError, type Interceptor, op, prefix } from '../../src/index.js';
import { Mutex, ReentrantMutex, Session } from '../../src/locks.js';
import { Etcd3Mutex } from '../../src/recipes.js';
import type { StreamHandler } from '../../src/wire/transport.js';
import { blockEventLoop } from '../support/block.js';
import { startScript } from '../support/child.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { aborted } from '../support/signals.js';

const TTL = 2;

test('the next waiter acquires the lock within the TTL plus one second after the process of the holder is killed', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  const holder = startScript(new URL('../support/lock-holder.ts', import.meta.url), [
    inject('endpoints')[0] as string,
    name,
    String(TTL),
  ]);
  expect(await holder.line()).toMatch(/^held /);
  const waiting = new Mutex(await Session.open(etcd), name).lock();
  await expect.poll(async () => (await etcd.range(prefix(`${name}/`))).count).toBe(2);
  holder.process.kill('SIGKILL');
  const killedAt = performance.now();
  const held = await waiting;
  // The next waiter must hold the lock within the TTL plus one second. A waiter that only polls would be slower.
  expect(performance.now() - killedAt).toBeLessThan((TTL + 1) * 1_000);
  await held.release();
});

test.for([0.5, 1.2, 3])(
  "after the event loop was blocked for %s times the TTL, the holder's signal is already aborted if the lease has expired (S14)",
  async (factor) => {
    const [etcd, other, name, report] = [openClient(), openClient(), unique('lock'), unique('report')];
    const session = await Session.open(etcd, { ttl: TTL });
    const held = await new Mutex(session, name).lock();
    const seen: [string, boolean, boolean][] = [];
    const look = (who: string): void => void seen.push([who, held.signal.aborted, held.valid()]);
    const later = [
      Promise.resolve().then(() => look('microtask')),
      new Promise<void>((resolve) => setImmediate(() => resolve(look('immediate')))),
      etcd.get(name).then(
        () => look('answer'),
        () => look('failed call'),
      ),
    ];
    blockEventLoop(factor * TTL * 1_000);
    look('same turn');
    await Promise.all(later);
    if (factor < 1) {
      // The lease survives if the event loop is blocked for half the TTL, because the client sends the next renewal
      // before the lease expires.
      expect(new Set(seen.map(([, aborted]) => aborted))).toEqual(new Set([false]));
      expect((await held.txn({ then: [op.put(report, 'in time')] })).succeeded).toBe(true);
      return held.release();
    }
    expect(seen).toEqual(seen.map(([who]) => [who, true, false]));
    expect(held.signal.reason).toMatchObject({ reason: 'LeaseUnreachable' });

    const next = await new Mutex(await Session.open(other), name).lock();
    expect(next.token).toBeGreaterThan(held.token);
    expect(await errorOf(held.txn({ then: [op.put(report, 'stale')] }))).toMatchObject({
      reason: 'LockLost',
      outcome: 'rejected',
    });
    // Even if the client sent the write without its own check, the transaction's condition on the old token would fail.
    const fenced = await etcd.txn({
      if: [compare.createRevision(held.key, '==', held.token)],
      then: [op.put(report, 'stale')],
    });
    expect(fenced.succeeded).toBe(false);
    expect(await other.get(report)).toBeUndefined();
    await next.release();
  },
);

describe('if the server refuses the watch of a held key,', () => {
  /**
   * Returns a client whose watches get no answer, and a function that refuses them as soon as there is one. The function
   * then waits until the given signal aborts.
   */
  function refusing(): { readonly etcd: Client; readonly refuse: (lost: AbortSignal) => Promise<void> } {
    const streams: StreamHandler<never>[] = [];
    const silent: Interceptor = {
      stream(call, handler, next) {
        if (call.method.path !== methods.watch.watch.path) return next(call, handler);
        streams.push(handler);
        return { send: () => {}, end: () => {}, cancel: () => {}, pause: () => {}, resume: () => {} };
      },
    };
    const refuse = async (signal: AbortSignal): Promise<void> => {
      const lost = aborted(signal);
      await expect.poll(() => streams.length).toBeGreaterThan(0);
      for (const handler of streams.splice(0))
        handler.end(new EtcdError('refused', { code: 'Unimplemented', reason: 'Other', outcome: 'rejected' }));
      await lost;
    };
    return { etcd: openClient({ interceptors: [silent] }), refuse };
  }

  test('the holder keeps the lock until it calls `release`, although its signal aborts', async () => {
    const [other, name] = [openClient(), unique('lock')];
    const { etcd, refuse } = refusing();
    const held = await new Mutex(await Session.open(etcd), name).lock();
    await refuse(held.signal);
    expect(held.signal.reason).toMatchObject({ reason: 'LockLost', cause: { code: 'Unimplemented' } });
    expect(await new Mutex(await Session.open(other), name).tryLock()).toBeUndefined();
    await held.release();
    expect(await new Mutex(await Session.open(other), name).tryLock()).toBeDefined();
  });

  test('the next contender gets the lock when the TTL has passed, if the holder does not call `release`', async () => {
    const [other, name] = [openClient(), unique('lock')];
    const { etcd, refuse } = refusing();
    const held = await new Mutex(await Session.open(etcd, { ttl: TTL }), name).lock();
    await refuse(held.signal);
    await new Mutex(await Session.open(other), name).lock();
  });

  test('the owner of a ReentrantMutex does not wait for its own hold', async () => {
    const { etcd, refuse } = refusing();
    const mutex = new ReentrantMutex(await Session.open(etcd), unique('lock'));
    const outer = await mutex.lock('me');
    await refuse(outer.signal);
    expect((await mutex.lock('me')).token).toBeGreaterThan(outer.token);
  });

  test('an Etcd3Mutex keeps both keys until its holder calls `release`', async () => {
    const [other, name] = [openClient(), unique('lock')];
    const { etcd, refuse } = refusing();
    const held = await new Etcd3Mutex(await Session.open(etcd), name).lock();
    await refuse(held.signal);
    for (let call = 0; call < 20; call += 1) await other.get(name);
    expect(await other.get(name)).toBeDefined();
    await held.release();
    expect(await other.get(name)).toBeUndefined();
  });
});
