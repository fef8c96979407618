import { spawnSync } from 'node:child_process';
import { cpSync, readFileSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, inject, test } from 'vitest';
import { addressesOf } from '../../scripts/pack.js';
import { fetchRuntime, RUNTIMES, type Runtime } from '../../scripts/runtimes/runtimes.js';
import { temporaryFolder } from '../support/temporary-folder.js';

const root = fileURLToPath(new URL('../../', import.meta.url));

interface PackageJson {
  readonly version: string;
  readonly license: string;
  readonly exports: Readonly<Record<string, { readonly default: string }>>;
  readonly peerDependencies: Readonly<Record<string, string>>;
}

function read<T>(file: string): T {
  return JSON.parse(readFileSync(join(root, file), 'utf8')) as T;
}

test('the published package.json names the repository, its README and its issues, and the one here names none', () => {
  expect(addressesOf('https://github.com/o/r')).toEqual({
    repository: { type: 'git', url: 'git+https://github.com/o/r.git' },
    homepage: 'https://github.com/o/r#readme',
    bugs: { url: 'https://github.com/o/r/issues' },
  });
  for (const field of ['repository', 'homepage', 'bugs']) expect(read('package.json')).not.toHaveProperty(field);
});

test('jsr.json has the version, the license, the entry points and the optional dependencies of package.json', () => {
  const { version, license, exports, peerDependencies } = read<PackageJson>('package.json');
  const { './package.json': _, ...entryPoints } = exports;
  const sources = Object.entries(entryPoints).map(([name, { default: built }]) => [
    name,
    built.replace('./dist/', './src/').replace(/\.js$/, '.ts'),
  ]);
  const optional = Object.entries(peerDependencies).map(([name, range]) => [name, `npm:${name}@${range}`]);
  expect(read<object>('jsr.json')).toMatchObject({
    version,
    license,
    exports: Object.fromEntries(sources),
    imports: Object.fromEntries(optional),
  });
});

test('the packages and their programs have the version of package.json', () => {
  const { version } = read<PackageJson>('package.json');
  const programs = ['cli', 'migrate'].map((name) => {
    const program = readFileSync(join(root, `packages/${name}/src/program.ts`), 'utf8');
    return /^const VERSION = '(.*)';$/m.exec(program)?.[1];
  });
  const packages = ['cli', 'learn', 'migrate'].map(
    (name) => read<PackageJson>(`packages/${name}/package.json`).version,
  );
  expect(new Set([...programs, ...packages])).toEqual(new Set([version]));
});

// These are the arguments with which `npx jsr publish --dry-run` calls Deno.
const PUBLISH = [
  ...['publish', '--unstable-bare-node-builtins', '--unstable-sloppy-imports', '--unstable-byonm', '--no-check'],
  ...['--dry-run', '--allow-dirty'],
];

test('JSR accepts the package in a dry run, with types that need no inference', async (context) => {
  if (!inject('thorough')) return context.skip('only the mode `all` downloads runtimes');
  const deno = await fetchRuntime(RUNTIMES.find(({ name }) => name === 'Deno') as Runtime);
  const folder = temporaryFolder();
  const files = ['src', 'jsr.json', 'package.json', 'README.md', 'LICENSE', 'CHANGELOG.md', 'SECURITY.md'];
  for (const name of files) cpSync(join(root, name), join(folder, name), { recursive: true });
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'));
  const { stdout, stderr, status } = spawnSync(deno, PUBLISH, { cwd: folder, encoding: 'utf8' });
  expect(status, `${stdout}${stderr}`).toBe(0);
  expect(stderr).toContain('src/index.ts');
});
