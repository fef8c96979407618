import { setTimeout as pause } from 'node:timers/promises';
import { Client } from '../../src/index.js';

// The command of a lock: puts its fencing token to a key, again and again, so that the revisions of etcd order the steps
// of all holders. It ends after COUNT steps, or goes on until a signal ends it: stepping-command.ts ENDPOINT KEY [COUNT]

const [endpoint = '', key = '', count = 'Infinity'] = process.argv.slice(2);
const etcd = new Client({ endpoints: [endpoint] });
const token = process.env.ETCDWIRE_LOCK_TOKEN ?? '';
for (let step = 0; step < Number(count); step += 1) {
  await etcd.put(key, token);
  // The test needs the process ids of etcdwire and of this process.
  if (step === 0) process.stdout.write(`${process.ppid} ${process.pid} ${token}\n`);
  await pause(5);
}
await etcd.close();
