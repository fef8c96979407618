import { afterEach, beforeEach, expect, test } from 'vitest';
import { EtcdError } from '../../src/errors/etcd-error.js';
import { methods } from '../../src/gen/methods.js';
import { toBytes } from '../../src/runtime/bytes.js';
import { GuardPool, type MakeCall } from '../../src/transport/gateway/write-guards.js';
import { errorOf } from '../support/errors.js';
import { VirtualClock } from '../support/virtual-clock.js';

// A guard is a key that makes a write through the JSON gateway take effect only once, even if a runtime resends the
// request. A guard pool keeps the guards of a client for later writes.
let clock: VirtualClock;
let created: number;

beforeEach(() => {
  clock = new VirtualClock();
  created = 0;
});
afterEach(() => {
  clock.restore();
});

const header = { clusterId: 1n, memberId: 1n, revision: 7n, raftTerm: 1n };

/** Simulates a server that grants each lease and applies each transaction. */
const ask: MakeCall = async (method) => {
  if (method.path === methods.lease.leaseGrant.path) return { header, id: 1n, ttl: 600n, error: '' } as never;
  created += 1;
  return { header, succeeded: true, responses: [{ response: undefined }] } as never;
};
const { signal } = new AbortController();

test('a guard pool reuses a guard for five minutes, and then creates a new guard', async () => {
  const pool = new GuardPool(toBytes('guards/', 'prefix'));
  pool.release(await pool.take(ask, signal));
  for (const [passes, expected] of [
    [299_999, 1],
    [1, 2],
  ]) {
    await clock.pass(passes as number);
    pool.release(await pool.take(ask, signal));
    expect(created).toBe(expected);
  }
});

test.each([300_000, -1])(
  'a guard pool does not reuse a guard after the wall clock has jumped by %d ms',
  async (jump) => {
    const pool = new GuardPool(toBytes('guards/', 'prefix'));
    pool.release(await pool.take(ask, signal));
    clock.wallOffsetMs += jump;
    await pool.take(ask, signal);
    expect(created).toBe(2);
  },
);

test('a guard pool uses the lease and the guard key that an earlier copy of its requests has created', async () => {
  const pool = new GuardPool(toBytes('guards/', 'prefix'));
  const second: MakeCall = async (method) => {
    if (method.path === methods.lease.leaseGrant.path)
      throw new EtcdError('', { code: 'FailedPrecondition', reason: 'LeaseExist', outcome: 'rejected' });
    const kv = { key: toBytes('k', 'k'), value: toBytes('0', 'v'), modRevision: 5n };
    const response = { case: 'responseRange', value: { kvs: [kv] } };
    return { header, succeeded: false, responses: [{ response }] } as never;
  };
  expect((await pool.take(second, signal)).revision).toBe(5n);
});

test('`GuardPool.take` rejects with outcome not-sent when another client has already deleted the new guard key', async () => {
  const pool = new GuardPool(toBytes('guards/', 'prefix'));
  const deleted: MakeCall = async (method) => {
    if (method.path === methods.lease.leaseGrant.path) return { header, id: 1n, ttl: 600n, error: '' } as never;
    const response = { case: 'responseRange', value: { kvs: [] } };
    return { header, succeeded: false, responses: [{ response }] } as never;
  };
  expect(await errorOf(pool.take(deleted, signal))).toMatchObject({ outcome: 'not-sent', code: 'Unavailable' });
});

test('a failed attempt to create a guard does not count toward the limit of 32 guards in a guard pool', async () => {
  const pool = new GuardPool(toBytes('guards/', 'prefix'));
  const failing: MakeCall = () => {
    const lost = { code: 'Unavailable', reason: 'ConnectionLost', outcome: 'unknown' } as const;
    return Promise.reject(new EtcdError('', lost));
  };
  for (let count = 0; count < 40; count += 1)
    expect(await errorOf(pool.take(failing, signal))).toMatchObject({ outcome: 'not-sent' });
  await Promise.all(Array.from({ length: 32 }, () => pool.take(ask, signal)));
  expect(created).toBe(32);
});
