import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect, test } from 'vitest';

const ROOT = join(import.meta.dirname, '..');
const PAGES = readdirSync(join(ROOT, 'docs')).filter((file) => file.endsWith('.md'));
const DOCUMENTS = ['README.md', 'CHANGELOG.md', 'SECURITY.md', ...PAGES.map((file) => `docs/${file}`)];

test.for(DOCUMENTS)('every file that %s links to is there', (document) => {
  const text = readFileSync(join(ROOT, document), 'utf8');
  const links = [...text.matchAll(/\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)/g)].map(([, link]) => link as string);
  const missing = links.filter((link) => !existsSync(join(ROOT, dirname(document), link)));
  expect(missing).toEqual([]);
  if (document === 'docs/go-clientv3.md') expect(links.length).toBeGreaterThan(50);
});
