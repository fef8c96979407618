import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { run } from '../src/cli/program.js';
import { Mutex, Session } from '../src/concurrency/index.js';
import { Client, prefix } from '../src/index.js';
import { findChromium, launchChromium } from './chromium.js';
import { startEtcd } from './etcd.js';

// Writes docs/trace.png, a screenshot of the page that `etcdwire trace --html` generates. The traced command waits for
// a lock: one contender is ahead of the command in the queue, and another is behind the command. Run this script with:
//   npm run docs:picture

const PICTURE = fileURLToPath(new URL('../docs/trace.png', import.meta.url));
const LOCK = 'jobs/nightly';
/** How long, in milliseconds, a contender holds the lock: long enough for visible bars in the chart of the queue. */
const HOLD_MS = 300;
const VIEWPORT = { width: 1_400, height: 1_060 };

async function trace(endpoint: string, file: string): Promise<void> {
  await using etcd = new Client({ endpoints: [endpoint] });
  const queued = async (count: number): Promise<void> => {
    while ((await etcd.range(prefix(`${LOCK}/`))).count < count) await sleep(5);
  };
  const first = await new Mutex(await Session.open(etcd), LOCK).lock();
  const command = ['lock', LOCK, '--', 'sleep', String(HOLD_MS / 1_000)];
  const traced = run(['trace', '--html', file, '--', '--endpoints', endpoint, ...command], {
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: process.stderr,
    interrupted: new AbortController().signal,
  });
  await queued(2);
  const third = new Mutex(await Session.open(etcd), LOCK).lock();
  await queued(3);
  await sleep(HOLD_MS);
  await first.release();
  const held = await third;
  await traced;
  await held.release();
}

const chromium = findChromium();
if (chromium === undefined) throw new Error('docs:picture needs Chromium; on Debian: apt-get install chromium');
const folder = mkdtempSync(join(tmpdir(), 'etcdwire-picture-'));
const server = await startEtcd();
const browser = await launchChromium(chromium);
try {
  const file = join(folder, 'trace.html');
  await trace(server.endpoints[0] as string, file);
  const page = await browser.newPage({ viewport: VIEWPORT });
  await page.goto(pathToFileURL(file).href);
  await page.screenshot({ path: PICTURE });
} finally {
  await browser.close();
  await server.close();
  rmSync(folder, { recursive: true });
}
