import { setTimeout as pause } from 'node:timers/promises';
import { expect } from 'vitest';
import { type Interceptor, prefix } from '../../src/index.js';
import { type Held, Mutex, Session } from '../../src/locks.js';
import { containing } from '../../src/testing/index.js';
import { FaultyCluster } from '../load/cluster.js';
import { between, pick } from '../load/rounds.js';
import { directAndProxied, faultRow } from '../load/row.js';
import { openClient } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { createdWatches, isQueueRead, isSerializable, lock, queueLength } from '../support/locks.js';

// Responses to lock operations are lost, and waiters leave the queue of a lock (rules S18, S21, S24 and S25 in
// docs/semantics.md).

/** The maximum time in milliseconds from the release of the lock until the next waiter holds the lock. */
const NEXT_MS = 1_000;

const single = (): Promise<FaultyCluster | undefined> => FaultyCluster.start({ members: 1 });

faultRow('lost response to the transaction of a lock', single, async (fixture, { seed }) => {
  const { direct, proxied, proxy } = directAndProxied(fixture);
  const recoveryMs: number[] = [];
  for (const canceled of [true, false]) {
    const name = `l-${seed}-${canceled}`;
    const holder = await lock(direct, name);
    const stop = new AbortController();
    const session = await Session.open(proxied);
    const lost = proxy.loseNextAnswer(containing(name));
    const second = new Mutex(session, name).lock({ signal: stop.signal });
    second.catch(() => {});
    await lost;
    if (canceled) {
      stop.abort();
      await expect(second).rejects.toMatchObject({ reason: 'Canceled' });
    }
    const ahead = canceled ? 1 : 2;
    await queueLength(direct, name, ahead);
    const third = lock(direct, name);
    await queueLength(direct, name, ahead + 1);
    const freedAt = performance.now();
    await holder.release();
    if (!canceled) await (await second).release();
    const held = await third;
    const nextMs = performance.now() - freedAt;
    expect(nextMs).toBeLessThan(NEXT_MS);
    recoveryMs.push(nextMs);
    await held.release();
    await session.close();
    expect((await direct.range(prefix(`${name}/`))).count).toBe(0);
  }
  return { faults: recoveryMs.length, recoveryMs };
});

faultRow('lost response to an unlock while the lock is taken again', single, async (fixture, { seed }) => {
  const { direct, proxied, proxy } = directAndProxied(fixture);
  const recoveryMs: number[] = [];
  // Another session acquires the lock next, or the same session does so with the same queue key.
  for (const own of [false, true]) {
    const name = `u-${seed}-${own}`;
    const session = await Session.open(proxied);
    const held = await new Mutex(session, name).lock();
    const next = own ? new Mutex(session, name).lock() : lock(direct, name);
    if (!own) await queueLength(direct, name, 2);
    const lost = proxy.loseNextAnswer(containing(held.key));
    const freedAt = performance.now();
    const unlocked = held.release();
    await lost;
    const newer = await next;
    recoveryMs.push(performance.now() - freedAt);
    await unlocked;
    expect(newer.key === held.key).toBe(own);
    expect((await direct.get(newer.key))?.createRevision).toBe(newer.token);
    expect(newer.valid()).toBe(true);
    await newer.release();
    await session.close();
  }
  return { faults: recoveryMs.length, recoveryMs };
});

faultRow('loss of a session that waits for a lock', single, async (fixture, { seed, random }) => {
  const { direct, proxied } = directAndProxied(fixture);
  const name = `d-${seed}`;
  const holder = await lock(direct, name);
  const session = await Session.open(proxied);
  const queued = new Mutex(session, name).lock();
  queued.catch(() => {});
  if (random() < 0.8) await queueLength(direct, name, 2);
  const last = lock(direct, name);
  await pause(between(0, 20, random));
  const diedAt = performance.now();
  await direct.lease.revoke(session.leaseId);
  expect(await errorOf(queued)).toMatchObject({
    reason: expect.stringMatching(/^(LeaseExpired|LeaseNotFound|LockLost)$/),
  });
  const recoveryMs = performance.now() - diedAt;
  expect(recoveryMs).toBeLessThan(NEXT_MS);
  expect(holder.valid()).toBe(true);
  await holder.release();
  await (await last).release();
  return { faults: 1, recoveryMs: [recoveryMs] };
});

