import { readdirSync } from 'node:fs';
import { basename, dirname, join } from 'node:path/posix';
import { ENTRY_POINTS } from '../../../../scripts/entry-points.js';

/** The folders of pages and pictures in the repository, each with its folder on the site. */
const FOLDERS: Readonly<Record<string, string>> = {
  docs: '',
  'docs/benchmarks': 'benchmarks',
  'docs/faults': 'faults',
  'packages/cli/docs': 'cli',
  'packages/learn/course': 'course',
  'packages/learn/course/diagrams': 'course/diagrams',
};

/** The files with other places. */
const FILES: Readonly<Record<string, string>> = {
  'README.md': 'index.md',
  'CHANGELOG.md': 'changelog.md',
  'SECURITY.md': 'security.md',
  'docs/README.md': 'contents.md',
  'src/README.md': 'rooms.md',
  'packages/cli/README.md': 'cli/index.md',
  'packages/migrate/README.md': 'migrate.md',
  'packages/learn/course/README.md': 'course/index.md',
  'packages/learn/playground.html': 'playground.html',
};

/**
 * Returns the path on the site for a path in the repository, or undefined if the site does not contain the file. An
 * entry point of the package has the place of its page in the reference.
 */
export function placeOf(path: string): string | undefined {
  if (path in FILES) return FILES[path];
  const folder = FOLDERS[dirname(path)];
  if (folder !== undefined && /\.(?:md|png|svg)$/.test(path)) return join(folder, basename(path));
  const entryPoint = ENTRY_POINTS.get(path.replace(/^src\/(.*)\.ts$/, '$1.js'));
  if (entryPoint === undefined) return undefined;
  return entryPoint === 'etcdwire' ? 'reference/index.md' : `reference/${entryPoint}.md`;
}

/** Returns the paths of the files in the repository that the site contains. */
export function filesOfSite(root: string): string[] {
  const inFolders = Object.keys(FOLDERS).flatMap((folder) =>
    readdirSync(join(root, folder)).map((name) => `${folder}/${name}`),
  );
  return [...new Set([...Object.keys(FILES), ...inFolders])].filter((path) => placeOf(path) !== undefined);
}
