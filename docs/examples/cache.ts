import { Client } from 'etcdwire';
import { fromEnv } from 'etcdwire/node';
import { ExpiringKeys } from 'etcdwire/recipes';

await using etcd = new Client({ ...fromEnv(), retryWrites: true });
const [cache, ids] = [new ExpiringKeys(etcd), Array(Number(process.env.KEYS ?? 50_000)).keys()];
await Promise.all(Array.from({ length: 256 }, fill)); // 256 writes at a time
async function fill(): Promise<void> {
  for (const id of ids) await cache.put(`cache/${id}`, `entry ${id}`, { ttl: 10 + (id % 10) });
}
