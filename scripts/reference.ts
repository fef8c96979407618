import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

// Writes docs/reference from the doc comments of the package's exports:
//   npm run docs:reference
// Fails if an exported item refers to an item that is not exported, or if the target of a link does not exist.
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

/** The page for each export of src/index.ts, by the folder or file of src/ that the export comes from. */
const PAGES: Readonly<Record<string, Page>> = {
  client: { name: 'client', title: 'The client, its options, and what calls have in common.' },
  channel: { name: 'client', title: '' },
  host: { name: 'client', title: '' },
  interceptors: { name: 'client', title: '' },
  errors: {
    name: 'errors',
    title: 'The class of all errors. `docs/errors.md` lists every reason with its cause and remedy.',
  },
  'client/health': { name: 'services', title: '' },
  keys: { name: 'keys', title: '' },
  kv: { name: 'keys', title: 'Keys, ranges and transactions.' },
  lease: { name: 'leases', title: 'Leases and their renewal.' },
  watch: { name: 'watches', title: 'Watches and their events.' },
  mirror: { name: 'views', title: 'Views of a range: mirrors and cached ranges.' },
  services: {
    name: 'services',
    title: 'Users and roles, members, maintenance, and the locks and elections of the server.',
  },
  'lock-services': { name: 'services', title: '' },
  'client/raw': { name: 'raw', title: 'Every RPC with the messages of the wire.' },
  gen: { name: 'raw', title: '' },
  protobuf: { name: 'raw', title: '' },
  runtime: { name: 'client', title: '' },
  transport: { name: 'transports', title: 'The interface of a transport.' },
};

interface Export {
  readonly statement: string;
  readonly page: string;
}

function exportsOfMain(): Export[] {
  const source = readFileSync(join(root, 'src/index.ts'), 'utf8');
  const statements = [...source.matchAll(/^export (?:type )?(?:\{[^}]*\}|\*) from '\.\/([^']+)';$/gm)];
  return statements.map(([statement, path = '']) => {
    const file = path.replace(/\.js$/, '');
    const page = PAGES[file] ?? PAGES[file.split('/')[0] as string];
    if (page === undefined) throw new Error(`scripts/reference.ts: no page for exports of src/${path}`);
    return { statement: statement.replace("'./", "'../../../src/"), page: page.name };
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

mkdirSync(parts, { recursive: true });
try {
  const entryPoints = [...writeParts(), ...entryPointsBesideMain()];
  // TypeDoc resolves entry points relative to typedoc.json. `--entryPoints` replaces the entry points in that file.
  const flags = entryPoints.flatMap((path) => ['--entryPoints', path]);
  execFileSync('npm', ['exec', '--', 'typedoc', '--logLevel', 'Warn', ...flags], { cwd: folder, stdio: 'inherit' });
  linkPages();
  mendAnchors();
} finally {
  rmSync(parts, { recursive: true });
}

function entryPointsBesideMain(): string[] {
  const { entryPoints } = JSON.parse(readFileSync(join(folder, 'typedoc.json'), 'utf8')) as { entryPoints: string[] };
  return entryPoints.filter((path) => path !== '../../src/index.ts');
}

/**
 * Turns the names of pages, such as `docs/errors.md`, into links. Doc comments contain only the names, because TypeDoc
 * would copy the target of a link into the reference.
 */
function linkPages(): void {
  const output = join(root, 'docs/reference');
  for (const name of readdirSync(output).filter((file) => file.endsWith('.md'))) {
    const path = join(output, name);
    const text = readFileSync(path, 'utf8');
    writeFileSync(path, text.replace(/`docs\/([\w-]+\.md)`/g, '[docs/$1](../$1)'));
  }
}

/**
 * Mends the links to exports whose names equal, apart from case and separators, a class followed by one of its methods:
 * for `ServiceView` and `Service.view`, the plugin writes `#serviceview-1`, but the headings are "ServiceView" and
 * "view()".
 */
function mendAnchors(): void {
  const output = join(root, 'docs/reference');
  const pages = readdirSync(output, { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.md'));
  for (const path of pages.map((name) => join(output, name))) {
    const text = readFileSync(path, 'utf8');
    const headings = [...text.matchAll(/^#+ (\w+)$/gm)].map(([, heading = '']) => heading.toLowerCase());
    const isUnique = (name: string): boolean => headings.filter((heading) => heading === name).length === 1;
    writeFileSync(
      path,
      text.replace(/\(#(\w+)-\d\)/g, (link, name: string) => (isUnique(name) ? `(#${name})` : link)),
    );
  }
}
