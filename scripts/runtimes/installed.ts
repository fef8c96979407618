import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { pack } from '../pack.js';

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
    const installed = join(folder, 'node_modules/etcdwire');
    mkdirSync(installed, { recursive: true });
    // As npm leaves it: Deno imports nothing that is not listed.
    writeFileSync(join(folder, 'package.json'), '{ "type": "module", "dependencies": { "etcdwire": "*" } }');
    execFileSync('tar', ['-xzf', pack(folder), '-C', installed, '--strip-components=1']);
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
  async bundle(name: string, conditions: readonly string[]): Promise<string> {
    const folder = join(this.folder, `${name}-${conditions.join('-')}`);
    const outfile = join(folder, 'bundle.mjs');
    await build({
      entryPoints: [await this.program(name)],
      outfile,
      bundle: true,
      minify: true,
      format: 'esm',
      target: 'es2022',
      platform: 'neutral',
      conditions: [...conditions],
      external: ['node:*', 'cloudflare:*'],
      logLevel: 'warning',
    });
    if (readdirSync(folder).length !== 1) throw new Error(`${dirname(outfile)} holds more than the bundle`);
    return outfile;
  }

  [Symbol.dispose](): void {
    rmSync(this.folder, { recursive: true, force: true });
  }
}
