import { expect, test } from 'vitest';
import { type Gap, SelfHealingSession } from '../../src/locks.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { answerLost, deletes, puts, stagedTransport } from '../support/transactions.js';

// A gap is the time between the loss of a session's lease and the restoration of the registered keys with a new lease.

test('a SelfHealingSession restores its keys after each of several lost leases, even while the earlier leases still exist on the server', async () => {
  const dead = new Set<bigint>();
  const etcd = openClient({ transport: stagedTransport({ dead }) });
  await using session = await SelfHealingSession.open(etcd, { ttl: 2 });
  const key = unique('service');
  await session.register(key, 'x');
  const gaps = session.gaps();
  const next = async (): Promise<Gap | undefined> => (await gaps.next()).value;
  for (let round = 0; round < 3; round += 1) {
    dead.add(session.leaseId);
    expect(await next()).toMatchObject({ type: 'lost', cause: { reason: 'LeaseExpired' } });
    expect(await next()).toMatchObject({ type: 'healed', restored: [new TextEncoder().encode(key)], taken: [] });
    expect((await etcd.get(key))?.lease).toBe(session.leaseId);
  }
});

test('`unregister` deletes a key that already existed with the same value and lease before the caller registered the key', async () => {
  const [etcd, key] = [openClient(), unique('service')];
  await using session = await SelfHealingSession.open(etcd);
  await etcd.put(key, 'x', { lease: session.leaseId });
  await session.register(key, 'x');
  await session.unregister(key);
  expect(await etcd.get(key)).toBeUndefined();
});

test('a put of a SelfHealingSession has no effect when it arrives after the caller has unregistered the key', async () => {
  const [direct, key] = [openClient(), unique('service')];
  let letGo: (() => Promise<unknown>) | undefined;
  const transport = stagedTransport({
    onTransaction: async (ops, send) => {
      if (!puts(ops, key) || letGo !== undefined) return send();
      letGo = send;
      throw answerLost();
    },
  });
  await using session = await SelfHealingSession.open(openClient({ transport }));
  await session.register(key, 'x');
  await session.unregister(key);
  expect(await letGo?.()).toMatchObject({ succeeded: false });
  expect(await direct.get(key)).toBeUndefined();
});

test('a SelfHealingSession keeps a key that the caller registers again during the cleanup of a canceled `register` call', async () => {
  const [direct, key] = [openClient(), unique('service')];
  const stop = new AbortController();
  let isSecond = false;
  let cleanedUp = (): void => {};
  const deletion = new Promise<void>((resolve) => {
    cleanedUp = resolve;
  });
  const transport = stagedTransport({
    onTransaction: async (ops, send) => {
      if (isSecond) {
        const result = await send();
        if (deletes(ops, key)) cleanedUp();
        return result;
      }
      // The first put takes effect, but its answer is lost. The cleanup reaches the server after the second call.
      if (puts(ops, key)) await send();
      stop.abort();
      throw answerLost();
    },
  });
  await using session = await SelfHealingSession.open(openClient({ transport }));
  expect(await errorOf(session.register(key, 'x', { signal: stop.signal }))).toMatchObject({ reason: 'Canceled' });
  isSecond = true;
  await session.register(key, 'y');
  await deletion;
  expect((await direct.get(key))?.text()).toBe('y');
});

test('`unregister` deletes the value of a canceled `register` call that took effect', async () => {
  const [direct, key] = [openClient(), unique('service')];
  const stop = new AbortController();
  const transport = stagedTransport({
    onTransaction: async (ops, send) => {
      const result = await send();
      if (!puts(ops, key) || stop.signal.aborted) return result;
      if ((await direct.get(key))?.text() !== 'y') return result;
      stop.abort();
      throw answerLost();
    },
  });
  await using session = await SelfHealingSession.open(openClient({ transport }));
  await session.register(key, 'x');
  expect(await errorOf(session.register(key, 'y', { signal: stop.signal }))).toMatchObject({ reason: 'Canceled' });
  await session.unregister(key);
  expect(await direct.get(key)).toBeUndefined();
});

test('a SelfHealingSession does not restore a key after the loss of its lease when the `unregister` call for the key has timed out', async () => {
  const [direct, key, dead] = [openClient(), unique('service'), new Set<bigint>()];
  const transport = stagedTransport({
    onTransaction: async (ops, send) => {
      if (!deletes(ops, key)) return send();
      throw answerLost();
    },
    dead,
  });
  await using session = await SelfHealingSession.open(openClient({ transport }), { ttl: 2 });
  await session.register(key, 'x');
  expect(await errorOf(session.unregister(key, { maxWaitMs: 50 }))).toMatchObject({ reason: 'DeadlineExceeded' });
  const gaps = session.gaps();
  dead.add(session.leaseId);
  expect((await gaps.next()).value).toMatchObject({ type: 'lost' });
  expect((await gaps.next()).value).toMatchObject({ type: 'healed', restored: [] });
  expect((await direct.get(key))?.lease).not.toBe(session.leaseId);
});

test('a SelfHealingSession leaves no key when two `register` calls for the key time out although the server has applied their puts', async () => {
  const [direct, key] = [openClient(), unique('service')];
  let isCut = true;
  const transport = stagedTransport({
    onTransaction: async (ops, send) => {
      const isPut = puts(ops, key);
      if (isPut) await send();
      if (isPut || isCut) throw answerLost();
      return send();
    },
  });
  await using session = await SelfHealingSession.open(openClient({ transport }));
  await errorOf(session.register(key, 'x', { maxWaitMs: 500 }));
  await errorOf(session.register(key, 'y', { maxWaitMs: 500 }));
  expect((await direct.get(key))?.text()).toBe('y');
  isCut = false;
  await expect.poll(() => direct.get(key)).toBeUndefined();
});
