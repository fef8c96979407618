import { once } from 'node:events';
import { Etcd3 } from 'etcd3';
import { type BenchClient, LEASE_TTL, UNLIMITED_RESPONSES } from './bench-client.js';

/** @param ca The authority that signs the server's certificate, if the client connects with TLS. */
export function openEtcd3(endpoint: string, ca?: Buffer): BenchClient {
  const credentials = ca && { rootCertificate: ca };
  const client = new Etcd3({ hosts: endpoint, grpcOptions: UNLIMITED_RESPONSES, ...(credentials && { credentials }) });
  return {
    get: async (key) => (await client.get(key).buffer())?.length ?? 0,
    put: (key, value) => client.put(key).value(value).exec(),
    txn: async (key, value) =>
      (await client.if(key, 'Create', '>', 0).then(client.put(key).value(value)).commit()).succeeded,
    scan: async (start) => {
      let count = 0;
      for (const value of Object.values(await client.getAll().prefix(start).buffers()))
        if (value.length > 0) count += 1;
      return count;
    },
    watch: async (watched, onEvent, startRevision) => {
      const builder = client.watch();
      if ('key' in watched) builder.key(watched.key);
      else builder.prefix(watched.prefix);
      if (startRevision !== undefined) builder.startRevision(String(startRevision));
      // `create()` is not used, because it resolves with the watcher too late to receive the first events.
      const watcher = builder.watcher();
      watcher.on('put', ({ value }) => onEvent(value));
      await once(watcher, 'connected');
      return () => watcher.cancel();
    },
    lease: async () => {
      const lease = client.lease(LEASE_TTL);
      await lease.grant();
      return () => lease.keepaliveOnce();
    },
    lock: async (name) => async () => {
      const lock = client.lock(name).ttl(LEASE_TTL);
      await lock.acquire();
      await lock.release();
    },
  };
}
