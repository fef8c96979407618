import { expect, onTestFinished, test } from 'vitest';
import { FollowedKeys } from '../../../src/extras/recipes/followed-keys.js';
import type { RangeRequest } from '../../../src/gen/etcdserverpb/rpc.js';
import { EtcdError, type Interceptor, op, prefix } from '../../../src/index.js';
import { openClient, unique } from '../../support/client.js';

/** More keys than the first page of a read has. */
const KEYS = 1_100;
const KEYS_IN_A_TXN = 100;

test('a followed range forgets the keys of a read that broke off when the client reads the range again', async () => {
  const start = `${unique('followed')}/`;
  const other = openClient();
  const keys = Array.from({ length: KEYS }, (_, index) => `${start}${String(index).padStart(5, '0')}`);
  for (let at = 0; at < KEYS; at += KEYS_IN_A_TXN)
    await other.txn({ then: keys.slice(at, at + KEYS_IN_A_TXN).map((key) => op.put(key, '1')) });
  let pages = 0;
  const breaksOff: Interceptor = {
    unary: async (call, next) => {
      const isPage = call.method.path === '/etcdserverpb.KV/Range' && !(call.request as Partial<RangeRequest>).keysOnly;
      if (!isPage) return next(call);
      pages += 1;
      if (pages !== 2) return next(call);
      await other.delete(keys[0] as string);
      throw new EtcdError('broken', { code: 'Internal', reason: 'ProtocolError', outcome: 'unknown' });
    },
  };
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const followed = await new Promise<FollowedKeys>((resolve, reject) => {
    const range = new FollowedKeys(prefix(start), { changed: () => {}, synced: () => resolve(range) });
    range.follow(openClient({ interceptors: [breaksOff] }), stop.signal).catch(reject);
  });
  expect(pages).toBeGreaterThan(2);
  const has = (key = ''): boolean => followed.get(new TextEncoder().encode(key)) !== undefined;
  expect([has(keys[0]), has(keys[1]), has(keys.at(-1))]).toEqual([false, true, true]);
});
