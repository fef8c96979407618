import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { DefaultTheme } from 'vitepress';

/** The page that `etcdwire trace` writes for an example. The browser loads it, because it is not a page of VitePress. */
export const TRACE = { text: 'Example trace', link: '/trace.html', target: '_self' };

/**
 * Returns the groups of the sidebar: the sections of docs/README.md with their links, and the example trace in the first
 * one. A link to the first page of a folder, such as the course, contains the other pages of this folder. `folder` is the
 * folder of the site's pages.
 */
export function sidebarOf(folder: string): DefaultTheme.SidebarItem[] {
  const [, ...sections] = readFileSync(join(folder, 'contents.md'), 'utf8').split(/^## /m);
  return sections.map((section, index) => {
    const links = [...section.matchAll(/\[([^\]]*)\]\(([^)]*)\)/g)];
    const items = links.map(([, text = '', target = '']) => itemOf(folder, plain(text), target));
    return { text: section.split('\n', 1)[0] as string, items: index === 0 ? [...items, TRACE] : items };
  });
}

function itemOf(folder: string, text: string, target: string): DefaultTheme.SidebarItem {
  const item = { text, link: target.startsWith('https:') ? target : `/${target}` };
  if (target.endsWith('.html')) return { ...item, target: '_self' };
  if (!target.endsWith('/index.md')) return item;
  const part = target.slice(0, -'index.md'.length);
  const pages = readdirSync(join(folder, part), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.md') && name !== 'index.md')
    .sort();
  const items = pages.map((name) => ({ text: titleOf(join(folder, part, name)), link: `/${part}${name}` }));
  return { ...item, collapsed: true, items };
}

function titleOf(file: string): string {
  return /^# (.*)$/m.exec(readFileSync(file, 'utf8'))?.[1] as string;
}

/** Returns a text of Markdown without marks of code, and with a capital letter at the start. */
function plain(text: string): string {
  const words = text.replaceAll('`', '');
  return words.charAt(0).toUpperCase() + words.slice(1);
}
