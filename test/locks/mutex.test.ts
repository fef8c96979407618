import { describe, expect, test } from 'vitest';
import type { TxnRequest, TxnResponse } from '../../src/gen/etcdserverpb/rpc.js';
import { type Interceptor, op, prefix, withFirstCreate, withLastCreate } from '../../src/index.js';
import {
  type Enqueued,
  enqueue,
  leaveQueue,
  putUnlessExists,
  queueKey,
  waitUntilFirst,
} from '../../src/locks/lock-queue.js';
import { type Held, Mutex, Session } from '../../src/locks.js';
import type { Init } from '../../src/wire/protobuf/writer.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import {
  createdWatches,
  isQueueRead,
  isSerializable,
  lock,
  NEVER,
  plain,
  proxied,
  queueLength,
  TXN,
  WATCH,
} from '../support/locks.js';
import { ownEtcd } from '../support/own-etcd.js';
import { recordingTransport } from '../support/recording-transport.js';

/** Puts the queue key of a session. */
async function enqueued({ client, guards, leaseId }: Session, name: string): Promise<Enqueued> {
  const key = queueKey(name, leaseId);
  return (await enqueue(client, key, NEVER, guards.begin(putUnlessExists(key, '')))) as Enqueued;
}

describe('a `lock` call', () => {
  test("puts one key, NAME/LEASE-ID, with a single call, and uses the key's create revision as the token (S17)", async () => {
    const { transport, sent } = recordingTransport();
    const etcd = openClient({ transport });
    const [session, name] = [await Session.open(etcd), unique('lock')];
    sent.length = 0;
    const held = await new Mutex(session, name).lock();
    expect(sent.filter(({ path }) => path === TXN)).toHaveLength(1);
    expect(held.key).toBe(`${name}/${session.leaseId.toString(16)}`);
    const { kvs } = await etcd.range(prefix(`${name}/`));
    expect(kvs).toMatchObject([{ createRevision: held.token, lease: session.leaseId }]);
    await held.release();
    expect((await etcd.range(prefix(`${name}/`))).count).toBe(0);
  });

  test('succeeds for only one contender at a time, in the order of the queue, each time with a greater token (S17, S18)', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const holders: bigint[] = [];
    let inside = 0;
    await Promise.all(
      Array.from({ length: 10 }, async () => {
        const session = await Session.open(etcd);
        for (let round = 0; round < 5; round += 1) {
          const held = await new Mutex(session, name).lock();
          inside += 1;
          expect(inside).toBe(1);
          const { kvs } = await etcd.range(prefix(`${name}/`), withFirstCreate());
          expect(kvs[0]?.createRevision).toBe(held.token);
          holders.push(held.token);
          inside -= 1;
          await held.release();
        }
      }),
    );
    expect(holders).toEqual([...holders].sort((a, b) => Number(a - b)));
    expect(new Set(holders).size).toBe(50);
  });

  test('watches the queue key directly before its own key, so that a release wakes only one waiter (S18)', async () => {
    const { endpoints } = await ownEtcd();
    const name = unique('lock');
    const first = await lock(openClient({ endpoints }), name);
    const waiters = [];
    for (let index = 0; index < 4; index += 1) {
      const { transport, sent } = recordingTransport();
      const watches = createdWatches();
      const client = openClient({ endpoints, transport, interceptors: [watches.interceptor] });
      waiters.push({ sent, held: lock(client, name) });
      await expect.poll(() => watches.count).toBeGreaterThan(0);
    }
    for (const { sent } of waiters) sent.length = 0;
    await first.release();
    const second = await (waiters[0]?.held as Promise<Held>);
    // The first waiter reads the queue a second time if its member has not finished the deletion yet (S20).
    expect(waiters.map(({ sent }) => sent.some(({ path }) => path === TXN))).toEqual([true, false, false, false]);
    await second.release();
    for (const { held } of waiters.slice(1)) await (await held).release();
  });

  test('watches its own key after a long wait from a revision at which it has seen the key, which is not compacted', async () => {
    const { endpoints } = await ownEtcd();
    const [etcd, name] = [openClient({ endpoints }), unique('lock')];
    const first = await lock(etcd, name);
    const { transport, sent } = recordingTransport();
    const second = lock(openClient({ endpoints, transport }), name);
    const startsOf = (key: string): bigint[] =>
      sent.flatMap(({ path, request }) => {
        const text = path === WATCH ? JSON.stringify(request, plain) : '';
        const [, start] = new RegExp(`"key":"${key}".*"startRevision":"(\\d+)"`).exec(text) ?? [];
        return start === undefined ? [] : [BigInt(start)];
      });
    await expect.poll(() => startsOf(first.key).length).toBe(1);
    const { header } = await etcd.put('other', 'x');
    await etcd.compact(header.revision);
    await first.release();
    const held = await second;
    await expect.poll(() => startsOf(held.key).at(-1)).toBeGreaterThan(header.revision);
    await held.release();
  });

  test.each([
    ['reads the queue again when the store has changed before the watch was created', true],
    ['does not read the queue again when the store has not changed', false],
  ])('watches the key of its predecessor from the current revision, and %s (S19)', async (_, hasChanged) => {
    const { endpoints } = await ownEtcd();
    const [etcd, name] = [openClient({ endpoints }), unique('lock')];
    const first = await lock(etcd, name);
    const { transport, sent } = recordingTransport();
    const watches = createdWatches();
    const changing: Interceptor = {
      unary: async (call, next) => {
        const response = await next(call);
        if (hasChanged && call.method.path === TXN && !isQueueRead(call)) await etcd.put('other', 'x');
        return response;
      },
    };
    const second = lock(openClient({ endpoints, transport, interceptors: [changing, watches.interceptor] }), name);
    await expect.poll(() => watches.count).toBeGreaterThan(0);
    const expected = hasChanged ? [TXN, 'watch', TXN] : [TXN, 'watch'];
    const order = (): string[] =>
      sent.flatMap(({ path, request }) => {
        if (path !== WATCH) return path === TXN ? [TXN] : [];
        return JSON.stringify(request, plain).includes(`"key":"${first.key}"`) ? ['watch'] : [];
      });
    await expect.poll(order).toEqual(expected);
    const creates = sent.flatMap(({ path, request }) => (path === WATCH ? [JSON.stringify(request, plain)] : []));
    expect(creates).toContainEqual(expect.stringMatching(new RegExp(`"key":"${first.key}".*"startRevision":"0"`)));
    await first.release();
    expect(order().slice(0, expected.length)).toEqual(expected);
    await (await second).release();
  });

  test('does not wait for a predecessor that left and queued again with the same key (S19)', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const [a, b] = [await Session.open(etcd), await Session.open(etcd)];
    const first = await enqueued(a, name);
    const second = await enqueued(b, name);
    expect(second.predecessor?.createRevision).toBe(first.own.createRevision);
    // The predecessor leaves the queue and queues again after `second` has read the queue, and before `second` creates
    // its watch.
    await leaveQueue(etcd, first.own.key, first.own.createRevision, NEVER);
    await enqueued(a, name);
    await waitUntilFirst(etcd, second, NEVER);
  });

  test("rejects when its own key is deleted together with its predecessor's key (S20)", async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const [a, b] = [await Session.open(etcd), await Session.open(etcd)];
    const first = await enqueued(a, name);
    const second = await enqueued(b, name);
    await etcd.txn({ then: [op.delete(first.own.key), op.delete(second.own.key)] });
    expect(await errorOf(waitUntilFirst(etcd, second, NEVER))).toMatchObject({ reason: 'LockLost' });
  });

  test('reads the queue after the deletion of its predecessor without a quorum (S20)', async () => {
    const { endpoints } = await ownEtcd();
    const name = unique('lock');
    const reads: boolean[] = [];
    const watches = createdWatches();
    const noted: Interceptor = {
      unary: (call, next) => {
        if (isQueueRead(call)) reads.push(isSerializable(call));
        return next(call);
      },
    };
    const first = await lock(openClient({ endpoints }), name);
    const second = lock(openClient({ endpoints, interceptors: [noted, watches.interceptor] }), name);
    await expect.poll(() => watches.count).toBeGreaterThan(0);
    await first.release();
    await (await second).release();
    // A second read with a quorum follows if the member has not finished the deletion yet.
    expect(reads[0]).toBe(true);
  });

  // A member that lags shows an old revision. There, the predecessor still exists, or the waiter's own key does not
  // exist yet.
  test.each([
    ['before its predecessor left', 0n],
    ['before it queued', -1n],
  ])('reads the queue again, with a quorum, when the member shows the store %s (S20)', async (_, offset) => {
    const { endpoints } = await ownEtcd();
    const [etcd, name] = [openClient({ endpoints }), unique('lock')];
    const reads: boolean[] = [];
    const watches = createdWatches();
    let queuedAt = 0n;
    const lagging: Interceptor = {
      unary: async (call, next) => {
        if (!isQueueRead(call)) return next(call);
        reads.push(isSerializable(call));
        if (!isSerializable(call)) return next(call);
        const revision = queuedAt + offset;
        const { success = [] } = call.request as Init<TxnRequest>;
        const old = success.map(({ request }) => ({ request: { ...request, value: { ...request?.value, revision } } }));
        const response = await next({ ...call, request: { success: old } as never });
        return { ...response, header: { ...(response as TxnResponse).header, revision } };
      },
    };
    const first = await lock(etcd, name);
    const second = lock(openClient({ endpoints, interceptors: [lagging, watches.interceptor] }), name);
    await expect.poll(() => watches.count).toBeGreaterThan(0);
    const { kvs } = await etcd.range(prefix(`${name}/`), withLastCreate());
    queuedAt = kvs[0]?.createRevision as bigint;
    await first.release();
    const held = await second;
    expect(held.token).toBe(queuedAt);
    expect(reads).toEqual([true, false]);
    await held.release();
  });

  test("continues to wait when a compaction ends its watch of the predecessor's key (S6, S18)", async () => {
    const { endpoints } = await ownEtcd();
    const { etcd, direct, proxy } = await proxied(endpoints);
    const name = unique('lock');
    const first = await lock(direct, name);
    const second = lock(etcd, name);
    await queueLength(direct, name, 2);
    await direct.put('other', 'x');
    proxy.blackhole();
    for (let index = 0; index < 5; index += 1) await direct.put('other', 'x');
    await direct.compact((await direct.put('other', 'x')).header.revision);
    proxy.heal();
    await first.release();
    expect((await second).token).toBeGreaterThan(first.token);
  });

  test('rejects at once when another client deletes the queue key of the call (S20, S21)', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    await lock(etcd, name);
    const session = await Session.open(etcd);
    const waiting = errorOf(new Mutex(session, name).lock());
    await queueLength(etcd, name, 2);
    await etcd.delete(`${name}/${session.leaseId.toString(16)}`);
    expect(await waiting).toMatchObject({ reason: 'LockLost', outcome: 'rejected' });
  });

  test('rejects, and does not affect the holder, when the session of the call is lost (S20, S21)', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const holder = await lock(etcd, name);
    const session = await Session.open(etcd);
    const waiting = errorOf(new Mutex(session, name).lock());
    await queueLength(etcd, name, 2);
    await openClient().lease.revoke(session.leaseId);
    expect((await waiting).reason).toMatch(/LockLost|LeaseExpired/);
    expect(holder.valid()).toBe(true);
  });
});

