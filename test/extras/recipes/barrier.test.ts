import { describe, expect, test } from 'vitest';
import { methods } from '../../../src/gen/methods.js';
import { type Client, EtcdError, type Interceptor, prefix } from '../../../src/index.js';
import { Session } from '../../../src/locks.js';
import { Barrier, DoubleBarrier } from '../../../src/recipes.js';
import { containing } from '../../../src/testing/index.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { proxied } from '../../support/locks.js';
import { watchers } from '../../support/metrics.js';
import { OpenCalls } from '../../support/open-calls.js';
import { ownEtcd } from '../../support/own-etcd.js';

describe('Barrier', () => {
  test('blocks all waiters until any client releases the barrier', async () => {
    const [etcd, name] = [openClient(), unique('barrier')];
    const barrier = new Barrier(etcd, name);
    await barrier.wait();
    expect([await barrier.hold(), await barrier.hold()]).toEqual([true, false]);
    let through = 0;
    const waiting = Array.from({ length: 5 }, () => new Barrier(openClient(), name).wait().then(() => (through += 1)));
    expect(await errorOf(barrier.wait({ maxWaitMs: 50 }))).toMatchObject({ reason: 'DeadlineExceeded' });
    expect(through).toBe(0);
    expect([await new Barrier(openClient(), name).release(), await barrier.release()]).toEqual([true, false]);
    await Promise.all(waiting);
    await barrier.wait();
  });

  test('admits its waiters even if a client releases the barrier and immediately holds the barrier again', async () => {
    const { direct, proxy } = await proxied();
    const calls = new OpenCalls();
    const etcd = openClient({ endpoints: [proxy.endpoint], interceptors: [calls] });
    const name = unique('barrier');
    const barrier = new Barrier(direct, name);
    await barrier.hold();
    const waiting = new Barrier(etcd, name).wait();
    // The waiter reads the key, creates its watch, and reads the key again.
    await expect.poll(() => calls.succeeded.get(methods.kv.range.path)).toBe(2);
    proxy.blackhole();
    await barrier.release();
    await barrier.hold();
    proxy.heal();
    proxy.dropConnections();
    await waiting;
  });

  test('admits its waiters when the lease of the barrier ends', async () => {
    const [etcd, name] = [openClient(), unique('barrier')];
    const lease = await etcd.lease.grant({ ttl: 60 });
    await new Barrier(etcd, name).hold({ lease: lease.id });
    const waiting = new Barrier(etcd, name).wait();
    await etcd.lease.revoke(lease.id);
    await waiting;
  });
});

