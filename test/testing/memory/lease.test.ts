import { describe, expect, test, vi } from 'vitest';
import { methods } from '../../../src/gen/methods.js';
import { EventType } from '../../../src/gen/mvccpb/kv.js';
import { keyId } from '../../../src/testing/memory/key-range.js';
import { registerLease } from '../../../src/testing/memory/lease-service.js';
import { StatusError, serverError } from '../../../src/testing/memory/service.js';
import type { MemberSettings } from '../../../src/testing/memory/settings.js';
import { CountingClock, ServiceBench, text, utf8 } from '../../support/memory-services.js';

const { leaseGrant, leaseRevoke, leaseTimeToLive, leaseLeases, leaseKeepAlive } = methods.lease;

function openBench(settings: Partial<MemberSettings> = {}): ServiceBench {
  const bench = new ServiceBench(settings);
  registerLease(bench.router, bench.member);
  return bench;
}

function idsOf(bench: ServiceBench): bigint[] {
  return bench.call(leaseLeases, {}).leases.map(({ id }) => id);
}

function exists(bench: ServiceBench, key: string): boolean {
  return bench.member.store.get(keyId(utf8(key))) !== undefined;
}

describe("MemoryEtcd's LeaseGrant", () => {
  test.for([
    [-5n, 2n],
    [0n, 2n],
    [1n, 2n],
    [2n, 2n],
    [60n, 60n],
    [9_000_000_000n, 9_000_000_000n],
  ] as const)('of a TTL of %d s grants %d s', ([ttl, granted]) => {
    const bench = openBench();
    const header = bench.member.header(1n);
    expect(bench.call(leaseGrant, { id: 7n, ttl })).toEqual({ header, id: 7n, ttl: granted, error: '' });
  });

  test('rejects a TTL above the maximum before it checks the ID', () => {
    const bench = openBench();
    bench.call(leaseGrant, { id: 7n, ttl: 10n });
    expect(() => bench.call(leaseGrant, { id: 7n, ttl: 9_000_000_001n })).toThrow(serverError('LeaseTTLTooLarge'));
  });

  test('rejects an ID that is in use', () => {
    const bench = openBench();
    bench.call(leaseGrant, { id: -7n, ttl: 10n });
    expect(() => bench.call(leaseGrant, { id: -7n, ttl: 10n })).toThrow(serverError('LeaseExist'));
  });

  test('chooses an unused positive ID when the request has none', () => {
    const bench = openBench();
    const { id: first } = bench.call(leaseGrant, { ttl: 10n });
    bench.call(leaseGrant, { id: first + 1n, ttl: 10n });
    const { id: second } = bench.call(leaseGrant, { ttl: 10n });
    expect(first).toBeGreaterThan(0n);
    expect(new Set([first, first + 1n, second]).size).toBe(3);
    expect(bench.member.leases.has(second)).toBe(true);
  });

  test('chooses IDs up to 2^63 - 1, and continues with 1', () => {
    const bench = openBench({ random: () => 1 - Number.EPSILON });
    expect([0, 1, 2].map(() => bench.call(leaseGrant, { ttl: 60n }).id)).toEqual([2n ** 63n - 1n, 1n, 2n]);
  });

  test('fails while an alarm is raised', () => {
    const bench = openBench();
    bench.member.alarms.add('NOSPACE');
    expect(() => bench.call(leaseGrant, { ttl: 10n })).toThrow(serverError('NoSpace'));
    bench.member.alarms.add('CORRUPT');
    expect(() => bench.call(leaseGrant, { ttl: 10n })).toThrow(serverError('Corrupt'));
  });
});

describe("MemoryEtcd's LeaseGrant over the quota", () => {
  test('fails and raises the alarm', () => {
    const bench = new ServiceBench({ quotaBytes: 1 });
    registerLease(bench.router, bench.member);
    expect(() => bench.call(leaseGrant, { ttl: 10n })).toThrow(serverError('NoSpace'));
    expect(bench.member.alarms.isInEffect('NOSPACE')).toBe(true);
  });
});

