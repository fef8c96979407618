import {
  checkAction,
  checkFunction,
  checkGivenOptions,
  checkPositive,
  checkSignal,
  checkText,
  invalidInput,
  type SignalOption,
  show,
  toBytes,
} from '../../base/index.js';
import { type CoreKeyspace, checkClient, keyspaceClientOf, prefix } from '../../client/index.js';
import {
  AGAIN,
  checkNameOutside,
  LEASE_OPTIONS,
  type SessionOptions,
  sessionAfterSession,
  untilClosed,
} from '../../locks/index.js';
import { type CallOptions, checkCallOptions, type WithHeader, withHeader } from '../../rpc/index.js';
import { MAX_COUNT, quotasOf, readShardKeys, shardsFolder } from './shard-plan.js';
import { type Shard, ShardWorker } from './shard-worker.js';

export type { Shard };

/** Options of `shards`. */
export interface ShardsOptions extends Pick<SessionOptions, 'allowLongTtl'> {
  /** Number of shards: a whole number from 1 to 4,096. All workers must use the same number. */
  readonly count: number;
  /**
   * How many shards this worker gets, compared with the other workers: a number above 0. A worker with weight 2 gets
   * about twice as many shards as a worker with weight 1. Default 1.
   */
  readonly weight?: number | undefined;
  /** A text that `shardOwners` and `etcdwire shards` show, such as a host name. Default: empty. */
  readonly worker?: string | undefined;
  /** TTL of the lease in seconds. If this process dies, other workers take its shards after this time. Default 10. */
  readonly ttl?: number | undefined;
  /**
   * Ends the work when this signal aborts: the signals of all shards abort, and each shard is released when its handler
   * has ended.
   */
  readonly signal?: SignalOption;
  /**
   * Called when the handler of a shard has thrown, before `shards` runs the handler again. Not called after the shard's
   * signal has aborted. If this function throws, `shards` rejects with its error.
   */
  readonly onFailure?: ((error: unknown, shard: Shard) => void) | undefined;
}

const SHARDS_OPTIONS = {
  count: checkShardCount,
  weight: (weight: number, argument: string) => checkPositive(weight, argument, 'shares'),
  worker: (text: string, argument: string) => toBytes(checkText(text, argument), argument),
  ...LEASE_OPTIONS,
  signal: checkSignal,
  onFailure: checkFunction,
} as const;

/**
 * Distributes the shards 0 to `count - 1` among all live workers, and runs `handler` for each shard of this process.
 * Each call of `shards` with the same name is a worker. When workers join or leave, only as many shards move as
 * necessary. Each shard is a lock, so two workers never own a shard at the same time.
 *
 * `handler` should work until `shard.signal` aborts. When a shard moves to another worker, its signal aborts, and the
 * shard is released when the handler has ended. A handler that does not end keeps its shard. If the handler returns
 * earlier, this worker owns the shard until the shard moves. If the handler throws while this worker owns the shard,
 * `shards` calls `onFailure`, and runs the handler again after 1 s, and after twice as long for each further failure,
 * up to 60 s. If the process loses its session, `shards` waits until all its handlers have ended, and then joins again
 * with another session. So one call of `shards` never runs two handlers of one shard at once. After the loss of a
 * session, only writes through `held.txn` are safe.
 *
 * `shards` resolves after the signal in the options has aborted or the client closes, when all handlers have ended. No
 * slash-separated part of the name may be `shards`, because the keys of the shards of `a/shards` would lie among the
 * keys of the shards of `a`.
 *
 * A program that locks `NAME/shards/7`, for example with `etcdctl lock`, keeps the workers from shard 7. If an operator
 * deletes the key of a worker, `NAME/shards/workers/LEASE`, the worker hands over all its shards and joins again.
 *
 * @throws EtcdError with code `FailedPrecondition` if another worker was started earlier with another count. Otherwise
 * with reason `InvalidInput` or `PermissionDenied`, with `ClientClosed` if the client was closed before the call, or
 * with another reason for which the server refuses a call. While no server answers, `shards` waits.
 *
 * @example
 * const stop = new AbortController();
 * process.once('SIGTERM', () => stop.abort());
 * await shards(etcd, 'orders', { count: 8, signal: stop.signal }, async ({ number, signal, held }) => {
 *   for (let run = 1; run <= 3 && !signal.aborted; run += 1)
 *     await held.txn({ then: [op.put(`orders-done/${number}`, String(run))] });
 *   if (number === 7) stop.abort();
 * });
 */
