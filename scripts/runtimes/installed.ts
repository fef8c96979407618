import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { importInstalled, importPackage } from '../entry-points.js';
import { installInto } from '../pack.js';

/** The marker in the Node.js binary that says whether the binary contains a program. */
const FUSE = 'NODE_SEA_FUSE_fce680ab2cc467b6e072b8b5df1996b2';

const EXTENSIONS = { esm: 'mjs', cjs: 'cjs', iife: 'js' } as const;

/** A folder where only the package is installed, from the tarball that `npm pack` makes. */
export class InstalledPackage implements Disposable {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  static create(): InstalledPackage {
    const folder = mkdtempSync(join(tmpdir(), 'etcdwire-installed-'));
    // Deno imports only packages that package.json lists.
    writeFileSync(join(folder, 'package.json'), '{ "type": "module", "dependencies": { "etcdwire": "*" } }');
    installInto(folder);
    return new InstalledPackage(folder);
  }

  /**
   * Compiles a program in scripts/runtimes/ to JavaScript that imports the package. Resolves with the path of the
   * JavaScript file.
   */
  async program(name: string): Promise<string> {
    const outfile = join(this.folder, `${name}.mjs`);
    const entryPoints = [fileURLToPath(new URL(`${name}.ts`, import.meta.url))];
    await build({ entryPoints, outfile, bundle: true, format: 'esm', target: 'es2022', plugins: [importPackage] });
    return outfile;
  }

  /**
   * Bundles a program in scripts/runtimes/ and the package into one file in an empty folder. Resolves with the path of
   * that file.
   */
  bundle(name: string, conditions: readonly string[], format: keyof typeof EXTENSIONS = 'esm'): Promise<string> {
    const folder = join(this.folder, `${name}-${conditions.join('-')}-${format}`);
    return this.#bundle(fileURLToPath(new URL(`${name}.ts`, import.meta.url)), folder, conditions, format);
  }

  /** Does the same as `bundle` with the code of a JavaScript program. */
  bundleOf(code: string, conditions: readonly string[]): Promise<string> {
    const name = createHash('sha256').update(code).digest('hex').slice(0, 12);
    writeFileSync(join(this.folder, `${name}.mjs`), code);
    return this.#bundle(join(this.folder, `${name}.mjs`), join(this.folder, name), conditions, 'esm');
  }

  async #bundle(
    file: string,
    folder: string,
    conditions: readonly string[],
    format: keyof typeof EXTENSIONS,
  ): Promise<string> {
    const outfile = join(folder, `bundle.${EXTENSIONS[format]}`);
    rmSync(folder, { recursive: true, force: true });
    await build({
      entryPoints: [file],
      outfile,
      bundle: true,
      plugins: [importInstalled(this.folder)],
      minify: true,
      format,
      target: 'es2022',
      platform: 'neutral',
      conditions: [...conditions],
      external: ['node:*', 'cloudflare:*'],
      logLevel: 'warning',
    });
    if (readdirSync(folder).length !== 1) throw new Error(`${dirname(outfile)} contains more files than the bundle`);
    return outfile;
  }

  /**
   * Builds a single executable from a program, the package and this Node.js, in an empty folder. See
   * https://nodejs.org/api/single-executable-applications.html. Resolves with the path of the executable.
   */
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
