import { describe, expect, test } from 'vitest';
import { GUARD_PREFIX } from '../../../src/client/kv/keys.js';
import { type Client, op, prefix, type Reason } from '../../../src/index.js';
import { openClient, unique } from '../../support/client.js';
import { errorOf } from '../../support/errors.js';
import { ownEtcd } from '../../support/own-etcd.js';

// What a refusal says about the effect of a write. test/base/partial-effects.test.ts plays many more refusals on
// members in this process.

const ROOT = { username: 'root', password: 'root-secret', allowPlaintext: true } as const;
const APP = { username: 'app', password: 'app-secret', allowPlaintext: true } as const;

/** Starts three members, with a user that may write the keys under `app/`, but read only the keys under `app/rw/`. */
async function startCluster() {
  const { endpoints, version } = await ownEtcd({ members: 3 });
  const etcd = openClient({ endpoints });
  for (const value of ['1', '2', '3']) await etcd.put('app/rw/k', value);
  await etcd.compact((await etcd.get('app/rw/k'))?.modRevision ?? 0n);
  await etcd.auth.userAdd(ROOT.username, { password: ROOT.password });
  await etcd.auth.roleAdd('root');
  await etcd.auth.userGrantRole('root', 'root');
  await etcd.auth.roleAdd('app');
  await etcd.auth.roleGrantPermission('app', 'readwrite', prefix('app/rw/'));
  await etcd.auth.roleGrantPermission('app', 'readwrite', prefix(GUARD_PREFIX));
  await etcd.auth.roleGrantPermission('app', 'write', prefix('app/'));
  await etcd.auth.userAdd(APP.username, { password: APP.password });
  await etcd.auth.userGrantRole(APP.username, 'app');
  await etcd.auth.enable();
  /** Returns for each member whether it has the key, when the member has applied everything before the call. */
  const haveKey = async (key: string): Promise<boolean[]> => {
    const found: boolean[] = [];
    for (const endpoint of endpoints) found.push((await rootAt(endpoint).get(key)) !== undefined);
    return found;
  };
  const rootAt = (endpoint: string): Client => openClient({ endpoints: [endpoint], auth: ROOT });
  const [receiver = ''] = endpoints;
  const open = (retryWrites: boolean): Client => openClient({ endpoints: [receiver], auth: APP, retryWrites });
  return { open, haveKey, isMended: version !== undefined && !/^3\.[0-6]\./.test(version) };
}

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

describe('a transaction with a write and a read that one member of three refuses (etcd issue 18667)', () => {
  test('has outcome unknown, because the other members apply it', { timeout: 60_000 }, async () => {
    const { open, haveKey, isMended } = await startCluster();
    const { raw } = open(false);
    const refused = async (reason: Reason, read: { key: Uint8Array; revision?: bigint }): Promise<void> => {
      const key = `app/${reason}`;
      const txn = raw.kv.txn({
        success: [
          { request: { case: 'requestPut', value: { key: bytes(key) } } },
          { request: { case: 'requestRange', value: read } },
        ],
      });
      expect(await errorOf(txn)).toMatchObject({ reason, outcome: 'unknown' });
      expect(await haveKey(key)).toEqual([false, !isMended, !isMended]);
    };
    await refused('Compacted', { key: bytes('app/rw/k'), revision: 1n });
    await refused('FutureRev', { key: bytes('app/rw/k'), revision: 1_000_000n });
    await refused('PermissionDenied', { key: bytes('app/k') });
  });

  test('has outcome rejected and no effect when the write is guarded', { timeout: 60_000 }, async () => {
    const { open, haveKey } = await startCluster();
    const etcd = open(true);
    for (const then of [
      [op.put('app/new', 'x'), op.get('app/k')],
      [op.range(prefix('app/')), op.put('app/new', 'x')],
    ])
      expect(await errorOf(etcd.txn({ then }))).toMatchObject({ reason: 'PermissionDenied', outcome: 'rejected' });
    expect(await haveKey('app/new')).toEqual([false, false, false]);
    expect((await etcd.txn({ then: [op.get('app/rw/k'), op.put('app/new', 'x')] })).responses).toMatchObject([
      { version: 3n },
      {},
    ]);
    expect(await haveKey('app/new')).toEqual([true, true, true]);
  });
});

test('a request that is longer than gRPC accepts has outcome rejected', async () => {
  const etcd = openClient({ maxRequestBytes: 16_000_000 });
  const key = unique();
  const error = await errorOf(etcd.put(key, Buffer.alloc(4_000_000)));
  expect(error).toMatchObject({ code: 'ResourceExhausted', outcome: 'rejected' });
  expect(error.problem).toMatch(/^grpc: received message larger than max/);
  expect(await etcd.get(key)).toBeUndefined();
});
