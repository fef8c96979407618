import { Client, op, prefix } from 'etcdwire';
import { fromEnv } from 'etcdwire/node';
import { type Shard, shards } from 'etcdwire/recipes';

const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());
await using etcd = new Client(fromEnv());
await shards(etcd, 'consumer', { count: 64, worker: `process ${process.pid}`, signal: stop.signal }, consume);

async function consume({ number, signal, held }: Shard): Promise<void> {
  await using inbox = await etcd.cachedRange(prefix(`inbox/${number}/`), { signal });
  for await (const { type, kv } of inbox.changes({ initial: true, signal }))
    if (type === 'put') await held.txn({ then: [op.delete(kv.key), op.put(`done/${kv.key}`, `token ${held.token}`)] });
}
