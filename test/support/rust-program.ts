import { copyFileSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileNameOf } from '../../src/testing/etcd/programs.js';
import { cratesOf, install, protocIn, runCargo } from './peer-packages.js';

/**
 * Builds the Rust program in a folder, or finds the built program in the cache. Resolves with the path of the built
 * program, or with the reason why it is missing.
 */
export async function rustProgram(folder: string): Promise<{ readonly path: string } | { readonly missing: string }> {
  const [manifest, ...others] = ['Cargo.toml', 'Cargo.lock', 'src/main.rs'].map((file) =>
    readFileSync(join(folder, file), 'utf8'),
  ) as [string, ...string[]];
  const name = /^name = "(.*)"$/m.exec(manifest)?.[1] as string;
  const installed = await install('cargo', name, [manifest, ...others].join(), async (work) => {
    const target = join(work, 'target');
    const programs = join(work, 'programs');
    const protoc = protocIn(await cratesOf(folder), work);
    await runCargo(['build', '--release', '--locked', '--quiet'], folder, { ...protoc, CARGO_TARGET_DIR: target });
    mkdirSync(programs);
    copyFileSync(join(target, 'release', fileNameOf(name)), join(programs, fileNameOf(name)));
    return programs;
  });
  return 'missing' in installed ? installed : { path: join(installed.folder, fileNameOf(name)) };
}
