import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { writeSite } from '../src/site.js';

describe('the site', () => {
  let folder: string;
  /** The HTML of each page, by its path. */
  const pages = new Map<string, string>();

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'etcdwire-site-'));
    await writeSite(folder);
    for (const path of readdirSync(folder, { recursive: true, encoding: 'utf8' }))
      if (path.endsWith('.html')) pages.set(path, readFileSync(join(folder, path), 'utf8'));
  });

  afterAll(() => rmSync(folder, { recursive: true }));

  /** Returns the links of a page. The playground and the trace contain links in their programs, which do not count. */
  function linksOf(path: string): string[] {
    const html = (pages.get(path) as string).replace(/<(script|style)\b.*?<\/\1>/gs, '');
    return [...html.matchAll(/\s(?:href|src)="([^"]*)"/g)].map(([, link]) => link as string);
  }

  test('contains only links that lead to a file and to an anchor of the site', () => {
    const broken: string[] = [];
    for (const path of pages.keys())
      for (const link of linksOf(path).filter((each) => !/^[a-z]+:/.test(each))) {
        const [file = '', anchor] = link.split('#');
        const target = file === '' ? path : join(dirname(path), decodeURI(file));
        const isFile = statSync(join(folder, target), { throwIfNoEntry: false })?.isFile() ?? false;
        if (!isFile) broken.push(`${path}: ${link}`);
        else if (anchor !== undefined && !pages.get(target)?.includes(` id="${anchor}"`))
          broken.push(`${path}: ${link}`);
      }
    expect(broken).toEqual([]);
    expect(pages.size).toBeGreaterThan(100);
  });

  test('leads from its first page to the playground, the course, the example trace and all pages', () => {
    const links = linksOf('index.html');
    for (const link of ['playground.html', 'learn/index.html', 'trace.html', 'keys.html', 'reference/index.html'])
      expect(links).toContain(link);
    expect(pages.get('playground.html')).toContain('<title>etcdwire playground</title>');
    expect(pages.get('learn/index.html')).toContain('Build an etcd client from a socket</h1>');
    expect(pages.get('trace.html')).toContain('jobs/nightly');
  });

  test('contains headings with anchors, tables, code and pictures', () => {
    expect(pages.get('testing.html')).toMatch(/<h2 id="several-members">Several members<\/h2>/);
    expect(pages.get('testing.html')).toMatch(/<div class="table"><table>\s*<thead>/);
    expect(pages.get('keys.html')).toContain('<pre><code class="language-ts">import { ');
    expect(pages.get('cli/traffic.html')).toContain('<img src="../traffic.png"');
    expect(pages.get('source/src/README.md.html')).toContain('href="client/core-client.ts.html"');
    expect(pages.get('source/src/client/core-client.ts.html')).toContain('<span id="L1">');
  });

  test('loads no file of another host', () => {
    const foreign = [...pages.keys()].filter((path) =>
      /<(?:script|link|img|iframe)[^>]*(?:src|href)="(?:https?:)?\/\//.test(pages.get(path) as string),
    );
    expect(foreign).toEqual([]);
  });
});
