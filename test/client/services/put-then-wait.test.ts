import { expect, test } from 'vitest';
import { type Client, EtcdError, prefix } from '../../../src/index.js';
import { authEtcd, USER } from '../../support/auth-etcd.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { ownEtcd } from '../../support/own-etcd.js';

// `Lock` and `Campaign` of etcd's own services put a key first and wait then. A refusal of the wait does not prove that
// the key was not put.

/** Ends a call that etcd has not refused. Such a call would wait until the first caller leaves the queue. */
const LIMITED = { timeoutMs: 3_000 };

/**
 * Calls `enter` until etcd refuses it, while other calls write and compact. etcd begins a watch of a past revision up to
 * 100 ms after its creation, and refuses the watch if the revision is compacted by then. On a busy machine, the
 * compaction may come too late.
 */
async function refusedByCompaction(etcd: Client, enter: () => Promise<unknown>): Promise<EtcdError> {
  const key = unique();
  let stopped = false;
  const compact = async (): Promise<void> => {
    while (!stopped) {
      const { header } = await etcd.put(key, 'x');
      await etcd.compact(header.revision).catch(unlessCompacted);
    }
  };
  const compacting = compact();
  try {
    for (;;) {
      const error = await errorOf(enter());
      if (error.reason !== 'DeadlineExceeded') return error;
    }
  } finally {
    stopped = true;
    await compacting;
  }
}

function unlessCompacted(error: unknown): void {
  if (!(error instanceof EtcdError) || error.reason !== 'Compacted') throw error;
}

test.for([
  [
    '`campaign`',
    (etcd: Client, name: string, lease: bigint) =>
      etcd.raw.election.campaign({ name: Buffer.from(name), lease }, LIMITED),
    true,
  ],
  [
    '`lock`',
    (etcd: Client, name: string, lease: bigint) => etcd.raw.lock.lock({ name: Buffer.from(name), lease }, LIMITED),
    false,
  ],
] as const)(
  '%s has outcome unknown when etcd has compacted the revision where its wait begins',
  { timeout: 60_000 },
  async ([, enter, staysInQueue]) => {
    const { endpoints } = await ownEtcd();
    const etcd = openClient({ endpoints });
    const name = unique();
    await enter(etcd, name, (await etcd.lease.grant({ ttl: 600 })).id);
    let last = 0n;
    // The server deletes the key of a call that has timed out. So each call has its own lease, and its own key.
    const error = await refusedByCompaction(etcd, async () => {
      last = (await etcd.lease.grant({ ttl: 600 })).id;
      return enter(etcd, name, last);
    });
    expect(error).toMatchObject({ reason: 'Compacted', outcome: 'unknown' });
    const { kvs } = await etcd.range(prefix(name));
    expect(kvs.some((kv) => kv.lease === last)).toBe(staysInQueue);
  },
);

test('`lock` and `campaign` have outcome unknown when the caller may not wait, and rejected when the lease does not exist', async () => {
  const { endpoints, root } = await authEtcd();
  const etcd = openClient({ endpoints, auth: USER });
  const { id } = await root.lease.grant({ ttl: 60 });
  const queue = unique('queue');
  await root.auth.roleGrantPermission('app', 'readwrite', `${queue}/${id.toString(16)}`);
  expect(await errorOf(etcd.raw.election.campaign({ name: Buffer.from(queue), lease: id }))).toMatchObject({
    reason: 'PermissionDenied',
    outcome: 'unknown',
  });
  expect((await root.range(prefix(queue))).count).toBe(1);
  expect(await errorOf(etcd.raw.lock.lock({ name: Buffer.from(queue), lease: id }))).toMatchObject({
    reason: 'PermissionDenied',
    outcome: 'unknown',
  });
  const unknown = { name: Buffer.from('app/q'), lease: 1n };
  for (const call of [() => etcd.raw.election.campaign(unknown), () => etcd.raw.lock.lock(unknown)])
    expect(await errorOf(call())).toMatchObject({ reason: 'LeaseNotFound', outcome: 'rejected' });
});