describe("MemoryEtcd's LeaseRevoke", () => {
  test('deletes the keys of the lease in byte order at one revision', () => {
    const bench = openBench();
    bench.call(leaseGrant, { id: 7n, ttl: 10n });
    for (const key of ['c', 'a', 'b']) bench.write({ [key]: '1' }, 7n);
    bench.write({ other: '1' });
    const commits: unknown[] = [];
    bench.member.store.onCommit(({ revision, changes }) => {
      commits.push([revision, changes.map(({ type, key }) => [type, key])]);
      expect(bench.member.leases.has(7n)).toBe(false);
    });
    expect(bench.call(leaseRevoke, { id: 7n })).toEqual({ header: bench.member.header(6n) });
    expect(commits).toEqual([[6n, ['a', 'b', 'c'].map((key) => [EventType.DELETE, key])]]);
  });

  test('makes no revision when the lease has no key', () => {
    const bench = openBench();
    bench.call(leaseGrant, { id: 7n, ttl: 10n });
    bench.write({ a: '1' }, 7n);
    bench.write({ a: '2' });
    expect(bench.call(leaseRevoke, { id: 7n }).header?.revision).toBe(3n);
    expect(exists(bench, 'a')).toBe(true);
  });

  test('rejects an unknown lease', () => {
    const bench = openBench();
    expect(() => bench.call(leaseRevoke, { id: 7n })).toThrow(serverError('LeaseNotFound'));
  });
});

describe("MemoryEtcd's LeaseTimeToLive", () => {
  test('returns the granted TTL, and the remaining time rounded down to seconds', () => {
    const bench = openBench();
    bench.call(leaseGrant, { id: 7n, ttl: 10n });
    bench.clock.advance(2_500);
    const header = bench.member.header(1n);
    expect(bench.call(leaseTimeToLive, { id: 7n })).toEqual({ header, id: 7n, ttl: 7n, grantedTtl: 10n, keys: [] });
  });

  test('returns the keys when the request asks for them', () => {
    const bench = openBench();
    bench.call(leaseGrant, { id: 7n, ttl: 10n });
    bench.write({ b: '1', a: '1', c: '1' }, 7n);
    bench.write({ c: undefined });
    expect(bench.call(leaseTimeToLive, { id: 7n, keys: true }).keys.map(text)).toEqual(['a', 'b']);
    expect(bench.call(leaseTimeToLive, { id: 7n }).keys).toEqual([]);
  });

  test('returns -1 for an unknown lease', () => {
    const bench = openBench();
    const header = bench.member.header(1n);
    const answer = bench.call(leaseTimeToLive, { id: 7n, keys: true });
    expect(answer).toEqual({ header, id: 7n, ttl: -1n, grantedTtl: 0n, keys: [] });
  });
});

describe("MemoryEtcd's LeaseLeases", () => {
  test('lists the leases in the order in which they expire', () => {
    const bench = openBench();
    for (const [id, ttl] of [
      [1n, 30n],
      [2n, 10n],
      [3n, 20n],
      [4n, 10n],
    ] as const)
      bench.call(leaseGrant, { id, ttl });
    expect(idsOf(bench)).toEqual([2n, 4n, 3n, 1n]);
    bench.member.leases.renew(2n);
    expect(idsOf(bench)).toEqual([4n, 2n, 3n, 1n]);
  });
});

