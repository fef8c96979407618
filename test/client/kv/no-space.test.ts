import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { type Client, EtcdError, prefix } from '../../../src/index.js';
import { Election, Mutex, SelfHealingSession, Semaphore, Session } from '../../../src/locks.js';
import { openClient } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { ownEtcd } from '../../support/own-etcd.js';

const QUOTA_BYTES = 16 * 1024 * 1024;
const AT_ONCE = 8;
const VALUE_BYTES = 500_000;
/**
 * The maximum number of servers to try. About five of six servers apply a put that they refuse, so at least one of
 * eight servers almost certainly does.
 */
const MAX_SERVERS = 8;

// etcd checks the quota before it proposes a write, and again when it applies the write. In the second case it applies
// the write and still returns an error (see quotaApplierV3 in etcd's server).
test('a put that rejects with NoSpace has outcome unknown, because etcd may have applied the put', async () => {
  for (let server = 0; server < MAX_SERVERS; server += 1) {
    const { endpoints, close } = await ownEtcd({ args: [`--quota-backend-bytes=${QUOTA_BYTES}`] });
    const etcd = openClient({ endpoints });
    const refused = await fill((key) => etcd.put(key, randomBytes(VALUE_BYTES)));
    for (const error of refused.values()) expect(error).toMatchObject({ reason: 'NoSpace', outcome: 'unknown' });
    const { kvs } = await etcd.range(prefix('k/'), { keysOnly: true });
    if (kvs.some((kv) => refused.has(kv.key))) return;
    await close();
  }
  expect.fail('no server applied a put that it refused');
});

test('attempts to acquire a lock, leadership or a permit reject with NoSpace until the server has space again', async () => {
  const { endpoints } = await ownEtcd({ args: [`--quota-backend-bytes=${QUOTA_BYTES}`] });
  const etcd = openClient({ endpoints });
  const session = await Session.open(etcd);
  await fill((key) => etcd.put(key, randomBytes(VALUE_BYTES)));
  const mutex = new Mutex(session, 'lock');
  const waits = [
    () => mutex.lock(),
    () => new Mutex(session, 'other lock').tryLock(),
    () => new Election(session, 'election').campaign('x'),
    () => new Semaphore(session, 'semaphore', 1).acquire(),
  ];
  for (const wait of waits) expect(await errorOf(wait())).toMatchObject({ reason: 'NoSpace', outcome: 'unknown' });
  await free(etcd);
  expect((await mutex.lock()).valid()).toBe(true);
});

test('a self-healing session puts its registered keys again when the server has space', async () => {
  const { endpoints } = await ownEtcd({ args: [`--quota-backend-bytes=${QUOTA_BYTES}`] });
  const etcd = openClient({ endpoints });
  const healing = await SelfHealingSession.open(etcd);
  await healing.register('registered', 'x');
  const gaps = healing.gaps();
  await fill((key) => etcd.put(key, randomBytes(VALUE_BYTES)));
  await etcd.lease.revoke(healing.leaseId);
  expect((await gaps.next()).value).toMatchObject({ type: 'lost' });
  // A server without space refuses to grant leases as well.
  expect(await errorOf(etcd.lease.grant({ ttl: 10 }))).toMatchObject({ reason: 'NoSpace' });
  await free(etcd);
  expect((await gaps.next()).value).toMatchObject({ type: 'healed' });
  expect((await etcd.get('registered'))?.text()).toBe('x');
});

async function free(etcd: Client): Promise<void> {
  const { header } = await etcd.delete(prefix('k/'));
  await etcd.compact(header.revision, { physical: true });
  await etcd.maintenance.defragment(etcd.endpoints[0] as string);
  for (const alarm of (await etcd.maintenance.alarms()).alarms) await etcd.maintenance.disarm(alarm);
}

/** Puts keys until the server refuses some of them. Returns the refused keys with their errors. */
async function fill(put: (key: string) => Promise<unknown>): Promise<Map<string, EtcdError>> {
  const refused = new Map<string, EtcdError>();
  for (let count = 0; refused.size === 0; count += AT_ONCE) {
    const keys = Array.from({ length: AT_ONCE }, (_, index) => `k/${count + index}`);
    const errors = await Promise.all(keys.map((key) => put(key).catch((error: unknown) => error)));
    for (const [index, error] of errors.entries())
      if (error instanceof EtcdError) refused.set(keys[index] as string, error);
  }
  return refused;
}