faultRow('canceled waits for a lock', single, async (fixture, { seed, random }) => {
  const { direct, proxied } = directAndProxied(fixture);
  const name = `c-${seed}`;
  const holder = await lock(direct, name);
  const count = Math.ceil(between(2, 6, random));
  const granted: number[] = [];
  const waiters: { readonly stop: AbortController; readonly lock: Promise<Held> }[] = [];
  for (let index = 0; index < count; index += 1) {
    const stop = new AbortController();
    const session = await Session.open(pick([direct, proxied], random));
    const held = new Mutex(session, name).lock({ signal: stop.signal });
    held.then(
      (won) => {
        granted.push(index);
        void won.release();
      },
      () => {},
    );
    waiters.push({ stop, lock: held });
    await queueLength(direct, name, index + 2);
  }
  const indices = waiters.map((_, index) => index);
  const atLeast = pick(indices, random);
  const leaving = indices.filter((index) => random() < 0.5 || index === atLeast);
  const canceledAt = performance.now();
  for (const index of leaving) {
    waiters[index]?.stop.abort();
    if (random() < 0.5) await pause(between(0, 10, random));
  }
  await queueLength(direct, name, 1 + count - leaving.length);
  const recoveryMs = performance.now() - canceledAt;
  expect(recoveryMs).toBeLessThan(NEXT_MS);
  for (const index of leaving) await expect(waiters[index]?.lock).rejects.toMatchObject({ reason: 'Canceled' });
  await holder.release();
  await queueLength(direct, name, 0);
  expect(granted).toEqual(indices.filter((index) => !leaving.includes(index)));
  return { faults: leaving.length, recoveryMs: [recoveryMs] };
});

// The waiter's member still answers serializable reads, so the waiter becomes the holder without a quorum. The waiter
// is also the first in the queue of the whole cluster. It loses the lock in time, because the member cannot renew its
// lease.
faultRow(
  'partition of the member of a waiter, right after the member has reported that the waiter is next',
  () => FaultyCluster.start({ peerProxies: true }),
  async (fixture, { seed, random }) => {
    const { cluster, endpoints } = fixture;
    const leader = await cluster.leader();
    const member = pick(
      fixture.members.filter((each) => each !== leader),
      random,
    );
    const name = `p-${seed}`;
    const direct = openClient({ endpoints: endpoints.filter((endpoint) => endpoint !== member.endpoint) });
    const watches = createdWatches();
    const partitioning: Interceptor = {
      unary: async (call, next) => {
        // Only the read after the event of the predecessor's deletion is serializable.
        if (isQueueRead(call) && isSerializable(call)) await cluster.partition(member);
        return next(call);
      },
    };
    const cutOff = openClient({ endpoints: [member.endpoint], interceptors: [partitioning, watches.interceptor] });
    const first = await lock(direct, name);
    const session = await Session.open(cutOff, { ttl: 3 });
    const second = new Mutex(session, name).lock();
    await expect.poll(() => watches.count).toBeGreaterThan(0);
    const third = lock(direct, name);
    await queueLength(direct, name, 3);
    await first.release();
    const held = await second;
    expect(held.token).toBe((await direct.get(held.key))?.createRevision);
    let lostAt = Number.POSITIVE_INFINITY;
    held.signal.addEventListener('abort', () => {
      lostAt = performance.now();
    });
    const next = await third;
    const takenAt = performance.now();
    expect(lostAt).toBeLessThan(takenAt);
    expect(next.token).toBeGreaterThan(held.token);
    await next.release();
    await fixture.heal();
    await session.close().catch(() => {});
    return { faults: 1, further: { 'ms from the loss to the next holder': takenAt - lostAt } };
  },
);
