import { describe, expect, inject, test } from 'vitest';
import { type Held, Mutex, Session, withLock } from '../../src/concurrency/index.js';
import { enqueue, leaveQueue, queueKey, waitForTurn } from '../../src/concurrency/queue-entry.js';
import { type Client, compare, op, prefix, withFirstCreate } from '../../src/index.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { FaultProxy } from '../support/fault-proxy.js';
import { ownEtcd } from '../support/own-etcd.js';
import { recordingTransport } from '../support/recording-transport.js';

const TXN = '/etcdserverpb.KV/Txn';
const WATCH = '/etcdserverpb.Watch/Watch';
const NEVER = new AbortController().signal;

describe('taking a lock', () => {
  test('puts one key, named by the lock and the lease, with one call; its create revision is the token (S17)', async () => {
    const { transport, sent } = recordingTransport();
    const etcd = openClient({ transport });
    const [session, name] = [await Session.open(etcd), unique('lock')];
    sent.length = 0;
    const held = await new Mutex(session, name).lock();
    expect(sent.filter(({ path }) => path === TXN)).toHaveLength(1);
    expect(held.key).toBe(`${name}/${session.leaseId.toString(16)}`);
    const { kvs } = await etcd.range(prefix(`${name}/`));
    expect(kvs).toMatchObject([{ createRevision: held.token, lease: session.leaseId }]);
    await held.unlock();
    expect((await etcd.range(prefix(`${name}/`))).count).toBe(0n);
  });

  test('excludes others and goes in the order of the queue, each with a greater token (S17, S18)', async () => {
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
          await held.unlock();
        }
      }),
    );
    expect(holders).toEqual([...holders].sort((a, b) => Number(a - b)));
    expect(new Set(holders).size).toBe(50);
  });

  test('waits on the key right ahead, so that a release wakes one waiter (S18)', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const first = await lock(etcd, name);
    const waiters = [];
    for (let index = 0; index < 4; index += 1) {
      const { transport, sent } = recordingTransport();
      const client = openClient({ transport });
      waiters.push({ sent, held: lock(client, name) });
      await queueLength(etcd, name, index + 2);
      await expect.poll(() => sent.filter(({ path }) => path === TXN).length).toBe(2);
    }
    for (const { sent } of waiters) sent.length = 0;
    await first.unlock();
    const second = await (waiters[0]?.held as Promise<Held>);
    expect(waiters.map(({ sent }) => sent.filter(({ path }) => path === TXN).length)).toEqual([1, 0, 0, 0]);
    await second.unlock();
    for (const { held } of waiters.slice(1)) await (await held).unlock();
  });

  test('watches the predecessor from now, and reads it again once the watch stands (S19)', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const first = await lock(etcd, name);
    const { transport, sent } = recordingTransport();
    const second = lock(openClient({ transport }), name);
    await expect.poll(() => sent.filter(({ path }) => path === TXN).length).toBe(2);
    const creates = sent.flatMap(({ path, request }) => (path === WATCH ? [JSON.stringify(request, plain)] : []));
    expect(creates).toContainEqual(expect.stringMatching(new RegExp(`"key":"${first.key}".*"startRevision":"0"`)));
    const order = sent.map(({ path, request }) =>
      path === WATCH && JSON.stringify(request, plain).includes(first.key) ? 'watch' : path,
    );
    expect(order.lastIndexOf(TXN)).toBeGreaterThan(order.indexOf('watch'));
    await first.unlock();
    await (await second).unlock();
  });

  test('is not held up by a predecessor that left and queued again under the same key (S19)', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const [a, b] = [await Session.open(etcd), await Session.open(etcd)];
    const [keyA, keyB] = [queueKey(name, a.leaseId), queueKey(name, b.leaseId)];
    const first = await enqueue(etcd, keyA, NEVER, () => {});
    const second = await enqueue(etcd, keyB, NEVER, () => {});
    expect(second.ahead?.createRevision).toBe(first.entry.revision);
    // Between the answer and the watch:
    await leaveQueue(etcd, keyA.key, first.entry.revision, NEVER);
    await enqueue(etcd, keyA, NEVER, () => {});
    await waitForTurn(etcd, second.entry, second.ahead, NEVER);
  });

  test('is refused where the own key went while the predecessor left: the lock was never held (S20)', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const [a, b] = [await Session.open(etcd), await Session.open(etcd)];
    const first = await enqueue(etcd, queueKey(name, a.leaseId), NEVER, () => {});
    const second = await enqueue(etcd, queueKey(name, b.leaseId), NEVER, () => {});
    await etcd.txn({ then: [op.delete(first.entry.key), op.delete(second.entry.key)] });
    expect(await errorOf(waitForTurn(etcd, second.entry, second.ahead, NEVER))).toMatchObject({ reason: 'LockLost' });
  });

  test('goes on waiting where a compaction ends the watch on the predecessor (S6, S18)', async () => {
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
    await first.unlock();
    expect((await second).token).toBeGreaterThan(first.token);
  });

  test('ends at once when the own key is deleted while waiting (S20, S21)', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    await lock(etcd, name);
    const session = await Session.open(etcd);
    const waiting = errorOf(new Mutex(session, name).lock());
    await queueLength(etcd, name, 2);
    await etcd.delete(`${name}/${session.leaseId.toString(16)}`);
    expect(await waiting).toMatchObject({ reason: 'LockLost', outcome: 'rejected' });
  });

  test('ends when the session dies while queued, though the holder lives on (S20, S21)', async () => {
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

describe('a wait that is given up (S21)', () => {
  test('leaves no key behind when it is cancelled, and the others keep their order', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const first = await lock(etcd, name);
    const stop = new AbortController();
    const cancelled = errorOf(lock(etcd, name, { signal: stop.signal }));
    await queueLength(etcd, name, 2);
    const third = lock(etcd, name);
    await queueLength(etcd, name, 3);
    stop.abort(new Error('changed my mind'));
    expect(await cancelled).toMatchObject({ reason: 'Canceled', cause: { message: 'changed my mind' } });
    expect((await etcd.range(prefix(`${name}/`))).count).toBe(2n);
    await first.unlock();
    await (await third).unlock();
  });

  test('leaves no key behind when its time is up, and says so', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    await lock(etcd, name);
    const error = await errorOf(lock(etcd, name, { timeoutMs: 50 }));
    expect(error).toMatchObject({ reason: 'DeadlineExceeded', message: 'lock not done within timeoutMs = 50' });
    expect((await etcd.range(prefix(`${name}/`))).count).toBe(1n);
  });

  test('sends nothing when it was cancelled before', async () => {
    const { transport, sent } = recordingTransport();
    const session = await Session.open(openClient({ transport }));
    sent.length = 0;
    expect(await errorOf(new Mutex(session, unique('lock')).lock({ signal: AbortSignal.abort() }))).toMatchObject({
      reason: 'Canceled',
    });
    expect(sent.filter(({ path }) => path === TXN)).toEqual([]);
  });
});

