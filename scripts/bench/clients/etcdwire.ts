import {
  Client,
  type ClientOptions,
  type CoreKeyspace,
  compare,
  op,
  prefix,
  withFirstCreate,
  withLastCreate,
} from '../../../src/index.js';
import { Mutex, Session } from '../../../src/locks.js';
import { type BenchClient, LEASE_TTL } from './bench-client.js';

export function openEtcdwire(options: ClientOptions): BenchClient {
  return benchClientOf(new Client(options));
}

export function benchClientOf(client: CoreKeyspace): BenchClient {
  return {
    get: async (key) => (await client.get(key))?.value.length ?? 0,
    put: (key, value) => client.put(key, value),
    txn: async (key, value) => {
      const exists = compare.createRevision(key, '>', 0n);
      return (await client.txn({ if: [exists], then: [op.put(key, value)] })).succeeded;
    },
    scan: async (start) => {
      let count = 0;
      for await (const { value } of client.scan(prefix(start))) if (value.length > 0) count += 1;
      return count;
    },
    watch: async (watched, onEvent, startRevision) => {
      const watch = client.watch('key' in watched ? watched.key : prefix(watched.prefix), { startRevision });
      void (async () => {
        for await (const event of watch) if (event.type === 'put') onEvent(event.kv.value);
      })();
      await watch.created();
      return () => watch.close();
    },
    lease: async () => {
      const { id } = await client.lease.grant({ ttl: LEASE_TTL });
      return () => client.lease.keepAliveOnce(id);
    },
    lock: async (name) => {
      const mutex = new Mutex(await Session.open(client, { ttl: LEASE_TTL }), name);
      return async () => (await mutex.lock()).release();
    },
    lockTransactions: async (name) => {
      const { leaseId: lease } = await Session.open(client, { ttl: LEASE_TTL });
      const key = `${name}/${lease.toString(16)}`;
      const queue = prefix(`${name}/`);
      const last = { ...withLastCreate(), keysOnly: true };
      const first = { ...withFirstCreate(), keysOnly: true };
      return async () => {
        const { header } = await client.txn({
          if: [compare.createRevision(key, '==', 0n)],
          then: [op.range(queue, last), op.put(key, '', { lease })],
          else: [op.get(key), op.range(queue, first)],
        });
        await client.txn({ if: [compare.createRevision(key, '==', header.revision)], then: [op.delete(key)] });
      };
    },
  };
}