describe('DoubleBarrier', () => {
  async function barriers(etcd: Client, name: string, count: number): Promise<DoubleBarrier[]> {
    return Promise.all(
      Array.from({ length: count }, async () => new DoubleBarrier(await Session.open(etcd), name, count)),
    );
  }
  /**
   * Counts the keys of the barrier, except `NAME/epoch`. That key is never deleted. It changes when a participant
   * withdraws and when a round ends. A round is the time between the common start and the common end.
   */
  const keys = async (etcd: Client, name: string): Promise<number> =>
    (await etcd.range(prefix(`${name}/`))).kvs.filter((kv) => kv.key !== `${name}/epoch`).length;

  test('starts each round when all participants have entered, and ends the round when all participants have left', async () => {
    const [etcd, name] = [openClient(), unique('barrier')];
    const all = await barriers(etcd, name, 5);
    for (let round = 0; round < 3; round += 1) {
      let [entered, left] = [0, 0];
      const [last, ...others] = all as [DoubleBarrier, ...DoubleBarrier[]];
      const entering = others.map((barrier) => barrier.enter().then(() => (entered += 1)));
      await expect.poll(async () => (await etcd.range(prefix(`${name}/waiters/`))).count).toBe(4);
      expect(entered).toBe(0);
      await last.enter();
      await Promise.all(entering);
      const leaving = others.map((barrier) => barrier.leave().then(() => (left += 1)));
      await expect.poll(async () => (await etcd.range(prefix(`${name}/waiters/`))).count).toBe(1);
      expect(left).toBe(0);
      await last.leave();
      await Promise.all(leaving);
      expect(await keys(etcd, name)).toBe(0);
    }
  });

  test('blocks the participants of the next round until the current round ends', async () => {
    const [etcd, name] = [openClient(), unique('barrier')];
    const [a, b] = (await barriers(etcd, name, 2)) as [DoubleBarrier, DoubleBarrier];
    let reads = 0;
    const counting: Interceptor = {
      unary: (call, send) => send(call).finally(() => (reads += call.method.path === methods.kv.txn.path ? 1 : 0)),
    };
    const others = ['c', 'd'].map(() => openClient({ interceptors: [counting] }));
    const [c, d] = (await Promise.all(
      others.map(async (client) => new DoubleBarrier(await Session.open(client), name, 2)),
    )) as [DoubleBarrier, DoubleBarrier];
    await Promise.all([a.enter(), b.enter()]);
    let begun = 0;
    // Each of these two participants reads that a round is under way, and then waits for the end of the round.
    const next: Promise<number>[] = [];
    for (const barrier of [c, d]) {
      const before = reads;
      next.push(barrier.enter().then(() => (begun += 1)));
      await expect.poll(() => reads).toBeGreaterThan(before + 1);
    }
    const leaving = a.leave();
    await expect.poll(async () => (await etcd.range(prefix(`${name}/waiters/`))).count).toBe(1);
    expect(begun).toBe(0);
    const { revision } = (await etcd.range(prefix(`${name}/waiters/`))).header;
    await Promise.all([leaving, b.leave()]);
    await Promise.all(next);
    const { kvs } = await etcd.range(prefix(`${name}/waiters/`));
    expect(kvs.map(({ createRevision }) => createRevision > revision)).toEqual([true, true]);
    await Promise.all([c.leave(), d.leave()]);
    expect(await keys(etcd, name)).toBe(0);
  });

  test('does not count participants whose `enter` call timed out or whose session ended', async () => {
    const [etcd, name] = [openClient(), unique('barrier')];
    const [a, b, c] = (await barriers(etcd, name, 3)) as [DoubleBarrier, DoubleBarrier, DoubleBarrier];
    expect(await errorOf(a.enter({ maxWaitMs: 50 }))).toMatchObject({ reason: 'DeadlineExceeded' });
    await expect.poll(() => keys(etcd, name)).toBe(0);
    const dying = await Session.open(etcd);
    const lost = errorOf(new DoubleBarrier(dying, name, 3).enter());
    const entering = [a.enter()];
    await expect.poll(() => keys(etcd, name)).toBe(2);
    await dying.close();
    expect((await lost).reason).toMatch(/LockLost|LeaseRevoked|KeepAliveClosed/);
    entering.push(b.enter());
    await expect.poll(() => keys(etcd, name)).toBe(2);
    const before = (await etcd.range(name)).header.revision;
    await Promise.all([...entering, c.enter()]);
    // The round has begun after the last of the three entered, and not with the key of the ended session.
    expect((await etcd.get(`${name}/ready`))?.createRevision).toBeGreaterThan(before);
    await Promise.all([a.leave(), b.leave(), c.leave()]);
  });

  test('ends a round when each participant has left or has lost its session', async () => {
    const [etcd, name] = [openClient(), unique('barrier')];
    const sessions = [await Session.open(etcd), await Session.open(etcd)];
    const [a, b] = sessions.map((session) => new DoubleBarrier(session, name, 2)) as [DoubleBarrier, DoubleBarrier];
    await Promise.all([a.enter(), b.enter()]);
    const leaving = a.leave();
    await sessions[1]?.close();
    await leaving;
    const dying = await Promise.all([Session.open(etcd), Session.open(etcd)]);
    await Promise.all(dying.map((session) => new DoubleBarrier(session, name, 2).enter()));
    await Promise.all(dying.map((session) => session.close()));
    const [c, d] = (await barriers(etcd, name, 2)) as [DoubleBarrier, DoubleBarrier];
    await Promise.all([c.enter(), d.enter()]);
    await Promise.all([c.leave(), d.leave()]);
  });

  test('never starts a round for two participants when the `enter` calls of a single participant repeatedly time out', async () => {
    const [etcd, name] = [openClient(), unique('barrier')];
    const [barrier] = await barriers(etcd, name, 2);
    for (let round = 0; round < 300; round += 1) {
      const error = await errorOf((barrier as DoubleBarrier).enter({ maxWaitMs: 1 + (round % 8) }));
      expect(error.reason).toBe('DeadlineExceeded');
    }
    await expect.poll(() => keys(etcd, name)).toBe(0);
  });

  test("counts a participant only once when the answer to the put of the participant's key is lost", async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('barrier');
    const [a] = await barriers(etcd, name, 2);
    const [b] = await barriers(direct, name, 2);
    const lost = proxy.loseNextAnswer(containing(`${name}/waiters/`, `${name}/epoch`));
    const entering = (a as DoubleBarrier).enter();
    await expect.poll(async () => (await direct.range(prefix(`${name}/waiters/`))).count).toBe(1);
    await Promise.all([lost, entering, (b as DoubleBarrier).enter()]);
    await Promise.all([a, b].map((barrier) => (barrier as DoubleBarrier).leave()));
    expect(await keys(direct, name)).toBe(0);
  });

  test('admits both participants or neither when the `enter` call of one participant times out while the other enters', async () => {
    const [etcd, name] = [openClient(), unique('barrier')];
    const [a, b] = (await barriers(etcd, name, 2)) as [DoubleBarrier, DoubleBarrier];
    const entered = (entering: Promise<void>): Promise<boolean> =>
      entering.then(
        () => true,
        () => false,
      );
    let [together, unitMs] = [0, 1];
    for (let round = 0; round < 150 || together === 0; round += 1) {
      // On a busy machine, short limits always end before both have entered.
      if (round % 15 === 0 && round > 0 && together === 0) unitMs *= 2;
      const both = await Promise.all([
        entered(a.enter({ maxWaitMs: unitMs * (1 + (round % 15)) })),
        entered(b.enter({ maxWaitMs: unitMs * 60 })),
      ]);
      expect(both).toEqual([both[0], both[0]]);
      if (!both[0]) continue;
      together += 1;
      await Promise.all([a.leave(), b.leave()]);
    }
  });

  test('admits the participants of the next round when the sessions of all current participants have ended', async () => {
    const { endpoints } = await ownEtcd();
    const [etcd, name] = [openClient({ endpoints }), unique('barrier')];
    const dying = await Promise.all([Session.open(etcd), Session.open(etcd)]);
    await Promise.all(dying.map((session) => new DoubleBarrier(session, name, 2).enter()));
    await expect.poll(() => watchers(endpoints)).toBe(0);
    const next = await barriers(etcd, name, 2);
    const entering = next.map((barrier) => barrier.enter());
    await expect.poll(() => watchers(endpoints)).toBe(2);
    await Promise.all(dying.map((session) => session.close()));
    await Promise.all(entering);
    await Promise.all(next.map((barrier) => barrier.leave()));
  });

  test('rejects a participant that enters when the barrier is already full', async () => {
    const [etcd, name] = [openClient(), unique('barrier')];
    const { id: lease } = await etcd.lease.grant({ ttl: 60 });
    // Two participants have put their keys, but neither of them has put the ready key, which begins the round.
    await etcd.put(`${name}/waiters/1`, '', { lease });
    await etcd.put(`${name}/waiters/2`, '', { lease });
    const [late] = await barriers(etcd, name, 2);
    expect(await errorOf((late as DoubleBarrier).enter())).toMatchObject({
      reason: 'BarrierFull',
      outcome: 'rejected',
    });
    expect((await etcd.range(prefix(`${name}/waiters/`))).count).toBe(2);
  });

  test('rejects a call of `leave` before `enter`, and a second call of `enter`', async () => {
    const [barrier] = await barriers(openClient(), unique('barrier'), 1);
    expect(await errorOf((barrier as DoubleBarrier).leave())).toMatchObject({ reason: 'InvalidInput' });
    await (barrier as DoubleBarrier).enter();
    expect(await errorOf((barrier as DoubleBarrier).enter())).toMatchObject({ reason: 'InvalidInput' });
    await (barrier as DoubleBarrier).leave();
  });
});

