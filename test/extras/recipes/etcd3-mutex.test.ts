import { Etcd3, EtcdLockFailedError } from 'etcd3';
import { describe, expect, inject, onTestFinished, test } from 'vitest';
import { type Client, op, prefix } from '../../../src/index.js';
import { type Held, Mutex, Session } from '../../../src/locks.js';
import { Etcd3Mutex } from '../../../src/recipes.js';
import type { BytesTest } from '../../../src/testing/index.js';
import { startScript } from '../../support/child.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { proxied, queueLength } from '../../support/locks.js';
import { ownEtcd } from '../../support/own-etcd.js';

function etcd3(hosts = inject('endpoints')[0] as string): Etcd3 {
  const client = new Etcd3({ hosts });
  onTestFinished(() => client.close());
  return client;
}

async function mutexOf(etcd: Client, name: string): Promise<Etcd3Mutex> {
  return new Etcd3Mutex(await Session.open(etcd), name);
}

/**
 * Matches the requests that name the key of etcd3. The other requests of a lock name only keys and ranges of its queue.
 */
function putting(name: string): BytesTest {
  const named = new RegExp(`${name}(?![/0])`);
  return (bytes) => named.test(Buffer.from(bytes).toString('latin1'));
}

/** Resolves when neither key of a lock exists. */
async function isFree(etcd: Client, name: string): Promise<void> {
  await queueLength(etcd, name, 0);
  await expect.poll(() => etcd.get(name)).toBeUndefined();
}

describe('a holder of an `Etcd3Mutex`', () => {
  test('excludes a holder who uses etcd3, until the release', async () => {
    const [etcd, theirs, name] = [openClient(), etcd3(), unique('lock')];
    const held = await (await mutexOf(etcd, name)).lock();
    await expect(theirs.lock(name).acquire()).rejects.toThrow(EtcdLockFailedError);
    await held.release();
    expect(held.signal.reason).toMatchObject({ reason: 'LockReleased' });
    await isFree(etcd, name);
    const lock = await theirs.lock(name).acquire();
    await lock.release();
  });

  test('excludes a holder of a `Mutex`, and their tokens have the order of the queue', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const first = await (await mutexOf(etcd, name)).lock();
    const second = new Mutex(await Session.open(etcd), name).lock();
    await queueLength(etcd, name, 2);
    const third = (await mutexOf(etcd, name)).lock();
    await queueLength(etcd, name, 3);
    await first.release();
    await (await second).release();
    const tokens = [first.token, (await second).token, (await third).token];
    expect(tokens).toEqual(tokens.toSorted((a, b) => Number(a - b)));
    await (await third).release();
  });

  test.each(['queue key', 'key of etcd3'] as const)(
    'loses the lock, deletes the other key and writes nothing when another client deletes the %s',
    async (lost) => {
      const [etcd, name] = [openClient(), unique('lock')];
      const held = await (await mutexOf(etcd, name)).lock();
      const next = (await mutexOf(etcd, name)).lock();
      await queueLength(etcd, name, 2);
      await etcd.delete(lost === 'queue key' ? held.key : name);
      expect(await errorOf(held.txn({ then: [op.put(`${name}-written`, 'x')] }))).toMatchObject({
        reason: 'LockLost',
        outcome: 'rejected',
      });
      await expect.poll(() => held.signal.aborted).toBe(true);
      expect(held.signal.reason).toMatchObject({ reason: 'LockLost' });
      expect(held.valid()).toBe(false);
      await (await next).release();
      expect(await errorOf(held.txn({}))).toMatchObject({ reason: 'LockLost' });
      expect(await etcd.get(`${name}-written`)).toBeUndefined();
      await isFree(etcd, name);
    },
  );

  test.each(['queue key', 'key of etcd3'] as const)(
    'learns from a watch that another client has deleted the %s, and frees the lock',
    async (lost) => {
      const [etcd, name] = [openClient(), unique('lock')];
      const held = await (await mutexOf(etcd, name)).lock();
      const aborted = new Promise((resolve) => held.signal.addEventListener('abort', resolve));
      await etcd.delete(lost === 'queue key' ? held.key : name);
      await aborted;
      expect(held.signal.reason).toMatchObject({ reason: 'LockLost' });
      await isFree(etcd, name);
      await held.release();
    },
  );

  test.each([{}, { retryWrites: true }])('writes with `txn` while it has both keys (%o)', async (options) => {
    const [etcd, name] = [openClient(options), unique('lock')];
    const held = await (await mutexOf(etcd, name)).lock();
    const { responses, header } = await held.txn({ then: [op.put(`${name}-a`, '1'), op.get(`${name}-a`)] });
    expect(responses[1]?.text()).toBe('1');
    expect((await etcd.get(`${name}-a`))?.modRevision).toBe(header.revision);
    await held.release();
    expect(await errorOf(held.txn({}))).toMatchObject({ reason: 'LockReleased' });
  });

  test('gives both keys to the next waiter when its lease ends', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const session = await Session.open(etcd);
    const held = await new Etcd3Mutex(session, name).lock();
    const next = (await mutexOf(openClient(), name)).lock();
    await queueLength(etcd, name, 2);
    await etcd.lease.revoke(session.leaseId);
    expect((await next).token).toBeGreaterThan(held.token);
    await expect.poll(() => held.valid()).toBe(false);
    await (await next).release();
  });
});