export async function shards(
  client: CoreKeyspace,
  name: string,
  options: ShardsOptions,
  handler: (shard: Shard) => Promise<void> | void,
): Promise<void> {
  keyspaceClientOf(client);
  checkNameOutside(['shards'], name);
  checkAction(handler, 'handler');
  checkGivenOptions(options, SHARDS_OPTIONS, 'shards');
  const { count, weight = 1, worker = '', ttl, allowLongTtl, signal, onFailure = () => {} } = options;
  checkShardCount(count, 'count');
  await untilClosed(client, signal, (stop) =>
    sessionAfterSession(client, { ttl, allowLongTtl }, stop, async (session) => {
      await new ShardWorker(session, { name, count, weight, worker, handler, onFailure, stop }).run();
      return AGAIN;
    }),
  );
}

/** One worker, as `shardOwners` has read it. */
export interface ShardWorkerState {
  /** The option `worker` of the worker. */
  readonly worker: string;
  readonly leaseId: bigint;
  readonly weight: number;
  /** Number of shards that the worker should own. */
  readonly quota: number;
  /** Number of shards that the worker owns. */
  readonly owned: number;
}

/** The owner of a shard. */
export interface ShardOwner {
  /** The option `worker` of the owner. */
  readonly worker: string;
  readonly leaseId: bigint;
  /** The fencing token of the shard's lock. */
  readonly token: bigint;
}

/** Who owns which shard, at one revision. */
export interface ShardOwners {
  /** The oldest worker comes first. */
  readonly workers: readonly ShardWorkerState[];
  /** All shards in the order of their numbers. `owner` is undefined if the shard is free. */
  readonly shards: readonly { readonly number: number; readonly owner: ShardOwner | undefined }[];
}

/**
 * Reads who owns which shard, at one revision. If there is no worker, the result contains only the shards up to the
 * last one that has an owner. An owner that is not among the workers is leaving, or is another program that has locked
 * the shard.
 *
 * @throws EtcdError as `range` does.
 *
 * @example
 * const { workers, shards } = await shardOwners(etcd, 'orders');
 * for (const { worker, owned, quota } of workers) console.log(worker, owned, quota);
 * for (const { number, owner } of shards) console.log(number, owner?.worker, owner?.token);
 */
export async function shardOwners(
  client: CoreKeyspace,
  name: string,
  options: CallOptions = {},
): Promise<WithHeader<ShardOwners>> {
  checkClient(client, 'range');
  checkNameOutside(['shards'], name);
  checkCallOptions(options, 'shardOwners');
  const { header, kvs } = await client.range(prefix(shardsFolder(name)), options);
  const keys = readShardKeys(name, kvs);
  const count = keys.workers[0]?.count ?? Math.max(0, ...[...keys.holders.keys()].map((number) => number + 1));
  const workers = keys.workers.filter((each) => each.count === count);
  const quotas = quotasOf(count, workers);
  const owned = Array.from({ length: count }, (_, number) => {
    const kv = keys.holders.get(number);
    const owner = kv && { worker: kv.text(), leaseId: kv.lease, token: kv.createRevision };
    return { number, owner };
  });
  const states = workers.map(({ worker, leaseId, weight }, index) => ({
    worker,
    leaseId,
    weight,
    quota: quotas[index] as number,
    owned: owned.filter(({ owner }) => owner?.leaseId === leaseId).length,
  }));
  return withHeader(header, { workers: states, shards: owned });
}

function checkShardCount(count: number, argument: string): number {
  if (Number.isInteger(count) && count >= 1 && count <= MAX_COUNT) return count;
  throw invalidInput(argument, show(count), `a whole number from 1 to ${MAX_COUNT}`);
}
