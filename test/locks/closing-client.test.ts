import { describe, expect, test } from 'vitest';
import { methods } from '../../src/gen/methods.js';
import { Client, type CoreKeyspace, type Interceptor, prefix } from '../../src/index.js';
import {
  type Held,
  lead,
  Mutex,
  SelfHealingSession,
  Session,
  tryWithLock,
  withLock,
  withSessions,
} from '../../src/locks.js';
import { Barrier, DoubleBarrier, Etcd3Mutex, WorkQueue } from '../../src/recipes.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { queueLength } from '../support/locks.js';
import { aborted, gate } from '../support/signals.js';
import { answerLost, puts, transactions } from '../support/transactions.js';

/** Functions that hold the lock `name` while an action runs. */
const HOLDING = {
  withLock: (etcd: CoreKeyspace, name: string, action: (signal: AbortSignal) => Promise<void>) =>
    withLock(etcd, name, ({ signal }) => action(signal)),
  lead: (etcd: CoreKeyspace, name: string, action: (signal: AbortSignal) => Promise<void>) =>
    lead(etcd, name, ({ signal }) => action(signal)),
  'withSessions and Mutex': (etcd: CoreKeyspace, name: string, action: (signal: AbortSignal) => Promise<void>) =>
    withSessions(etcd, async (session, signal) => {
      const held = await new Mutex(session, name).lock({ signal });
      await action(held.signalWith(signal)).finally(() => held.release());
    }),
  'Session and Mutex': async (etcd: CoreKeyspace, name: string, action: (signal: AbortSignal) => Promise<void>) => {
    const session = await Session.open(etcd);
    const held = await new Mutex(session, name).lock();
    await action(held.signal).finally(() => held.release());
  },
} as const;

describe.each(Object.entries(HOLDING))('`close` while an action runs under the lock of %s (S46)', (_, holding) => {
  test.each(['client', 'namespace'])(
    'waits until the action has returned, and then frees the lock (%s)',
    async (what) => {
      const [root, name] = [openClient(), unique('closing')];
      const client = new Client({ endpoints: root.endpoints });
      const [etcd, reader] =
        what === 'client' ? [client, root] : [client.namespace('closing/'), root.namespace('closing/')];
      const events: string[] = [];
      const [started, finish] = [gate(), gate()];
      const running = holding(etcd, name, async (signal) => {
        started.open();
        await aborted(signal);
        events.push('signal aborted');
        await finish.opened;
        events.push('action returned');
      }).catch((error) => error);
      await started.opened;
      const waiting = withLock(reader, name, async () => void events.push('next holder'));
      const closing = etcd.close({ drainMs: Number.POSITIVE_INFINITY }).then(() => events.push('closed'));
      // The next holder would get the lock during these calls.
      for (let call = 0; call < 20; call += 1) await reader.get(name);
      finish.open();
      await Promise.all([running, closing, waiting]);
      await client.close();
      expect(events.slice(0, 2)).toEqual(['signal aborted', 'action returned']);
      expect(events).toContain('next holder');
    },
  );

  test('gives up after `drainMs`, and lets the lease expire, so that the next holder waits', async () => {
    const [reader, name] = [openClient(), unique('closing')];
    const etcd = new Client({ endpoints: reader.endpoints });
    const [started, finish] = [gate(), gate()];
    const running = holding(etcd, name, async () => {
      started.open();
      await finish.opened;
    }).catch((error) => error);
    await started.opened;
    await etcd.close({ drainMs: 50 });
    expect(await tryWithLock(reader, name, () => 'taken')).toBeUndefined();
    finish.open();
    await running;
    expect(await tryWithLock(reader, name, () => 'taken')).toBeUndefined();
  });
});

