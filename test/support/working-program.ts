import { setTimeout as sleep } from 'node:timers/promises';
import { Client, op } from '../../src/index.js';
import { WorkQueue } from '../../src/recipes.js';

// This program works on the jobs of a queue until it receives SIGTERM. Each job takes a few milliseconds. The
// transaction that completes a job also puts the key NAME-results/ID. The program prints "took ID" for each job.
// Usage: working-program.ts ENDPOINT NAME TTL

const [endpoint = '', name = '', ttl = ''] = process.argv.slice(2);
const etcd = new Client({ endpoints: [endpoint] });
const stop = new AbortController();
process.once('SIGTERM', () => stop.abort());
await new WorkQueue(etcd, name, { maxAttempts: 1_000 }).work(
  { concurrency: 2, ttl: Number(ttl), signal: stop.signal },
  async (job) => {
    process.stdout.write(`took ${job.id}\n`);
    await sleep(20);
    await job.complete([op.put(`${name}-results/${job.id}`, job.value)]);
  },
);
await etcd.close();