describe('lockers of one session (S22)', () => {
  test('queue locally: one holds, in order, each with a token of its own', async () => {
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
        await held.unlock();
      }),
    );
    expect(tokens).toEqual([...new Set(tokens)].sort((a, b) => Number(a - b)));
  });

  test('that give up while queued locally leave the holder alone', async () => {
    const session = await Session.open(openClient());
    const mutex = new Mutex(session, unique('lock'));
    const held = await mutex.lock();
    expect(await errorOf(mutex.lock({ timeoutMs: 20 }))).toMatchObject({ reason: 'DeadlineExceeded' });
    expect(await mutex.tryLock()).toBeUndefined();
    expect(held.valid()).toBe(true);
    await held.unlock();
    await (await mutex.lock()).unlock();
  });
});

describe('tryLock', () => {
  test('takes a free lock, and of a taken one leaves no trace', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const [a, b] = [new Mutex(await Session.open(etcd), name), new Mutex(await Session.open(etcd), name)];
    const held = await a.tryLock();
    expect(held?.valid()).toBe(true);
    expect(await b.tryLock()).toBeUndefined();
    expect((await etcd.range(prefix(`${name}/`))).count).toBe(1n);
    await held?.unlock();
    expect((await b.tryLock())?.valid()).toBe(true);
  });

  test('does not take a place in the queue, left over from some attempt, for the lock (S24)', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const holder = await lock(etcd, name);
    const session = await Session.open(etcd);
    const leftOver = `${name}/${session.leaseId.toString(16)}`;
    await etcd.put(leftOver, '', { lease: session.leaseId });
    expect(await new Mutex(session, name).tryLock()).toBeUndefined();
    expect(await etcd.get(leftOver)).toBeUndefined();
    expect(holder.valid()).toBe(true);
  });

  test('that is cancelled beforehand does not stand in the way of the next', async () => {
    const mutex = new Mutex(await Session.open(openClient()), unique('lock'));
    expect(await errorOf(mutex.tryLock({ signal: AbortSignal.abort() }))).toMatchObject({ reason: 'Canceled' });
    expect((await mutex.tryLock())?.valid()).toBe(true);
  });
});