describe('`close`', () => {
  test('lets 50 puts in flight end with their answers', async () => {
    const [reader, name] = [openClient(), unique('closing')];
    const etcd = new Client({ endpoints: reader.endpoints });
    await etcd.get(name);
    const puts = Array.from({ length: 50 }, (_, index) => etcd.put(`${name}/${index}`, ''));
    await etcd.close();
    const results = await Promise.allSettled(puts);
    expect(results.filter(({ status }) => status === 'rejected')).toEqual([]);
  });

  test('refuses calls that the program makes afterwards, which are not sent', async () => {
    const [reader, name] = [openClient(), unique('closing')];
    const etcd = new Client({ endpoints: reader.endpoints });
    await etcd.get(name);
    const closing = etcd.close();
    expect(await errorOf(etcd.put(name, ''))).toMatchObject({ reason: 'ClientClosed', outcome: 'not-sent' });
    await closing;
  });

  test.each([-1, Number.NaN, '5' as unknown as number])('refuses drainMs = %s', async (drainMs) => {
    const error = await errorOf(openClient().close({ drainMs }));
    expect(error.message).toContain('drainMs');
    expect(error.reason).toBe('InvalidInput');
  });

  test('revokes the lease of a session whose locks are released', async () => {
    const [reader, name] = [openClient(), unique('closing')];
    const etcd = new Client({ endpoints: reader.endpoints });
    const session = await Session.open(etcd);
    const held = await new Mutex(session, name).lock();
    await held.release();
    await etcd.close();
    expect((await reader.lease.timeToLive(session.leaseId)).grantedTtl).toBeUndefined();
  });

  test('renews the lease of a lock for as long as it waits for the release, also for longer than the TTL', async () => {
    const [reader, name] = [openClient(), unique('closing')];
    let renewals = 0;
    const counting: Interceptor = {
      stream: (call, handler, next) =>
        next(call, {
          ...handler,
          message: (message) => {
            if (call.method.path === methods.lease.leaseKeepAlive.path) renewals += 1;
            handler.message(message);
          },
          end: (error) => handler.end(error),
        }),
    };
    const etcd = new Client({ endpoints: reader.endpoints, interceptors: [counting] });
    const session = await Session.open(etcd, { ttl: 1 });
    const held = await new Mutex(session, name).lock();
    const closing = etcd.close({ drainMs: Number.POSITIVE_INFINITY });
    expect(held.signal.aborted).toBe(true);
    const before = renewals;
    // The lease is renewed three times in each second of its TTL.
    await expect.poll(() => renewals - before, { timeout: 10_000 }).toBeGreaterThan(5);
    expect(await tryWithLock(reader, name, () => 'taken')).toBeUndefined();
    await held.release();
    await closing;
    await withLock(reader, name, () => {});
  });

  test('does not revoke the lease of a session while another session with this lease holds a lock', async () => {
    const [reader, name] = [openClient(), unique('closing')];
    const etcd = new Client({ endpoints: reader.endpoints });
    const root = await Session.open(etcd);
    const inner = await Session.open(etcd.namespace(`${name}/`), { lease: root });
    const held = await new Mutex(inner, 'lock').lock();
    const closing = etcd.close({ drainMs: Number.POSITIVE_INFINITY });
    expect(await tryWithLock(reader.namespace(`${name}/`), 'lock', () => 'taken')).toBeUndefined();
    await held.release();
    await closing;
    expect((await reader.lease.timeToLive(root.leaseId)).grantedTtl).toBeUndefined();
  });

  test('answers calls in flight that interceptors and the option auth delay by some microtasks', async () => {
    const [reader, name] = [openClient(), unique('closing')];
    const slow: Interceptor = {
      unary: async (call, next) => {
        await null;
        return next(call);
      },
    };
    const etcd = new Client({ endpoints: reader.endpoints, interceptors: [slow, slow] });
    await etcd.get(name);
    const puts = Array.from({ length: 10 }, (_, index) => etcd.put(`${name}/${index}`, ''));
    await etcd.close();
    expect((await Promise.allSettled(puts)).filter(({ status }) => status === 'rejected')).toEqual([]);
  });

  test('ends a `withLock` call whose session is granted while the client closes, and leaves no lease', async () => {
    const [reader, name] = [openClient(), unique('closing')];
    const granted: bigint[] = [];
    const noting: Interceptor = {
      unary: async (call, next) => {
        const response = await next(call);
        if (call.method.path === methods.lease.leaseGrant.path) granted.push((response as { readonly id: bigint }).id);
        return response;
      },
    };
    const etcd = new Client({ endpoints: reader.endpoints, interceptors: [noting] });
    const waiting = errorOf(withLock(etcd, name, () => 'never'));
    await etcd.close({ drainMs: Number.POSITIVE_INFINITY });
    expect(await waiting).toMatchObject({ reason: 'ClientClosed' });
    for (const id of granted) expect((await reader.lease.timeToLive(id)).grantedTtl).toBeUndefined();
  });

  test.each<[string, (etcd: Client, name: string) => unknown]>([
    ['Session.open', (etcd) => Session.open(etcd)],
    ['withLock', (etcd, name) => withLock(etcd, name, () => {})],
    ['watch', (etcd, name) => etcd.watch(name).created()],
    ['lease.keepAliveOnce', (etcd) => etcd.lease.keepAliveOnce(1n)],
    ['setEndpoints', (etcd) => etcd.setEndpoints(etcd.endpoints)],
    ['Barrier.wait', (etcd, name) => new Barrier(etcd, name).wait()],
  ])('refuses `%s` afterwards', async (_, call) => {
    const [reader, name] = [openClient(), unique('closing')];
    const etcd = new Client({ endpoints: reader.endpoints });
    const held = await new Mutex(await Session.open(etcd), name).lock();
    const closing = etcd.close();
    const refused = async (): Promise<void> => void (await call(etcd, name));
    expect(await errorOf(refused())).toMatchObject({ reason: 'ClientClosed' });
    await held.release();
    await closing;
  });

  test('resolves for a namespace and its client, in any order, when the lock is released', async () => {
    const [reader, name] = [openClient(), unique('closing')];
    for (const order of ['client first', 'namespace first']) {
      const etcd = new Client({ endpoints: reader.endpoints });
      const inner = etcd.namespace(`${name}/`);
      const held = await new Mutex(await Session.open(inner), 'lock').lock();
      const both = order === 'client first' ? [etcd, inner] : [inner, etcd];
      const closing = both.map((each) => each.close({ drainMs: Number.POSITIVE_INFINITY }));
      await held.release();
      await Promise.all(closing);
    }
  });

  test('waits for a job of `WorkQueue.take` until the program has completed it', async () => {
    const [reader, name] = [openClient(), unique('closing')];
    const etcd = new Client({ endpoints: reader.endpoints });
    const queue = new WorkQueue(etcd, name);
    await queue.enqueue('x');
    const job = await queue.take(await Session.open(etcd));
    const completing = job.complete();
    await etcd.close({ drainMs: Number.POSITIVE_INFINITY });
    await completing;
    expect((await new WorkQueue(reader, name).counts()).running).toBe(0);
  });

  test('waits for a job of `WorkQueue.take` that the program completes after its signal has aborted', async () => {
    const [reader, name] = [openClient(), unique('closing')];
    const etcd = new Client({ endpoints: reader.endpoints });
    const queue = new WorkQueue(etcd, name);
    await queue.enqueue('x', { id: 'a' });
    const job = await queue.take(await Session.open(etcd));
    const closing = etcd.close({ drainMs: Number.POSITIVE_INFINITY });
    expect(job.signal.aborted).toBe(true);
    await job.complete();
    await closing;
    expect(await new WorkQueue(reader, name).counts()).toEqual({ ready: 0, delayed: 0, running: 0, dead: 0 });
  });

  test('lets `withLock` resolve with the result of an action that returns after its signal has aborted', async () => {
    const [reader, name] = [openClient(), unique('closing')];
    const etcd = new Client({ endpoints: reader.endpoints });
    const started = gate();
    const running = withLock(etcd, name, async ({ signal }) => {
      started.open();
      await aborted(signal);
      return signal.reason.reason;
    });
    await started.opened;
    await etcd.close();
    expect(await running).toBe('ClientClosed');
  });

  test('lets `withLock` reject with the reason of the loss if the lease ends before the action', async () => {
    const [reader, name] = [openClient(), unique('closing')];
    const etcd = new Client({ endpoints: reader.endpoints });
    const [started, finish] = [gate(), gate()];
    const running = errorOf(
      withLock(etcd, name, () => {
        started.open();
        return finish.opened;
      }),
    );
    await started.opened;
    await etcd.close({ drainMs: 20 });
    finish.open();
    expect(await running).toMatchObject({ reason: 'ClientClosed' });
  });

  test('waits for the action of `withLock` although its lock was lost before', async () => {
    const [reader, name] = [openClient(), unique('closing')];
    const etcd = new Client({ endpoints: reader.endpoints });
    const [lost, finish] = [gate(), gate()];
    const events: string[] = [];
    const running = errorOf(
      withLock(etcd, name, async ({ key, signal }) => {
        await reader.lease.revoke((await reader.get(key))?.lease as bigint);
        await aborted(signal);
        lost.open();
        await finish.opened;
        events.push('action returned');
      }),
    );
    await lost.opened;
    const closing = etcd.close({ drainMs: Number.POSITIVE_INFINITY }).then(() => events.push('closed'));
    for (let call = 0; call < 5; call += 1) await reader.get(name);
    finish.open();
    await Promise.all([running, closing]);
    expect(events).toEqual(['action returned', 'closed']);
  });

  test('keeps a lock whose `maxHoldMs` passed before the program closed the client', async () => {
    const [reader, name] = [openClient(), unique('closing')];
    const etcd = new Client({ endpoints: reader.endpoints });
    const [ended, finish] = [gate(), gate()];
    const action = async ({ signal }: Held): Promise<void> => {
      await aborted(signal);
      ended.open();
      await finish.opened;
    };
    const running = errorOf(withLock(etcd, name, { maxHoldMs: 1 }, action));
    await ended.opened;
    const closing = etcd.close({ drainMs: Number.POSITIVE_INFINITY });
    for (let call = 0; call < 5; call += 1) await reader.get(name);
    expect(await tryWithLock(reader, name, () => 'taken')).toBeUndefined();
    finish.open();
    expect(await running).toMatchObject({ reason: 'LockLost' });
    await closing;
  });

  test('frees a lock at the latest when the TTL has passed after `maxHoldMs`', async () => {
    const [reader, name] = [openClient(), unique('closing')];
    const etcd = new Client({ endpoints: reader.endpoints });
    const [started, finish] = [gate(), gate()];
    const action = (): Promise<void> => {
      started.open();
      return finish.opened;
    };
    const running = withLock(etcd, name, { maxHoldMs: 100, ttl: 1 }, action).catch((error) => error);
    await started.opened;
    const closing = etcd.close({ drainMs: Number.POSITIVE_INFINITY });
    expect(await withLock(reader, name, () => 'next holder')).toBe('next holder');
    finish.open();
    await Promise.all([running, closing]);
  });

  test('waits only until a listener of the signal of a lock has released the lock', async () => {
    const [reader, name] = [openClient(), unique('closing')];
    const etcd = new Client({ endpoints: reader.endpoints });
    const held = await new Mutex(await Session.open(etcd), name).lock();
    held.signal.addEventListener('abort', () => void held.release());
    await etcd.close({ drainMs: Number.POSITIVE_INFINITY });
    expect(await tryWithLock(reader, name, () => 'taken')).toBe('taken');
  });

  test('lets a lease expire under which a lock was not released', async () => {
    const [reader, name] = [openClient(), unique('closing')];
    const etcd = new Client({ endpoints: reader.endpoints });
    const session = await Session.open(etcd);
    const held = await new Mutex(session, name).lock();
    await etcd.close({ drainMs: 20 });
    expect(held.valid()).toBe(false);
    expect((await reader.lease.timeToLive(session.leaseId)).grantedTtl).toBe(10);
  });
});

