import { textOf } from '../../base/index.js';
import type { KeyValue } from '../../client/index.js';
import { storedFields } from './stored-fields.js';

/** The greatest number of shards. Each worker follows the keys of all of them. */
export const MAX_COUNT = 4_096;

// The assignment of shards to workers. All keys of the shards of NAME begin with `NAME/shards/`:
//
//   NAME/shards/workers/LEASE   a worker: its count, weight and text as JSON. LEASE is the ID of its lease.
//   NAME/shards/7/LEASE         the queue key of the lock of shard 7, under the lease of the worker that owns the shard.
//
// No worker leads. Each worker follows these keys, and computes from them which shards it has to hand over and which
// shards it has to take. The computation has no other input, so workers that see the same keys get the same result.
// While workers see different revisions, two of them may try to take one shard, and only one of them gets its lock. As
// soon as the workers have stopped changing and each of them has seen the last change, their quotas agree and stay the
// same. From then on, a worker above its quota only hands shards over, until it reaches its quota, and a worker below
// its quota only takes shards. So each shard moves at most once more.

/** A worker, as its key describes it. */
export interface Worker {
  /** The text that the worker gave, such as a host name. */
  readonly worker: string;
  readonly leaseId: bigint;
  readonly weight: number;
  /** The number of shards for which the worker was started. */
  readonly count: number;
  readonly createRevision: bigint;
}

/** The workers and the locks of the shards at one revision. */
export interface ShardKeys {
  /** The workers, the oldest first. */
  readonly workers: readonly Worker[];
  /** The queue key of the holder of each shard that is not free, by the number of the shard. */
  readonly holders: ReadonlyMap<number, KeyValue>;
}

/** Returns the prefix of all keys of the shards `name`. */
export function shardsFolder(name: string): string {
  return `${name}/shards/`;
}

export function workersFolder(name: string): string {
  return `${shardsFolder(name)}workers/`;
}

export function workerKey(name: string, lease: bigint): string {
  return `${workersFolder(name)}${lease.toString(16)}`;
}

export function workerValue({ count, weight, worker }: Pick<Worker, 'count' | 'weight' | 'worker'>): string {
  return JSON.stringify({ count, weight, worker });
}

const SHARD_KEY = /^(0|[1-9]\d{0,3})\//;

/**
 * Reads the keys in the folder of the shards `name`. Ignores keys that are neither the key of a worker nor a queue key
 * of a shard's lock.
 */
export function readShardKeys(name: string, kvs: readonly KeyValue[]): ShardKeys {
  const [folder, folderOfWorkers] = [shardsFolder(name), workersFolder(name)];
  const workers: Worker[] = [];
  const holders = new Map<number, KeyValue>();
  for (const kv of kvs) {
    const key = textOf(kv.keyBytes);
    if (key.startsWith(folderOfWorkers)) {
      const worker = key === workerKey(name, kv.lease) ? workerOf(kv) : undefined;
      if (worker !== undefined) workers.push(worker);
      continue;
    }
    const digits = SHARD_KEY.exec(key.slice(folder.length))?.[1];
    if (digits === undefined) continue;
    const first = holders.get(Number(digits));
    if (first === undefined || kv.createRevision < first.createRevision) holders.set(Number(digits), kv);
  }
  workers.sort((a, b) => (a.createRevision < b.createRevision ? -1 : 1));
  return { workers, holders };
}

/** Returns undefined if the value of the key is not that of a worker. */
function workerOf(kv: KeyValue): Worker | undefined {
  const { lease: leaseId, createRevision } = kv;
  const { count, weight, worker } = storedFields(kv);
  if (typeof count !== 'number' || typeof weight !== 'number' || typeof worker !== 'string') return undefined;
  const isValid = Number.isInteger(count) && count > 0 && count <= MAX_COUNT && Number.isFinite(weight) && weight > 0;
  return isValid ? { worker, leaseId, weight, count, createRevision } : undefined;
}

/**
 * Returns the number of shards that each worker should own. The sum is `count`. Each shard goes to the worker whose
 * weight, divided by one more than twice the number of shards that it has so far, is greatest: the method of
 * Sainte-Laguë. The oldest of equal workers comes first. If a worker joins, no other quota grows, and if a worker
 * leaves, no other quota shrinks. So only the excess moves. The method of the largest remainder does not have this
 * property.
 */
export function quotasOf(count: number, workers: readonly Pick<Worker, 'weight'>[]): readonly number[] {
  const quotas = workers.map(() => 0);
  const claims = workers.map(({ weight }) => weight);
  for (let shard = 0; shard < count && workers.length > 0; shard += 1) {
    let next = 0;
    for (let index = 1; index < claims.length; index += 1)
      if ((claims[index] as number) > (claims[next] as number)) next = index;
    quotas[next] = (quotas[next] as number) + 1;
    claims[next] = (workers[next] as Pick<Worker, 'weight'>).weight / (2 * (quotas[next] as number) + 1);
  }
  return quotas;
}

/**
 * Returns the free shards that the worker `own` should take. Each free shard goes to one worker that is below its
 * quota: to the worker whose place in the order of the workers is the number of the shard modulo the number of workers,
 * or to the next worker after that place that is still below its quota. This order does not depend on the shards that
 * the workers have taken so far. So while the workers take their shards, they do not try to take the same ones.
 */
export function freeShardsFor(
  own: bigint,
  count: number,
  { workers, holders }: ShardKeys,
  quotas: readonly number[],
): readonly number[] {
  const places = new Map(workers.map(({ leaseId }, place) => [leaseId, place]));
  const missing = [...quotas];
  for (const [number, { lease }] of holders) {
    const place = number < count ? places.get(lease) : undefined;
    if (place !== undefined) missing[place] = (missing[place] as number) - 1;
  }
  const mine: number[] = [];
  for (let number = 0; number < count; number += 1) {
    if (holders.has(number)) continue;
    const order = workers.map((_, index) => (number + index) % workers.length);
    const place = order.find((each) => (missing[each] as number) > 0);
    if (place === undefined) break;
    missing[place] = (missing[place] as number) - 1;
    if (workers[place]?.leaseId === own) mine.push(number);
  }
  return mine;
}
