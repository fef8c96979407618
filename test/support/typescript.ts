import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { inject } from 'vitest';
import { cacheFolder, fillFolder } from '../../src/testing/etcd/cache.js';
import { run, withProgress } from '../../src/testing/etcd/programs.js';

/** The last release of each minor version whose compiler accepts `await using`. */
const VERSIONS = ['5.2.2', '5.3.3', '5.4.5', '5.5.4', '5.6.3', '5.7.3', '5.8.3', '5.9.3', '6.0.3', '7.0.2'];
/** The version that is installed for this project. */
const INSTALLED = '7.0.2';

/**
 * The versions of TypeScript to test: the oldest and the newest, or every minor version in a run of `npm run test:all`.
 */
export function typescriptVersions(): readonly string[] {
  return inject('thorough') ? VERSIONS : VERSIONS.filter((version, index) => index === 0 || version === INSTALLED);
}

/**
 * Resolves with the path of a compiler. Downloads a compiler that is not in the cache.
 *
 * @throws Error if the npm registry cannot be reached.
 */
export async function typescriptCompiler(version: string): Promise<string> {
  const installed = fileURLToPath(new URL('../../node_modules/typescript', import.meta.url));
  if (version === INSTALLED) return join(installed, 'bin/tsc');
  const folder = cacheFolder('typescript', version);
  const compiler = join(folder, 'bin/tsc');
  if (existsSync(compiler)) return compiler;
  const fetched = fillFolder(
    folder,
    () => existsSync(compiler),
    async (work) => {
      await run('npm', ['pack', `typescript@${version}`, '--pack-destination', work]);
      const [tarball = ''] = readdirSync(work);
      await run('tar', ['-xzf', tarball], work);
      return join(work, 'package');
    },
  );
  await withProgress(`downloading TypeScript ${version}`, fetched);
  return compiler;
}
