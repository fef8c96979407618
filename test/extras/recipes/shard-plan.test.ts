import fc from 'fast-check';
import { expect, test } from 'vitest';
import { toBytes } from '../../../src/base/bytes.js';
import { KeyValue } from '../../../src/client/kv/key-value.js';
import {
  freeShardsFor,
  quotasOf,
  readShardKeys,
  type ShardKeys,
  workerKey,
  workerValue,
} from '../../../src/extras/recipes/shard-plan.js';

const WEIGHTS = fc.array(fc.oneof(fc.constant(1), fc.double({ min: 1e-3, max: 1e3, noNaN: true })), {
  minLength: 1,
  maxLength: 8,
});
const COUNT = fc.integer({ min: 1, max: 70 });

function quotas(count: number, weights: readonly number[]): readonly number[] {
  return quotasOf(
    count,
    weights.map((weight) => ({ weight })),
  );
}

test('the sum of the quotas of all workers is the number of shards, and the quotas of equal workers differ by at most one shard', () => {
  expect(quotas(64, [1, 1, 1, 1])).toEqual([16, 16, 16, 16]);
  expect(quotas(64, [1, 1, 1])).toEqual([22, 21, 21]);
  expect(quotas(60, [3, 2, 1])).toEqual([30, 20, 10]);
  expect(quotas(2, [1, 1, 1])).toEqual([1, 1, 0]);
  expect(quotas(8, [])).toEqual([]);
  fc.assert(
    fc.property(COUNT, WEIGHTS, (count, weights) => {
      expect(quotas(count, weights).reduce((sum, quota) => sum + quota, 0)).toBe(count);
    }),
  );
});

test('no quota grows when a worker joins, and no quota shrinks when a worker leaves', () => {
  fc.assert(
    fc.property(COUNT, WEIGHTS, fc.nat(7), (count, weights, at) => {
      const leaving = at % weights.length;
      const all = quotas(count, weights).filter((_, index) => index !== leaving);
      const rest = quotas(
        count,
        weights.filter((_, index) => index !== leaving),
      );
      expect(rest.every((quota, index) => quota >= (all[index] as number))).toBe(true);
      const joined = quotas(count, [...weights, 1]);
      expect(quotas(count, weights).every((quota, index) => quota >= (joined[index] as number))).toBe(true);
    }),
  );
});

test('the shard plan gives each free shard to one worker, and workers that have already taken some of their shards plan the same for the rest', () => {
  const keysOf = (workers: number, owners: ReadonlyMap<number, bigint>): ShardKeys => ({
    workers: Array.from({ length: workers }, (_, index) => ({
      worker: '',
      leaseId: BigInt(index + 1),
      weight: 1,
      count: 1,
      createRevision: BigInt(index),
    })),
    holders: new Map([...owners].map(([number, lease]) => [number, { lease } as KeyValue])),
  });
  fc.assert(
    fc.property(COUNT, fc.integer({ min: 1, max: 8 }), fc.infiniteStream(fc.nat(1_000)), (count, workers, numbers) => {
      const next = (): number => numbers.next().value as number;
      const each = quotas(count, new Array(workers).fill(1));
      const owners = new Map<number, bigint>();
      // Each worker owns at most its quota, because the shards of a worker that has left are free.
      const left = [...each];
      for (let number = 0; number < count; number += 1) {
        const place = next() % (workers + 1);
        if (place === workers || left[place] === 0) continue;
        left[place] = (left[place] as number) - 1;
        owners.set(number, BigInt(place + 1));
      }
      const planOf = (): ReadonlyMap<number, bigint> => {
        const keys = keysOf(workers, owners);
        const plan = new Map<number, bigint>();
        for (const { leaseId } of keys.workers)
          for (const number of freeShardsFor(leaseId, count, keys, each)) {
            expect(plan.has(number)).toBe(false);
            plan.set(number, leaseId);
          }
        return plan;
      };
      const plan = planOf();
      expect(plan.size).toBe(count - owners.size);
      for (const [number, lease] of [...plan].filter(() => next() % 2 === 0)) owners.set(number, lease);
      for (const [number, lease] of planOf()) expect(plan.get(number)).toBe(lease);
    }),
  );
});

test('the shard plan ignores keys that are neither the key of a worker nor the queue key of a shard', () => {
  const kv = (key: string, value: string, lease: bigint, createRevision: bigint): KeyValue =>
    new KeyValue({
      key: toBytes(key, 'key'),
      value: toBytes(value, 'value'),
      lease,
      createRevision,
      modRevision: createRevision,
      version: 1n,
    });
  const right = workerValue({ count: 8, weight: 2, worker: 'host-1' });
  const { workers, holders } = readShardKeys('n', [
    kv(workerKey('n', 10n), right, 10n, 5n),
    kv(workerKey('n', 11n), right, 10n, 1n),
    kv('n/shards/workers/x', right, 12n, 1n),
    ...['', '{}', '[]', 'null', '{"count":0,"weight":1,"worker":""}', '{"count":8,"weight":-1,"worker":""}'].map(
      (value, index) => kv(workerKey('n', BigInt(20 + index)), value, BigInt(20 + index), 1n),
    ),
    kv('n/shards/7/b', '', 11n, 4n),
    kv('n/shards/7/a', '', 10n, 3n),
    kv('n/shards/07/a', '', 10n, 3n),
    kv('n/shards/7', '', 10n, 3n),
    kv('n/shards/70000/a', '', 10n, 3n),
    kv('n/shards/x/a', '', 10n, 3n),
  ]);
  expect(workers).toEqual([{ worker: 'host-1', leaseId: 10n, weight: 2, count: 8, createRevision: 5n }]);
  expect([...holders].map(([number, { lease }]) => [number, lease])).toEqual([[7, 10n]]);
});
