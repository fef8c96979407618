import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { run } from '../src/cli/program.js';
import { Mutex, Session } from '../src/concurrency/index.js';
import { Client, prefix } from '../src/index.js';
import { findChromium, launchChromium } from './chromium.js';
import { startEtcd } from './etcd.js';

// Writes two pictures of the docs:
// - docs/trace.png, a screenshot of the page that `etcdwire trace --html` generates. The traced command waits for a lock:
//   one contender is ahead of the command in the queue, and another is behind the command.
// - docs/traffic.png, a screenshot of the page of `etcdwire proxy --serve` while etcdctl and curl use the proxy.
// Run this script with:
//   npm run docs:picture

const PICTURE = fileURLToPath(new URL('../docs/trace.png', import.meta.url));
const TRAFFIC_PICTURE = fileURLToPath(new URL('../docs/traffic.png', import.meta.url));
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

/** Uses a proxy with etcdctl and a request of the JSON gateway. Calls `show` with the URL of the page. */
async function proxied(endpoint: string, etcdctl: string, show: (url: string) => Promise<void>): Promise<void> {
  let stderr = '';
  const interrupted = new AbortController();
  const serving = run(['proxy', '--quiet', '--serve', '--fault', FAULT, '--endpoints', endpoint], {
    stdin: process.stdin,
    stdout: process.stdout,
    stderr: { write: (text) => (stderr += text) },
    interrupted: interrupted.signal,
  });
  const found = async (pattern: RegExp): Promise<string> => {
    for (;;) {
      const match = pattern.exec(stderr)?.[1];
      if (match !== undefined) return match;
      await sleep(20);
    }
  };
  const url = await found(/ETCDCTL_ENDPOINTS=(\S+)/);
  const use = async (...args: string[]): Promise<unknown> =>
    await execute(etcdctl, ['--endpoints', url, '--command-timeout', '1s', ...args]).catch(() => {});
  await use('put', 'jobs/a', 'waits');
  await use('lock', 'locks/a', 'true');
  await use('put', 'jobs/b', 'waits');
  const body = JSON.stringify({ key: btoa('jobs/'), range_end: btoa('jobs0') });
  await (await fetch(`${url}/v3/kv/range`, { method: 'POST', body })).text();
  await show(await found(/the traffic is at (\S+)/));
  interrupted.abort('SIGINT');
  await serving;
}

const FAULT = 'refuse rpc=Put prefix=jobs/b';
const execute = promisify(execFile);

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
  const { etcdctl } = server;
  if (etcdctl === undefined) throw new Error('docs:picture needs etcdctl beside etcd');
  await proxied(server.endpoints[0] as string, etcdctl, async (url) => {
    await page.goto(url);
    await page.screenshot({ path: TRAFFIC_PICTURE });
  });
} finally {
  await browser.close();
  await server.close();
  rmSync(folder, { recursive: true });
}
