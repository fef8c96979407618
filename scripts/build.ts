import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type BuildOptions, build, type Metafile, type OutputFile, type Plugin, transform } from 'esbuild';
import { throughDoors } from './build/through-doors.js';

// Writes dist/: the entry points, the chunks that they share, and the types that a program can reach from the entry points.
// The package contains neither the sources nor source maps. The code keeps its names and lines, so that people can read
// it.
//
// Each file exists as an ES module (`.js`) and as a CommonJS module (`.cjs`). All types are in declarations of CommonJS
// modules (`.d.cts`), and the declarations of the ES modules export these types again. So a client that a program got
// with `import` has the same type as a client that the program got with `require`.
//
// The modules are bundled, because Node.js takes two to three times as long to load about 130 separate modules. The
// modules of the entry point `etcdwire` are in two files (see planSharedFiles), and esbuild splits the others.

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const ENTRY_POINTS = [
  ...['index', 'core', 'locks', 'gateway', 'transport'],
  ...['recipes', 'testing/index', 'node', 'grpc-js', 'opentelemetry'],
];
/**
 * The modules that use APIs of a runtime, one for each kind of runtime. `#host` in package.json selects one of them by
 * the export conditions of the runtime or bundler.
 */
const HOSTS = ['node', 'workerd', 'none'].map((name) => `host/${name}`);

