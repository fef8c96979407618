import MarkdownIt from 'markdown-it';
import type Token from 'markdown-it/lib/token.mjs';
import { slugOf } from './slug.js';

/** A page of Markdown as HTML. */
export interface Rendered {
  readonly html: string;
  /** The text of the first heading. */
  readonly title: string;
}

// The pages contain anchors such as `<a id="property-connect">`.
const markdown = new MarkdownIt({ html: true });

/** Renders a page. `linkTo` returns the target of a link or of a picture on the site. */
export function renderMarkdown(text: string, linkTo: (target: string) => string): Rendered {
  const tokens = markdown.parse(text, {});
  const slugs = new Map<string, number>();
  let title = '';
  for (const [index, token] of tokens.entries()) {
    if (token.type === 'heading_open') {
      const heading = textOf(tokens[index + 1]);
      if (title === '') title = heading;
      token.attrSet('id', slugOf(heading, slugs));
    }
    for (const child of token.children ?? [])
      for (const name of ['href', 'src'] as const) {
        const target = child.attrGet(name);
        if (target !== null) child.attrSet(name, linkTo(target));
      }
  }
  const html = markdown.renderer.render(tokens, markdown.options, {});
  // A wide table scrolls, and not the page.
  return {
    html: html.replaceAll('<table>', '<div class="table"><table>').replaceAll('</table>', '</table></div>'),
    title,
  };
}

function textOf(inline: Token | undefined): string {
  const parts = inline?.children?.filter(({ type }) => type === 'text' || type === 'code_inline') ?? [];
  return parts.map(({ content }) => content).join('');
}