describe('a canceled or timed-out `lock` call (S21)', () => {
  test('deletes its queue key when the caller cancels the call, and keeps the order of the other waiters', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const first = await lock(etcd, name);
    const stop = new AbortController();
    const canceled = errorOf(lock(etcd, name, { signal: stop.signal }));
    await queueLength(etcd, name, 2);
    const third = lock(etcd, name);
    await queueLength(etcd, name, 3);
    stop.abort(new Error('changed my mind'));
    expect(await canceled).toMatchObject({ reason: 'Canceled', cause: { message: 'changed my mind' } });
    expect((await etcd.range(prefix(`${name}/`))).count).toBe(2);
    await first.release();
    await (await third).release();
  });

  test('deletes its queue key and rejects with LockTaken when the call times out', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    await lock(etcd, name);
    // One second is enough to receive the answer to the transaction that puts the queue key. Without an answer, the
    // error would name the last failure.
    const error = await errorOf(lock(etcd, name, { maxWaitMs: 1_000 }));
    expect(error).toMatchObject({
      reason: 'LockTaken',
      message: 'lock: other contenders still had the lock after maxWaitMs = 1000; inspectLock shows them',
    });
    expect((await etcd.range(prefix(`${name}/`))).count).toBe(1);
  });

  test('sends no transaction when the caller passes a signal that has already aborted', async () => {
    const { transport, sent } = recordingTransport();
    const session = await Session.open(openClient({ transport }));
    sent.length = 0;
    expect(await errorOf(new Mutex(session, unique('lock')).lock({ signal: AbortSignal.abort() }))).toMatchObject({
      reason: 'Canceled',
    });
    expect(sent.filter(({ path }) => path === TXN)).toEqual([]);
  });
});

