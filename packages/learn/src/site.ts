import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { build } from 'vitepress';
import { writeLockTrace } from '../../../scripts/lock-trace.js';
import { redirectLinks, repositoryOfWorkflow } from '../../../scripts/redirect-links.js';
import { writeReference } from '../../../scripts/reference.js';
import { listen, MemoryEtcd } from '../../../src/testing/index.js';
import { HOME } from './site/home.js';
import { filesOfSite, placeOf } from './site/places.js';

// Writes the site with VitePress: the pages of docs/, of the command and of the course, the reference, the playground and
// an example trace. Run this script with:
//   npm run docs:site [-- --out FOLDER --base /PATH/]

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const CONFIG = fileURLToPath(new URL('site/config.ts', import.meta.url));
/** Matches the heading of README.md and the sentence below it. The first page shows them as its title. */
const README_TITLE = /^# etcdwire\n\n\*\*.*\*\*\n/;
/** Matches the target of a link to the playground. The browser must load it, because it is not a page of VitePress. */
const TO_PLAYGROUND = /\]\([./]*playground\.html(?:#[^)]*)?\)/g;
/** The settings of pages for VitePress. The search leaves out the list of all pages. */
const FRONTMATTER: Readonly<Record<string, object>> = { 'README.md': HOME, 'docs/README.md': { search: false } };

const { values } = parseArgs({
  options: { out: { type: 'string', default: join(ROOT, 'site') }, base: { type: 'string', default: '/' } },
});
// VitePress and the pages find their packages in the node_modules of a folder above the pages.
mkdirSync(join(ROOT, '.cache'), { recursive: true });
const pages = mkdtempSync(join(ROOT, '.cache/site-'));
try {
  for (const path of filesOfSite(ROOT)) copyToSite(path, placeOf(path) as string);
  writeReference(join(pages, 'reference'));
  await writeTrace(join(pages, 'public/trace.html'));
  writePage(
    '.vitepress/config.ts',
    `import { configOf } from ${JSON.stringify(CONFIG)};\nexport default configOf(${JSON.stringify(pages)});\n`,
  );
  await build(pages, { outDir: resolve(values.out), base: values.base });
} finally {
  rmSync(pages, { recursive: true });
}

/** Copies a file of the repository. Links of pages lead to the site, or to the repository. */
function copyToSite(path: string, place: string): void {
  if (!path.endsWith('.md')) {
    // VitePress copies the folder `public` unchanged. Pictures are beside the pages that show them.
    const copy = join(pages, place.endsWith('.html') ? 'public' : '', place);
    mkdirSync(dirname(copy), { recursive: true });
    return copyFileSync(join(ROOT, path), copy);
  }
  const repository = repositoryOfWorkflow();
  const files = repository === undefined ? undefined : `${repository}/blob/${process.env.GITHUB_SHA}`;
  const page = { text: readFileSync(join(ROOT, path), 'utf8'), page: path, place };
  const text = redirectLinks(page, placeOf, files).replace(TO_PLAYGROUND, '$&{target="_self"}');
  const matter = FRONTMATTER[path];
  writePage(
    place,
    matter === undefined ? text : `---\n${JSON.stringify(matter)}\n---\n${text.replace(README_TITLE, '')}`,
  );
}

function writePage(place: string, text: string): void {
  const file = join(pages, place);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
}

async function writeTrace(file: string): Promise<void> {
  await using listener = await listen(new MemoryEtcd());
  await writeLockTrace(listener.endpoint, file);
  // `etcdwire trace` writes files that only their owner can read, because a trace may contain secrets. This one does not.
  chmodSync(file, 0o644);
}
