import { execFileSync, spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const SOURCES = [
  ...['package.json', 'tsconfig.json', 'tsconfig.build.json', 'scripts/build.ts', 'src'],
  ...['README.md', 'LICENSE', 'CHANGELOG.md'],
];

/** Builds and packs the package as `npm publish` would; the tarball's path. Done in a copy: dist/ may be in use. */
export function pack(into: string): string {
  const copy = mkdtempSync(join(tmpdir(), 'etcdwire-pack-'));
  try {
    for (const name of SOURCES) {
      if (existsSync(join(root, name))) cpSync(join(root, name), join(copy, name), { recursive: true });
    }
    symlinkSync(join(root, 'node_modules'), join(copy, 'node_modules'));
    // `prepack` is what builds, so it has to run even where scripts are switched off.
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

/** The package in a folder's node_modules, as npm would install it; gives the tarball's path. */
export function installInto(folder: string): string {
  const installed = join(folder, 'node_modules/etcdwire');
  mkdirSync(installed, { recursive: true });
  const tarball = pack(folder);
  execFileSync('tar', ['-xzf', tarball, '-C', installed, '--strip-components=1']);
  return tarball;
}