describe('a waiter for an `Etcd3Mutex`', () => {
  test('waits while a holder uses etcd3, and gets the lock after the release', async () => {
    const [etcd, theirs, name] = [openClient(), etcd3(), unique('lock')];
    const lock = await theirs.lock(name).acquire();
    const mutex = await mutexOf(etcd, name);
    expect(await errorOf(mutex.lock({ maxWaitMs: 1_000 }))).toMatchObject({ reason: 'LockTaken', outcome: 'rejected' });
    expect(await mutex.tryLock()).toBeUndefined();
    await queueLength(etcd, name, 0);
    const waiting = mutex.lock();
    await queueLength(etcd, name, 1);
    await lock.release();
    const held = await waiting;
    expect(held.valid()).toBe(true);
    await held.release();
    await isFree(etcd, name);
  });

  test('gets the lock when the lease of a killed process that uses etcd3 ends', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const script = new URL('../../support/etcd3-holder.ts', import.meta.url);
    const child = startScript(script, [inject('endpoints')[0] as string, name, '1']);
    expect(await child.line()).toBe('held');
    const waiting = (await mutexOf(etcd, name)).lock();
    await queueLength(etcd, name, 1);
    expect((await etcd.get(name))?.lease).toBeGreaterThan(0n);
    child.process.kill('SIGKILL');
    const held = await waiting;
    expect((await etcd.get(name))?.createRevision).toBeGreaterThan(held.token);
    await held.release();
    await isFree(etcd, name);
  });

  test('leaves the queue when the caller cancels the wait for a holder who uses etcd3', async () => {
    const [etcd, theirs, name] = [openClient(), etcd3(), unique('lock')];
    const lock = await theirs.lock(name).acquire();
    const stop = new AbortController();
    const waiting = errorOf((await mutexOf(etcd, name)).lock({ signal: stop.signal }));
    await queueLength(etcd, name, 1);
    stop.abort();
    expect(await waiting).toMatchObject({ reason: 'Canceled', outcome: 'rejected' });
    await queueLength(etcd, name, 0);
    await lock.release();
    await isFree(etcd, name);
  });

  test('ends its wait for a holder who uses etcd3 when another client deletes its queue key', async () => {
    const [etcd, theirs, name] = [openClient(), etcd3(), unique('lock')];
    const lock = await theirs.lock(name).acquire();
    const waiting = errorOf((await mutexOf(etcd, name)).lock());
    await queueLength(etcd, name, 1);
    await etcd.delete(prefix(`${name}/`));
    expect(await waiting).toMatchObject({ reason: 'LockLost' });
    await lock.release();
    await isFree(etcd, name);
  });

  test('never holds the lock while another contender of either package does', async () => {
    const [etcd, theirs, name] = [openClient(), etcd3(), unique('lock')];
    let [inside, etcd3Holds] = [0, 0];
    const use = async (): Promise<void> => {
      inside += 1;
      expect(inside).toBe(1);
      await etcd.get(name);
      inside -= 1;
    };
    const ours = Array.from({ length: 4 }, async () => {
      const mutex = await mutexOf(etcd, name);
      for (let round = 0; round < 10; round += 1) {
        const held = await mutex.lock();
        await use();
        await held.release();
      }
    });
    const others = Array.from({ length: 4 }, async () => {
      for (let attempt = 0; attempt < 100 || etcd3Holds === 0; attempt += 1) {
        const lock = await theirs
          .lock(name)
          .acquire()
          .catch(() => undefined);
        if (lock === undefined) continue;
        etcd3Holds += 1;
        await use();
        await lock.release();
      }
    });
    await Promise.all([...ours, ...others]);
    await isFree(etcd, name);
  });
});

