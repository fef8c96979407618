import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { CODE_FOLDERS, doorsOf, PLACES, type Place } from './rooms.js';

// Checks the rooms of src/ and the packages of packages/ (scripts/rooms.ts): a room imports only from rooms below it, and
// only through their doors. A package imports from src/ only entry points and src/internal.ts. Type imports count too,
// because a reader of a file has to know the imported types. The files directly in src/ are the entry points of the
// package etcdwire, except internal.ts.
//
//   npm run check:rooms [-- FOLDER]   checks src/ and packages/ of FOLDER, or of this repository
//   npm run check:rooms -- --lines    prints the lines of code of each room instead

const [argument] = process.argv.slice(2);
const own = join(dirname(fileURLToPath(import.meta.url)), '..');
const root = argument === undefined || argument === '--lines' ? own : resolve(argument);

/**
 * The globals that code may use only as properties of `environment`, so that a simulation can replace the clocks, the
 * timers and the random numbers.
 */
const UNPREDICTABLE =
  /(?<!\benvironment\.(?:crypto\.)?)\b(?:setTimeout|setInterval|setImmediate|Date\.now|performance\.now|Math\.random|getRandomValues|randomUUID|AbortSignal\.timeout)\b/g;
/** The file of src/ that packages may import besides the entry points. */
const INTERNAL = 'src/internal.ts';
/** The entry point that is the door of a room. */
const TEST_KIT = 'src/testing/index.ts';

const sources = new Map(
  CODE_FOLDERS.filter((folder) => existsSync(join(root, folder)))
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
        .map((path) => `${folder}/${path.replaceAll('\\', '/')}`)
        .filter((path) => path.endsWith('.ts'))
        .sort(),
    )
    .map((file) => [file, readFileSync(join(root, file), 'utf8')] as const),
);
const imports = new Map<string, readonly string[]>();
const violations: string[] = [];

for (const [file, source] of sources) {
  const code = source.replace(/^\s*(?:\/\/|\/?\*).*$/gm, '');
  const specifiers = [...code.matchAll(/(?:\bfrom\s*|\bimport\s*\(?\s*)'([^']+)'/g)].map((match) => match[1] ?? '');
  imports.set(
    file,
    specifiers
      .filter((specifier) => specifier.startsWith('.'))
      .map((specifier) => posix.join(posix.dirname(file), specifier.replace(/\.js$/, '.ts'))),
  );
  if (placeOf(file)?.isPackage) continue;
  if (!mayUseNode(file)) {
    for (const name of [...specifiers.filter((name) => name.startsWith('node:')), ...(code.match(/\bBuffer\b/) ?? [])])
      violations.push(`${file} uses ${name}, which scripts/rooms.ts does not allow in this place`);
  }
  if (file !== 'src/base/environment.ts') {
    for (const [name] of withoutStrings(code).matchAll(UNPREDICTABLE))
      violations.push(`${file} uses ${name}; use src/base/timers.ts or environment.${name} instead`);
  }
}

for (const [file, targets] of imports) {
  const place = placeOf(file);
  if (place === undefined && !isInEntryFolder(file)) violations.push(`${file} is in no room of scripts/rooms.ts`);
  for (const target of targets) {
    const problem = problemOf(place, target);
    if (problem !== undefined) violations.push(`${file} imports ${target}, which is ${problem}`);
  }
}

/** The rooms up to the locks. Two of their files must not have the same words in their names. */
const core = PLACES.slice(0, PLACES.findIndex(({ folder }) => folder === 'locks') + 1);
const named = new Map<string, string>();
for (const file of sources.keys()) {
  const name = posix.basename(file, '.ts');
  if (name === 'index' || !core.some(({ folder, path }) => folder !== 'gen' && file.startsWith(path))) continue;
  const words = name.split('-').sort().join('-');
  const other = named.get(words);
  if (other !== undefined) violations.push(`${file} and ${other} have names of the same words`);
  named.set(words, file);
}

const visited = new Set<string>();
for (const file of sources.keys()) if (!placeOf(file)?.isPrivate) findCircles(file, []);

if (argument === '--lines') printLines();
else {
  for (const violation of violations) console.log(violation);
  if (violations.length > 0) process.exitCode = 1;
}

/** Returns why a file in this place must not import the target. */
function problemOf(place: Place | undefined, target: string): string | undefined {
  const other = placeOf(target);
  if (other === undefined) {
    if (isInEntryFolder(target)) {
      if (place?.isPackage || (place === undefined && target !== INTERNAL)) return undefined;
      return 'above all rooms';
    }
    return place?.isPrivate ? undefined : 'in no room';
  }
  if (other === place || (place?.isPackage && target === TEST_KIT)) return undefined;
  if (place !== undefined && PLACES.indexOf(other) > PLACES.indexOf(place)) return 'in a higher room';
  if (place?.isPackage && !other.isPackage) return `not an entry point and not ${INTERNAL}`;
  return isDoor(target, other) ? undefined : 'not a door of its room';
}

/** Whether a file is directly in src/: an entry point of etcdwire, or `INTERNAL`. */
function isInEntryFolder(file: string): boolean {
  return posix.dirname(file) === 'src';
}

/** Prints the lines of code of each room, without blank lines and comments, beside its target. */
function printLines(): void {
  console.log('| room | lines of code | target |\n|---|---:|---:|');
  const sum = { lines: 0, target: 0 };
  for (const { path, target } of PLACES) {
    const lines = [...sources]
      .filter(([file]) => file.startsWith(path))
      .flatMap(([, source]) => source.split('\n'))
      .filter((line) => !/^\s*(?:\/\/|\/?\*|$)/.test(line)).length;
    sum.lines += lines;
    sum.target += target;
    console.log(`| ${path.replace(/\/$/, '')} | ${lines.toLocaleString('en')} | ${target.toLocaleString('en')} |`);
  }
  console.log(`| all | ${sum.lines.toLocaleString('en')} | ${sum.target.toLocaleString('en')} |`);
}

/** Removes the contents of string literals in single quotes, and comments at the ends of lines. */
function withoutStrings(code: string): string {
  return code.replace(/'(?:[^'\\\n]|\\.)*'|(?<=\s)\/\/.*$/gm, '');
}

/** Returns the room or the package of a file. Undefined for an entry point. */
function placeOf(file: string): Place | undefined {
  return PLACES.find(({ path }) => file.startsWith(path));
}

function isDoor(file: string, place: Place): boolean {
  return doorsOf(place).some((door) => (door.endsWith('/') ? file.startsWith(door) : file === door));
}

function mayUseNode(file: string): boolean {
  const { path = '', nodeOnly = [] } = placeOf(file) ?? {};
  return nodeOnly.some((place) => file.startsWith(`${path}${place}`));
}

function findCircles(file: string, path: readonly string[]): void {
  if (path.includes(file)) {
    const circle = [...path.slice(path.indexOf(file)), file];
    violations.push(`circular imports: ${circle.join(' imports ')}`);
    return;
  }
  if (visited.has(file)) return;
  visited.add(file);
  for (const target of imports.get(file) ?? []) findCircles(target, [...path, file]);
}
