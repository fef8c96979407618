import { createHash } from 'node:crypto';
import { readFileSync, rmSync } from 'node:fs';
import { expect, onTestFinished } from 'vitest';
import { ENTRY_POINTS } from '../../scripts/entry-points.js';
import { startChild } from './child.js';
import { compiledSource } from './compiled.js';

/** The pages of whole programs, with the number of programs in each of them. */
export const PROGRAM_PAGES = {
  'README.md': 6,
  'docs/getting-started.md': 2,
  'docs/keys.md': 11,
  'docs/watches.md': 5,
  'docs/leases.md': 5,
  'docs/connections.md': 7,
  'docs/failures.md': 4,
  'docs/errors.md': 1,
  'docs/from-others.md': 2,
  'docs/go-clientv3.md': 1,
  'docs/locks.md': 5,
  'docs/opentelemetry.md': 2,
  'docs/queues.md': 7,
  'docs/recipes.md': 8,
  'docs/runtimes.md': 2,
} as const;

/**
 * Pages with further programs, such as servers, which other tests run, with the programs that compile without packages
 * of others.
 */
export const OTHER_PROGRAM_PAGES = {
  'docs/production.md': /./,
  'docs/frameworks.md': /^(?!.* from '(?:@nestjs|express|fastify|\.))/s,
} as const;

/** Returns the TypeScript programs of a page, or its code blocks in another language. */
export function programsOf(page: string, language = 'ts'): string[] {
  const text = readFileSync(new URL(`../../${page}`, import.meta.url), 'utf8');
  return [...text.matchAll(/^```(\w+)\n(.*?)^```$/gms)].flatMap(([, name, code]) =>
    name === language ? [code as string] : [],
  );
}

/**
 * Returns the expected output of a program: the comment after each `console.log` at the end of a line, and then the
 * lines of comments at the end of the program.
 */
export function printedBy(program: string): string[] {
  const [, last = ''] = /\n((?:\/\/ .*\n)*)$/.exec(program) as RegExpExecArray;
  const claims = [...program.matchAll(/console\.log\(.*\); \/\/ (.*)$/gm), ...last.matchAll(/^\/\/ (.*)$/gm)];
  return claims.map(([, claim]) => claim as string);
}

/**
 * Runs an example program, which is unchanged except that it imports the sources instead of the package. Resolves with
 * the lines that the program prints.
 */
export async function runProgram(
  program: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<string[]> {
  const prepared = importingSources(program);
  const file = compiledSource(prepared, `example-${createHash('sha256').update(program).digest('hex').slice(0, 12)}`);
  onTestFinished(() => rmSync(file, { force: true }));
  const child = startChild(process.execPath, [file], { environment });
  const lines = await child.rest();
  expect(await child.exited).toBe(0);
  return lines;
}

/** Returns the program with imports of the sources instead of imports of the package. */
export function importingSources(program: string): string {
  return [...ENTRY_POINTS].reduce((code, [path, name]) => {
    const source = new URL(`../../src/${path.replace(/\.js$/, '.ts')}`, import.meta.url).pathname;
    return code.replaceAll(`from '${name}'`, `from '${source}'`);
  }, program);
}
