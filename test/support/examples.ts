import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type Declaration, declarationsOf, ENTRY_POINTS } from '../../scripts/entry-points.js';

// Reads the `@example` blocks of the doc comments in src/, and turns them into programs.

const SRC = fileURLToPath(new URL('../../src/', import.meta.url));
const SCOPE = fileURLToPath(new URL('example-scope.js', import.meta.url));

/** A declaration of src/ that has a doc comment. */
export interface Documented {
  /** The path of the file in src/. */
  readonly file: string;
  /** The name of the class, interface, type, constant, function or method. */
  readonly name: string;
  readonly kind: 'class' | 'function' | 'other';
  /** The code of the `@example` block. Undefined if the doc comment has none. */
  readonly example: string | undefined;
}

const DECLARATION =
  /^\s*(?:export )?(?:declare |abstract |readonly |static |async )*(?<kind>class|function|interface|type|const)?[ *]*(?<name>[\w$]+)/;

/** Reads all declarations of src/, except those of src/gen/, that have a doc comment. */
export function documented(): Documented[] {
  const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' });
  return files
    .filter((file) => file.endsWith('.ts') && !file.startsWith('gen/'))
    .flatMap((file) =>
      [...readFileSync(SRC + file, 'utf8').matchAll(/\/\*\*((?:(?!\*\/).)*)\*\/\n([^\n]*)/gs)].map(
        ([, comment = '', declaration = '']) => {
          const { kind, name = '' } = DECLARATION.exec(declaration)?.groups ?? {};
          return {
            file,
            name,
            kind: kind === 'class' || kind === 'function' ? kind : 'other',
            example: exampleOf(comment),
          } as const;
        },
      ),
    );
}

function exampleOf(comment: string): string | undefined {
  const lines = comment.split('\n').map((line) => line.replace(/^\s*\* ?/, ''));
  const start = lines.indexOf('@example');
  if (start === -1) return undefined;
  const code = lines.slice(start + 1);
  const end = code.findIndex((line) => /^@\w/.test(line));
  return code
    .slice(0, end === -1 ? undefined : end)
    .join('\n')
    .trim();
}

/**
 * Maps the path of each of the package's entry points to the names that the entry point exports, and to the files that
 * declare them.
 */
const EXPORTS: ReadonlyMap<string, ReadonlyMap<string, Declaration>> = new Map(
  [...ENTRY_POINTS.keys()].map((path) => [SRC + path, declarationsOf(SRC + path.replace(/\.js$/, '.ts'))]),
);

const PUBLIC: ReadonlySet<string> = new Set(
  [...EXPORTS.values()].flatMap((names) => [...names].map(([name, { file }]) => `${file} ${name}`)),
);

/** Whether users can import the declaration from one of the entry points. */
export function isPublic({ file, name }: Documented): boolean {
  return PUBLIC.has(`${SRC}${file} ${name}`);
}

/** Node's functions that examples use without an import. */
const NODE_IMPORTS: Readonly<Record<string, string>> = {
  readFile: 'node:fs/promises',
  pipeline: 'node:stream/promises',
  createWriteStream: 'node:fs',
};

/**
 * Turns an example into a program. Adds the imports that the example leaves out, and declares variables such as `etcd`
 * and `session` with the values in the scope (example-scope.ts). Replaces the endpoint with the endpoint of the test's
 * server.
 *
 * @param scope The names of the variables in the scope.
 */
export function programOf(example: string, scope: readonly string[]): string {
  const uses = (name: string): boolean => new RegExp(`(?<!(?<!\\.\\.)\\.|[\\w'/])${name}\\b(?!')`).test(example);
  const declares = (name: string): boolean =>
    new RegExp(
      `(?:const|let|function|class|using) (?:\\{[^}]*\\b)?${name}\\b|import \\{[^}]*\\b${name}\\b|\\(${name}: `,
    ).test(example);
  const missing = (names: Iterable<string>): string[] => [...names].filter((name) => uses(name) && !declares(name));
  const imported = new Set<string>();
  const imports = [...EXPORTS].flatMap(([path, names]) => {
    const needed = missing(names.keys()).filter((name) => !imported.has(name) && !scope.includes(name));
    for (const name of needed) imported.add(name);
    return needed.length === 0 ? [] : [`import { ${needed.join(', ')} } from '${path}';`];
  });
  const fromNode = missing(Object.keys(NODE_IMPORTS)).map((name) => `import { ${name} } from '${NODE_IMPORTS[name]}';`);
  const own = [...ENTRY_POINTS].reduce(
    (code, [path, name]) => code.replaceAll(`from '${name}'`, `from '${SRC}${path}'`),
    example.replaceAll(/'http:\/\/(?:127\.0\.0\.1|10\.0\.0\.1):2379'/g, 'serverUrl'),
  );
  const fromScope = [...missing(scope), ...(own.includes('serverUrl') ? ['serverUrl'] : [])];
  return [
    ...imports,
    ...fromNode,
    `import { scope } from '${SCOPE}';`,
    `const { ${fromScope.join(', ')} } = scope();`,
    own,
    'export {};',
    '',
  ].join('\n');
}

/** Whether the example uses the server in memory of the scope. */
export function usesMemoryEtcd(example: string): boolean {
  return /\bserver\b/.test(example) && !/const server\b/.test(example);
}

/** Returns the expected output of an example: the comments after calls of `console.log`. "…" stands for any text. */
export function claimsOf(example: string): string[] {
  return [...example.matchAll(/console\.log\(.*\); \/\/ (.*)$/gm)].map(([, claim = '']) => claim);
}
