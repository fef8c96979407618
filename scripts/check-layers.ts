import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');

/**
 * The layers of src/, lowest first. Each layer is a list of folders and files directly under src/. The lists come from
 * the table in docs/architecture.md, highest layer first, so that people and this check read the same list. Type
 * imports count too, because a reader of a file has to know the imported types.
 */
const LAYERS: readonly (readonly string[])[] = [
  ...readFileSync(join(root, 'docs/architecture.md'), 'utf8').matchAll(/^\| [\w ]+ \| ((?:`[\w.-]+\/?` ?)+)\|/gm),
]
  .map(([, entries = '']) => [...entries.matchAll(/`([\w-]+)(?:\.ts|\/)`/g)].map(([, name = '']) => name))
  .reverse();
if (LAYERS.length === 0) throw new Error('docs/architecture.md has no table of layers');

/** The files and folders of src/ that may use APIs of Node.js. Browsers and other runtimes load all other files. */
const NODE_ONLY = ['transport/grpc-js/', 'host/node.ts', 'host/part-file.ts', 'node/', 'testing/', 'cli/'];

/**
 * The globals that code may use only as properties of `environment`, so that a simulation can replace the clocks, the
 * timers and the random numbers.
 */
const UNPREDICTABLE =
  /(?<!\benvironment\.(?:crypto\.)?)\b(?:setTimeout|setInterval|setImmediate|Date\.now|performance\.now|Math\.random|getRandomValues|randomUUID|AbortSignal\.timeout)\b/g;

const src = join(root, 'src');
const files = readdirSync(src, { recursive: true, encoding: 'utf8' })
  .map((path) => path.replaceAll('\\', '/'))
  .filter((path) => path.endsWith('.ts'))
  .sort();
const imports = new Map<string, readonly string[]>();
const violations: string[] = [];

for (const file of files) {
  const code = readFileSync(join(src, file), 'utf8').replace(/^\s*(?:\/\/|\/?\*).*$/gm, '');
  const specifiers = [...code.matchAll(/(?:\bfrom\s*|\bimport\s*\(?\s*)'([^']+)'/g)].map((match) => match[1] ?? '');
  const local = specifiers.filter((specifier) => specifier.startsWith('.'));
  imports.set(
    file,
    local.map((specifier) => posix.join(posix.dirname(file), specifier.replace(/\.js$/, '.ts'))),
  );
  if (!NODE_ONLY.some((place) => file.startsWith(place))) {
    for (const specifier of specifiers.filter((name) => name.startsWith('node:'))) {
      violations.push(
        `src/${file} imports ${specifier}, which belongs in ${NODE_ONLY.map((place) => `src/${place}`).join(' or ')}`,
      );
    }
    if (/\bBuffer\b/.test(code))
      violations.push(
        `src/${file} uses Buffer, which belongs in ${NODE_ONLY.map((place) => `src/${place}`).join(' or ')}`,
      );
  }
}

for (const file of files.filter((path) => path !== 'runtime/environment.ts')) {
  const code = withoutComments(readFileSync(join(src, file), 'utf8'));
  for (const [name] of code.matchAll(UNPREDICTABLE))
    violations.push(`src/${file} uses ${name}; use src/runtime/timers.ts or environment.${name} instead`);
}

for (const [file, targets] of imports) {
  const layer = layerOf(file);
  if (layer === -1) violations.push(`src/${file} has no layer; add it to the table in docs/architecture.md`);
  for (const target of layer === -1 ? [] : targets) {
    if (layerOf(target) > layer) {
      violations.push(`src/${file} (layer ${layer}) imports src/${target} from a higher layer (${layerOf(target)})`);
    }
  }
}

const folderOf = (file: string): string => file.slice(0, Math.max(0, file.indexOf('/')));
/** The folder of each file, and the folder of each file that it imports. Two folders must not import each other. */
const pairs = new Set<string>();
for (const [file, targets] of imports) for (const target of targets) pairs.add(`${folderOf(file)} ${folderOf(target)}`);
for (const pair of pairs) {
  const [from = '', to = ''] = pair.split(' ');
  if (from !== '' && from < to && pairs.has(`${to} ${from}`))
    violations.push(`src/${from}/ and src/${to}/ import each other`);
}

const visited = new Set<string>();
for (const file of files) findCircles(file, []);

for (const violation of violations) console.log(violation);
if (violations.length > 0) process.exitCode = 1;

/** Removes comments and the contents of string literals in single quotes. */
function withoutComments(code: string): string {
  return code.replace(/^\s*(?:\/\/|\/?\*).*$/gm, '').replace(/'(?:[^'\\\n]|\\.)*'|(?<=\s)\/\/.*$/gm, '');
}

function layerOf(file: string): number {
  const [entry = ''] = file.replace(/\.ts$/, '').split('/');
  return LAYERS.findIndex((entries) => entries.includes(entry));
}

function findCircles(file: string, path: readonly string[]): void {
  if (path.includes(file)) {
    const circle = [...path.slice(path.indexOf(file)), file];
    violations.push(`circular imports: ${circle.map((step) => `src/${step}`).join(' imports ')}`);
    return;
  }
  if (visited.has(file)) return;
  visited.add(file);
  for (const target of imports.get(file) ?? []) findCircles(target, [...path, file]);
}
