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
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { buildCli, buildMigrate } from './build/packages.js';
import { redirectLinks, repositoryOfWorkflow } from './redirect-links.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
/** Files that the build of `etcdwire` reads, in addition to the files that `files` in package.json lists. */
const BUILD_SOURCES = [
  'package.json',
  'tsconfig.json',
  'tsconfig.build.json',
  'src',
  'scripts/build.ts',
  'scripts/build',
  'scripts/entry-points.ts',
  'scripts/rooms.ts',
];

/** The packages of programs: the functions that build them, and the pages that they contain beside their README.md. */
const PROGRAMS = {
  cli: { build: buildCli, pages: ['packages/cli/docs/guide.md', 'packages/cli/docs/traffic.md'] },
  migrate: { build: buildMigrate, pages: ['docs/from-etcd3.md'] },
} as const;

interface Manifest {
  readonly version: string;
  readonly files: readonly string[];
}

/**
 * Builds and packs the package `etcdwire` into a folder, and returns the path of the tarball. Works in a copy of the
 * sources, because the build replaces dist/, which another process may be using.
 */
export function pack(into: string): string {
  return packed(into, (copy) => {
    const manifest = manifestOf('package.json');
    const files = manifest.files.filter((name) => name !== 'dist' && !name.startsWith('!'));
    for (const name of [...BUILD_SOURCES, ...files]) cpSync(join(root, name), join(copy, name), { recursive: true });
    const left = manifest.files.filter((name) => name.startsWith('!')).map((name) => name.slice(1));
    for (const name of left) rmSync(join(copy, name), { recursive: true });
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    writeManifest(copy, manifest);
    const docs = readdirSync(join(copy, 'docs'), { recursive: true, encoding: 'utf8' }).map((name) => `docs/${name}`);
    const placeOf = (name: string): string | undefined =>
      existsSync(join(copy, name)) && files.some((each) => name === each || name.startsWith(`${each}/`))
        ? name
        : undefined;
    for (const page of [...files, ...docs].filter((name) => name.endsWith('.md')))
      copyPage(copy, { page, place: page }, placeOf, targetOf(manifest));
  });
}

/** Builds and packs a package of packages/ into a folder, and resolves with the path of the tarball. */
export async function packProgram(name: keyof typeof PROGRAMS, into: string): Promise<string> {
  const built = mkdtempSync(join(tmpdir(), 'etcdwire-program-'));
  try {
    const { build, pages } = PROGRAMS[name];
    await build(join(built, 'dist'));
    return packed(into, (copy) => {
      const folder = `packages/${name}`;
      const { scripts: _, ...manifest } = manifestOf(`${folder}/package.json`) as Manifest & { scripts: object };
      cpSync(built, copy, { recursive: true });
      cpSync(join(root, 'LICENSE'), join(copy, 'LICENSE'));
      // A page in the folder of the package keeps its place there. A page of docs/ has the same place in the package.
      const packed = [`${folder}/README.md`, ...pages];
      const places = new Map(packed.map((page) => [page, page.replace(`${folder}/`, '')]));
      writeManifest(copy, manifest);
      const repository = targetOf(manifest);
      for (const [page, place] of places) {
        // The website of npm shows only README.md, and resolves its relative links in the root of the repository.
        const isAlone = place === 'README.md' && repository !== undefined;
        copyPage(copy, { page, place }, (name) => (isAlone ? undefined : places.get(name)), repository);
      }
    });
  } finally {
    rmSync(built, { recursive: true });
  }
}

/**
 * Packs the package `etcdwire`, unpacks it into the node_modules of a folder as npm would install it, and returns the
 * path of the tarball.
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

/** Packs a temporary folder, which `fill` fills, and returns the path of the tarball in the folder `into`. */
function packed(into: string, fill: (copy: string) => void): string {
  const copy = mkdtempSync(join(tmpdir(), 'etcdwire-pack-'));
  try {
    fill(copy);
    // The script `prepack` of etcdwire builds dist/, so it must run even if npm's configuration disables scripts.
    const args = ['pack', '--json', '--ignore-scripts=false', '--pack-destination', into];
    const { status, stdout, stderr } = spawnSync('npm', args, { cwd: copy, encoding: 'utf8' });
    if (status !== 0) throw new Error(`npm pack failed:\n${stdout}${stderr}`);
    // The output of `prepack` comes before the JSON.
    const [{ filename }] = JSON.parse(stdout.slice(stdout.indexOf('[\n'))) as [{ readonly filename: string }];
    return join(into, filename);
  } finally {
    rmSync(copy, { recursive: true });
  }
}

function manifestOf(path: string): Manifest {
  return JSON.parse(readFileSync(join(root, path), 'utf8')) as Manifest;
}

/**
 * Writes package.json into a folder. In a GitHub workflow, adds the addresses of the repository, its README and its
 * issues: npm shows them, and `npm publish --provenance` requires the first.
 */
function writeManifest(copy: string, manifest: object): void {
  const repository = repositoryOfWorkflow();
  const all = { ...manifest, ...(repository === undefined ? {} : addressesOf(repository)) };
  writeFileSync(join(copy, 'package.json'), `${JSON.stringify(all, null, 2)}\n`);
}

/** Returns the address of the repository's files for links, if a GitHub workflow packs. */
function targetOf({ version }: Pick<Manifest, 'version'>): string | undefined {
  const repository = repositoryOfWorkflow();
  return repository === undefined ? undefined : `${repository}/blob/v${version}`;
}

/** Copies a page into a package, at `place`. The other parameters are those of `redirectLinks`. */
function copyPage(
  copy: string,
  { page, place }: { readonly page: string; readonly place: string },
  placeOf: (path: string) => string | undefined,
  repository: string | undefined,
): void {
  const text = readFileSync(join(root, page), 'utf8');
  const file = join(copy, place);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, redirectLinks({ text, page, place }, placeOf, repository));
}