test('a disconnected participant whose `enter` call times out does not block the other participant of a DoubleBarrier, even after a compaction', async () => {
  const { endpoints } = await ownEtcd();
  let isCut = false;
  const cutOff = openClient({
    endpoints,
    interceptors: [
      {
        unary: async (call, next) => {
          if (!isCut || call.method.path.includes('Lease')) return next(call);
          throw new EtcdError('cut', { code: 'Unavailable', reason: 'ConnectFailed', outcome: 'not-sent' });
        },
        stream: (call, handler, next) =>
          next(call, {
            message: (message) => {
              if (!isCut || !call.method.path.endsWith('Watch')) handler.message(message);
            },
            end: (error) => handler.end(error),
            leaving: () => handler.leaving?.(),
          }),
      },
    ],
  });
  const etcd = openClient({ endpoints });
  const first = new DoubleBarrier(await Session.open(cutOff), 'barrier', 2);
  const second = new DoubleBarrier(await Session.open(etcd), 'barrier', 2);
  const entering = errorOf(first.enter({ maxWaitMs: 1_000 }));
  await expect.poll(async () => (await etcd.range(prefix('barrier/waiters/'))).count).toBe(1);
  isCut = true;
  await second.enter();
  await etcd.compact((await etcd.put('other', '')).header.revision);
  expect(await entering).toMatchObject({ reason: 'DeadlineExceeded' });
  isCut = false;
  await second.leave({ maxWaitMs: 20_000 });
});
