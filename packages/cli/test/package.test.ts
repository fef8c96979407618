import { execFileSync, spawnSync } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import * as nodeModule from 'node:module';
import { tmpdir } from 'node:os';
import { basename, delimiter, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test, vi } from 'vitest';
import { packProgram } from '../../../scripts/pack.js';
import { brokenLinks, linksOf, pagesIn } from '../../../test/support/links.js';
import { temporaryFolder } from '../../../test/support/temporary-folder.js';

const root = fileURLToPath(new URL('../../..', import.meta.url));

interface Manifest {
  readonly bin: Readonly<Record<string, string>>;
}

let installed: string;

beforeAll(async () => {
  installed = mkdtempSync(join(tmpdir(), 'etcdwire-cli-'));
  const tarball = await packProgram('cli', installed);
  execFileSync('tar', ['-xzf', tarball, '-C', installed, '--strip-components=1']);
  rmSync(tarball);
});

afterAll(() => rmSync(installed, { recursive: true }));

/** Returns the path of the program that package.json names. */
function program(): string {
  const { bin } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')) as Manifest;
  return join(installed, bin.etcdwire as string);
}

describe('the package etcdwire-cli', () => {
  test('contains the program, its pages and the license, no dependency and no script', () => {
    const files = readdirSync(installed, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => relative(installed, join(entry.parentPath, entry.name)));
    expect(files.filter((file) => !/^dist\/.*\.cjs$/.test(file)).toSorted()).toEqual([
      'LICENSE',
      'README.md',
      'docs/guide.md',
      'docs/traffic.md',
      'package.json',
    ]);
    const manifest = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8'));
    for (const field of ['dependencies', 'optionalDependencies', 'scripts']) expect(manifest).not.toHaveProperty(field);
  });

  test('contains pages whose links lead only to files in the package', () => {
    const broken = pagesIn(installed).flatMap((page) => brokenLinks(installed, page).map((link) => `${page}: ${link}`));
    expect(broken).toEqual([]);
    expect(linksOf(installed, 'README.md')).toEqual([
      'docs/guide.md#in-place-of-etcdctl',
      'docs/guide.md#exit-codes',
      'docs/guide.md',
      'docs/traffic.md',
    ]);
  });

  test('has a README whose links lead to the repository when a workflow packs, because npm shows it alone', async () => {
    vi.stubEnv('GITHUB_SERVER_URL', 'https://example.com');
    vi.stubEnv('GITHUB_REPOSITORY', 'a/etcdwire');
    onTestFinished(() => void vi.unstubAllEnvs());
    const folder = temporaryFolder();
    execFileSync('tar', ['-xzf', await packProgram('cli', folder), '-C', folder]);
    const readme = readFileSync(join(folder, 'package/README.md'), 'utf8');
    expect(readme).toContain('(https://example.com/a/etcdwire/blob/v0.1.0/packages/cli/docs/traffic.md)');
    expect(linksOf(join(folder, 'package'), 'README.md')).toEqual([]);
    expect(linksOf(join(folder, 'package'), 'docs/guide.md')).toContain('traffic.md');
  });

  test('contains copies of the libraries that SECURITY.md names, and of no others', () => {
    const [, sentence = ''] =
      /In\s+the package `etcdwire-cli`, (.*?)\n\n/s.exec(readFileSync(join(root, 'SECURITY.md'), 'utf8')) ?? [];
    const named = [...sentence.matchAll(/`([^`]+)`/g)]
      .map(([, name]) => name as string)
      .filter((name) => !name.startsWith('dist/'));
    const files = readdirSync(join(installed, 'dist'), { recursive: true, encoding: 'utf8' }).filter((name) =>
      /\.c?js$/.test(name),
    );
    const texts = files.map((name) => readFileSync(join(installed, 'dist', name), 'utf8'));
    const copied = texts.flatMap((text) =>
      [...text.matchAll(/^\/\*! With ([^:]+):$/gm)].flatMap(([, names = '']) => names.split(', ')),
    );
    expect(named.toSorted()).toEqual([...new Set(copied)].sort());
    expect(named).toContain('commander');
  });

  test('has a command `get` that loads no code of rare commands, and no module of Node.js that it does not need', () => {
    const hook = join(temporaryFolder(), 'hook.cjs');
    const print = 'console.log(JSON.stringify([Object.keys(require.cache), process.moduleLoadList]))';
    writeFileSync(hook, `process.on('exit', () => ${print});`);
    const args = ['--require', hook, program(), 'get', 'k', '-w', 'simple', '--endpoints'];
    const printed = execFileSync(process.execPath, [...args, inject('endpoints').join(',')], { encoding: 'utf8' });
    const [files, modules] = JSON.parse(printed.trim().split('\n').at(-1) ?? '') as [string[], string[]];
    const names = files.map((file) => basename(file));
    expect(names.slice(0, 3)).toEqual(['hook.cjs', 'cli.cjs', 'start.cjs']);
    expect(names.slice(3).filter((name) => !name.startsWith('shared-'))).toEqual([]);
    expect(modules).toContain('NativeModule net');
    const unneeded = /^NativeModule (child_process|crypto|dns\/promises|http|tls)$/;
    expect(modules.filter((each) => unneeded.test(each))).toEqual([]);
  });

  test('keeps the compile cache of the command line in the cache folder of the user', (context) => {
    if (!('enableCompileCache' in nodeModule)) return context.skip('this Node.js has no compile cache');
    const cache = temporaryFolder();
    const env = { ...process.env, XDG_CACHE_HOME: cache };
    execFileSync(process.execPath, [program(), 'version'], { env });
    expect(readdirSync(join(cache, 'etcdwire/compile-cache'), { recursive: true }).length).toBeGreaterThan(1);
  });

  test('has a command line that becomes one executable with the commands of docs/guide.md', async () => {
    const project = temporaryFolder();
    mkdirSync(join(project, 'node_modules'));
    cpSync(installed, join(project, 'node_modules/etcdwire-cli'), { recursive: true });
    for (const name of ['esbuild', '@esbuild', 'postject'])
      cpSync(join(root, 'node_modules', name), join(project, 'node_modules', name), { recursive: true });
    symlinkSync(join(root, 'node_modules/.bin'), join(project, 'node_modules/.bin'));
    const page = readFileSync(join(root, 'packages/cli/docs/guide.md'), 'utf8');
    const [, commands = ''] = /^```sh\nnpm install etcdwire-cli esbuild postject\n(.*?)^```$/ms.exec(page) ?? [];
    const path = [dirname(process.execPath), process.env.PATH].join(delimiter);
    const env = { ...process.env, PATH: path, ETCDCTL_ENDPOINTS: inject('endpoints').join(',') };
    const options = { cwd: project, env, encoding: 'utf8', stdio: 'pipe', timeout: 170_000 } as const;
    expect(execFileSync('sh', ['-ec', commands], options)).toMatch(/^etcdwire version: /m);
    const alone = join(temporaryFolder(), 'etcdwire');
    renameSync(join(project, 'etcdwire'), alone);
    expect(execFileSync(alone, ['put', 'executable', 'v', '-w', 'simple'], options)).toBe('OK\n');
    // The installed command loads the code of `status` only when `status` runs.
    expect(execFileSync(alone, ['status', '-w', 'simple'], options)).toContain(inject('etcdVersion'));
    // `spawnSync` waits until `sleep` closes standard output, so it returns only if the guard process ends `sleep`.
    const command = ['sh', '-c', 'echo runs; kill -KILL $PPID; exec sleep 600'];
    const { stdout, signal, error } = spawnSync(alone, ['lock', 'executable', '--', ...command], options);
    expect({ stdout, signal, error }).toEqual({ stdout: 'runs\n', signal: 'SIGKILL' });
  });
});
