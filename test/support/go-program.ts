import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileNameOf } from '../../src/testing/etcd/programs.js';
import { install, runPeer } from './peer-packages.js';

const INTEROP = join(import.meta.dirname, '../interop/go');

/**
 * Builds the Go program in a folder, or finds the built program in the cache. Resolves with the path of the built
 * program, or with the reason why it is missing.
 */
export async function goProgram(folder = INTEROP): Promise<{ readonly path: string } | { readonly missing: string }> {
  const files = readdirSync(folder).filter((file) => /\.(go|mod|sum)$/.test(file));
  const wanted = files.sort().map((file) => readFileSync(join(folder, file), 'utf8'));
  const file = fileNameOf('program');
  const installed = await install('go', 'go-program', wanted.join(), async (work) => {
    const programs = join(work, 'programs');
    mkdirSync(programs);
    await runPeer('go', ['build', '-o', join(programs, file), '.'], { cwd: folder });
    return programs;
  });
  return 'missing' in installed ? installed : { path: join(installed.folder, file) };
}
