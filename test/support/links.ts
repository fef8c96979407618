import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Returns the paths of the Markdown pages in the root folder and in `docs`, relative to the root. */
export function pagesIn(root: string): string[] {
  const docs = readdirSync(join(root, 'docs'), { recursive: true, encoding: 'utf8' }).map((name) => join('docs', name));
  return [...readdirSync(root), ...docs].filter((name) => name.endsWith('.md')).sort();
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
    return anchor !== undefined && !anchors(root, target).has(anchor);
  });
}

/** Returns the text of a page without its code blocks. */
function prose(root: string, page: string): string {
  return readFileSync(join(root, page), 'utf8').replace(/^```.*?^```$/gms, '');
}

/**
 * Returns the anchors of a page: the anchors that GitHub derives from headings, numbered where a heading repeats, and
 * the IDs of `a` elements.
 */
function anchors(root: string, page: string): Set<string> {
  const text = prose(root, page);
  const found = new Set([...text.matchAll(/<a id="([^"]+)">/g)].map(([, id]) => id as string));
  const seen = new Map<string, number>();
  for (const [, heading = ''] of text.matchAll(/^#+ (.*)$/gm)) {
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
