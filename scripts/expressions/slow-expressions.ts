import { readdirSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { transformSync } from 'esbuild';
import { parse } from 'espree';
import { analyse } from 'scslre';
import { PLACES } from '../rooms.js';

/** A regular expression whose running time grows faster than the length of a text, or cannot be judged. */
export interface SlowExpression {
  /** The regular expression as in the source, or `RegExp()` if the program computes it. */
  readonly source: string;
  readonly problem: string;
}

interface Node {
  readonly type: string;
  readonly regex?: { readonly pattern: string; readonly flags: string };
  readonly callee?: { readonly name?: string };
}

/**
 * Returns the slow regular expressions of a program in TypeScript. scslre examines texts that repeat one character. It
 * does not find an expression that is slow only for other texts.
 */
export function slowExpressionsOf(program: string): readonly SlowExpression[] {
  const { code } = transformSync(program, { loader: 'ts', target: 'es2023' });
  const found: SlowExpression[] = [];
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) return value.forEach(visit);
    if (typeof value !== 'object' || value === null) return;
    const { type, regex, callee } = value as Node;
    if (regex !== undefined) found.push(...slow(regex));
    if ((type === 'NewExpression' || type === 'CallExpression') && callee?.name === 'RegExp')
      found.push({ source: 'RegExp()', problem: 'scslre cannot examine a computed expression' });
    visit(Object.values(value));
  };
  visit(parse(code, { ecmaVersion: 'latest', sourceType: 'module' }));
  return found;
}

function slow({ pattern, flags }: NonNullable<Node['regex']>): readonly SlowExpression[] {
  const { reports } = analyse({ source: pattern, flags });
  if (reports.length === 0) return [];
  const growth = reports.some(({ exponential }) => exponential) ? 'exponential' : 'polynomial';
  const characters = new Set(reports.map(({ character }) => character.literal?.source ?? '.'));
  const problem = `${growth} time for a text that repeats ${[...characters].join(' or ')}`;
  return [{ source: `/${pattern}/${flags}`, problem }];
}

/** Returns the slow regular expressions in each file of some folders, by the path of the file from `root`. */
function slowExpressionsIn(root: string, folders: readonly string[]): ReadonlyMap<string, readonly SlowExpression[]> {
  const files = folders
    .flatMap((folder) =>
      readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((path) =>
        posix.join(folder, path.replaceAll('\\', '/')),
      ),
    )
    .filter((path) => path.endsWith('.ts'))
    .sort();
  return new Map(files.map((path) => [path, slowExpressionsOf(readFileSync(join(root, path), 'utf8'))]));
}

/** The folders of the code that runs at users, from the root of the repository. */
const FOLDERS = [
  'src',
  ...PLACES.filter(({ isPackage, isPrivate }) => isPackage && !isPrivate).map(({ path }) => path),
];

/** For each file, the slow expressions that are harmless, and why. */
export type Harmless = Readonly<Record<string, Readonly<Record<string, string>>>>;

/**
 * Returns a text for each slow regular expression of the repository's code that is not in the list, and for each outdated
 * entry of the list. `root` is the folder of the repository.
 */
export function expressionProblems(root: string, harmless: Harmless): readonly string[] {
  const found = slowExpressionsIn(root, FOLDERS);
  const problems: string[] = [];
  for (const [file, slow] of found)
    for (const { source, problem } of slow)
      if (harmless[file]?.[source] === undefined) problems.push(`${file}: ${source}: ${problem}`);
  for (const [file, sources] of Object.entries(harmless))
    for (const source of Object.keys(sources))
      if (!found.get(file)?.some((each) => each.source === source))
        problems.push(`${file}: ${source} is not slow, or does not exist; remove it from the list of harmless ones`);
  return problems;
}
