import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { type Browser, findChromium, launchChromium } from '../../../scripts/chromium.js';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
/** The address of the site in the browser. The tests answer all requests for it with the files of the site. */
const SITE = 'http://site/docs/';
const REPOSITORY = 'https://github.com/owner/etcdwire';
const FILES_OF_REPOSITORY = `${REPOSITORY}/blob/0123abc/`;
const WORKFLOW = {
  GITHUB_SERVER_URL: 'https://github.com',
  GITHUB_REPOSITORY: 'owner/etcdwire',
  GITHUB_SHA: '0123abc',
};
/** The pages that VitePress only copies. Their programs make the links that they contain. */
const COPIED = ['playground.html', 'trace.html'];

/** The limit for the build, and for the test that opens all pages: both need a minute of CPU time together. */
const TIMEOUT_MS = 600_000;

/** What readers type, and the page that answers it. */
const QUESTIONS = {
  'graceful shutdown': 'production.html',
  'readiness probe kubernetes': 'production.html',
  'permission denied': 'errors.html',
  'deadline exceeded': 'errors.html',
  'retry writes': 'failures.html',
  'fencing token': 'locks.html',
  'lost lock': 'locks.html',
  'leader election': 'locks.html',
  'compacted revision': 'keys.html',
  'compare and swap': 'keys.html',
  'watch a prefix': 'watches.html',
  'key expires after ttl': 'leases.html',
  'rate limiter': 'queues.html',
  'cron job once in a cluster': 'recipes.html',
  'username and password': 'connections.html',
  'backup snapshot': 'connections.html',
  express: 'frameworks.html',
  'cloudflare workers': 'runtimes.html',
  jest: 'testing.html',
  'migrate from etcd3': 'from-etcd3.html',
};

describe('the site', () => {
  const folder = mkdtempSync(join(tmpdir(), 'etcdwire-site-'));
  let browser: Browser | undefined;

  beforeAll(async () => {
    const args = ['packages/learn/src/site.ts', '--out', folder, '--base', '/docs/'];
    const env = { ...process.env, ...WORKFLOW };
    await promisify(execFile)('npx', ['tsx', ...args], { cwd: ROOT, env });
    const chromium = findChromium();
    if (chromium !== undefined) browser = await launchChromium(chromium);
  }, TIMEOUT_MS);

  afterAll(async () => {
    await browser?.close();
    rmSync(folder, { recursive: true });
  });

  /** Opens an empty page, in which the browser can open the pages of the site. `problems` lists what goes wrong there. */
  async function opened(skip: (reason: string) => never) {
    if (browser === undefined) return skip('this machine has no Chromium');
    const page = await browser.newPage();
    onTestFinished(() => page.close());
    const problems: string[] = [];
    page.on('pageerror', (error) => problems.push(`${page.url()}: ${error.message}`));
    await page.route('**/*', (route) => {
      const url = route.request().url();
      const file = join(folder, pathOf(url) ?? 'missing');
      if (existsSync(file)) return route.fulfill({ path: file });
      problems.push(`${page.url()} loads ${url}`);
      return route.abort();
    });
    return { page, problems };
  }

  test('leads from its first page to all pages, and all links lead to an anchor or a file', {
    timeout: TIMEOUT_MS,
  }, async ({ skip }) => {
    const { page, problems } = await opened(skip);
    const anchors = new Map<string, Set<string>>();
    const links: { from: string; to: string }[] = [];
    const queue = ['index.html'];
    for (let path = queue.shift(); path !== undefined; path = queue.shift()) {
      if (anchors.has(path)) continue;
      await page.goto(SITE + path);
      const ids = await page.locator('[id]').evaluateAll((elements) => elements.map(({ id }) => id as string));
      const targets = await page
        .locator('a[href]')
        .evaluateAll((elements) => elements.map(({ href }) => href as string));
      anchors.set(path, new Set(ids));
      if (COPIED.includes(path)) continue;
      for (const to of targets) {
        links.push({ from: path, to });
        const next = pathOf(to);
        if (next !== undefined && existsSync(join(folder, next))) queue.push(next);
      }
    }
    const broken = links.filter(({ to }) => {
      if (to.startsWith(REPOSITORY))
        return !existsSync(join(ROOT, to.slice(FILES_OF_REPOSITORY.length).split('#')[0] as string));
      const target = pathOf(to);
      if (target === undefined) return !to.startsWith('https://');
      const anchor = decodeURIComponent(new URL(to).hash.slice(1));
      // The anchors of the copied pages are states of their programs. `learn.test.ts` checks those of the playground.
      if (COPIED.includes(target)) return !anchors.has(target);
      return !(anchors.get(target)?.has(anchor) ?? false) && !(anchor === '' && anchors.has(target));
    });
    expect(broken).toEqual([]);
    expect(problems).toEqual([]);
    const written = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.html'));
    expect([...anchors.keys()].toSorted()).toEqual(written.filter((path) => path !== '404.html').toSorted());
    expect(links.filter(({ to }) => to.startsWith(FILES_OF_REPOSITORY)).length).toBeGreaterThan(100);
  });

  test('contains the playground, an example trace, and the comments of the exports', () => {
    const read = (path: string): string => readFileSync(join(folder, path), 'utf8');
    expect(read('playground.html')).toContain('<title>etcdwire playground</title>');
    expect(read('trace.html')).toContain('jobs/nightly');
    expect(read('reference/etcdwire/locks.html')).toMatch(/<h2 id="mutex"/);
  });

  test.for(Object.entries(QUESTIONS))(
    'finds "%s" in %s among the first three results',
    async ([question, answer], { skip }) => {
      const { page, problems } = await opened(skip);
      await page.goto(SITE);
      await page.locator('#local-search button').click();
      await page.locator('.search-input').fill(question);
      await page.locator('.result').first().waitFor();
      const results = await page.locator('.result').evaluateAll((all) => all.map(({ href }) => href as string));
      expect(results.slice(0, 3).map(pathOf)).toContain(answer);
      expect(problems).toEqual([]);
    },
  );
});

/** Returns the path of a file of the site. Returns undefined for an address outside the site. */
function pathOf(address: string): string | undefined {
  if (!address.startsWith(SITE)) return undefined;
  const path = new URL(address).pathname.slice(new URL(SITE).pathname.length);
  return path === '' || path.endsWith('/') ? `${path}index.html` : path;
}
