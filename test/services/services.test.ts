import { describe, expect, test } from 'vitest';
import { Mutex, Session } from '../../src/concurrency/index.js';
import { type Client, compare, type LeaderKey, op, prefix } from '../../src/index.js';
import { openClient, unique } from '../support/client.js';
import { errorOf } from '../support/errors.js';
import { recordingTransport } from '../support/recording-transport.js';

describe('the lock service', () => {
  test('uses the same queue as `Mutex`, and grants the lock to waiters in the order of their arrival', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const mutex = new Mutex(await Session.open(etcd), name);
    const first = await mutex.lock();

    const { id } = await etcd.lease.grant({ ttl: 60 });
    const waiting = etcd.lockService.lock(name, id);
    await queueHas(etcd, name, 2);
    const next = mutex.lock();
    await first.release();
    const { key } = await waiting;
    const held = await etcd.get(key);
    expect([held?.keyText(), held?.lease]).toEqual([`${name}/${id.toString(16)}`, id]);

    await queueHas(etcd, name, 2);
    const { header } = await etcd.lockService.unlock(key);
    const again = await next;
    expect(again.token).toBeGreaterThan(0n);
    expect(header.revision).toBeGreaterThan(held?.createRevision as bigint);
    await again.release();
  });

  test('grants the lock to the next waiter when the lease of the holder is revoked', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const [first, second] = [await etcd.lease.grant({ ttl: 60 }), await etcd.lease.grant({ ttl: 60 })];
    await etcd.lockService.lock(name, first.id);
    const waiting = etcd.lockService.lock(name, second.id);
    await queueHas(etcd, name, 2);
    await etcd.lease.revoke(first.id);
    const { key } = await waiting;
    expect((await etcd.get(key))?.lease).toBe(second.id);
  });

  test('removes a waiter from the queue when the waiter cancels its call', async () => {
    const [etcd, name] = [openClient(), unique('lock')];
    const [first, second] = [await etcd.lease.grant({ ttl: 60 }), await etcd.lease.grant({ ttl: 60 })];
    await etcd.lockService.lock(name, first.id);
    const stop = new AbortController();
    const waiting = etcd.lockService.lock(name, second.id, { signal: stop.signal });
    await queueHas(etcd, name, 2);
    stop.abort();
    expect(await errorOf(waiting)).toMatchObject({ reason: 'Canceled', outcome: 'unknown' });
    await queueHas(etcd, name, 1);
  });

  test('rejects a `lock` call with `LeaseNotFound` when the lease does not exist', async () => {
    const { lockService } = openClient();
    expect(await errorOf(lockService.lock(unique('lock'), 1n))).toMatchObject({ reason: 'LeaseNotFound' });
  });
});

describe('the election service', () => {
  test('returns no leader before the first campaign and after the leader has resigned', async () => {
    const [etcd, name] = [openClient(), unique('election')];
    expect(await etcd.electionService.leader(name)).toBeUndefined();
    const leader = await elected(etcd, name, 'a');
    expect((await etcd.electionService.leader(name))?.text()).toBe('a');
    await etcd.electionService.resign(leader);
    expect(await etcd.electionService.leader(name)).toBeUndefined();
  });

  test('elects contenders in the order of arrival, and a write guarded by the key of a former leader fails', async () => {
    const [etcd, name, key] = [openClient(), unique('election'), unique()];
    const first = await elected(etcd, name, 'first');
    const waiting = elected(etcd, name, 'second');
    await queueHas(etcd, name, 2);
    const guarded = ({ key: own, rev }: LeaderKey, value: string): Promise<{ readonly succeeded: boolean }> =>
      etcd.txn({ if: [compare.createRevision(own, '==', rev)], then: [op.put(key, value)] });
    expect((await guarded(first, 'by the first')).succeeded).toBe(true);
    await etcd.electionService.resign(first);
    const second = await waiting;
    expect((await etcd.electionService.leader(name))?.text()).toBe('second');
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
    for await (const leader of etcd.electionService.observe(name)) {
      seen.push(leader.text());
      if (seen.length === 1) await etcd.electionService.proclaim(first, 'second');
      if (seen.length === 2) await etcd.electionService.resign(first);
      if (seen.length === 3) break;
    }
    await waiting;
    expect(seen).toEqual(['first', 'second', 'next']);
  });

  test('ends an observation with `Canceled` when the caller aborts the signal of the observation', async () => {
    const [etcd, name] = [openClient(), unique('election')];
    await elected(etcd, name, 'first');
    const stop = new AbortController();
    const observing = etcd.electionService.observe(name, { signal: stop.signal });
    expect((await observing.next()).value?.text()).toBe('first');
    const next = errorOf(observing.next());
    stop.abort();
    expect(await next).toMatchObject({ reason: 'Canceled' });
  });

  test('rejects a proclamation by a former leader', async () => {
    const [etcd, name] = [openClient(), unique('election')];
    const leader = await elected(etcd, name, 'a');
    await etcd.electionService.resign(leader);
    const error = await errorOf(etcd.electionService.proclaim(leader, 'b'));
    expect(error.problem).toBe('election: not leader');
    expect(await etcd.electionService.leader(name)).toBeUndefined();
  });
});

test('the lock service and the election service reject invalid input without sending a request', async () => {
  const { transport, sent } = recordingTransport();
  const { lockService, electionService } = openClient({ transport });
  const calls = [
    lockService.lock(5 as never, 1n),
    lockService.lock('a', 0n),
    lockService.unlock(''),
    electionService.campaign('a', -1n, 'x'),
    electionService.campaign('a', 1n, undefined as never),
    electionService.leader(undefined as never),
    electionService.observe(5 as never).next(),
  ];
  for (const call of calls) {
    expect(await errorOf(call)).toMatchObject({ reason: 'InvalidInput', outcome: 'not-sent' });
  }
  expect(sent).toEqual([]);
});

/** Campaigns with a new lease. Resolves with the leader key when the campaign is won. */
async function elected({ lease, electionService }: Client, name: string, value: string): Promise<LeaderKey> {
  const { id } = await lease.grant({ ttl: 60 });
  return (await electionService.campaign(name, id, value)).leader;
}

async function queueHas(etcd: Client, name: string, count: number): Promise<void> {
  await expect.poll(async () => (await etcd.range(prefix(`${name}/`))).count).toBe(count);
}