describe("MemoryEtcd's LeaseKeepAlive", () => {
  test('gives a lease its full TTL again', () => {
    const bench = openBench();
    bench.call(leaseGrant, { id: 7n, ttl: 10n });
    const stream = bench.open(leaseKeepAlive);
    for (let round = 0; round < 5; round += 1) {
      bench.clock.advance(9_999);
      stream.send({ id: 7n });
      expect(stream.take()).toEqual([{ header: bench.member.header(1n), id: 7n, ttl: 10n }]);
    }
    bench.clock.advance(10_000);
    expect(idsOf(bench)).toEqual([]);
  });

  test('answers with TTL 0 for an unknown lease, and continues', () => {
    const bench = openBench();
    const stream = bench.open(leaseKeepAlive);
    stream.send({ id: 7n });
    stream.send({});
    expect(stream.take().map(({ id, ttl }) => [id, ttl])).toEqual([
      [7n, 0n],
      [0n, 0n],
    ]);
    expect(stream.ended).toBeUndefined();
  });

  test('revokes a lease whose timer is late, and reports the revision before the revocation', () => {
    const bench = openBench();
    let nowMs = 0;
    const late = new ServiceBench({ clock: { now: () => nowMs, after: () => () => {} } });
    registerLease(late.router, late.member);
    late.call(leaseGrant, { id: 7n, ttl: 10n });
    late.write({ a: '1' }, 7n);
    nowMs = 13_500;
    expect(late.call(leaseTimeToLive, { id: 7n })).toMatchObject({ ttl: -3n, grantedTtl: 10n });
    const stream = late.open(leaseKeepAlive);
    stream.send({ id: 7n });
    expect(stream.take()).toEqual([{ header: bench.member.header(2n), id: 7n, ttl: 0n }]);
    expect(exists(late, 'a')).toBe(false);
  });

  test('ends without error when the client half-closes the stream', () => {
    const stream = openBench().open(leaseKeepAlive);
    stream.halfClose();
    expect(stream.ended).toBe('ok');
  });

  test('ends with the error of a call that the member refuses', () => {
    const bench = openBench();
    bench.call(leaseGrant, { id: 7n, ttl: 10n });
    const stream = bench.open(leaseKeepAlive);
    const refusal = new StatusError('PermissionDenied', 'no');
    vi.spyOn(bench.member.auth, 'authorize').mockImplementation(() => {
      throw refusal;
    });
    stream.send({ id: 7n });
    expect([stream.take(), stream.ended]).toEqual([[], refusal]);
  });
});

describe('a lease of a MemoryEtcd', () => {
  test('expires exactly after its TTL, and its keys are deleted', () => {
    const bench = openBench();
    bench.call(leaseGrant, { id: 7n, ttl: 10n });
    bench.write({ a: '1' }, 7n);
    bench.clock.advance(9_999);
    expect([idsOf(bench), exists(bench, 'a')]).toEqual([[7n], true]);
    bench.clock.advance(1);
    expect([idsOf(bench), exists(bench, 'a')]).toEqual([[], false]);
  });

  test('expires when its time ends, and has a revision of its own even if another lease ends at the same time', () => {
    const bench = openBench();
    for (const [id, ttl] of [
      [1n, 30n],
      [2n, 10n],
      [3n, 20n],
      [4n, 10n],
    ] as const) {
      bench.call(leaseGrant, { id, ttl });
      bench.write({ [`key${id}`]: '1' }, id);
    }
    const ended: unknown[] = [];
    bench.member.store.onCommit(({ revision, changes }) => {
      ended.push([bench.clock.now(), revision, changes.map(({ key }) => key)]);
    });
    bench.clock.advance(100_000);
    expect(ended).toEqual([
      [10_000, 6n, ['key2']],
      [10_000, 7n, ['key4']],
      [20_000, 8n, ['key3']],
      [30_000, 9n, ['key1']],
    ]);
  });

  test('expires at once when `expire` is called', () => {
    const bench = openBench();
    bench.call(leaseGrant, { id: 7n, ttl: 10n });
    bench.write({ a: '1' }, 7n);
    expect(bench.member.leases.expire(7n)).toBe(true);
    expect([idsOf(bench), exists(bench, 'a')]).toEqual([[], false]);
    expect(bench.member.leases.expire(7n)).toBe(false);
  });

  test('does not expire while the alarm CORRUPT is raised, and expires after the alarm is cleared', () => {
    const bench = openBench();
    bench.call(leaseGrant, { id: 7n, ttl: 10n });
    bench.member.alarms.add('CORRUPT');
    bench.clock.advance(20_000);
    expect(idsOf(bench)).toEqual([7n]);
    bench.member.alarms.restore([]);
    bench.clock.advance(500);
    expect(idsOf(bench)).toEqual([]);
  });
});

