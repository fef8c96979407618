import { Etcd3 } from 'etcd3';

// This program acquires a lock with npm's etcd3 and holds it until the process is killed.
// Usage: etcd3-holder.ts ENDPOINT NAME TTL

const [endpoint = '', name = '', ttl = ''] = process.argv.slice(2);
const client = new Etcd3({ hosts: endpoint });
await client.lock(name).ttl(Number(ttl)).acquire();
process.stdout.write('held\n');
