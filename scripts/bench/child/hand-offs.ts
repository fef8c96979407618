import { Client, compare, op, prefix, withFirstCreate, withLastCreate, withMaxCreateRev } from '../../../src/index.js';
import { Mutex, Session } from '../../../src/locks.js';
import type { Sample } from '../metrics.js';
import { Stopwatch } from './tasks.js';

/** Takes the lock for one contender. Resolves with a function that releases the lock. */
type TakeLock = () => Promise<() => Promise<unknown>>;

/** A way to wait for a lock. Returns the function that takes the lock `name` for `session`. */
type Way = (session: Session, name: string) => TakeLock;

const etcdwireWay: Way = (session, name) => {
  const mutex = new Mutex(session, name);
  return async () => {
    const held = await mutex.lock();
    return () => held.release();
  };
};

/**
 * Waits like Go's `concurrency.Mutex`, which reads the key right before its own key in the queue and watches that key
 * from the revision of the read. The server treats such a watch as a watch that has to catch up, and sends events to
 * such watches only every 100 ms.
 */
const goWay: Way = ({ client, leaseId }, name) => {
  const key = `${name}/${leaseId.toString(16)}`;
  const queue = prefix(`${name}/`);
  const unlock = (): Promise<unknown> => client.delete(key);
  return async () => {
    const entered = await client.txn({
      if: [compare.createRevision(key, '==', 0n)],
      then: [op.put(key, '', { lease: leaseId }), op.range(queue, withFirstCreate())],
      else: [op.get(key), op.range(queue, withFirstCreate())],
    });
    if (!entered.succeeded) throw new Error('the queue key of the previous hold still exists');
    const own = entered.header.revision;
    if (entered.responses[1].kvs[0]?.createRevision === own) return unlock;
    for (;;) {
      const { header, kvs } = await client.range(queue, { ...withLastCreate(), ...withMaxCreateRev(own - 1n) });
      const [predecessor] = kvs;
      if (predecessor === undefined) return unlock;
      for await (const { type } of client.watch(predecessor.key, { startRevision: header.revision })) {
        if (type === 'delete') break;
      }
    }
  };
};

const WAYS = { etcdwire: etcdwireWay, go: goWay } as const;

export interface HandOffs {
  readonly way: keyof typeof WAYS;
  /** Number of contenders. Each contender has its own client and session. */
  readonly contenders: number;
  /** Whether another client writes to the store during the measurement. */
  readonly otherWrites: boolean;
  readonly seconds: number;
  /** The name of the lock. Contenders in several processes use the same name. */
  readonly name: string;
}

/**
 * Lets contenders take and release one lock for `seconds`. Measures how often they take the lock and how long they wait
 * for it.
 */
export async function measureHandOffs(
  endpoints: readonly string[],
  { way, contenders, otherWrites, seconds, name }: HandOffs,
): Promise<Sample> {
  const clients = Array.from({ length: contenders }, () => new Client({ endpoints }));
  const sessions = await Promise.all(clients.map((client) => Session.open(client, { ttl: 30 })));
  const writer = new Client({ endpoints });
  let over = false;
  let count = 0;
  const writing = (async () => {
    while (otherWrites && !over) await writer.put(`${name}-other`, 'x');
  })();
  const stopwatch = new Stopwatch();
  const stop = setTimeout(() => {
    over = true;
  }, seconds * 1_000);
  await Promise.all(
    sessions.map(async (session) => {
      const takeLock = WAYS[way](session, name);
      while (!over) {
        const startedAt = performance.now();
        const unlock = await takeLock();
        stopwatch.lap(performance.now() - startedAt);
        count += 1;
        await unlock();
      }
    }),
  );
  const sample = stopwatch.sample(count);
  clearTimeout(stop);
  await writing;
  await Promise.all(sessions.map((session) => session.close()));
  await Promise.all([...clients, writer].map((client) => client.close()));
  return sample;
}
