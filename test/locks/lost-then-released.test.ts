import { expect, test } from 'vitest';
import { op } from '../../src/index.js';
import { type Held, lead, Mutex, Session, withLock } from '../../src/locks.js';
import { blockEventLoop } from '../support/block.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { queueLength } from '../support/locks.js';

// A holder often releases its lock in a listener that runs because the lock was lost. The release must not hide the
// loss.

const onAbort = (signal: AbortSignal, listener: () => void): void => signal.addEventListener('abort', listener);
const aborted = (signal: AbortSignal): Promise<void> => new Promise((resolve) => onAbort(signal, resolve));

test('`withLock` rejects when the lock was lost and a listener of its signal releases the lock', async () => {
  const [etcd, name] = [openClient(), unique('lost')];
  const error = await errorOf(
    withLock(etcd, name, async (held) => {
      onAbort(held.signal, () => void held.release());
      await Promise.all([aborted(held.signal), openClient().delete(held.key)]);
    }),
  );
  expect(error).toMatchObject({ reason: 'LockLost' });
});

test('`lead` campaigns again when the leadership was lost and a listener of its signal resigns', async () => {
  const [etcd, name] = [openClient(), unique('lost')];
  let terms = 0;
  const result = await lead(etcd, name, { value: 'me' }, async ({ held }) => {
    terms += 1;
    if (terms === 2) return 'second term';
    onAbort(held.signal, () => void held.resign());
    await Promise.all([aborted(held.signal), openClient().delete(held.key)]);
    return 'first term';
  });
  expect(result).toBe('second term');
});

test('`held.txn` gives the same reason as `held.signal` when a listener of the signal releases the lock after `maxHoldMs`', async () => {
  const [etcd, name] = [openClient(), unique('lost')];
  const held = await new Mutex(await Session.open(etcd), name).lock({ maxHoldMs: 50 });
  onAbort(held.signal, () => void held.release());
  await aborted(held.signal);
  expect(held.signal.reason).toMatchObject({ reason: 'LockLost' });
  expect(await errorOf(held.txn({ then: [op.put(name, 'late')] }))).toMatchObject({ reason: 'LockLost' });
});

test('the lock is free before the TTL passes when a listener of its signal releases it after `maxHoldMs`', async () => {
  const [etcd, name] = [openClient(), unique('lost')];
  const held = await new Mutex(await Session.open(etcd, { ttl: 600 }), name).lock({ maxHoldMs: 50 });
  onAbort(held.signal, () => void held.release());
  await aborted(held.signal);
  await queueLength(etcd, name, 0);
});

test('`withLock` rejects when its lease is lost and an event listener of the client releases the lock', async () => {
  const [etcd, name] = [openClient(), unique('lost')];
  let held: Held | undefined;
  etcd.onEvent(({ type }) => {
    if (type === 'lease lost') void held?.release();
  });
  const error = await errorOf(
    withLock(etcd, name, { ttl: 2 }, async (own) => {
      held = own;
      const ended = aborted(own.signal);
      blockEventLoop(2_500);
      await ended;
    }),
  );
  expect(error).toMatchObject({ reason: 'LeaseUnreachable' });
});

test("a lock keeps the reason of its session's end when an older listener of the session's signal releases the lock", async () => {
  const [etcd, name] = [openClient(), unique('lost')];
  const session = await Session.open(etcd);
  let held: Held | undefined;
  onAbort(session.signal, () => void held?.release());
  held = await new Mutex(session, name).lock();
  await session.close();
  expect(held.signal.reason).toMatchObject({ reason: 'KeepAliveClosed' });
  expect(await errorOf(held.txn({ then: [op.put(name, 'late')] }))).toMatchObject({ reason: 'LockLost' });
});

test('`withLock` rejects when its action releases the lock after the event loop was blocked for longer than the TTL', async () => {
  const [etcd, name] = [openClient(), unique('lost')];
  const blocked = withLock(etcd, name, { ttl: 2 }, async (held) => {
    blockEventLoop(2_500);
    await held.release();
  });
  expect(await errorOf(blocked)).toMatchObject({ reason: 'LeaseUnreachable' });
});
