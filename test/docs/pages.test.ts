import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { brokenLinks, linksOf, pagesIn } from '../support/links.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PAGES = pagesIn(ROOT);
/** Six whole programs and the text between them. */
const README_LINES_MAX = 145;

/** The languages of the code blocks that each page must contain. Other tests run the `ts` and `console` blocks. */
const RUN: Readonly<Record<string, readonly string[]>> = {
  'README.md': ['sh', 'ts'],
  'docs/benchmarks.md': ['sh'],
  'docs/connections.md': ['ts'],
  'docs/contributing.md': ['sh'],
  'docs/failures.md': ['ts'],
  'docs/errors.md': ['ts'],
  'docs/faults.md': ['sh'],
  'docs/frameworks.md': ['ts'],
  'docs/from-etcd3.md': ['ts'],
  'docs/from-others.md': ['ts'],
  'docs/go-clientv3.md': ['ts'],
  'docs/getting-started.md': ['js', 'sh', 'ts'],
  'docs/keys.md': ['ts'],
  'packages/cli/README.md': ['console', 'sh'],
  'packages/cli/docs/guide.md': ['console', 'json', 'sh', 'text'],
  'packages/cli/docs/traffic.md': ['console', 'sh', 'text'],
  'packages/learn/course/12-break-it.md': ['console', 'diff', 'sh', 'text', 'ts'],
  'packages/learn/course/README.md': ['sh'],
  'packages/migrate/README.md': ['sh'],
  'docs/leases.md': ['text', 'ts'],
  'docs/locks.md': ['sh', 'ts'],
  'docs/opentelemetry.md': ['ts'],
  'docs/queues.md': ['ts'],
  'docs/recipes.md': ['ts'],
  'docs/runtimes.md': ['js', 'jsonc', 'sh', 'ts'],
  'docs/production.md': ['sh', 'ts', 'yaml'],
  'docs/testing.md': ['ts'],
  'docs/watches.md': ['ts'],
  'docs/wire.md': ['text'],
};

/** The pages of the course, whose code blocks packages/learn/test/learn.test.ts runs. */
const CHAPTER = /^packages\/learn\/course\/\d\d-/;

function read(page: string): string {
  return readFileSync(join(ROOT, page), 'utf8');
}

describe('a page of the documentation', () => {
  it.each(PAGES)('contains code blocks in exactly the languages that this test lists for the page (%s)', (page) => {
    const kinds = new Set([...read(page).matchAll(/^```(\w+)/gm)].map(([, kind]) => kind));
    expect([...kinds].sort()).toEqual(RUN[page] ?? (CHAPTER.test(page) ? ['diff', 'text', 'ts'] : []));
  });

  it.each(PAGES)('contains only links to existing files and headings (%s)', (page) => {
    expect(brokenLinks(ROOT, page)).toEqual([]);
  });
});

describe('docs/README.md', () => {
  it('links once to every page of docs/, and the page of the course to every page of the course', () => {
    const linksIn = (page: string): string[] =>
      linksOf(ROOT, page).map((link) => join(dirname(page), link.split('#')[0] as string));
    const COURSE = 'packages/learn/course/README.md';
    const pages = PAGES.filter((page) => page.startsWith('docs/') && page !== 'docs/README.md');
    const index = linksIn('docs/README.md');
    const wrong = [...pages, COURSE].filter((page) => index.filter((link) => link === page).length !== 1);
    const course = new Set(linksIn(COURSE));
    const ofCourse = PAGES.filter((page) => page.startsWith(dirname(COURSE)) && page !== COURSE);
    expect([...wrong, ...ofCourse.filter((page) => !course.has(page))]).toEqual([]);
  });
});

describe('docs/go-clientv3.md', () => {
  it('links to more than 50 tests', () => {
    expect(linksOf(ROOT, 'docs/go-clientv3.md').filter((link) => link.includes('/test/')).length).toBeGreaterThan(50);
  });
});

describe('README.md', () => {
  it(`has at most ${README_LINES_MAX} lines`, () => {
    expect(read('README.md').trimEnd().split('\n').length).toBeLessThanOrEqual(README_LINES_MAX);
  });
});
