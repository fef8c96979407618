import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { Mutex, Session } from '../src/concurrency/index.js';
import { Client } from '../src/index.js';
import { goProgram } from '../test/support/go-program.js';
import { startEtcd } from './etcd.js';

// Measures how many times per second contenders pass a lock from one to the next, on one etcd member. Each round
// measures first this client and then Go's concurrency.Mutex:
//   npx tsx scripts/go-mutex.ts [--rounds 5] [--seconds 2]
// Each contender has a client and a session of its own. The script needs a Go toolchain.

const CONTENDERS = [2, 10, 50];

const { values } = parseArgs({
  options: { rounds: { type: 'string', default: '5' }, seconds: { type: 'string', default: '2' } },
});
const [rounds, seconds] = [Number(values.rounds), Number(values.seconds)];
const go = await goProgram(fileURLToPath(new URL('go-mutex', import.meta.url)));
if ('missing' in go) throw new Error(go.missing);
const { path } = go;
const { endpoints, version, close } = await startEtcd();
const [endpoint = ''] = endpoints;

/** Resolves with the number of times per second that a contender acquires the lock. */
async function ours(name: string, contenders: number): Promise<number> {
  const clients = Array.from({ length: contenders }, () => new Client({ endpoints: [endpoint] }));
  const sessions = await Promise.all(clients.map((client) => Session.open(client)));
  const start = performance.now();
  const end = start + seconds * 1_000;
  let taken = 0;
  await Promise.all(
    sessions.map(async (session) => {
      const mutex = new Mutex(session, name);
      while (performance.now() < end) {
        await using _held = await mutex.lock();
        taken += 1;
      }
    }),
  );
  const rate = taken / ((performance.now() - start) / 1_000);
  await Promise.all(clients.map((client) => client.close()));
  return rate;
}

function theirs(name: string, contenders: number): number {
  return Number(execFileSync(path, [endpoint, name, String(contenders), String(seconds)], { encoding: 'utf8' }));
}

function spread(rates: readonly number[]): string {
  const sorted = rates.toSorted((a, b) => a - b).map((rate) => Math.round(rate).toLocaleString('en'));
  return `${sorted[Math.floor(sorted.length / 2)]} (${sorted[0]}–${sorted.at(-1)})`;
}

try {
  console.log(
    `etcd ${version}; locks taken per second: median (minimum–maximum) of ${rounds} rounds of ${seconds} s\n`,
  );
  console.log("| contenders | etcdwire | Go's concurrency.Mutex |\n|---:|---:|---:|");
  for (const contenders of CONTENDERS) {
    const rates = { ours: [] as number[], theirs: [] as number[] };
    for (let round = 0; round < rounds; round += 1) {
      rates.ours.push(await ours(`ours/${contenders}/${round}`, contenders));
      rates.theirs.push(theirs(`theirs/${contenders}/${round}`, contenders));
    }
    console.log(`| ${contenders} | ${spread(rates.ours)} | ${spread(rates.theirs)} |`);
  }
} finally {
  await close();
}
