import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { dirname, extname, join, relative } from 'node:path/posix';
import { fileURLToPath } from 'node:url';
import { writeLockTrace } from '../../../scripts/lock-trace.js';
import { listen, MemoryEtcd } from '../../../src/testing/index.js';
import { THEME } from '../../cli/src/index.js';
import { folderHtml, layout, sourceHtml, WELCOME } from './site/layout.js';
import { renderMarkdown } from './site/markdown.js';

// Writes the folder site/, which any static host can serve: the pages of docs/ and of the command as HTML, the
// playground, the course, an example trace, and every file of the repository that a page links to. Run this script with:
//   npm run docs:site

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const SITE = join(ROOT, 'site');
/** The folder of the site for files that are not in docs/, and for programs. */
const SOURCE = 'source';
const COURSE = 'packages/learn/course/';
const CLI = 'packages/cli/';
const PLAYGROUND = 'packages/learn/playground.html';
/** The files that the site contains unchanged. */
const COPIED = new Set(['.html', '.png', '.svg']);

/** Returns the path on the site for a path in the repository. */
function placeOf(path: string): string {
  if (statSync(join(ROOT, path)).isDirectory()) {
    const readme = join(path, 'README.md');
    return existsSync(join(ROOT, readme)) ? placeOf(readme) : join(SOURCE, path, 'index.html');
  }
  const inDocs = placeInDocs(path);
  if (inDocs !== undefined) {
    if (path.endsWith('/README.md')) return join(dirname(inDocs), 'index.html');
    if (path.endsWith('.md')) return inDocs.replace(/\.md$/, '.html');
    if (COPIED.has(extname(path))) return inDocs;
  }
  return COPIED.has(extname(path)) ? join(SOURCE, path) : join(SOURCE, `${path}.html`);
}

/** Returns the path of a documentation file within the site. Undefined for other files. */
function placeInDocs(path: string): string | undefined {
  if (path.startsWith(COURSE)) return join('learn', path.slice(COURSE.length));
  if (path === `${CLI}README.md`) return 'cli/README.md';
  if (path.startsWith(`${CLI}docs/`)) return join('cli', path.slice(`${CLI}docs/`.length));
  if (path === PLAYGROUND) return 'playground.html';
  return path.startsWith('docs/') ? path.slice('docs/'.length) : undefined;
}

/** The files that the site consists of, and the ones that it still has to write. */
class Site {
  readonly #folder: string;
  readonly #known = new Set<string>();
  readonly #queue: string[] = [];

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** Adds a path of the repository to the site. @throws Error if the path does not exist. */
  add(path: string): void {
    if (this.#known.has(path)) return;
    this.#known.add(path);
    this.#queue.push(path);
  }

  /** Writes all files, and the files that they link to. */
  writeAll(): void {
    for (let path = this.#queue.shift(); path !== undefined; path = this.#queue.shift()) this.#write(path);
  }

  write(place: string, content: string): void {
    const file = join(this.#folder, place);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, content);
  }

  #write(path: string): void {
    const place = placeOf(path);
    const file = join(ROOT, path);
    const page = (title: string, content: string): void =>
      this.write(place, layout(title, content, place.split('/').length - 1));
    if (statSync(file).isDirectory()) {
      // A folder with a README.md has the place of this file.
      if (existsSync(join(file, 'README.md'))) return this.add(join(path, 'README.md'));
      const names = readdirSync(file).sort();
      return page(
        path,
        folderHtml(
          path,
          names.map((name) => [name, this.#link(path, place, join(path, name))]),
        ),
      );
    }
    if (COPIED.has(extname(path))) {
      mkdirSync(dirname(join(this.#folder, place)), { recursive: true });
      return copyFileSync(file, join(this.#folder, place));
    }
    const text = readFileSync(file, 'utf8');
    if (!path.endsWith('.md')) return page(path, sourceHtml(path, text));
    const { html, title } = renderMarkdown(text, (target) => this.#linkOf(path, place, target));
    if (place === 'index.html') return page('etcdwire', html.replace(/<h1.*<\/h1>/, WELCOME));
    return page(title, html);
  }

  /** Returns the target of a link on the page at `place`, and adds the target to the site. */
  #linkOf(path: string, place: string, target: string): string {
    if (/^[a-z]+:/.test(target) || target.startsWith('#')) return target;
    const [file = '', anchor] = target.split('#');
    return this.#link(path, place, join(dirname(path), file)) + (anchor === undefined ? '' : `#${anchor}`);
  }

  #link(path: string, place: string, target: string): string {
    const found = target.replace(/\/$/, '');
    if (!existsSync(join(ROOT, found))) throw new Error(`${path} links to ${found}, which does not exist`);
    this.add(found);
    return relative(dirname(place), placeOf(found));
  }
}

/** Writes the site to a folder, which the caller has emptied. */
export async function writeSite(folder: string): Promise<void> {
  const site = new Site(folder);
  for (const folder of ['docs/', COURSE])
    for (const name of readdirSync(join(ROOT, folder), { recursive: true, encoding: 'utf8' }))
      if (name.endsWith('.md')) site.add(folder + name);
  site.add(`${CLI}README.md`);
  site.add(PLAYGROUND);
  site.writeAll();
  site.write('style.css', THEME + readFileSync(join(ROOT, 'packages/learn/src/site/style.css'), 'utf8'));
  // GitHub Pages must not convert the files again.
  site.write('.nojekyll', '');
  await using listener = await listen(new MemoryEtcd());
  const trace = join(folder, 'trace.html');
  await writeLockTrace(listener.endpoint, trace);
  // `etcdwire trace` writes files that only their owner can read, because a trace may contain secrets. This one does not.
  chmodSync(trace, 0o644);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  rmSync(SITE, { recursive: true, force: true });
  await writeSite(SITE);
  console.log(`The site is in ${SITE}.`);
}
