import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { declarationsOf } from './entry-points.js';

// Makes the pages of the reference from the doc comments of the package's exports. The site contains them. This script
// only checks the comments:
//   npm run check:reference
// Fails if an exported item has no comment, or refers to an item that is not exported, or if the target of a link does
// not exist.
//
// Each entry point has one page, except the main entry point, because one page for it would be too long. The exports of
// the main entry point are divided into several pages by the folder of src/ that they come from. For each of these
// pages, the script writes a temporary module that TypeDoc reads as an entry point.

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = join(root, 'scripts/reference');
const parts = join(folder, 'parts');

interface Page {
  readonly name: string;
  readonly title: string;
}

/** The page for each export of src/index.ts, by the longest part of the path of the file that declares the export. */
const PAGES: Readonly<Record<string, Page>> = {
  client: { name: 'client', title: 'The client, its options, and what calls have in common.' },
  base: { name: 'client', title: '' },
  host: { name: 'client', title: '' },
  rpc: { name: 'client', title: '' },
  'extras/full': { name: 'client', title: '' },
  'extras/observe': { name: 'client', title: '' },
  'base/etcd-error': {
    name: 'errors',
    title: 'The class of all errors. `docs/errors.md` lists every reason with its cause and remedy.',
  },
  'base/status': { name: 'errors', title: '' },
  'extras/full/health': { name: 'services', title: '' },
  'extras/keys': { name: 'keys', title: '' },
  'client/kv': { name: 'keys', title: 'Keys, ranges and transactions.' },
  'client/lease': { name: 'leases', title: 'Leases and their renewal.' },
  'client/watch': { name: 'watches', title: 'Watches and their events.' },
  'extras/ranges': { name: 'views', title: 'Views of a range: mirrors and cached ranges.' },
  'client/services': {
    name: 'services',
    title: 'Users and roles, members, maintenance, and the locks and elections of the server.',
  },
  'client/raw': { name: 'raw', title: 'Every RPC with the messages of the wire.' },
  gen: { name: 'raw', title: '' },
  'wire/protobuf': { name: 'raw', title: '' },
  wire: { name: 'transports', title: 'The interface of a transport.' },
};

/** The beginning of the first page of the reference. A list of all pages follows. */
const INDEX = `# Reference

These pages contain what the package exports, with the comments of the sources. A page without \`etcdwire/\` in its name
is a part of the main entry point, \`etcdwire\`.
`;

interface Export {
  readonly statement: string;
  readonly page: string;
}

function exportsOfMain(): Export[] {
  const main = join(root, 'src/index.ts');
  const lists = [...readFileSync(main, 'utf8').matchAll(/^export (type )?\{([^}]*)\}/gm)];
  const types = new Set(
    lists.flatMap(([, type, list = '']) =>
      list
        .split(',')
        .flatMap((each) => (type || each.trim().startsWith('type ') ? [each.replace('type ', '').trim()] : [])),
    ),
  );
  return [...declarationsOf(main)].map(([name, declared]) => {
    const file = relative(join(root, 'src'), declared.file).replace(/\.ts$/, '');
    const [, page] = Object.entries(PAGES)
      .filter(([part]) => file === part || file.startsWith(`${part}/`))
      .reduce<readonly [string, Page | undefined]>((a, b) => (b[0].length > a[0].length ? b : a), ['', undefined]);
    if (page === undefined) throw new Error(`scripts/reference.ts: no page for exports of src/${file}.ts`);
    const kind = types.has(name) ? 'export type' : 'export';
    return { statement: `${kind} { ${name} } from '../../../src/${file}.js';`, page: page.name };
  });
}

/** Writes the temporary modules. Returns their paths relative to scripts/reference/. */
function writeParts(): string[] {
  const exports = exportsOfMain();
  const names = [...new Set(Object.values(PAGES).map(({ name }) => name))];
  return names.flatMap((name) => {
    const statements = exports.filter(({ page }) => page === name).map(({ statement }) => statement);
    if (statements.length === 0) return [];
    const { title } = Object.values(PAGES).find((page) => page.name === name) as Page;
    const comment = `/**\n * Part of \`etcdwire\`. ${title}\n *\n * @module ${name}\n */\n`;
    writeFileSync(join(parts, `${name}.ts`), `${comment}\n${statements.join('\n')}\n`);
    return [`parts/${name}.ts`];
  });
}

function entryPointsBesideMain(): string[] {
  const { entryPoints } = JSON.parse(readFileSync(join(folder, 'typedoc.json'), 'utf8')) as { entryPoints: string[] };
  return entryPoints.filter((path) => path !== '../../src/index.ts');
}

/**
 * Turns the names of pages, such as `docs/errors.md`, into links of the site. Doc comments contain only the names,
 * because TypeDoc would copy the target of a link into the reference.
 */
function linkPages(text: string): string {
  return text.replace(/`docs\/([\w-]+\.md)`/g, '[docs/$1](/$1)');
}

/** Gives a page a title that names its entry point, and removes the lines between exports, which the site draws itself. */
function improveTitle(text: string): string {
  return text
    .replace(/^# (?=(?!etcdwire)\w+\n)/, '# etcdwire: ')
    .replace(/^# etcdwire\n\n## Modules\n/, INDEX)
    .replaceAll('\n***\n', '');
}

/**
 * Mends the links to exports whose names equal, apart from case and separators, a class followed by one of its methods:
 * for `ServiceView` and `Service.view`, the plugin writes `#serviceview-1`, but the headings are "ServiceView" and
 * "view()".
 */
function mendAnchors(text: string): string {
  const headings = [...text.matchAll(/^#+ (\w+)$/gm)].map(([, heading = '']) => heading.toLowerCase());
  const isUnique = (name: string): boolean => headings.filter((heading) => heading === name).length === 1;
  return text.replace(/\(#(\w+)-\d\)/g, (link, name: string) => (isUnique(name) ? `(#${name})` : link));
}

/** Runs TypeDoc with further flags. */
function runTypeDoc(...flags: string[]): void {
  mkdirSync(parts, { recursive: true });
  try {
    // TypeDoc resolves entry points relative to typedoc.json. `--entryPoints` replaces the entry points in that file.
    const entryPoints = [...writeParts(), ...entryPointsBesideMain()].flatMap((path) => ['--entryPoints', path]);
    const args = ['exec', '--', 'typedoc', '--logLevel', 'Warn', ...entryPoints, ...flags];
    execFileSync('npm', args, { cwd: folder, stdio: 'inherit' });
  } finally {
    rmSync(parts, { recursive: true });
  }
}

/** Writes the pages of the reference to a folder. */
export function writeReference(output: string): void {
  runTypeDoc('--out', output);
  for (const name of readdirSync(output, { recursive: true, encoding: 'utf8' }).filter((file) =>
    file.endsWith('.md'),
  )) {
    const path = join(output, name);
    writeFileSync(path, mendAnchors(linkPages(improveTitle(readFileSync(path, 'utf8')))));
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) runTypeDoc('--emit', 'none');