describe('concurrent `lock` calls of one session (S22)', () => {
  test('acquire the lock one at a time, in order of arrival, each with its own token', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const session = await Session.open(etcd);
    const tokens: bigint[] = [];
    let inside = 0;
    await Promise.all(
      Array.from({ length: 5 }, async () => {
        const held = await new Mutex(session, name).lock();
        inside += 1;
        expect(inside).toBe(1);
        tokens.push(held.token);
        await etcd.get(name);
        inside -= 1;
        await held.release();
      }),
    );
    expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => Number(a - b)));
  });

  test('leave the local queue of the session when they time out, and do not affect the holder', async () => {
    const session = await Session.open(openClient());
    const mutex = new Mutex(session, unique('lock'));
    const held = await mutex.lock();
    expect(await errorOf(mutex.lock({ maxWaitMs: 1_000 }))).toMatchObject({ reason: 'LockTaken' });
    expect(await mutex.tryLock()).toBeUndefined();
    expect(held.valid()).toBe(true);
    await held.release();
    await (await mutex.lock()).release();
  });
});

describe('`tryLock`', () => {
  test('acquires a free lock, and leaves no key when another contender holds the lock', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const [a, b] = [new Mutex(await Session.open(etcd), name), new Mutex(await Session.open(etcd), name)];
    const held = await a.tryLock();
    expect(held?.valid()).toBe(true);
    expect(await b.tryLock()).toBeUndefined();
    expect((await etcd.range(prefix(`${name}/`))).count).toBe(1);
    await held?.release();
    expect((await b.tryLock())?.valid()).toBe(true);
  });

  test('does not acquire a held lock when the queue key of an earlier attempt still exists (S24)', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const holder = await lock(etcd, name);
    const session = await Session.open(etcd);
    const leftOver = `${name}/${session.leaseId.toString(16)}`;
    await etcd.put(leftOver, '', { lease: session.leaseId });
    expect(await new Mutex(session, name).tryLock()).toBeUndefined();
    expect(await etcd.get(leftOver)).toBeUndefined();
    expect(holder.valid()).toBe(true);
  });

  test('does not block the next `tryLock` call when the caller passes a signal that has already aborted', async () => {
    const mutex = new Mutex(await Session.open(openClient()), unique('lock'));
    expect(await errorOf(mutex.tryLock({ signal: AbortSignal.abort() }))).toMatchObject({ reason: 'Canceled' });
    expect((await mutex.tryLock())?.valid()).toBe(true);
  });
});

test('a `lock` call for "a" waits for the holder of "a/b", but a `lock` call for "a/b" does not wait for the holder of "a" (S38)', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  const nested = await lock(etcd, `${name}/b`);
  expect(await errorOf(lock(etcd, name, { maxWaitMs: 1_000 }))).toMatchObject({ reason: 'LockTaken' });
  await nested.release();
  const outer = await lock(etcd, name);
  await (await lock(etcd, `${name}/b`)).release();
  await outer.release();
});

test('a Mutex refuses an empty name and an invalid `maxWaitMs` with reason InvalidInput', async () => {
  const session = await Session.open(openClient());
  expect(await errorOf(() => new Mutex(session, ''))).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  expect(await errorOf(new Mutex(session, 'x').lock({ maxWaitMs: -1 }))).toMatchObject({
    reason: 'InvalidInput',
    message: 'maxWaitMs: got the number -1; allowed: a number of milliseconds above 0, or Infinity',
  });
});
