import { setTimeout as pause } from 'node:timers/promises';
import { Client } from '../../src/index.js';

// A command that `etcdwire` runs under a lock. The command repeats a step, which puts the fencing token to a key, so
// that the key's revisions show the order in which all holders took their steps. The command exits after COUNT steps,
// or runs until a signal ends it.
// Usage: stepping-command.ts ENDPOINT KEY [COUNT]

const [endpoint = '', key = '', count = 'Infinity'] = process.argv.slice(2);
const etcd = new Client({ endpoints: [endpoint] });
const token = process.env.ETCDWIRE_LOCK_TOKEN ?? '';
for (let step = 0; step < Number(count); step += 1) {
  await etcd.put(key, token);
  // The test needs the process IDs of etcdwire and of this process.
  if (step === 0) process.stdout.write(`${process.ppid} ${process.pid} ${token}\n`);
  await pause(5);
}
await etcd.close();
