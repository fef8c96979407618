import { describe, expect, test } from 'vitest';
import type { LeaderKey } from '../../../src/gen/v3electionpb/v3election.js';
import { type Client, compare, EtcdError, op, prefix } from '../../../src/index.js';
import { Mutex, Session } from '../../../src/locks.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';

// etcd's own lock service and election service, which only `raw` offers.

describe('the lock service', () => {
  test('uses the same queue as `Mutex`, and grants the lock to waiters in the order of their arrival', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const mutex = new Mutex(await Session.open(etcd), name);
    const first = await mutex.lock();

    const { id } = await etcd.lease.grant({ ttl: 60 });
    const waiting = etcd.raw.lock.lock({ name: bytes(name), lease: id });
    await queueHas(etcd, name, 2);
    const next = mutex.lock();
    await first.release();
    const { key } = await waiting;
    const held = await etcd.get(key);
    expect([held?.key, held?.lease]).toEqual([`${name}/${id.toString(16)}`, id]);

    await queueHas(etcd, name, 2);
    const { header } = await etcd.raw.lock.unlock({ key });
    const again = await next;
    expect(again.token).toBeGreaterThan(0n);
    expect(header?.revision).toBeGreaterThan(held?.createRevision as bigint);
    await again.release();
  });

  test('grants the lock to the next waiter when the lease of the holder is revoked', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const [first, second] = [await etcd.lease.grant({ ttl: 60 }), await etcd.lease.grant({ ttl: 60 })];
    await etcd.raw.lock.lock({ name: bytes(name), lease: first.id });
    const waiting = etcd.raw.lock.lock({ name: bytes(name), lease: second.id });
    await queueHas(etcd, name, 2);
    await etcd.lease.revoke(first.id);
    const { key } = await waiting;
    expect((await etcd.get(key))?.lease).toBe(second.id);
  });

  test('removes a waiter from the queue when the waiter cancels its call', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const [first, second] = [await etcd.lease.grant({ ttl: 60 }), await etcd.lease.grant({ ttl: 60 })];
    await etcd.raw.lock.lock({ name: bytes(name), lease: first.id });
    const stop = new AbortController();
    const waiting = etcd.raw.lock.lock({ name: bytes(name), lease: second.id }, { signal: stop.signal });
    await queueHas(etcd, name, 2);
    stop.abort();
    expect(await errorOf(waiting)).toMatchObject({ reason: 'Canceled', outcome: 'unknown' });
    await queueHas(etcd, name, 1);
  });

  test('rejects a `lock` call with `LeaseNotFound` when the lease does not exist', async () => {
    const call = openClient().raw.lock.lock({ name: bytes(unique('lock')), lease: 1n });
    expect(await errorOf(call)).toMatchObject({ reason: 'LeaseNotFound' });
  });
});

describe('the election service', () => {
  test('returns no leader before the first campaign and after the leader has resigned', async () => {
    const [etcd, name] = [openClient(), unique('election')];
    expect(await leaderOf(etcd, name)).toBe('none');
    const leader = await elected(etcd, name, 'a');
    expect(await leaderOf(etcd, name)).toBe('a');
    await etcd.raw.election.resign({ leader: leader });
    expect(await leaderOf(etcd, name)).toBe('none');
  });

  test('elects contenders in the order of arrival, and a write guarded by the key of a former leader fails', async () => {
    const [etcd, name, key] = [openClient(), unique('election'), unique()];
    const first = await elected(etcd, name, 'first');
    const waiting = elected(etcd, name, 'second');
    await queueHas(etcd, name, 2);
    const guarded = ({ key: own, rev }: LeaderKey, value: string): Promise<{ readonly succeeded: boolean }> =>
      etcd.txn({ if: [compare.createRevision(own, '==', rev)], then: [op.put(key, value)] });
    expect((await guarded(first, 'by the first')).succeeded).toBe(true);
    await etcd.raw.election.resign({ leader: first });
    const second = await waiting;
    expect(await leaderOf(etcd, name)).toBe('second');
    expect((await guarded(first, 'too late')).succeeded).toBe(false);
    expect((await guarded(second, 'by the second')).succeeded).toBe(true);
    expect((await etcd.get(key))?.text()).toBe('by the second');
  });

  test('delivers to an observer the leader, the new value that the leader proclaims, and the next leader', async () => {
    const [etcd, name] = [openClient(), unique('election')];
    const first = await elected(etcd, name, 'first');
    const waiting = elected(etcd, name, 'next');
    await queueHas(etcd, name, 2);
    const seen: string[] = [];
    for await (const { kv } of etcd.raw.election.observe({ name: bytes(name) })) {
      seen.push(String(Buffer.from(kv?.value ?? [])));
      if (seen.length === 1) await etcd.raw.election.proclaim({ leader: first, value: bytes('second') });
      if (seen.length === 2) await etcd.raw.election.resign({ leader: first });
      if (seen.length === 3) break;
    }
    await waiting;
    expect(seen).toEqual(['first', 'second', 'next']);
  });

  test('ends an observation with `Canceled` when the caller aborts the signal of the observation', async () => {
    const [etcd, name] = [openClient(), unique('election')];
    await elected(etcd, name, 'first');
    const stop = new AbortController();
    const observing = etcd.raw.election.observe({ name: bytes(name) }, { signal: stop.signal });
    expect((await observing.next()).value.kv?.value).toEqual(new Uint8Array(bytes('first')));
    const next = errorOf(observing.next());
    stop.abort();
    expect(await next).toMatchObject({ reason: 'Canceled' });
  });

  test('rejects a proclamation by a former leader', async () => {
    const [etcd, name] = [openClient(), unique('election')];
    const leader = await elected(etcd, name, 'a');
    await etcd.raw.election.resign({ leader: leader });
    const error = await errorOf(etcd.raw.election.proclaim({ leader: leader, value: bytes('b') }));
    expect(error.problem).toBe('election: not leader');
    expect(await leaderOf(etcd, name)).toBe('none');
  });
});

/** Campaigns with a new lease. Resolves with the leader key when the campaign is won. */
async function elected({ lease, raw }: Client, name: string, value: string): Promise<LeaderKey> {
  const { id } = await lease.grant({ ttl: 60 });
  const { leader } = await raw.election.campaign({ name: bytes(name), lease: id, value: bytes(value) });
  if (leader === undefined) throw new Error('the response has no leader');
  return leader;
}

/** Returns the value of the leader of an election, or "none". */
async function leaderOf({ raw }: Client, name: string): Promise<string> {
  try {
    return String(Buffer.from((await raw.election.leader({ name: bytes(name) })).kv?.value ?? []));
  } catch (error) {
    if (error instanceof EtcdError && error.reason === 'ElectionNoLeader') return 'none';
    throw error;
  }
}

function bytes(text: string): Uint8Array {
  return Buffer.from(text);
}

async function queueHas(etcd: Client, name: string, count: number): Promise<void> {
  await expect.poll(async () => (await etcd.range(prefix(`${name}/`))).count).toBe(count);
}
