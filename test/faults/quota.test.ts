import { randomBytes } from 'node:crypto';
import { expect } from 'vitest';
import { type Client, prefix } from '../../src/index.js';
import { Mutex, Session } from '../../src/locks.js';
import { FaultyCluster } from '../load/cluster.js';
import { between } from '../load/rounds.js';
import { faultRow } from '../load/row.js';
import { openClient } from '../support/client.js';
import { callsReceived } from '../support/metrics.js';
import { valueText } from '../support/watch-events.js';

const QUOTA_BYTES = 16 * 1024 * 1024;

faultRow(
  'exceeded disk quota',
  () => FaultyCluster.start({ members: 1, args: [`--quota-backend-bytes=${QUOTA_BYTES}`] }),
  async ({ endpoints }, { seed, random }) => {
    const etcd = openClient({ endpoints });
    const [endpoint = ''] = endpoints;
    const seen: string[] = [];
    const watch = etcd.watch(`w-${seed}`);
    await watch.created();
    await using session = await Session.open(etcd);
    const held = await new Mutex(session, `lock-${seed}`).lock();

    const value = randomBytes(between(200_000, 1_000_000, random));
    const put: string[] = [];
    let refused: unknown;
    const last = (): string => `big-${seed}/${put.length}`;
    while (refused === undefined) {
      const key = last();
      refused = await etcd.put(key, value).then(
        () => void put.push(key),
        (error: unknown) => error,
      );
    }
    expect(refused).toMatchObject({ reason: 'NoSpace', code: 'ResourceExhausted', outcome: 'unknown' });
    // The server applied each successful put once, and the refused put at most once.
    const { kvs } = await etcd.range(prefix(`big-${seed}/`), {
      keysOnly: true,
      sort: { target: 'createRevision', order: 'asc' },
    });
    expect(kvs.map((kv) => kv.key).filter((key) => key !== last())).toEqual(put);
    expect(kvs.filter(({ version }) => version !== 1n)).toEqual([]);
    const before = await callsReceived(endpoints, 'Put');
    await expect(etcd.put(`w-${seed}`, 'refused')).rejects.toMatchObject({ reason: 'NoSpace' });
    // The server received one more Put call, so the client did not repeat the refused put.
    expect((await callsReceived(endpoints, 'Put')) - before).toBe(1);

    const fullAt = performance.now();
    await makeRoom(etcd, endpoint, `big-${seed}/`);
    await etcd.put(`w-${seed}`, 'again');
    const recoveryMs = performance.now() - fullAt;
    for await (const event of watch) {
      seen.push(valueText(event));
      break;
    }
    expect(seen).toEqual(['again']);
    expect(held.valid()).toBe(true);
    await held.release();
    return { faults: 1, puts: put.length + 1, recoveryMs: [recoveryMs] };
  },
);

/** Frees space as etcd's documentation describes: deletes the keys, compacts, defragments, and disarms the alarm. */
async function makeRoom(etcd: Client, endpoint: string, keys: string): Promise<void> {
  const { header } = await etcd.delete(prefix(keys));
  await etcd.compact(header.revision, { physical: true });
  await etcd.maintenance.defragment(endpoint);
  for (const alarm of (await etcd.maintenance.alarms()).alarms) await etcd.maintenance.disarm(alarm);
}