test('`register` of a SelfHealingSession puts nothing more after its client has begun to close', async () => {
  const [other, key] = [openClient(), unique('closing')];
  let puts = 0;
  const [put, revoke] = [gate(), gate()];
  const slow: Interceptor = {
    async unary(call, next) {
      if (call.method.path === methods.lease.leaseRevoke.path) await revoke.opened;
      return next(call);
    },
  };
  const counting = transactions((_, send) => {
    puts += 1;
    put.open();
    return send();
  });
  const etcd = new Client({ endpoints: other.endpoints, interceptors: [slow, counting] });
  const session = await SelfHealingSession.open(etcd);
  const registering = errorOf(session.register(key, ''));
  await put.opened;
  const closing = etcd.close();
  expect(await registering).toMatchObject({ reason: 'ClientClosed' });
  expect(puts).toBe(1);
  revoke.open();
  await closing;
});

describe('while a closing client waits for the release of a lock', () => {
  /** Opens a client whose session holds a lock. `end` releases the lock, and waits until the client has closed. */
  const holding = async (interceptors: readonly Interceptor[] = []) => {
    const other = openClient();
    const etcd = new Client({ endpoints: other.endpoints, interceptors });
    const session = await Session.open(etcd);
    const held = await new Mutex(session, unique('closing')).lock();
    let closing: Promise<void> | undefined;
    const close = (): void => {
      closing ??= etcd.close({ drainMs: Number.POSITIVE_INFINITY });
    };
    const end = async (): Promise<void> => {
      await held.release();
      await closing;
    };
    return { other, etcd, session, close, end };
  };

  test('a waiter in the same session leaves the queue of a lock at once (S21)', async () => {
    const { other, session, close, end } = await holding();
    const name = unique('lock');
    const first = await new Mutex(await Session.open(other), name).lock();
    const waiting = errorOf(new Mutex(session, name).lock());
    await queueLength(other, name, 2);
    close();
    expect(await waiting).toMatchObject({ reason: 'ClientClosed' });
    await first.release();
    await withLock(other, name, { maxWaitMs: 5_000 }, () => {});
    await end();
  });

  test.each(['client', 'namespace'] as const)('a wait for a barrier rejects at once (%s)', async (what) => {
    const [other, lock, barrier] = [openClient(), unique('closing'), unique('closing')];
    const client = new Client({ endpoints: other.endpoints });
    const etcd = what === 'client' ? client : client.namespace(unique('namespace'));
    const held = await new Mutex(await Session.open(etcd), lock).lock();
    await new Barrier(etcd, barrier).hold();
    const waiting = errorOf(new Barrier(etcd, barrier).wait());
    await client.get(lock);
    const closing = etcd.close({ drainMs: Number.POSITIVE_INFINITY });
    expect(await waiting).toMatchObject({ reason: 'ClientClosed' });
    await held.release();
    await closing;
    await client.close();
  });

  test('a participant leaves a double barrier at once', async () => {
    const { other, session, close, end } = await holding();
    const name = unique('barrier');
    const entering = errorOf(new DoubleBarrier(session, name, 2).enter());
    const waiters = prefix(`${name}/waiters/`);
    await expect.poll(async () => (await other.range(waiters)).count).toBe(1);
    close();
    expect(await entering).toMatchObject({ reason: 'ClientClosed' });
    await expect.poll(async () => (await other.range(waiters)).count).toBe(0);
    await end();
  });

  test('a job whose claim got no answer returns to the queue at once', async () => {
    const name = unique('jobs');
    let isLost = false;
    const losing = transactions(async (ops, send) => {
      const answer = await send();
      if (isLost || !puts(ops, `${name}/held/claimed/`)) return answer;
      isLost = true;
      close();
      throw answerLost();
    });
    const { other, etcd, session, close, end } = await holding([losing]);
    await new WorkQueue(other, name).enqueue('job');
    expect(await errorOf(new WorkQueue(etcd, name).take(session))).toMatchObject({ reason: 'ClientClosed' });
    await expect.poll(() => new WorkQueue(other, name).counts()).toMatchObject({ ready: 1, running: 0 });
    await end();
  });

  test.each([0, 1, 2, 3, 5, 8])(
    'a lock whose answer arrives while the client begins to close is free or held (%i turns)',
    async (turns) => {
      const name = unique('lock');
      const late = transactions(async (ops, send) => {
        const answer = await send();
        if (puts(ops, `${name}/`))
          void (async () => {
            for (let turn = 0; turn < turns; turn += 1) await null;
            close();
          })();
        return answer;
      });
      const { other, session, close, end } = await holding([late]);
      await new Mutex(session, name).lock().then(
        (held) => held.release(),
        () => {},
      );
      await withLock(other, name, { maxWaitMs: 5_000 }, () => {});
      await end();
    },
  );

  test('a holder of an Etcd3Mutex keeps both keys until it calls `release`', async () => {
    const { other, session, close, end } = await holding();
    const name = unique('lock');
    const held = await new Etcd3Mutex(session, name).lock();
    const lost = aborted(held.signal);
    close();
    await lost;
    for (let call = 0; call < 20; call += 1) await other.get(name);
    expect((await other.get(name))?.lease).toBe(session.leaseId);
    await held.release();
    expect(await other.get(name)).toBeUndefined();
    await end();
  });
});