describe('the member of a MemoryEtcd', () => {
  test('counts grants, revocations and expiries as requests through consensus', () => {
    const bench = openBench();
    const indexes: bigint[] = [];
    const count = (): void => void indexes.push(bench.member.raftIndex);
    count();
    bench.call(leaseGrant, { id: 7n, ttl: 10n });
    count();
    expect(() => bench.call(leaseGrant, { id: 7n, ttl: 10n })).toThrow(serverError('LeaseExist'));
    count();
    bench.open(leaseKeepAlive).send({ id: 7n });
    bench.call(leaseTimeToLive, { id: 7n });
    count();
    bench.clock.advance(10_000);
    count();
    expect(() => bench.call(leaseRevoke, { id: 7n })).toThrow(serverError('LeaseNotFound'));
    count();
    expect(indexes.map((index) => index - (indexes[0] ?? 0n))).toEqual([0n, 1n, 2n, 2n, 3n, 4n]);
  });

  test('keeps one timer for all leases, and no timer without leases', () => {
    const clock = new CountingClock();
    const bench = new ServiceBench({ clock });
    registerLease(bench.router, bench.member);
    for (const ttl of [30n, 10n, 20n]) bench.call(leaseGrant, { id: ttl, ttl });
    expect(clock.timers).toBe(1);
    for (const id of [30n, 10n, 20n]) bench.call(leaseRevoke, { id });
    expect(clock.timers).toBe(0);
  });

  test('gives all leases their full TTL and 1 s more when it becomes the leader', () => {
    const bench = openBench();
    bench.call(leaseGrant, { id: 7n, ttl: 10n });
    bench.clock.advance(9_000);
    bench.member.leases.renewAll();
    bench.clock.advance(10_999);
    expect(idsOf(bench)).toEqual([7n]);
    bench.clock.advance(1);
    expect(idsOf(bench)).toEqual([]);
  });

  test('expires no lease and refuses LeaseTimeToLive while it is stopped', () => {
    const bench = openBench();
    bench.call(leaseGrant, { id: 7n, ttl: 10n });
    bench.member.leases.suspend();
    bench.call(leaseGrant, { id: 8n, ttl: 10n });
    bench.clock.advance(1_000_000);
    expect(idsOf(bench)).toEqual([7n, 8n]);
    expect(() => bench.call(leaseTimeToLive, { id: 7n })).toThrow(serverError('LeaderChanged'));
    bench.member.leases.renewAll();
    bench.clock.advance(10_999);
    expect(idsOf(bench)).toEqual([7n, 8n]);
    bench.clock.advance(1);
    expect(idsOf(bench)).toEqual([]);
  });

  test('keeps the leases, but not their remaining times, across a restart', () => {
    const bench = openBench();
    bench.call(leaseGrant, { id: 7n, ttl: 10n });
    bench.clock.advance(9_000);
    const records = bench.member.leases.snapshot();
    expect(records).toEqual([{ id: 7n, ttlSeconds: 10n }]);
    bench.call(leaseGrant, { id: 8n, ttl: 10n });
    bench.member.leases.restore(records);
    expect(idsOf(bench)).toEqual([7n]);
    bench.clock.advance(10_999);
    expect(idsOf(bench)).toEqual([7n]);
    bench.clock.advance(1);
    expect(idsOf(bench)).toEqual([]);
  });
});