describe('releasing', () => {
  test('deletes only the own key: one put anew under the same name stays (S23)', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const held = await lock(etcd, name);
    await etcd.delete(held.key);
    await etcd.put(held.key, 'newer');
    await held.unlock();
    expect((await etcd.get(held.key))?.text()).toBe('newer');
  });

  test('repeated late does not delete a newer lock (S25)', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const session = await Session.open(etcd);
    const first = await new Mutex(session, name).lock();
    await first.unlock();
    const second = await new Mutex(session, name).lock();
    expect(second.key).toBe(first.key);
    await leaveQueue(etcd, first.key, first.token, NEVER);
    expect((await etcd.get(second.key))?.createRevision).toBe(second.token);
  });

  test('whose answer is lost, with the lock taken again before the retry, leaves the newer lock (S25)', async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('lock');
    const held = await lock(etcd, name);
    const next = lock(direct, name);
    await queueLength(direct, name, 2);
    const lost = proxy.loseNextAnswer((chunk) => chunk.includes(held.key));
    await held.unlock();
    await lost;
    const newer = await next;
    expect((await direct.get(newer.key))?.createRevision).toBe(newer.token);
    expect(newer.valid()).toBe(true);
  });

  test('aborts the signal first, and may be done twice', async () => {
    const held = await lock(openClient(), unique('lock'));
    const unlocking = held.unlock();
    expect(held.signal.aborted).toBe(true);
    await Promise.all([unlocking, held.unlock()]);
    await held[Symbol.asyncDispose]();
  });
});

describe('an acquire whose answer is lost (S24)', () => {
  test('finds its own key again, and leaves no orphan in the queue', async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('lock');
    const session = await Session.open(etcd);
    const lost = proxy.loseNextAnswer((chunk) => chunk.includes(name));
    const held = await new Mutex(session, name).lock();
    await lost;
    expect((await direct.range(prefix(`${name}/`))).kvs).toMatchObject([{ createRevision: held.token }]);
    await held.unlock();
    expect((await direct.range(prefix(`${name}/`))).count).toBe(0n);
  });

  test('and that is cancelled at the same time leaves no orphan either', async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('lock');
    const session = await Session.open(etcd);
    const stop = new AbortController();
    void proxy.loseNextAnswer((chunk) => chunk.includes(name)).then(() => stop.abort());
    const outcome = new Mutex(session, name).lock({ signal: stop.signal }).then(
      (held) => held.unlock(),
      () => {},
    );
    await outcome;
    await expect.poll(async () => (await direct.range(prefix(`${name}/`))).count, { timeout: 10_000 }).toBe(0n);
    await (await lock(direct, name)).unlock();
  });
});

describe('an acquire that comes through late (S24)', () => {
  test('when the lock was taken otherwise and released, leaves no orphan in the queue', async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('lock');
    const session = await Session.open(etcd);
    const key = `${name}/${session.leaseId.toString(16)}`;
    const truth = direct.watch(key);
    await truth.created();
    const events = truth[Symbol.asyncIterator]();
    const next = async (): Promise<string | undefined> => (await events.next()).value?.type;
    const held = proxy.holdNextRequest((chunk) => chunk.includes(name));
    await (await new Mutex(session, name).lock()).unlock();
    expect([await next(), await next()]).toEqual(['put', 'delete']);
    (await held)();
    expect([await next(), await next()]).toEqual(['put', 'delete']);
    expect(session.valid()).toBe(true);
    await (await new Mutex(session, name).lock()).unlock();
  });
});

