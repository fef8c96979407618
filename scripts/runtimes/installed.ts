import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { installInto } from '../pack.js';

/** By which Node.js finds that there is something in it. */
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';

/** Programs of these scripts import the sources; those that are made of them import the package. */
const fromPackage: Plugin = {
  name: 'from the package',
  setup({ onResolve }) {
    onResolve({ filter: /^\.\.\/\.\.\/src\// }, ({ path }) => {
      const entry = path.replace(/^.*\/src\//, '').replace(/(?:\/?index)?\.js$/, '');
      return { path: entry === '' ? 'etcdwire' : `etcdwire/${entry}`, external: true };
    });
  },
};

/** A folder in which the package is installed, as `npm pack` makes it, and nothing else. */
export class InstalledPackage implements Disposable {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  static create(): InstalledPackage {
    const folder = mkdtempSync(join(tmpdir(), 'etcdwire-installed-'));
    // As npm leaves it: Deno imports nothing that is not listed.
    writeFileSync(join(folder, 'package.json'), '{ "type": "module", "dependencies": { "etcdwire": "*" } }');
    installInto(folder);
    return new InstalledPackage(folder);
  }

  /** A program of this folder in JavaScript, which imports the package; its path. */
  async program(name: string): Promise<string> {
    const outfile = join(this.folder, `${name}.mjs`);
    const entryPoints = [fileURLToPath(new URL(`${name}.ts`, import.meta.url))];
    await build({ entryPoints, outfile, bundle: true, format: 'esm', target: 'es2022', plugins: [fromPackage] });
    return outfile;
  }

  /** The same in one file with the package, alone in an empty folder; its path. */
  async bundle(name: string, conditions: readonly string[], format: 'esm' | 'cjs' = 'esm'): Promise<string> {
    const folder = join(this.folder, `${name}-${conditions.join('-')}-${format}`);
    const outfile = join(folder, `bundle.${format === 'esm' ? 'mjs' : 'cjs'}`);
    await build({
      entryPoints: [await this.program(name)],
      outfile,
      bundle: true,
      minify: true,
      format,
      target: 'es2022',
      platform: 'neutral',
      conditions: [...conditions],
      external: ['node:*', 'cloudflare:*'],
      logLevel: 'warning',
    });
    if (readdirSync(folder).length !== 1) throw new Error(`${dirname(outfile)} holds more than the bundle`);
    return outfile;
  }

  /** The same as an executable of this Node.js, alone in an empty folder: https://nodejs.org/api/single-executable-applications.html. */
  async executable(name: string): Promise<string> {
    const bundle = await this.bundle(name, ['node'], 'cjs');
    const work = dirname(bundle);
    const config = { main: bundle, output: join(work, 'blob'), disableExperimentalSEAWarning: true };
    writeFileSync(join(work, 'sea.json'), JSON.stringify(config));
    execFileSync(process.execPath, ['--experimental-sea-config', 'sea.json'], { cwd: work, stdio: 'ignore' });
    const folder = join(this.folder, `${name}-executable`);
    mkdirSync(folder);
    const executable = join(folder, basename(process.execPath));
    copyFileSync(process.execPath, executable);
    const args = [executable, 'NODE_SEA_BLOB', config.output, '--sentinel-fuse', FUSE];
    execFileSync(fileURLToPath(new URL('../../node_modules/.bin/postject', import.meta.url)), args, {
      stdio: 'ignore',
    });
    return executable;
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
