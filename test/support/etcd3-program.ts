import { Etcd3 } from 'etcd3';

// This program uses npm's etcd3: it writes, reads and watches keys, and holds a lock.
// Usage: etcd3-program.ts ENDPOINT NAME

const [endpoint = '', name = ''] = process.argv.slice(2);
const client = new Etcd3({ hosts: endpoint });
const watcher = await client.watch().prefix(`${name}/`).create();
const seen = new Promise<void>((resolve) => {
  watcher.on('delete', () => resolve());
});
await client.put(`${name}/color`).value('blue');
await client.put(`${name}/color`).value('red');
const lease = client.lease(10);
await lease.put(`${name}/online`).value('host-1');
const { kvs } = await client.getAll().prefix(`${name}/`).exec();
const lock = await client.lock(`${name}-lock`).acquire();
const { succeeded } = await client
  .if(`${name}/color`, 'Value', '==', 'red')
  .then(client.put(`${name}/color`).value('green'))
  .else(client.get(`${name}/color`))
  .commit();
const refused = await client
  .if(`${name}/color`, 'Version', '==', 1)
  .then(client.put(`${name}/color`).value('never'))
  .else(client.get(`${name}/color`))
  .commit();
await lock.release();
await lease.revoke();
await seen;
await client.delete().prefix(`${name}/`);
await watcher.cancel();
client.close();
process.stdout.write(`${kvs.length} ${succeeded} ${refused.succeeded}\n`);