describe('a put of the key of etcd3 by an `Etcd3Mutex`', () => {
  test('is found again when its answer is lost', async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('lock');
    const mutex = await mutexOf(etcd, name);
    const lost = proxy.loseNextAnswer(putting(name));
    const held = await mutex.lock();
    await lost;
    expect((await direct.get(name))?.createRevision).toBeGreaterThan(held.token);
    expect((await direct.get(name))?.version).toBe(1n);
    await held.release();
    await isFree(direct, name);
  });

  test('is undone when the caller cancels the call while the answer is lost', async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('lock');
    const mutex = await mutexOf(etcd, name);
    const stop = new AbortController();
    void proxy.loseNextAnswer(putting(name)).then(() => stop.abort());
    await mutex.lock({ signal: stop.signal }).then(
      (held) => held.release(),
      () => {},
    );
    await isFree(direct, name);
  });

  test('has no effect when it arrives after the release', async () => {
    const { etcd, direct, proxy } = await proxied();
    const name = unique('lock');
    const mutex = await mutexOf(etcd, name);
    const before = (await direct.range(name)).header.revision;
    const [letGo, held] = await Promise.all([proxy.holdNextRequest(putting(name)), mutex.lock()]);
    await held.release();
    letGo();
    // The second lock gives the late put time to reach the server.
    await (await mutex.lock()).release();
    const seen: string[] = [];
    for await (const { type } of direct.watch(name, { startRevision: before + 1n })) if (seen.push(type) === 4) break;
    expect(seen).toEqual(['put', 'delete', 'put', 'delete']);
    await isFree(direct, name);
  });
});

test('`tryLock` of an `Etcd3Mutex` resolves with undefined while any other contender has the lock', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  const [one, other] = [await mutexOf(etcd, name), await mutexOf(etcd, name)];
  const held = (await one.tryLock()) as Held;
  expect(await other.tryLock()).toBeUndefined();
  expect(await one.tryLock()).toBeUndefined();
  await held.release();
  const second = await other.tryLock();
  expect(second?.valid()).toBe(true);
  await second?.release();
  await isFree(etcd, name);
});

test('a session that continues with the lease of an earlier session gets the `Etcd3Mutex` that the earlier session held', async () => {
  const [etcd, name] = [openClient(), unique('lock')];
  const earlier = await Session.open(etcd);
  await new Etcd3Mutex(earlier, name).lock();
  await earlier.orphan();
  const session = await Session.open(etcd, { lease: earlier.leaseId });
  const held = await new Etcd3Mutex(session, name).lock();
  expect((await etcd.get(name))?.lease).toBe(session.leaseId);
  await held.release();
  await isFree(etcd, name);
});

test('a holder of an `Etcd3Mutex` keeps both keys while the server restarts and its history is compacted', async () => {
  const server = await ownEtcd();
  const etcd = openClient({ endpoints: server.endpoints });
  const theirs = etcd3(server.endpoints[0] as string);
  const mutex = new Etcd3Mutex(await Session.open(etcd, { ttl: 60 }), 'lock');
  const held = await mutex.lock();
  const next = (await mutexOf(etcd, 'lock')).lock();
  await queueLength(etcd, 'lock', 2);
  await etcd.compact((await etcd.put('other', 'x')).header.revision);
  await server.members[0]?.kill();
  await server.members[0]?.start();
  await expect(theirs.lock('lock').acquire()).rejects.toThrow();
  expect(held.valid()).toBe(true);
  await held.txn({ then: [op.put('written', 'x')] });
  await held.release();
  expect((await next).valid()).toBe(true);
  await (await next).release();
});
