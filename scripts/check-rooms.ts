import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, posix, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { doorsOf, ROOMS, type Room } from './rooms.js';

// Checks the rooms of src/ (scripts/rooms.ts): a room imports only from rooms below it, and only through their doors.
// Type imports count too, because a reader of a file has to know the imported types. The files directly in src/ are the
// entry points of the package.
//
//   npm run check:rooms [-- FOLDER]   checks FOLDER/src, or src/ of this repository
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

const src = join(root, 'src');
const sources = new Map(
  readdirSync(src, { recursive: true, encoding: 'utf8' })
    .map((path) => path.replaceAll('\\', '/'))
    .filter((path) => path.endsWith('.ts'))
    .sort()
    .map((file) => [file, readFileSync(join(src, file), 'utf8')] as const),
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
  if (!mayUseNode(file)) {
    for (const name of [...specifiers.filter((name) => name.startsWith('node:')), ...(code.match(/\bBuffer\b/) ?? [])])
      violations.push(`src/${file} uses ${name}, which scripts/rooms.ts does not allow in this place`);
  }
  if (file !== 'base/environment.ts') {
    for (const [name] of withoutStrings(code).matchAll(UNPREDICTABLE))
      violations.push(`src/${file} uses ${name}; use src/base/timers.ts or environment.${name} instead`);
  }
}

for (const [file, targets] of imports) {
  const room = roomOf(file);
  if (room === undefined && file.includes('/')) violations.push(`src/${file} is in no room of scripts/rooms.ts`);
  for (const target of targets) {
    const other = roomOf(target);
    if (other === room) continue;
    if (other === undefined) violations.push(`src/${file} imports src/${target}, which is in no room`);
    else if (room !== undefined && ROOMS.indexOf(other) > ROOMS.indexOf(room))
      violations.push(`src/${file} imports src/${target}, which is in a higher room`);
    else if (!isDoor(target, other))
      violations.push(`src/${file} imports src/${target}, which is not a door of its room`);
  }
}

const visited = new Set<string>();
for (const file of sources.keys()) findCircles(file, []);

if (argument === '--lines') printLines();
else {
  for (const violation of violations) console.log(violation);
  if (violations.length > 0) process.exitCode = 1;
}

/** Prints the lines of code of each room, without blank lines and comments, beside its target. */
function printLines(): void {
  console.log('| room | lines of code | target |\n|---|---:|---:|');
  const sum = { lines: 0, target: 0 };
  for (const { folder, target } of ROOMS) {
    const lines = [...sources]
      .filter(([file]) => file.startsWith(`${folder}/`))
      .flatMap(([, source]) => source.split('\n'))
      .filter((line) => !/^\s*(?:\/\/|\/?\*|$)/.test(line)).length;
    sum.lines += lines;
    sum.target += target;
    console.log(`| src/${folder} | ${lines.toLocaleString('en')} | ${target.toLocaleString('en')} |`);
  }
  console.log(`| all | ${sum.lines.toLocaleString('en')} | ${sum.target.toLocaleString('en')} |`);
}

/** Removes the contents of string literals in single quotes, and comments at the ends of lines. */
function withoutStrings(code: string): string {
  return code.replace(/'(?:[^'\\\n]|\\.)*'|(?<=\s)\/\/.*$/gm, '');
}

/** Returns the room of a file in src/. Undefined for an entry point. */
function roomOf(file: string): Room | undefined {
  return ROOMS.find(({ folder }) => file.startsWith(`${folder}/`));
}

function isDoor(file: string, room: Room): boolean {
  return doorsOf(room).some((door) => (door.endsWith('/') ? file.startsWith(door) : file === door));
}

function mayUseNode(file: string): boolean {
  const { folder = '', nodeOnly = [] } = roomOf(file) ?? {};
  return nodeOnly.some((place) => file.startsWith(`${folder}/${place}`));
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
