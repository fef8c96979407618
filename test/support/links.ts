import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { slugOf } from '../../packages/learn/src/site/slug.js';

/**
 * Returns the paths of the Markdown pages in the folder `root` and everywhere in its folders `docs` and `packages`,
 * relative to `root`.
 */
export function pagesIn(root: string): string[] {
  const below = ['docs', 'packages']
    .filter((folder) => existsSync(join(root, folder)))
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name)),
    )
    .filter((name) => !name.includes('node_modules'));
  return [...readdirSync(root), ...below].filter((name) => name.endsWith('.md')).sort();
}

/** Returns the targets of the relative links in a page. */
export function linksOf(root: string, page: string): string[] {
  const links = [...prose(root, page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link]) => link as string);
  return links.filter((link) => !/^https?:/.test(link));
}

/** Returns the links of a page to files or anchors that do not exist. */
export function brokenLinks(root: string, page: string): string[] {
  return linksOf(root, page).filter((link) => {
    const [path = '', anchor] = link.split('#');
    const target = path === '' ? page : join(dirname(page), path);
    if (!existsSync(join(root, target))) return true;
    // A script reads the anchor of an HTML page. The tests of the course check those of the playground.
    return anchor !== undefined && !target.endsWith('.html') && !anchors(root, target).has(anchor);
  });
}

/** Returns the text of a page without its code blocks. */
function prose(root: string, page: string): string {
  return readFileSync(join(root, page), 'utf8').replace(/^```.*?^```$/gms, '');
}

/**
 * Returns the anchors of a page: the anchors that GitHub derives from headings, with a number if the same heading
 * occurs again, and the `id` attributes of `a` elements.
 */
function anchors(root: string, page: string): Set<string> {
  const text = prose(root, page);
  const found = new Set([...text.matchAll(/<a id="([^"]+)">/g)].map(([, id]) => id as string));
  const seen = new Map<string, number>();
  for (const [, heading = ''] of text.matchAll(/^#+ (.*)$/gm)) {
    const slug = slugOf(heading);
    const before = seen.get(slug) ?? 0;
    seen.set(slug, before + 1);
    found.add(before === 0 ? slug : `${slug}-${before}`);
  }
  return found;
}
