import { Client, prefix } from 'etcdwire';
import { withLock } from 'etcdwire/concurrency';
import { fromEnv } from 'etcdwire/node';

// What a program that used npm's etcd3 typically does: it keeps its status under a lease, follows a prefix, and changes
// a value under a lock that waits.
await using etcd = new Client(fromEnv());
const lease = await etcd.lease.grant({ ttl: 10 });
await using _alive = etcd.lease.keepAlive(lease);
await etcd.put(`status/${process.pid}`, 'up', { lease });

const watch = etcd.watch(prefix('status/'));
process.once('SIGTERM', () => watch.close());
await withLock(etcd, 'locks/starts', async () => {
  const starts = Number((await etcd.get('starts'))?.text() ?? 0) + 1;
  await etcd.put('starts', String(starts));
  console.log('start', starts);
});
for await (const event of watch) console.log(event.type, event.keyText());
await etcd.lease.revoke(lease);
