import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { run } from '../packages/cli/src/program.js';
import { findChromium, launchChromium } from './chromium.js';
import { startEtcd } from './etcd.js';
import { writeLockTrace } from './lock-trace.js';

// Writes two pictures of the docs:
// - docs/trace.png, a screenshot of the page that `etcdwire trace --html` generates. The traced command waits for a lock:
//   one contender is ahead of the command in the queue, and another is behind the command.
// - docs/traffic.png, a screenshot of the page of `etcdwire proxy --serve` while etcdctl and curl use the proxy.
// Run this script with:
//   npm run docs:picture

const PICTURE = fileURLToPath(new URL('../docs/trace.png', import.meta.url));
const TRAFFIC_PICTURE = fileURLToPath(new URL('../docs/traffic.png', import.meta.url));
const VIEWPORT = { width: 1_400, height: 1_060 };

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
  await writeLockTrace(server.endpoints[0] as string, file);
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
