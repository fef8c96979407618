import { describe, expect, test } from 'vitest';
import { lead, Mutex, Session, withLock, withSessions } from '../../src/concurrency.js';
import { Client, type CoreKeyspace } from '../../src/index.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';

/** Functions that hold the lock `name` while an action runs. */
const HOLDING = {
  withLock: (etcd: CoreKeyspace, name: string, action: (signal: AbortSignal) => Promise<void>) =>
    withLock(etcd, name, ({ signal }) => action(signal)),
  lead: (etcd: CoreKeyspace, name: string, action: (signal: AbortSignal) => Promise<void>) =>
    lead(etcd, name, '', ({ signal }) => action(signal)),
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

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve());
  });
}

/** A promise, and the function that resolves it. */
function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

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
    const error = await errorOf(withLock(reader, name, () => {}, { maxWaitMs: 200 }));
    expect(error.reason).toBe('LockTaken');
    finish.open();
    await running;
    const later = await errorOf(withLock(reader, name, () => {}, { maxWaitMs: 200 }));
    expect(later.reason).toBe('LockTaken');
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
