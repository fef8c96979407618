import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const PAGES = ['', 'docs', 'docs/reference', 'docs/reference/etcdwire'].flatMap((folder) =>
  readdirSync(join(ROOT, folder))
    .filter((name) => name.endsWith('.md'))
    .map((name) => join(folder, name)),
);

/** The kinds of examples that a page may have, since a test runs each of them. Commands to type into a shell are few. */
const RUN: Readonly<Record<string, readonly string[]>> = {
  'README.md': ['sh', 'ts'],
  'docs/command-line.md': ['console'],
  'docs/faults.md': ['sh'],
  'docs/from-etcd3.md': ['ts'],
  'docs/opentelemetry.md': ['ts'],
  'docs/testing.md': ['ts'],
  'docs/wire.md': ['text'],
};

function read(page: string): string {
  return readFileSync(join(ROOT, page), 'utf8');
}

/** Without what stands between fences. */
function prose(page: string): string {
  return read(page).replace(/^```.*?^```$/gms, '');
}

/** Of each heading, as GitHub makes them, those that come again with a number; and those that are named. */
function anchors(page: string): Set<string> {
  const found = new Set([...read(page).matchAll(/<a id="([^"]+)">/g)].map(([, id]) => id as string));
  const seen = new Map<string, number>();
  for (const [, heading = ''] of prose(page).matchAll(/^#+ (.*)$/gm)) {
    const anchor = heading
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-');
    const before = seen.get(anchor) ?? 0;
    seen.set(anchor, before + 1);
    found.add(before === 0 ? anchor : `${anchor}-${before}`);
  }
  return found;
}

test.each(PAGES.filter((page) => !page.startsWith('docs/reference')))('every example of %s is run', (page) => {
  const kinds = new Set([...read(page).matchAll(/^```(\w+)/gm)].map(([, kind]) => kind));
  expect([...kinds].sort()).toEqual(RUN[page] ?? []);
});

test.each(PAGES)('every link of %s leads somewhere', (page) => {
  const links = [...prose(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link]) => link as string);
  const broken = links.filter((link) => {
    if (/^https?:/.test(link)) return false;
    const [path = '', anchor] = link.split('#');
    const target = path === '' ? page : relative(ROOT, join(ROOT, dirname(page), path));
    if (!existsSync(join(ROOT, target))) return true;
    return anchor !== undefined && !anchors(target).has(anchor);
  });
  expect(broken).toEqual([]);
  // Each of its rows names a test.
  if (page === 'docs/go-clientv3.md') expect(links.length).toBeGreaterThan(50);
});