const SOURCE_CLASSES: ReadonlySet<string> = new Set(
  readdirSync(join(root, 'src'), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .flatMap((name) => [
      ...readFileSync(join(root, 'src', name), 'utf8').matchAll(/^(?:export )?(?:abstract )?class (\w+)/gm),
    ])
    .map(([, name]) => name as string),
);

const hostByCondition: Plugin = {
  name: 'host by condition',
  setup({ onResolve }) {
    onResolve({ filter: /\/host\/node\.js$/ }, () => ({ path: '#host', external: true }));
  },
};

const doors = throughDoors(root);

const common = {
  absWorkingDir: root,
  bundle: true,
  format: 'esm',
  target: 'es2022',
  logLevel: 'warning',
} as const satisfies BuildOptions;

const library = {
  ...common,
  outbase: 'src',
  outdir: 'dist',
  packages: 'external',
  external: ['cloudflare:sockets'],
  write: false,
} as const satisfies BuildOptions;

/** The modules of src/ that a file of dist/ contains for several entry points, by the name of the file. */
type SharedFiles = ReadonlyMap<string, ReadonlySet<string>>;

rmSync(join(root, 'dist'), { recursive: true, force: true });
execFileSync(join(root, 'node_modules/.bin/tsc'), ['-p', 'tsconfig.build.json'], { cwd: root, stdio: 'inherit' });
writeTypes();
const sharedFiles = await planSharedFiles();
const { outputFiles, metafile } = await build({
  ...library,
  entryPoints: [...ENTRY_POINTS, ...HOSTS].map(pathOf),
  splitting: true,
  plugins: [doors, hostByCondition, importShared(sharedFiles)],
  metafile: true,
});
const chunkNames = namesOfChunks(metafile);
for (const { path, text } of [...outputFiles, ...(await buildSharedFiles(sharedFiles))]) {
  const file = withChunkNames(path, chunkNames);
  const code = withSharedPaths(path.endsWith('.js') ? withClassNames(text, path) : text, file);
  mkdirSync(dirname(file), { recursive: true });
  const esm = withChunkNames(code, chunkNames);
  writeFileSync(file, esm);
  // Workers have no CommonJS modules.
  if (!file.endsWith('/workerd.js')) writeFileSync(toCommonJsName(file), await toCommonJs(esm));
}

async function toCommonJs(code: string): Promise<string> {
  const { code: converted } = await transform(code, { format: 'cjs', platform: 'node', target: common.target });
  return withCommonJsNames(converted);
}

function toCommonJsName(file: string): string {
  return file.replace(/\.js$/, '.cjs').replace(/\.d\.ts$/, '.d.cts');
}

/** Returns the code of a module or of a declaration with the names of CommonJS files in its relative imports. */
function withCommonJsNames(text: string): string {
  return text
    .replace(/((?:from |import\(|require\()(['"])\.[^'"]+)\.js(?=\2)/g, '$1.cjs')
    .replace(/(<reference path="[^"]+)\.d\.ts"/g, '$1.d.cts"');
}

/** Removes the declarations that no entry point refers to, and replaces the others by those of CommonJS modules. */
function writeTypes(): void {
  const used = new Set<string>();
  const visit = (file: string): void => {
    if (used.has(file)) return;
    used.add(file);
    for (const [, imported, path = imported] of readFileSync(file, 'utf8').matchAll(
      /(?:from |import\()['"](\.[^'"]+)\.js['"]|<reference path="([^"]+)\.d\.ts"/g,
    ))
      visit(join(dirname(file), `${path}.d.ts`));
  };
  for (const name of ENTRY_POINTS) visit(join(root, `dist/${name}.d.ts`));
  for (const name of readdirSync(join(root, 'dist'), { recursive: true, encoding: 'utf8' })) {
    const file = join(root, 'dist', name);
    if (!name.endsWith('.d.ts')) continue;
    if (used.has(file)) writeFileSync(toCommonJsName(file), withCommonJsNames(readFileSync(file, 'utf8')));
    rmSync(file);
  }
  for (const name of ENTRY_POINTS)
    writeFileSync(join(root, `dist/${name}.d.ts`), `export * from './${basename(name)}.cjs';\n`);
}

function pathOf(module: string): string {
  return `src/${module}.ts`;
}

/**
 * Shares the modules of the entry point `etcdwire` in two files, because Node.js needs about 0.6 ms for each file that
 * it loads. `shared-base` contains what the modules of `#host` import, and the codecs. `shared-client` contains the
 * other modules, and imports `#host`. If the two files were one file, this file would import itself through `#host`.
 */
async function planSharedFiles(): Promise<SharedFiles> {
  const modules = [...(await modulesOf(['src/index.ts']))];
  const hosts = HOSTS.map(pathOf);
  const base = await modulesOf([...hosts, ...modules.filter((module) => module.startsWith('src/gen/'))]);
  return new Map([
    ['shared-base', new Set([...base].filter((module) => !hosts.includes(module)))],
    ['shared-client', new Set(modules.filter((module) => !base.has(module) && module !== 'src/index.ts'))],
  ]);
}

/** Returns the modules that the entry points consist of, without those that esbuild removes. */
async function modulesOf(entryPoints: readonly string[]): Promise<Set<string>> {
  const { metafile } = await build({
    ...library,
    entryPoints: [...entryPoints],
    splitting: true,
    plugins: [doors, hostByCondition],
    metafile: true,
  });
  return new Set(Object.keys(metafile.inputs));
}

/** Builds the shared files. Node.js refuses to load dist/ if two modules of a shared file export the same name. */
async function buildSharedFiles(files: SharedFiles): Promise<readonly OutputFile[]> {
  const built: OutputFile[] = [];
  const before = new Map<string, ReadonlySet<string>>();
  for (const [name, modules] of files) {
    const contents = [...modules].map((module) => `export * from './${module}';`).join('\n');
    const { outputFiles } = await build({
      ...library,
      stdin: { contents, resolveDir: root },
      entryNames: name,
      plugins: [doors, hostByCondition, importShared(before)],
    });
    built.push(...outputFiles);
    before.set(name, modules);
  }
  return built;
}

/** Imports the modules of shared files from these files. */
function importShared(files: SharedFiles): Plugin {
  return {
    name: 'import shared files',
    setup({ onResolve }) {
      onResolve({ filter: /^\.{1,2}\// }, ({ path, importer }) => {
        const module = relative(root, join(dirname(importer), path.replace(/\.js$/, '.ts')));
        const name = [...files].find(([, modules]) => modules.has(module))?.[0];
        return name === undefined ? undefined : { path: `#${name}`, external: true, sideEffects: false };
      });
    },
  };
}

/** Returns the code of a file of dist/ with relative paths to the shared files. */
function withSharedPaths(text: string, file: string): string {
  const toRoot = relative(dirname(file), join(root, 'dist')) || '.';
  return text.replace(/"#(shared-\w+)"/g, (_, name: string) => `"${toRoot}/${name}.js"`);
}

/**
 * Returns a readable name for each chunk that esbuild names by a hash. The readable name contains the folder in src/ of
 * the chunk's largest file.
 */
function namesOfChunks({ outputs }: Metafile): ReadonlyMap<string, string> {
  const names = new Map<string, string>();
  for (const [path, { inputs }] of Object.entries(outputs)) {
    const chunk = /(chunk-[A-Z0-9]{8})\.js$/.exec(path)?.[1];
    if (chunk === undefined) continue;
    const files = Object.entries(inputs).map(([file, { bytesInOutput }]) => ({ file, bytes: bytesInOutput }));
    const largest = files.reduce((a, b) => (b.bytes > a.bytes ? b : a), { file: 'src/helpers/', bytes: 0 });
    const [, folder = '', base = ''] = /^src\/(?:([^/]+)\/)?(?:.*\/)?([^/]*?)(?:\.ts)?$/.exec(largest.file) ?? [];
    const isTaken = folder === '' || [...names.values()].includes(`shared-${folder}`);
    names.set(chunk, isTaken ? ['shared', folder, base].filter((part) => part !== '').join('-') : `shared-${folder}`);
  }
  if (new Set(names.values()).size < names.size)
    throw new Error(`two chunks have the same name: ${[...names.values()]}`);
  return names;
}

function withChunkNames(text: string, names: ReadonlyMap<string, string>): string {
  return text.replace(/chunk-[A-Z0-9]{8}/g, (chunk) => names.get(chunk) ?? chunk);
}

/**
 * Returns the code with the class names that the sources have. esbuild writes `var Session = class _Session` for a
 * class that refers to itself, and `var KeyValue2 = class` for the second declaration of a name. Stack traces and
 * `util.inspect` would show the names that esbuild chose. esbuild's option `keepNames` would prevent this, but it makes
 * users' bundles 7 % larger. Inside a class expression, the name of the class shadows a variable of that name, so the
 * body must not refer to such a variable.
 */
function withClassNames(text: string, path: string): string {
  return text.replace(
    /^var (\w+) = class(?: (\w+))?(?: extends .+)? \{$[\s\S]*?^\};$/gm,
    (declaration, variable: string, inner: string | undefined) => {
      if (inner === `_${variable}`) return declaration.replace(new RegExp(`(?<![\\w$.])${inner}\\b`, 'g'), variable);
      if (SOURCE_CLASSES.has(variable)) return declaration;
      const name = variable.replace(/\d+$/, '');
      const body = declaration.slice(declaration.indexOf('{')).replace(/\/\*[\s\S]*?\*\/|\/\/.*|"[^"\n]*"/g, '');
      if (inner !== undefined || !SOURCE_CLASSES.has(name) || new RegExp(`(?<![\\w$.])${name}\\b`).test(body))
        throw new Error(`${path}: esbuild renamed the class ${name} to ${variable}; rename it in the sources`);
      return declaration.replace('class', `class ${name}`);
    },
  );
}
