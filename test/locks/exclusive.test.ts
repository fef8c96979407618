import { describe, expect, inject, test } from 'vitest';
import { type Client, prefix } from '../../src/index.js';
import { type Held, type ReentrantHeld, Session } from '../../src/locks.js';
import { startScript } from '../support/child.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { EXCLUSIVES, type Exclusive, type ExclusiveName } from '../support/exclusive.js';
import { eventsSent } from '../support/metrics.js';
import { ownEtcd } from '../support/own-etcd.js';

const TTL = 2;

describe.for(Object.entries(EXCLUSIVES) as [ExclusiveName, Exclusive][])(
  'the queue of %s',
  ([primitive, { take, queue, furtherEvents }]) => {
    const queued = async (etcd: Client, name: string, length: number): Promise<void> => {
      const count = async (): Promise<number> => (await etcd.range(prefix(queue(name)))).count;
      await expect.poll(count).toBe(length);
    };

    test('admits one of 50 contenders at a time, in the order of their tokens (S17, S18)', async () => {
      const [etcd, name] = [openClient(), unique('x')];
      const tokens: bigint[] = [];
      let inside = 0;
      await Promise.all(
        Array.from({ length: 50 }, async () => {
          const held = await take(await Session.open(etcd), name);
          inside += 1;
          expect(inside).toBe(1);
          tokens.push(held.token);
          await etcd.get(name);
          expect(held.valid()).toBe(true);
          inside -= 1;
          await held.release();
        }),
      );
      expect(new Set(tokens).size).toBe(50);
      expect(tokens).toEqual([...tokens].sort((a, b) => Number(a - b)));
      await queued(etcd, name, 0);
    });

    test('deletes the queue key of a canceled or timed-out wait, and keeps the queue order (S21)', async () => {
      const [etcd, name] = [openClient(), unique('x')];
      const first = await take(await Session.open(etcd), name);
      const stop = new AbortController();
      const canceled = errorOf(take(await Session.open(etcd), name, { signal: stop.signal }));
      await queued(etcd, name, 2);
      const third = take(await Session.open(etcd), name);
      await queued(etcd, name, 3);
      stop.abort();
      expect(await canceled).toMatchObject({ reason: 'Canceled' });
      await queued(etcd, name, 2);
      expect(await errorOf(take(await Session.open(etcd), name, { maxWaitMs: 1_000 }))).toMatchObject({
        reason: 'LockTaken',
      });
      await queued(etcd, name, 2);
      await first.release();
      const held = await third;
      expect(held.token).toBeGreaterThan(first.token);
      await held.release();
    });

    test("ends a wait, but not the holder's lock, when the session of the waiter is lost (S20, S21)", async () => {
      const [etcd, name] = [openClient(), unique('x')];
      const holder = await take(await Session.open(etcd), name);
      const session = await Session.open(etcd);
      const waiting = errorOf(take(session, name));
      await queued(etcd, name, 2);
      await openClient().lease.revoke(session.leaseId);
      expect((await waiting).reason).toMatch(/LockLost|LeaseExpired/);
      expect(holder.valid()).toBe(true);
      await queued(etcd, name, 1);
    });

    test('admits the next waiter when the session of the holder is lost, and the old holder can no longer write', async () => {
      const [etcd, name] = [openClient(), unique('x')];
      const session = await Session.open(etcd);
      const lost = await take(session, name);
      const next = take(await Session.open(etcd), name);
      await queued(etcd, name, 2);
      await openClient().lease.revoke(session.leaseId);
      const held = await next;
      expect(held.token).toBeGreaterThan(lost.token);
      await expect.poll(() => lost.signal.aborted).toBe(true);
      expect(await errorOf(lost.txn({}))).toMatchObject({ reason: 'LockLost', outcome: 'rejected' });
      await lost.release();
      expect(held.valid()).toBe(true);
    });

    test('admits the next waiter when the lease of a killed holder ends', async () => {
      const [etcd, name] = [openClient(), unique('x')];
      const script = new URL('../support/lock-holder.ts', import.meta.url);
      const args = [inject('endpoints')[0] as string, name, String(TTL), primitive];
      const holder = startScript(script, args);
      expect(await holder.line()).toMatch(/^held /);
      const waiting = take(await Session.open(etcd), name);
      await queued(etcd, name, 2);
      holder.process.kill('SIGKILL');
      await (await waiting).release();
    });

    test('wakes only one of 20 waiters at each release (S18)', async () => {
      const { endpoints } = await ownEtcd();
      const [etcd, name] = [openClient({ endpoints }), unique('x')];
      const waiting: Promise<Held | ReentrantHeld>[] = [];
      for (let index = 0; index < 21; index += 1) {
        waiting.push(take(await Session.open(etcd, { ttl: 60 }), name));
        await queued(etcd, name, index + 1);
      }
      const first = await (waiting.shift() as Promise<Held | ReentrantHeld>);
      const before = await eventsSent(endpoints);
      let held = first;
      for (const next of waiting) {
        await held.release();
        held = await next;
      }
      const sent = (await eventsSent(endpoints)) - before;
      expect(sent).toBeGreaterThanOrEqual(20);
      // The factor 2 allows for the holder's watch of its own key, which may report the release too. If each release
      // woke all waiters, the server would send 210 events.
      expect(sent).toBeLessThanOrEqual(20 * 2 * (1 + furtherEvents));
      await held.release();
    });
  },
);
