import { readFileSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { DECLARATION } from './declaration.js';
import type { Program, TypeScript } from './parser.js';

/** The path of the file that exists only in memory, and that declares the types of etcd3. */
const ETCD3 = resolve('node_modules/etcdwire-migrate/etcd3.d.ts').replaceAll('\\', '/');
/** The modules whose types this file declares. */
const MODULES = { etcd3: [ETCD3], 'etcd3/*': [ETCD3] };

/** Returns the program that consists of the files and of all that they import. `path` is the file or the folder. */
export function createProgram(typescript: TypeScript, path: string, files: readonly string[]): Program {
  const options = optionsOf(typescript, path);
  const host = typescript.createCompilerHost(options);
  const { fileExists } = host;
  host.fileExists = (file) => file === ETCD3 || fileExists(file);
  host.getSourceFile = (file, target) => {
    const text = file === ETCD3 ? DECLARATION : readText(file);
    return text === undefined ? undefined : typescript.createSourceFile(file, text, target, true);
  };
  return typescript.createProgram({ rootNames: files, options, host });
}

/** Returns the options in the `tsconfig.json` of the project, with those that the program needs to know all types. */
function optionsOf(typescript: TypeScript, path: string): Readonly<Record<string, unknown>> {
  const needed = { allowJs: true, checkJs: false, strict: true, noEmit: true };
  const folder = resolve(statSync(path).isDirectory() ? path : dirname(path));
  const file = typescript.findConfigFile(folder, isFile);
  if (file === undefined) {
    const { ModuleKind, ModuleResolutionKind, ScriptTarget } = typescript;
    const [module, moduleResolution, target] = [ModuleKind.ESNext, ModuleResolutionKind.Bundler, ScriptTarget.ESNext];
    return { ...needed, module, moduleResolution, target, lib: ['lib.esnext.d.ts'], paths: MODULES };
  }
  const { config } = typescript.readConfigFile(file, readText);
  // The program knows its files already.
  const host = { fileExists: isFile, readFile: readText, readDirectory: () => [], useCaseSensitiveFileNames: true };
  const { options } = typescript.parseJsonConfigFileContent(config ?? {}, host, dirname(file));
  return { ...options, ...needed, paths: { ...(options.paths as object | undefined), ...MODULES } };
}

function isFile(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false })?.isFile() === true;
}

/** Returns the text of a file with its byte order mark, or undefined if the file cannot be read. */
function readText(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
