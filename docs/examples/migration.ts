import { Client, op, prefix } from 'etcdwire';
import { Session } from 'etcdwire/locks';
import { fromEnv } from 'etcdwire/node';
import { Etcd3Mutex } from 'etcdwire/recipes';

// What a program that used npm's etcd3 typically does: it keeps its status under a lease, follows a prefix, and changes
// a value under a lock. While some programs still use etcd3, the lock excludes them, too.
await using etcd = new Client(fromEnv());
await using session = await Session.open(etcd, { ttl: 10 });
await etcd.put(`status/${process.pid}`, 'up', { lease: session.leaseId });

const status = await etcd.cachedRange(prefix('status/'));
process.once('SIGTERM', () => status.close());
const held = await new Etcd3Mutex(session, 'locks/starts').lock();
const starts = Number((await etcd.get('starts'))?.text() ?? 0) + 1;
await held.txn({ then: [op.put('starts', String(starts))] });
await held.release();
console.log('start', starts);
for await (const { type, kv, old } of status.changes()) console.log(type, (kv ?? old)?.key);
