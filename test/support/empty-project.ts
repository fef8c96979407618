import { cpSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { run } from '../../src/testing/etcd/programs.js';
import { temporaryFolder } from './temporary-folder.js';

const INSTALLED = fileURLToPath(new URL('../../node_modules', import.meta.url));

/**
 * Creates a folder with a package.json whose field `type` is the parameter `type`. Only etcdwire and the packages of
 * `others` are installed in the folder. The folder is removed when the test ends.
 *
 * @param files The text of each file of the project.
 */
export async function emptyProject(
  tarball: string,
  type: 'commonjs' | 'module',
  files: Readonly<Record<string, string>>,
  others: readonly string[] = [],
): Promise<string> {
  const project = temporaryFolder();
  const dependencies = { etcdwire: '*' };
  for (const [name, text] of Object.entries({ ...files, 'package.json': JSON.stringify({ type, dependencies }) }))
    writeFileSync(join(project, name), text);
  const installed = join(project, 'node_modules/etcdwire');
  mkdirSync(installed, { recursive: true });
  await run('tar', ['-xzf', tarball, '-C', installed, '--strip-components=1']);
  for (const name of others) {
    const copy = join(project, 'node_modules', name);
    mkdirSync(dirname(copy), { recursive: true });
    cpSync(join(INSTALLED, name), copy, { recursive: true });
  }
  return project;
}