describe('writing under a lock (S23)', () => {
  test('carries the comparison of the token, and types the answer by the operations', async () => {
    const [etcd, key] = [openClient(), unique()];
    const held = await lock(etcd, unique('lock'));
    const result = await held.txn({
      if: [compare.version(key, '==', 0n)],
      then: [op.put(key, 'by the holder'), op.get(key)],
      else: [],
    });
    expect(result.succeeded && result.responses[1]?.text()).toBe('by the holder');
    const again = await held.txn({ if: [compare.version(key, '==', 0n)], else: [op.get(key)] });
    expect(!again.succeeded && again.responses[0]?.text()).toBe('by the holder');
  });

  test('is refused to a holder whose key is gone, and nothing is written', async () => {
    const [etcd, key] = [openClient(), unique()];
    const held = await lock(etcd, unique('lock'));
    await openClient().txn({ then: [op.delete(held.key)] });
    const error = await errorOf(held.txn({ then: [op.put(key, 'stale')] }));
    expect(error).toMatchObject({ reason: 'LockLost', outcome: 'rejected' });
    expect(await etcd.get(key)).toBeUndefined();
    expect(held.valid()).toBe(false);
  });

  test('a holder that lost the lock and never released it does not stand in the way of its session (S22)', async () => {
    const etcd = openClient();
    const mutex = new Mutex(await Session.open(etcd), unique('lock'));
    const lost = await mutex.lock();
    await etcd.delete(lost.key);
    const again = await mutex.lock({ timeoutMs: 10_000 });
    expect([lost.valid(), again.valid()]).toEqual([false, true]);
  });

  test('a holder whose key is deleted by somebody is told', async () => {
    const held = await lock(openClient(), unique('lock'));
    const told = new Promise((resolve) => held.signal.addEventListener('abort', () => resolve(held.signal.reason)));
    await openClient().delete(held.key);
    expect(await told).toMatchObject({ reason: 'LockLost' });
  });
});

test('a lock named "a" waits for the keys of "a/b", which does not wait for it (S38)', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  const nested = await lock(etcd, `${name}/b`);
  expect(await errorOf(lock(etcd, name, { timeoutMs: 50 }))).toMatchObject({ reason: 'DeadlineExceeded' });
  await nested.unlock();
  const outer = await lock(etcd, name);
  await (await lock(etcd, `${name}/b`)).unlock();
  await outer.unlock();
});

describe('withLock', () => {
  test('runs under the lock, gives back the result, and leaves nothing', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    let lease = 0n;
    const result = await withLock(etcd, name, async (held) => {
      lease = (await etcd.get(held.key))?.lease as bigint;
      return held.token;
    });
    expect(result).toBeGreaterThan(0n);
    expect((await etcd.range(prefix(`${name}/`))).count).toBe(0n);
    expect(await etcd.lease.timeToLive(lease)).toMatchObject({ ttl: -1 });
  });

  test('releases when the action fails, with its error', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    await expect(withLock(etcd, name, () => Promise.reject(new Error('no luck')))).rejects.toThrow('no luck');
    expect((await etcd.range(prefix(`${name}/`))).count).toBe(0n);
  });

  test('gives up in time where no server answers', async () => {
    const etcd = openClient({ endpoints: ['http://127.0.0.1:1'] });
    const error = await errorOf(withLock(etcd, 'x', () => {}, { timeoutMs: 200 }));
    expect(error).toMatchObject({ reason: 'DeadlineExceeded', problem: 'withLock not done within timeoutMs = 200' });
  });

  test('rejects when the lock was lost before the action was done', async () => {
    const etcd = openClient();
    const lost = withLock(etcd, unique('lock'), async (held) => {
      await openClient().delete(held.key);
      await new Promise((resolve) => held.signal.addEventListener('abort', resolve));
    });
    expect(await errorOf(lost)).toMatchObject({ reason: 'LockLost' });
  });
});

test('an empty name, and a timeout that is none, are refused before anything is sent', async () => {
  const session = await Session.open(openClient());
  expect(await errorOf(() => new Mutex(session, ''))).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  expect(await errorOf(new Mutex(session, 'x').lock({ timeoutMs: -1 }))).toMatchObject({
    reason: 'InvalidInput',
    message: 'timeoutMs: got -1; allowed: a number of milliseconds above 0, or Infinity',
  });
});

async function lock(etcd: Client, name: string, options = {}): Promise<Held> {
  return new Mutex(await Session.open(etcd), name).lock(options);
}

async function queueLength(etcd: Client, name: string, length: number): Promise<void> {
  await expect.poll(async () => (await etcd.range(prefix(`${name}/`))).count, { timeout: 10_000 }).toBe(BigInt(length));
}

async function proxied(endpoints = inject('endpoints')): Promise<{ etcd: Client; direct: Client; proxy: FaultProxy }> {
  const proxy = await FaultProxy.start(endpoints[0] as string);
  return { etcd: openClient({ endpoints: [proxy.endpoint] }), direct: openClient({ endpoints }), proxy };
}

function plain(_name: string, value: unknown): unknown {
  if (typeof value === 'bigint') return String(value);
  return value instanceof Uint8Array ? new TextDecoder().decode(value) : value;
}
