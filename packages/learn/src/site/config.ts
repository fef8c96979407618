import type { DefaultTheme, UserConfig } from 'vitepress';
import { sidebarOf, TRACE } from './sidebar.js';
import { slugOf } from './slug.js';

/** Returns the configuration of VitePress for a folder of pages. */
export function configOf(folder: string): UserConfig<DefaultTheme.Config> {
  return {
    title: 'etcdwire',
    description: 'An etcd v3 client for TypeScript that speaks gRPC over its own HTTP/2, with fair, fenced locks.',
    // Vite warns of larger files. The browser loads the largest one, the index of the search, only for a search.
    vite: { build: { chunkSizeWarningLimit: 2_000 } },
    // Limit the length of the lines below the cards of the first page.
    head: [['style', {}, '.VPHome > .vp-doc { max-width: 784px; margin-top: 48px }']],
    // The links of the pages name the anchors that GitHub derives from headings.
    markdown: { anchor: { slugify: slugOf }, toc: { slugify: slugOf } },
    themeConfig: {
      nav: [
        { text: 'Start', link: '/getting-started' },
        { text: 'Reference', link: '/reference/' },
        { text: 'Course', link: '/course/' },
        { text: 'Playground', link: '/playground.html', target: '_self' },
        TRACE,
      ],
      sidebar: sidebarOf(folder),
      search: { provider: 'local', options: { miniSearch: { searchOptions: { boostDocument: weightOf } } } },
    },
  };
}

/**
 * Returns the weight of a search result, so that guides come before the reference, the rules and the course. VitePress
 * copies the source of this function into the program of the site.
 */
function weightOf(address: string): number {
  return /\/(?:reference|course)\/|\/(?:semantics|rooms|contributing|changelog)\.html/.test(address) ? 0.5 : 1;
}
