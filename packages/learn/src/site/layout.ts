import { escapeHtml } from '../../../cli/src/index.js';

/** The pages that every page of the site links to. */
const NAVIGATION = [
  ['index.html', 'Documentation'],
  ['playground.html', 'Playground'],
  ['learn/index.html', 'Course'],
  ['trace.html', 'Example trace'],
] as const;

/** What the first page shows instead of the heading of docs/README.md. */
export const WELCOME = `<h1>etcdwire</h1>
<p>An etcd v3 client for TypeScript that speaks gRPC over its own HTTP/2, with fair, fenced locks.</p>
<div class="cards">
<a href="playground.html"><b>Playground</b><span>An etcd, three clients and the wire between them, in one page. Nine
stories show locks, watches and raft, message by message.</span></a>
<a href="learn/index.html"><b>Course</b><span>Build an etcd client from a socket, in ten programs of at most 60
lines.</span></a>
<a href="trace.html"><b>Example trace</b><span>A command waits for a lock: the queue, all messages, and the meaning of
each byte. <code>etcdwire trace --html</code> writes such a page for any command.</span></a>
</div>
`;

/** Puts the content of a page between the header and the end of the page. `depth` is the number of folders above it. */
export function layout(title: string, content: string, depth: number): string {
  const root = '../'.repeat(depth);
  const links = NAVIGATION.map(([path, name]) => `<a href="${root}${path}">${name}</a>`).join('\n');
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escapeHtml(title)}${title === 'etcdwire' ? '' : ' · etcdwire'}</title>
<link rel="stylesheet" href="${root}style.css">
<body>
<header><b>etcdwire</b>
<nav aria-label="Site">${links}</nav></header>
<main>
${content}</main>
</body>
</html>
`;
}

/** Renders a source file. Each line has an anchor, such as `#L10`. */
export function sourceHtml(path: string, text: string): string {
  const lines = text.replace(/\n$/, '').split('\n');
  const html = lines.map((line, index) => `<span id="L${index + 1}">${escapeHtml(line)}</span>`);
  return `<h1><code>${escapeHtml(path)}</code></h1>\n<pre class="source"><code>${html.join('\n')}</code></pre>\n`;
}

/** Renders the list of the files of a folder. */
export function folderHtml(path: string, entries: readonly (readonly [name: string, link: string])[]): string {
  const items = entries.map(([name, link]) => `<li><a href="${link}">${escapeHtml(name)}</a></li>`);
  return `<h1><code>${escapeHtml(path)}/</code></h1>\n<ul>\n${items.join('\n')}\n</ul>\n`;
}
