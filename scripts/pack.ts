import { execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, normalize } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
/** Files that the build reads, in addition to the files that `files` in package.json lists. */
const BUILD_SOURCES = [
  'package.json',
  'tsconfig.json',
  'tsconfig.build.json',
  'scripts/build.ts',
  'scripts/build',
  'scripts/entry-points.ts',
  'scripts/rooms.ts',
];
/** Matches a link or an image in Markdown. The groups are the shown part with its brackets, and the target. */
const LINK = /(!?\[(?:[^[\]]|\[[^[\]]*\])*\])\(([^)\s]+)\)/g;

interface Manifest {
  readonly version: string;
  readonly files: readonly string[];
}

/**
 * Builds and packs the package into a folder, and returns the path of the tarball. Works in a copy of the sources,
 * because the build replaces dist/, which another process may be using. In a GitHub workflow, adds the addresses of the
 * repository, its README and its issues to package.json: npm shows them, and `npm publish --provenance` requires the
 * first.
 */
export function pack(into: string): string {
  const copy = mkdtempSync(join(tmpdir(), 'etcdwire-pack-'));
  try {
    const repository = repositoryOfWorkflow();
    const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest;
    const files = manifest.files.filter((name) => name !== 'dist' && !name.startsWith('!'));
    for (const name of [...BUILD_SOURCES, ...files]) cpSync(join(root, name), join(copy, name), { recursive: true });
    const left = manifest.files.filter((name) => name.startsWith('!')).map((name) => name.slice(1));
    for (const name of left) rmSync(join(copy, name), { recursive: true });
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    const packed = { ...manifest, ...(repository === undefined ? {} : addressesOf(repository)) };
    writeFileSync(join(copy, 'package.json'), `${JSON.stringify(packed, null, 2)}\n`);
    const target = repository === undefined ? undefined : `${repository}/blob/v${manifest.version}`;
    for (const page of pagesIn(copy, files)) redirectLinks(copy, page, files, target);
    // The script `prepack` builds dist/, so it must run even if npm's configuration disables scripts.
    const args = ['pack', '--ignore-scripts=false', '--pack-destination', into];
    const { status, stdout, stderr } = spawnSync('npm', args, { cwd: copy, encoding: 'utf8' });
    if (status !== 0) throw new Error(`npm pack failed:\n${stdout}${stderr}`);
  } finally {
    rmSync(copy, { recursive: true });
  }
  const tarball = readdirSync(into).find((name) => name.endsWith('.tgz'));
  if (tarball === undefined) throw new Error(`npm pack left no tarball in ${into}`);
  return join(into, tarball);
}

/**
 * Packs the package, unpacks it into the node_modules of a folder as npm would install it, and returns the path of the
 * tarball.
 */
export function installInto(folder: string): string {
  const installed = join(folder, 'node_modules/etcdwire');
  mkdirSync(installed, { recursive: true });
  const tarball = pack(folder);
  execFileSync('tar', ['-xzf', tarball, '-C', installed, '--strip-components=1']);
  return tarball;
}

/** Returns the fields of package.json that name the repository at this address. */
export function addressesOf(repository: string): object {
  return {
    repository: { type: 'git', url: `git+${repository}.git` },
    homepage: `${repository}#readme`,
    bugs: { url: `${repository}/issues` },
  };
}

function repositoryOfWorkflow(): string | undefined {
  const { GITHUB_SERVER_URL: server, GITHUB_REPOSITORY: repository } = process.env;
  return server === undefined || repository === undefined ? undefined : `${server}/${repository}`;
}

function pagesIn(copy: string, files: readonly string[]): string[] {
  const docs = readdirSync(join(copy, 'docs'), { recursive: true, encoding: 'utf8' }).map((name) => `docs/${name}`);
  return [...files, ...docs].filter((name) => name.endsWith('.md'));
}

/**
 * Redirects links to files that the package does not contain, such as tests, to the repository. If the repository is
 * not known, replaces these links with their text.
 */
function redirectLinks(copy: string, page: string, files: readonly string[], repository: string | undefined): void {
  const path = join(copy, page);
  const text = readFileSync(path, 'utf8').replace(LINK, (link, shown: string, target: string) => {
    if (/^(https?:|#)/.test(target)) return link;
    const [file = '', anchor] = target.split('#');
    const name = normalize(join(dirname(page), file));
    const isPacked = files.some((each) => name === each || name.startsWith(`${each}/`));
    if (isPacked && existsSync(join(copy, name))) return link;
    if (repository === undefined) return shown.replace(/^!?\[|\]$/g, '');
    return `${shown}(${repository}/${name}${anchor === undefined ? '' : `#${anchor}`})`;
  });
  writeFileSync(path, text);
}
