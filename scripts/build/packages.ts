import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BuildOptions, build, type Metafile, type Plugin } from 'esbuild';
import { throughDoors } from './through-doors.js';

const root = join(dirname(fileURLToPath(import.meta.url)), '../..');

/**
 * Makes the command-line program load these modules of Node.js when it first uses one of their exports, because most
 * commands do not need them. Each module takes 1 to 5 ms.
 */
const lazyNodeModules: Plugin = {
  name: 'lazy modules of Node.js',
  setup({ onResolve, onLoad }) {
    const filter = /^node:(child_process|crypto|dns\/promises|fs\/promises|http|tls)$/;
    onResolve({ filter }, ({ path, namespace }) =>
      namespace === 'lazy' ? { path, external: true } : { path, namespace: 'lazy' },
    );
    onLoad({ filter, namespace: 'lazy' }, async ({ path }) => {
      const names = Object.keys(await import(path)).filter((name) => !['default', 'module.exports'].includes(name));
      const getters = names.map((name) => `get '${name}'() { return require('${path}')['${name}']; }`);
      return { contents: `module.exports = { ${getters.join(', ')} };` };
    });
  },
};

/**
 * Leaves the certificate authority of `etcdwire proxy` out of the program's other files, because it contains a large
 * library that few users need.
 */
const authorityApart: Plugin = {
  name: 'authority apart',
  setup({ onResolve }) {
    onResolve({ filter: /\/authority\.js$/ }, () => ({ path: './authority.cjs', external: true }));
  },
};

/** The options of esbuild for the programs of all packages. */
const COMMON = {
  absWorkingDir: root,
  bundle: true,
  logLevel: 'warning',
  platform: 'node',
  target: 'node20',
  // Node.js needs less time to load a smaller file. Names stay as they are, so that stacks show them.
  minifyWhitespace: true,
  minifySyntax: true,
} as const satisfies BuildOptions;

/** Writes the program of `etcdwire-migrate` into `folder`: migrate.cjs. */
export async function buildMigrate(folder: string): Promise<void> {
  const { metafile } = await build({
    ...COMMON,
    entryPoints: { migrate: 'packages/migrate/src/main.ts' },
    format: 'cjs',
    outdir: folder,
    outExtension: { '.js': '.cjs' },
    plugins: [throughDoors(root)],
    external: ['typescript'],
    metafile: true,
  });
  const file = resolve(root, folder, 'migrate.cjs');
  const [first = '', ...rest] = readFileSync(file, 'utf8').split('\n');
  writeFileSync(file, [first, licensesOf(packagesIn(metafile)), ...rest].join('\n'), { mode: 0o755 });
}

/**
 * Writes the command-line program into `folder`: cli.cjs, and in cli/ the files that it loads. These files are CommonJS,
 * because Node.js loads CommonJS faster than ES modules, and its own modules faster with `require` than with `import`.
 * esbuild splits only ES modules, so this function first splits the program, and then converts each file.
 */
export async function buildCli(folder: string): Promise<void> {
  const options = {
    ...COMMON,
    format: 'esm',
    outdir: folder,
    outExtension: { '.js': '.cjs' },
  } as const satisfies BuildOptions;
  const { metafile } = await build({
    ...options,
    entryPoints: { cli: 'packages/cli/src/main.ts' },
    chunkNames: 'cli/[name]-[hash]',
    splitting: true,
    plugins: [throughDoors(root), lazyNodeModules, authorityApart],
    metafile: true,
  });
  const { outputFiles, metafile: inputs } = await build({
    ...options,
    entryPoints: { 'cli/authority': 'packages/cli/src/proxy/authority.ts' },
    format: 'cjs',
    minify: true,
    metafile: true,
    write: false,
  });
  for (const { path, text } of outputFiles) writeFileSync(path, `${licensesOf(packagesIn(inputs))}\n${text}`);
  await build({
    ...options,
    // The certificate authority is CommonJS already.
    entryPoints: Object.keys(metafile.outputs).filter((path) => path.endsWith('.cjs')),
    outbase: folder,
    allowOverwrite: true,
    bundle: false,
    format: 'cjs',
    supported: { 'dynamic-import': false },
    define: { 'import.meta.url': '__filename' },
    banner: { js: licensesOf(packagesIn(metafile)) },
  });
  renameProgramFiles(resolve(root, folder));
}

/**
 * Gives the files of the program names that do not change with their content: `start.cjs` instead of
 * `start-QGHFKBRF.cjs`, and `shared-1.cjs` and so on for the chunks that several files share.
 */
function renameProgramFiles(outdir: string): void {
  const folder = join(outdir, 'cli');
  const names = new Map<string, string>();
  for (const file of readdirSync(folder).sort()) {
    const [, name = '', hash] = /^(.*)-([A-Z0-9]{8})\.cjs$/.exec(file) ?? [];
    if (hash === undefined) continue;
    const shared = [...names.values()].filter((each) => each.startsWith('shared-')).length;
    names.set(`${name}-${hash}.cjs`, name === 'chunk' ? `shared-${shared + 1}.cjs` : `${name}.cjs`);
  }
  const files = [join(outdir, 'cli.cjs'), ...readdirSync(folder).map((file) => join(folder, file))];
  for (const file of files) {
    let text = readFileSync(file, 'utf8');
    let path = file;
    for (const [old, name] of names) {
      text = text.replaceAll(old, name);
      path = path.replace(old, name);
    }
    rmSync(file);
    writeFileSync(path, text, { mode: dirname(file) === outdir ? 0o755 : 0o644 });
  }
}

function packagesIn({ inputs }: Metafile): readonly string[] {
  const names = Object.keys(inputs).map((path) => /.*node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(path)?.[1]);
  return [...new Set(names.filter((name) => name !== undefined))].sort();
}

/** Returns the licenses of packages as comments. A license that several packages have appears once. */
function licensesOf(packages: readonly string[]): string {
  const names = new Map<string, string[]>();
  for (const name of packages) {
    const folder = join(root, 'node_modules', name);
    const file = readdirSync(folder).find((each) => /^(licen[cs]e|copyrightnotice)/i.test(each));
    const { license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as { readonly license: string };
    const text = file === undefined ? `License: ${license}` : readFileSync(join(folder, file), 'utf8').trim();
    names.set(text, [...(names.get(text) ?? []), name]);
  }
  return [...names].map(([text, all]) => `/*! With ${all.join(', ')}:\n${text.replaceAll('*/', '* /')}\n*/`).join('\n');
}
