import { Client, op } from '../../src/index.js';
import { shards } from '../../src/recipes.js';

// This program works on shards until it receives SIGTERM. It writes its process ID and the token of each of its shards
// to the key NAME-written/NUMBER again and again, with transactions that check that it owns the shard.
// Usage: sharded-program.ts ENDPOINT NAME COUNT TTL INTERVAL_MS

const [endpoint = '', name = '', count, ttl, intervalMs] = process.argv.slice(2);
const etcd = new Client({ endpoints: [endpoint] });
const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());
await shards(
  etcd,
  name,
  { count: Number(count), ttl: Number(ttl), worker: `${process.pid}`, signal: stop.signal },
  async ({ number, signal, held }) => {
    while (!signal.aborted) {
      await held.txn({ then: [op.put(`${name}-written/${number}`, `${process.pid} ${held.token}`)] });
      await new Promise((resolve) => setTimeout(resolve, Number(intervalMs)));
    }
  },
);
await etcd.close();
