import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Client } from '../src/index.js';
import { startEtcd } from './etcd.js';
import { median } from './median.js';

// Measures what `etcdwire proxy` with a recording costs: the time that it adds to one put at a time, and the rate of
// many puts at once. Direct and proxied puts take turns in one run.
// Usage: npx tsx scripts/proxy-cost.ts (after npm run build)

const [ROUNDS, PUTS_OF_ROUND] = [20, 200];
const [CONCURRENT, CONCURRENT_PUTS] = [256, 20_000];

const etcd = await startEtcd();
const folder = mkdtempSync(join(tmpdir(), 'etcdwire-proxy-cost-'));
const program = join(import.meta.dirname, '../dist/cli.cjs');
const args = ['proxy', '--quiet', '--record', join(folder, 'traffic.pcapng'), '--endpoints', etcd.endpoints.join(',')];
const proxy = spawn(process.execPath, [program, ...args], { stdio: ['ignore', 'ignore', 'pipe'] });
try {
  let url = '';
  for await (const line of createInterface({ input: proxy.stderr })) {
    url = /ETCDCTL_ENDPOINTS=(\S+)/.exec(line)?.[1] ?? '';
    if (url !== '') break;
  }
  proxy.stderr.resume();
  const clients = { direct: new Client({ endpoints: etcd.endpoints }), proxied: new Client({ endpoints: [url] }) };
  const times = { direct: [] as number[], proxied: [] as number[] };
  for (let round = 0; round < ROUNDS; round += 1)
    for (const way of ['direct', 'proxied'] as const)
      for (let index = 0; index < PUTS_OF_ROUND; index += 1) {
        const startMs = performance.now();
        await clients[way].put('cost', 'v'.repeat(100));
        times[way].push(performance.now() - startMs);
      }
  const [direct, proxied] = [median(times.direct), median(times.proxied)];
  console.log(`one put at a time, median: direct ${direct.toFixed(3)} ms, proxied ${proxied.toFixed(3)} ms`);
  console.log(`added by the proxy: ${(proxied - direct).toFixed(3)} ms`);
  for (const way of ['direct', 'proxied', 'direct', 'proxied'] as const) {
    let left = CONCURRENT_PUTS;
    const startMs = performance.now();
    const worker = async (): Promise<void> => {
      for (; left > 0; ) {
        left -= 1;
        await clients[way].put('cost', 'v'.repeat(100));
      }
    };
    await Promise.all(Array.from({ length: CONCURRENT }, worker));
    const rate = CONCURRENT_PUTS / ((performance.now() - startMs) / 1_000);
    console.log(`${CONCURRENT} puts at a time, ${way}: ${Math.round(rate).toLocaleString('en')} puts a second`);
  }
  for (const client of Object.values(clients)) await client.close();
} finally {
  proxy.kill('SIGINT');
  await etcd.close();
  rmSync(folder, { recursive: true, force: true });
}
